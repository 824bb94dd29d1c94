//! Fetch: read record batches. Schema versions 4 to 12, topics by name.
//!
//! Record bytes of a decoded response are slices of the frame; of an encoded one, chunks of their own.

use std::sync::Arc;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::ids::IsolationLevel;
use crate::messages::LeaderIdAndEpoch;

pub use crate::records::AbortedTransaction;

/// Fetch request of a consumer, versions 4 to 12.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Milliseconds the broker may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Bytes that let the broker answer early.
    pub min_bytes: i32,
    /// Bytes after which the broker stops adding batches; the first batch comes whole all the same (KIP-74).
    pub max_bytes: i32,
    /// Which records may be returned.
    pub isolation_level: IsolationLevel,
    /// Version 7+. 0 to ask for a session.
    pub session_id: i32,
    /// Version 7+. 0 starts a session, -1 asks for none, others continue one (KIP-227).
    pub session_epoch: i32,
    /// Partitions to fetch; in a session only those that changed.
    pub topics: Vec<FetchTopic>,
    /// Version 7+. Partitions to drop from the session.
    pub forgotten_topics: Vec<ForgottenTopic>,
    /// Version 11+. Rack of the consumer (KIP-392); empty for none.
    pub rack_id: String,
}

impl Default for FetchRequest {
    fn default() -> Self {
        Self {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: IsolationLevel::ReadUncommitted,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            forgotten_topics: Vec::new(),
            rack_id: String::new(),
        }
    }
}

/// Partitions of one topic to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    /// Topic name.
    pub topic: Arc<str>,
    /// The partitions.
    pub partitions: Vec<FetchPartition>,
}

/// One partition to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Partition index.
    pub partition: i32,
    /// Version 9+. The leader epoch we know (KIP-320); -1 for none.
    pub current_leader_epoch: i32,
    /// First offset wanted.
    pub fetch_offset: i64,
    /// Version 12+. Leader epoch of the last record fetched; -1 for none.
    pub last_fetched_epoch: i32,
    /// Version 5+. Only for followers; consumers send -1.
    pub log_start_offset: i64,
    /// Bytes after which the broker stops for this partition; its first batch comes whole all the same.
    pub partition_max_bytes: i32,
}

impl Default for FetchPartition {
    fn default() -> Self {
        Self {
            partition: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 0,
        }
    }
}

/// Partitions of one topic to drop from a fetch session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenTopic {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition indexes.
    pub partitions: Vec<i32>,
}

/// Fetch response, versions 4 to 12.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchResponse {
    /// Milliseconds the request was throttled.
    pub throttle_time_ms: i32,
    /// Version 7+. Error of the whole request.
    pub error_code: ErrorCode,
    /// Version 7+. Session the broker opened or continued; 0 for none.
    pub session_id: i32,
    /// Answers by topic; in a session only those with news.
    pub topics: Vec<FetchTopicResponse>,
}

/// Answers for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopicResponse {
    /// Topic name.
    pub topic: Arc<str>,
    /// Answers by partition.
    pub partitions: Vec<FetchPartitionResponse>,
}

/// Answer for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartitionResponse {
    /// Partition index.
    pub partition: i32,
    /// The outcome.
    pub error_code: ErrorCode,
    /// Offset after the last replicated record; -1 if unknown.
    pub high_watermark: i64,
    /// Offset below which every transaction is decided; -1 if unknown.
    pub last_stable_offset: i64,
    /// Version 5+. First offset of the partition; -1 if unknown.
    pub log_start_offset: i64,
    /// Version 12+. Where our log and the leader's part (KIP-595); a truncation.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// Version 12+. The leader, if the request went to another broker (KIP-951).
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// Aborted transactions within the returned batches, as sent: not necessarily sorted. `None` with READ_UNCOMMITTED.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// Version 11+. Replica to fetch from instead (KIP-392); -1 for none.
    pub preferred_read_replica: i32,
    /// Record batches, the last one possibly cut. A slice of the frame; empty also for null.
    pub records: Bytes,
}

impl Default for FetchPartitionResponse {
    fn default() -> Self {
        Self {
            partition: 0,
            error_code: ErrorCode::NONE,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
            records: Bytes::new(),
        }
    }
}

/// The end of a leader epoch in a log (KIP-320, KIP-595).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochEndOffset {
    /// Largest epoch both logs share; -1 if none.
    pub epoch: i32,
    /// Offset after that epoch's last record; -1 if none.
    pub end_offset: i64,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { epoch: -1, end_offset: -1 }
    }
}
