//! What a transaction manager is told once, and what it tells.

use std::sync::Arc;
use std::time::Duration;

use super::ProduceError;
use crate::ProducerIdAndEpoch;
use crate::backoff::ExponentialBackoff;

/// What a [`TransactionManager`](super::TransactionManager) is told once.
#[derive(Clone, Debug)]
pub struct TransactionConfig {
    /// `transactional.id`; `None` for an idempotent producer, which asks for an identity only.
    pub transactional_id: Option<Arc<str>>,
    /// After which the coordinator aborts an open transaction by itself (`transaction.timeout.ms`), in whole milliseconds; at
    /// most the broker's `transaction.max.timeout.ms`. Default 60 s.
    pub transaction_timeout: Duration,
    /// How long the broker may take to answer (`request.timeout.ms`). Default 30 s.
    pub request_timeout: Duration,
    /// Between tries of what failed (`retry.backoff.ms`, `retry.backoff.max.ms`). Default 100 ms to 1 s.
    pub retry_backoff: ExponentialBackoff,
    /// How long an identity, offsets of a group, or an abort is tried for (`max.block.ms`). Default 60 s.
    pub max_block: Duration,
}

impl TransactionConfig {
    /// Kafka's defaults.
    #[must_use]
    pub fn new(transactional_id: Option<Arc<str>>) -> Self {
        Self {
            transactional_id,
            transaction_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(30),
            retry_backoff: ExponentialBackoff::new(
                Duration::from_millis(100),
                Duration::from_secs(1),
            ),
            max_block: Duration::from_secs(60),
        }
    }
}

/// What became of a verb, or of the open transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// The end of `init`, of an idempotent producer too.
    Initialized(Result<ProducerIdAndEpoch, ProduceError>),
    /// The end of `bump`.
    EpochBumped(Result<ProducerIdAndEpoch, ProduceError>),
    /// The end of `end`.
    Ended {
        /// True for a commit.
        committed: bool,
        /// The outcome.
        result: Result<(), ProduceError>,
    },
    /// The end of `send_offsets`.
    OffsetsSent(Result<(), ProduceError>),
    /// The open transaction can not be committed any more.
    Failed(ProduceError),
}
