//! What a fetcher hands to its reader.

use bytes::Bytes;

use super::FetchError;
use crate::messages::AbortedTransaction;
use crate::records::{self, DecodeLimits, VisibleBatches};
use crate::{IsolationLevel, NodeId, TopicPartition};

/// News of one partition. Events of a partition come in the order of its offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEvent {
    /// Whole batches, compressed as they are. They count as unread until
    /// [`Fetcher::release`](super::Fetcher::release) is called for them.
    Records(FetchedPartition),
    /// The broker was asked and had nothing new: what idleness and bounded reads go by. Comes with each such answer, about
    /// every `fetch.max.wait.ms`; of several in a row that nobody has taken the newest stays.
    Progress {
        /// The partition.
        topic_partition: TopicPartition,
        /// The next offset that will be asked for: behind everything handed out so far, control batches included.
        position: i64,
        /// The end of what is replicated; -1 if no answer told it yet.
        high_watermark: i64,
        /// The end of what is decided: no open transaction below it. -1 if no answer told it yet.
        last_stable_offset: i64,
    },
    /// The partition is not fetched any more until its position is set anew. The position has not moved.
    Failed {
        /// The partition.
        topic_partition: TopicPartition,
        /// Why.
        error: FetchError,
    },
}

impl FetchEvent {
    /// The partition it is about.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        match self {
            Self::Records(fetched) => &fetched.topic_partition,
            Self::Progress { topic_partition, .. } | Self::Failed { topic_partition, .. } => {
                topic_partition
            }
        }
    }
}

/// Whole batches of one partition, as one slice of the answer that carried them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The broker that sent it: the partition's leader, or the replica that it named (KIP-392).
    pub node: NodeId,
    /// The offset asked for. The first batch may begin below it; those records are not to be delivered again.
    pub fetch_offset: i64,
    /// The offset after the last batch: the position once all of this is processed. Also behind batches that hold
    /// nothing visible.
    pub next_offset: i64,
    /// Leader epoch of the last batch, to be kept with `next_offset` (KIP-320).
    pub leader_epoch: i32,
    /// The end of what is replicated: the offset after the last such record.
    pub high_watermark: i64,
    /// The end of what is decided: no open transaction below it (KIP-98).
    pub last_stable_offset: i64,
    /// The first offset that the broker still has; -1 if it does not say (before Fetch version 5).
    pub log_start_offset: i64,
    /// The batches. Never empty, no partial batch at the end. A slice of the answer: as long as it lives the whole answer
    /// does, up to [`FetchConfig::max_bytes`](super::FetchConfig::max_bytes) or one batch; copy what is kept for long.
    pub records: Bytes,
    /// Aborted transactions in `records`, in the broker's order, which is not always by offset.
    pub aborted_transactions: Vec<AbortedTransaction>,
    /// What the fetch asked for.
    pub isolation_level: IsolationLevel,
}

impl FetchedPartition {
    /// The batches as the reader's isolation level sees them, decoded one by one. The first position is `fetch_offset`,
    /// the last `next_offset`; each step moves it, also those without anything visible.
    #[must_use]
    pub fn visible_batches(&self, limits: DecodeLimits) -> VisibleBatches {
        let aborted = self.aborted_transactions.iter().map(|entry| records::AbortedTransaction {
            producer_id: entry.producer_id,
            first_offset: entry.first_offset,
        });
        VisibleBatches::new(
            self.records.clone(),
            self.fetch_offset,
            aborted.collect(),
            self.isolation_level,
            limits,
        )
    }
}
