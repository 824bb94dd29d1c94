//! Why a partition can not be read on, and what a code in a fetch answer asks for.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::ErrorCode;
use crate::network::RequestError;

/// Why a partition can not be read on. Its text fits after "failed to read orders-3: ". The partition waits for a new
/// position; nothing was skipped. What passes by itself (an election, a broker that is away) is no error, however long it
/// lasts.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchError {
    /// Retention or DeleteRecords removed records that were not read yet (OFFSET_OUT_OF_RANGE).
    #[error("offset {position} is gone: the log now starts at {log_start_offset}")]
    OffsetBelowLogStart {
        /// Where reading was to go on.
        position: i64,
        /// The first offset there is.
        log_start_offset: i64,
    },
    /// The log ends before the position (OFFSET_OUT_OF_RANGE): it was truncated, or the position belongs to another topic.
    #[error("offset {position} does not exist: the log ends at {end_offset}")]
    OffsetBeyondEnd {
        /// Where reading was to go on.
        position: i64,
        /// The high watermark.
        end_offset: i64,
    },
    /// The broker refuses an offset that, asked for its bounds, it says it has.
    #[error(
        "the broker refuses offset {position} although its log reaches from {log_start_offset} to {end_offset}"
    )]
    OffsetOutOfRange {
        /// Where reading was to go on.
        position: i64,
        /// The first offset there is, as the broker says.
        log_start_offset: i64,
        /// The high watermark, as the broker says.
        end_offset: i64,
    },
    /// Records that were read are not in the log any more (KIP-320): an unclean leader election took place.
    #[error(
        "the log was truncated: offset {position} was read in leader epoch {leader_epoch}, but epoch {diverging_epoch} now ends at {end_offset}"
    )]
    Truncated {
        /// Where reading was to go on.
        position: i64,
        /// Leader epoch of the last record read.
        leader_epoch: i32,
        /// The largest epoch, not above `leader_epoch`, that the broker knows.
        diverging_epoch: i32,
        /// Where that epoch ends.
        end_offset: i64,
    },
    /// The topic was deleted and created again under its name, which its id shows (KIP-516; brokers from 2.8).
    #[error("the topic was deleted and recreated (id {} is now {}): offsets of the old one mean nothing in the new one", hex(.old_id), hex(.new_id))]
    TopicRecreated {
        /// The id that the position belongs to.
        old_id: [u8; 16],
        /// The id of the topic that now bears the name.
        new_id: [u8; 16],
    },
    /// No broker has known the partition for [`FetchConfig::patience`](super::FetchConfig::patience).
    #[error("no broker has known the topic or partition for {after:?}: was it deleted?")]
    UnknownTopicOrPartition {
        /// How long it was asked for.
        after: Duration,
    },
    /// The bytes at an offset are no batch. Checksums and records are looked at by the reader, not here.
    #[error("corrupt batch at offset {offset}: {detail}")]
    CorruptBatch {
        /// The offset field as it stands, or the position.
        offset: i64,
        /// What is wrong.
        detail: Arc<str>,
    },
    /// The broker sent part of a batch only, however large: it must send the first one whole (KIP-74).
    #[error("the broker sent {bytes} bytes at offset {position} that are not one whole batch")]
    NoWholeBatch {
        /// Where reading was to go on.
        position: i64,
        /// How many bytes it sent.
        bytes: usize,
    },
    /// Every batch sent ends below the position.
    #[error("the broker sent only batches below offset {position}, which was asked for")]
    NoProgress {
        /// Where reading was to go on.
        position: i64,
    },
    /// The broker refused the partition, as without a permission, or kept failing for
    /// [`FetchConfig::patience`](super::FetchConfig::patience).
    #[error("the broker answered {code}")]
    Broker {
        /// The code.
        code: ErrorCode,
    },
    /// The request can not be made, or its answer can not be read.
    #[error(transparent)]
    Request(RequestError),
}

fn hex(id: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*id).to_string()
}

/// What a partition's error code asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Renew the metadata and go on trying: the cluster is moving or down, however long that takes.
    Refresh,
    /// Try again; the metadata are fine.
    Retry,
    /// Renew the metadata and try again, but not for ever.
    RefreshForAWhile,
    /// Try again, but not for ever.
    RetryForAWhile,
    /// Find out on which side of the log the position lies.
    Diagnose,
    /// Trying again would not help.
    GiveUp,
}

/// The Fetch and ListOffsets column of the error table.
pub(super) const fn reaction(code: ErrorCode) -> Reaction {
    match code {
        ErrorCode::OFFSET_OUT_OF_RANGE => Reaction::Diagnose,
        ErrorCode::NOT_LEADER_OR_FOLLOWER
        | ErrorCode::LEADER_NOT_AVAILABLE
        | ErrorCode::BROKER_NOT_AVAILABLE
        | ErrorCode::REPLICA_NOT_AVAILABLE
        | ErrorCode::LISTENER_NOT_FOUND
        | ErrorCode::NETWORK_EXCEPTION
        | ErrorCode::KAFKA_STORAGE_ERROR
        | ErrorCode::FENCED_LEADER_EPOCH
        | ErrorCode::OFFSET_NOT_AVAILABLE => Reaction::Refresh,
        // The broker is behind our metadata: newer metadata would not help.
        ErrorCode::UNKNOWN_LEADER_EPOCH | ErrorCode::REQUEST_TIMED_OUT => Reaction::Retry,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::UNKNOWN_TOPIC_ID
        | ErrorCode::INCONSISTENT_TOPIC_ID => Reaction::RefreshForAWhile,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::INVALID_TOPIC_EXCEPTION
        | ErrorCode::UNSUPPORTED_VERSION
        | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
        | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
        | ErrorCode::INCONSISTENT_CLUSTER_ID
        | ErrorCode::INVALID_REQUEST => Reaction::GiveUp,
        // CORRUPT_MESSAGE may be the wire's fault or the disk's; codes newer than us may be anything.
        _ => Reaction::RetryForAWhile,
    }
}
