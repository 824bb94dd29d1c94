//! What can go wrong for a group's consumer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::group::GroupError;
use millstream_protocol::network::RequestError;
use millstream_protocol::{ErrorCode, TopicPartition};
use thiserror::Error;

use crate::ClientError;

/// The consumer can not go on as a member. It owns nothing any more: make another, once the cause is mended.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupConsumerError {
    /// The membership ended.
    #[error("member of group '{group}': {source}")]
    Membership {
        /// The group.
        group: Arc<str>,
        /// Why.
        #[source]
        source: GroupError,
    },
    /// A call for start positions (committed offsets, or those of `auto.offset.reset`) was refused, and would be again.
    #[error("start positions of group '{group}': {source}")]
    StartPositions {
        /// The group.
        group: Arc<str>,
        /// Why.
        #[source]
        source: ClientError,
    },
    /// The consumer or its client was closed.
    #[error("the consumer of group '{group}' is closed")]
    Closed {
        /// The group.
        group: Arc<str>,
    },
}

/// Why offsets are not committed. The consumer goes on; a later commit says it again.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitError {
    /// These partitions are another's (or nobody's) now: their records will be read again by whoever owns them. All others
    /// are committed.
    #[error("not committed, because this member does not own them any more: {}", list(.partitions))]
    NotOwned {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// No success within `default.api.timeout.ms`. The last try may have had its effect.
    #[error("offsets are not committed after {after:?}; last: {last}")]
    TimedOut {
        /// How long it was tried.
        after: Duration,
        /// What the last try met.
        last: String,
    },
    /// The coordinator refused, and would refuse again.
    #[error("offsets are not committed: the broker answered {code}")]
    Broker {
        /// Its answer.
        code: ErrorCode,
    },
    /// The request can not be made, its answer can not be read, or no broker could be reached for `request.timeout.ms`.
    #[error("offsets are not committed: {0}")]
    Request(RequestError),
    /// The consumer is closed.
    #[error("offsets are not committed: the consumer is closed")]
    Closed,
}

impl CommitError {
    /// True if the same commit may succeed later. Also [`CommitError::Request`] may, where brokers were away.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

fn list(partitions: &BTreeSet<TopicPartition>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
