//! What a group's consumer hands to its reader.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_protocol::TopicPartition;
use millstream_protocol::fetch::{FetchError, FetchStart, FetchedPartition};
use thiserror::Error;

/// What happened. Asking for the next event says that this one is dealt with. Events of one partition come in order:
/// [`Assigned`](Self::Assigned), records, then [`Revoked`](Self::Revoked) or [`Lost`](Self::Lost).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerEvent {
    /// These partitions are ours now, and are read from here: the committed positions, or where `auto.offset.reset` says.
    /// [`seek`](crate::GroupConsumer::seek) before the next event reads from elsewhere. Never empty; with cooperative
    /// assignors and KIP-848 only what is new.
    Assigned(Vec<FetchStart>),
    /// These partitions are to be given up, in an orderly way: nobody else has them before the next event is asked for (or
    /// [`acknowledge`](crate::GroupConsumer::acknowledge) is called). What was fetched of them and not yet handed out is
    /// dropped. With `enable.auto.commit` what was handed out is committed then; else it is time to commit. The group waits
    /// for it, `max.poll.interval.ms` at most.
    Revoked(BTreeSet<TopicPartition>),
    /// These partitions are not ours any more, and may be another's already: the session ended, or
    /// `max.poll.interval.ms` passed. Nothing can be committed for them. The member joins again by itself, in the second case
    /// when the next event is asked for.
    Lost(BTreeSet<TopicPartition>),
    /// Whole batches of one partition, compressed as they are: see
    /// [`visible_batches`](millstream_protocol::fetch::FetchedPartition::visible_batches). Asking for the next event says
    /// that they are processed, so that they may be committed.
    Records(FetchedPartition),
    /// A partition is not read on, until [`seek`](crate::GroupConsumer::seek). It stays ours, and the others are read.
    Failed {
        /// The partition.
        topic_partition: TopicPartition,
        /// Why.
        error: PositionError,
    },
}

/// Why an assigned partition is not read. Fits after "failed to read orders-3: ".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PositionError {
    /// No offset is committed, and `auto.offset.reset` is `none`.
    #[error("group '{group}' has no committed offset, and auto.offset.reset is none")]
    NoCommittedOffset {
        /// The group.
        group: Arc<str>,
    },
    /// The topic was deleted before a start position was found.
    #[error("the topic does not exist any more")]
    UnknownTopic,
    /// Reading failed. An offset outside the log comes here only with `auto.offset.reset=none`; a truncation
    /// ([`FetchError::Truncated`]) always.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// As whom a group's consumer reads: what a transaction needs to commit offsets for it (KIP-447).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupMetadata {
    /// `group.id`.
    pub group_id: Arc<str>,
    /// Generation (classic protocol) or member epoch (KIP-848); -1 outside the group.
    pub generation_id: i32,
    /// The member id; empty outside the group.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<Arc<str>>,
}
