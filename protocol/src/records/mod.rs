//! Record batches, format version 2 (KIP-98): reading, writing, compressing, filtering.
//!
//! Reading goes from the outside in, and does no more than it is asked for:
//!
//! 1. [`RecordSet`] cuts a partition's bytes into whole batches.
//! 2. [`BatchView`] is one batch whose length, magic and CRC-32C were checked.
//! 3. [`RecordBlock`] holds its records, decompressed under a cap.
//! 4. [`RecordView`] borrows one record from the block; nothing is allocated or counted per record.
//!
//! [`VisibleBatches`] does all of it for a fetched partition and applies the isolation level.
//! Writing is [`BatchBuilder`] (records go straight into the batch's buffer) and [`SealedBatch`]
//! (producer identity and sequence can still change; compressed bytes stay as they are).
//!
//! Messages of the formats before, which old segments still hold, are read too (`legacy.rs`): each is a batch of its own.
//!
//! Every length and count in a batch is checked against the bytes at hand before it is believed.

mod assign_offsets;
mod batch_builder;
mod batch_header;
mod batch_view;
mod compression;
mod control_record;
mod crc;
mod error;
mod legacy;
mod read_committed_filter;
mod record_block;
mod record_set;
mod sealed_batch;
mod varint;
mod visible_batches;

#[cfg(test)]
mod tests;

pub use assign_offsets::{assign_offsets, set_log_append_time, validate_produced_batch};
pub use batch_builder::{Appended, BatchBuilder};
pub use batch_header::{BATCH_HEADER_BYTES, BatchHeader, TimestampType, increment_sequence};
pub use batch_view::BatchView;
pub use compression::{
    Compression, DecodeLimits, DecompressError, Decompressor, UnknownCompressionName,
};
pub use control_record::{ControlRecord, ControlRecordType, control_batch};
pub use error::RecordsError;
pub use read_committed_filter::{AbortedTransaction, ReadCommittedFilter, Visibility};
pub use record_block::{Header, Headers, RecordBlock, RecordView, Records};
pub use record_set::RecordSet;
pub use sealed_batch::SealedBatch;
pub use visible_batches::{VisibleBatch, VisibleBatches};
