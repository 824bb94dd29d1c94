//! What a cluster is told at its start. Names are the broker properties of Kafka in snake_case.

use std::time::Duration;

/// Settings of the cluster behind the sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Host name that Metadata answers (`advertised.listeners`).
    pub advertised_host: String,
    /// Port that Metadata answers.
    pub advertised_port: u16,
    /// Broker id (`node.id`).
    pub node_id: i32,
    /// Finalized level of the feature `transaction.version`: 0, 1 or 2 (KIP-890).
    pub transaction_version: i16,
    /// Largest timeout a producer may ask for (`transaction.max.timeout.ms`).
    pub transaction_max_timeout: Duration,
    /// How often transactions past their timeout are looked for
    /// (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).
    pub transaction_abort_scan_interval: Duration,
    /// Between the decision of a transaction and its markers. A real broker needs a moment too; a test that wants to
    /// see the states PREPARE_COMMIT and PREPARE_ABORT makes it longer.
    pub transaction_marker_delay: Duration,
    /// Zero writes all markers of a transaction at once; otherwise each try writes those of about half of its
    /// partitions and tries the others again after this, as leaders of a real cluster answer at different times.
    pub transaction_marker_spread: Duration,
    /// Create unknown topics that Metadata asks for, if the client allows it (`auto.create.topics.enable`).
    pub auto_create_topics: bool,
    /// Partitions of a topic that names no number (`num.partitions`).
    pub default_partitions: i32,
    /// Largest batch in bytes of a topic that names no number (`message.max.bytes`).
    pub message_max_bytes: usize,
    /// Most bytes of one Fetch answer (`fetch.max.bytes`).
    pub fetch_max_bytes: usize,
    /// Fetch sessions kept (`max.incremental.fetch.session.cache.slots`, KIP-227).
    pub fetch_session_slots: usize,
    /// Age at which an unused fetch session may make room for another.
    pub fetch_session_eviction: Duration,
    /// Size at which a log's segment is closed (`log.segment.bytes`).
    pub segment_bytes: usize,
    /// How often compacted topics are looked at (`log.cleaner.backoff.ms`).
    pub compaction_interval: Duration,
    /// Whether storage effects are produced; without a folder nobody wants them.
    pub durable: bool,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            advertised_host: "127.0.0.1".to_owned(),
            advertised_port: 9092,
            node_id: 1,
            transaction_version: 2,
            transaction_max_timeout: Duration::from_secs(15 * 60),
            transaction_abort_scan_interval: Duration::from_secs(10),
            transaction_marker_delay: Duration::from_millis(1),
            transaction_marker_spread: Duration::ZERO,
            auto_create_topics: false,
            default_partitions: 1,
            message_max_bytes: 1_048_588,
            fetch_max_bytes: 55 << 20,
            fetch_session_slots: 1000,
            fetch_session_eviction: Duration::from_secs(120),
            segment_bytes: 4 << 20,
            compaction_interval: Duration::from_secs(15),
            durable: false,
        }
    }
}
