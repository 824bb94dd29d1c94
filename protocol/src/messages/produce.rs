//! Produce: append record batches. Schema versions 3 to 12.
//!
//! Record bytes are never copied: an encoded request carries them as chunks of their own, a decoded one as slices of
//! the frame.

use std::sync::Arc;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::messages::{LeaderIdAndEpoch, NodeEndpoint};

/// Produce request, versions 3 to 12. Version 12 lets the broker add partitions to the transaction (KIP-890).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceRequest {
    /// Set for transactional batches.
    pub transactional_id: Option<String>,
    /// 0 (no answer at all), 1 (leader) or -1 (all in-sync replicas).
    pub acks: i16,
    /// Milliseconds the broker may wait for replicas.
    pub timeout_ms: i32,
    /// Batches by topic.
    pub topics: Vec<ProduceTopic>,
}

/// Batches for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceTopic {
    /// Topic name.
    pub topic: Arc<str>,
    /// Batches by partition.
    pub partitions: Vec<ProducePartition>,
}

/// The batch for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducePartition {
    /// Partition index.
    pub partition: i32,
    /// Exactly one record batch of format 2, else the broker refuses it. Empty stands for null on the wire.
    pub records: Bytes,
}

/// Produce response, versions 3 to 12. With `acks` = 0 there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceResponse {
    /// Outcomes by topic.
    pub topics: Vec<ProduceTopicResponse>,
    /// Milliseconds the request was throttled.
    pub throttle_time_ms: i32,
    /// Version 10+. Addresses of the leaders named in the partitions (KIP-951).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// Outcomes for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceTopicResponse {
    /// Topic name.
    pub topic: Arc<str>,
    /// Outcomes by partition.
    pub partitions: Vec<ProducePartitionResponse>,
}

/// Outcome for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartitionResponse {
    /// Partition index.
    pub partition: i32,
    /// The outcome.
    pub error_code: ErrorCode,
    /// Offset of the batch's first record; -1 if unknown.
    pub base_offset: i64,
    /// Milliseconds since 1970 if the topic stamps batches on arrival; else -1.
    pub log_append_time_ms: i64,
    /// Version 5+. First offset of the partition; -1 if unknown.
    pub log_start_offset: i64,
    /// Version 8+. Which records made the broker refuse the batch (KIP-467).
    pub record_errors: Vec<RecordError>,
    /// Version 8+. Why the batch was refused.
    pub error_message: Option<String>,
    /// Version 10+. The leader, if the request went to another broker (KIP-951).
    pub current_leader: Option<LeaderIdAndEpoch>,
}

impl Default for ProducePartitionResponse {
    fn default() -> Self {
        Self {
            partition: 0,
            error_code: ErrorCode::NONE,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: None,
        }
    }
}

/// One record the broker would not take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordError {
    /// Index of the record in its batch.
    pub batch_index: i32,
    /// Why.
    pub message: Option<String>,
}
