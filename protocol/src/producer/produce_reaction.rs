//! What a partition's error code in a produce answer asks for.

use crate::ErrorCode;
use crate::transaction::TransactionMode;

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// It is written.
    Done,
    /// Send it again, sequence and all.
    Retry(Retry),
    /// Send it again a few times: codes that say nothing.
    RetryFewTimes,
    /// A sequence before it is missing.
    OutOfOrder,
    /// The broker has lost or outgrown our identity's state.
    IdentityLost,
    /// Split it.
    TooLarge,
    /// The transaction can not be committed.
    Abort,
    /// Another producer took over.
    Fence,
    /// Refused for good.
    Fail,
}

/// How to send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    /// The leader moved: renew the metadata.
    pub(super) refresh: bool,
    /// The transaction is being registered: soon.
    pub(super) soon: bool,
    /// The broker may have written it.
    pub(super) maybe_written: bool,
}

/// The Produce column of the error table. `mode` is `None` for an idempotent producer.
pub(super) const fn reaction(code: ErrorCode, mode: Option<TransactionMode>) -> Reaction {
    const RETRY: Retry = Retry { refresh: false, soon: false, maybe_written: false };
    let tv2 = matches!(mode, Some(TransactionMode::Tv2));
    match code {
        // The broker had it already (KIP-98): an earlier try was written.
        ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Reaction::Done,
        ErrorCode::CORRUPT_MESSAGE => Reaction::RetryFewTimes,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::UNKNOWN_TOPIC_ID
        | ErrorCode::INCONSISTENT_TOPIC_ID
        | ErrorCode::LEADER_NOT_AVAILABLE
        | ErrorCode::NOT_LEADER_OR_FOLLOWER
        | ErrorCode::BROKER_NOT_AVAILABLE
        | ErrorCode::REPLICA_NOT_AVAILABLE
        | ErrorCode::LISTENER_NOT_FOUND
        | ErrorCode::FENCED_LEADER_EPOCH
        | ErrorCode::KAFKA_STORAGE_ERROR => Reaction::Retry(Retry { refresh: true, ..RETRY }),
        ErrorCode::UNKNOWN_LEADER_EPOCH => Reaction::Retry(RETRY),
        // The minimum of replicas was missed after the leader had written it, or the answer came too late.
        ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND => {
            Reaction::Retry(Retry { maybe_written: true, ..RETRY })
        }
        // KIP-890: while a leader registers the partition, verification failures come as these. The leader is fine.
        ErrorCode::NETWORK_EXCEPTION
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::CONCURRENT_TRANSACTIONS
        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        | ErrorCode::COORDINATOR_NOT_AVAILABLE
        | ErrorCode::NOT_COORDINATOR => Reaction::Retry(Retry { soon: tv2, ..RETRY }),
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => Reaction::OutOfOrder,
        ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::INVALID_PRODUCER_EPOCH => {
            Reaction::IdentityLost
        }
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => Reaction::TooLarge,
        ErrorCode::INVALID_TXN_STATE
        | ErrorCode::INVALID_PRODUCER_ID_MAPPING
        | ErrorCode::TRANSACTION_ABORTABLE => Reaction::Abort,
        ErrorCode::PRODUCER_FENCED => Reaction::Fence,
        ErrorCode::INVALID_TOPIC_EXCEPTION
        | ErrorCode::INVALID_REQUIRED_ACKS
        | ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
        | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        | ErrorCode::INVALID_TIMESTAMP
        | ErrorCode::UNSUPPORTED_VERSION
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
        | ErrorCode::POLICY_VIOLATION
        | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
        | ErrorCode::INVALID_RECORD => Reaction::Fail,
        _ => Reaction::RetryFewTimes,
    }
}

#[cfg(test)]
mod tests;
