//! What became of a batch, for senders that want to hear it batch by batch.

use crate::records::SealedBatch;
use crate::transaction::ProduceError;

/// Names a batch whose fate its sender wants to hear of. Chosen by the sender; two that are under way need different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// The fate of a batch, or of one part of it: a batch that the broker finds too large is written in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The batch.
    pub batch_id: BatchId,
    /// Index, in the batch as it was given, of the first record that this is about, from 0.
    pub first_record: i32,
    /// Records that this is about.
    pub record_count: i32,
    /// Where they are, or why they are not written as far as we know.
    pub result: Result<Delivered, ProduceError>,
    /// What was sent. Its memory can serve again.
    pub batch: SealedBatch,
}

/// Where records were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Offset of the first one; `None` if the broker had them already and does not say where.
    pub base_offset: Option<i64>,
    /// The broker's time of writing in milliseconds since 1970, for topics with `message.timestamp.type=LogAppendTime`.
    pub log_append_time_ms: Option<i64>,
}

/// What a queued or sent batch carries for its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) batch_id: BatchId,
    pub(super) first_record: i32,
}
