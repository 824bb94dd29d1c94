//! What a producer is told once.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::ExponentialBackoff;
use crate::transaction::TransactionConfig;

/// Bounds and habits of a [`Producer`](super::Producer). Defaults are Kafka's.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Identity and transactions.
    pub transaction: TransactionConfig,
    /// Bytes that may wait or be in flight (`buffer.memory`), once for the open transaction and once for later ones.
    /// Default 32 MiB.
    pub buffer_memory: usize,
    /// Bytes of batches in one request (`max.request.size`); one batch alone may exceed it. Default 1 MiB.
    pub max_request_size: usize,
    /// Requests in flight per broker (`max.in.flight.requests.per.connection`), 1 to 5 (KIP-98). Default 5.
    pub max_in_flight: usize,
    /// How long a batch may take from when it can be sent (`delivery.timeout.ms`, KIP-91). An answer that is under way is
    /// waited for. Default 120 s.
    pub delivery_timeout: Duration,
    /// How long the broker may take to answer (`request.timeout.ms`), and to wait for replicas. Default 30 s.
    pub request_timeout: Duration,
    /// Between tries of what failed (`retry.backoff.ms`, `retry.backoff.max.ms`). Default 100 ms to 1 s.
    pub retry_backoff: ExponentialBackoff,
}

impl ProducerConfig {
    /// Kafka's defaults, for a transactional producer, or an idempotent one without an id.
    #[must_use]
    pub fn new(transactional_id: Option<Arc<str>>) -> Self {
        Self {
            transaction: TransactionConfig::new(transactional_id),
            buffer_memory: 32 << 20,
            max_request_size: 1 << 20,
            max_in_flight: 5,
            delivery_timeout: Duration::from_secs(120),
            request_timeout: Duration::from_secs(30),
            retry_backoff: ExponentialBackoff::new(
                Duration::from_millis(100),
                Duration::from_secs(1),
            ),
        }
    }
}
