//! From a fetched partition's bytes to the records its reader may see.

use bytes::Bytes;

use super::compression::{DecodeLimits, Decompressor};
use super::error::RecordsError;
use super::read_committed_filter::{AbortedTransaction, ReadCommittedFilter, Visibility};
use super::record_block::RecordBlock;
use super::record_set::RecordSet;
use crate::ids::IsolationLevel;

/// One step through a partition.
#[derive(Clone, Debug)]
pub struct VisibleBatch {
    /// The reader's position once it has taken this batch. Always beyond the position before.
    pub next_offset: i64,
    /// The records; `None` if the batch was a marker, aborted, or emptied by compaction, and the
    /// step is only one of position.
    pub records: Option<RecordBlock>,
}

/// Iterates over the batches of one partition of a Fetch response as an isolation level sees them.
///
/// Every batch is checked (length, magic, CRC) and moves the position, visible or not: a response
/// of nothing but aborted data makes progress too. Records below the fetch offset are dropped, and
/// batches that end before it are passed over. Control records are never delivered, whatever the
/// isolation level. The first error ends the iteration; batches before it have been delivered.
#[derive(Debug)]
pub struct VisibleBatches {
    batches: RecordSet,
    position: i64,
    filter: Option<ReadCommittedFilter>,
    limits: DecodeLimits,
    decompressor: Decompressor,
}

impl VisibleBatches {
    /// The batches in `records`, fetched at `fetch_offset`. `aborted` comes from the same response
    /// and only counts under [`IsolationLevel::ReadCommitted`]; some brokers fill it always.
    #[must_use]
    pub fn new(
        records: Bytes,
        fetch_offset: i64,
        aborted: Vec<AbortedTransaction>,
        isolation: IsolationLevel,
        limits: DecodeLimits,
    ) -> Self {
        let filter = match isolation {
            IsolationLevel::ReadUncommitted => None,
            IsolationLevel::ReadCommitted => Some(ReadCommittedFilter::new(aborted)),
        };
        Self {
            batches: RecordSet::new(records),
            position: fetch_offset,
            filter,
            limits,
            decompressor: Decompressor::new(),
        }
    }

    /// Decodes with `decompressor`, whose memory then serves this response too.
    #[must_use]
    pub fn with_decompressor(mut self, decompressor: Decompressor) -> Self {
        self.decompressor = decompressor;
        self
    }

    /// Gives the decompressor back for the next response.
    #[must_use]
    pub fn into_decompressor(self) -> Decompressor {
        self.decompressor
    }

    /// Where reading goes on: the fetch offset, then the end of the last batch taken.
    #[must_use]
    pub const fn position(&self) -> i64 {
        self.position
    }

    fn next_visible(&mut self) -> Result<Option<VisibleBatch>, RecordsError> {
        for batch in self.batches.by_ref() {
            let batch = batch?;
            let visibility = match &mut self.filter {
                // Batches before the position count as well: they begin and end transactions.
                Some(filter) => {
                    let marker = batch.control_record()?.map(|marker| marker.record_type);
                    filter.classify(batch.header(), marker)
                }
                None if batch.is_control() => Visibility::Skip,
                None => Visibility::Visible,
            };
            let next_offset = batch.next_offset();
            if next_offset <= self.position {
                continue;
            }
            let records = match visibility {
                Visibility::Visible if batch.header().record_count > 0 => Some(
                    batch.records(&self.limits, &mut self.decompressor)?.starting_at(self.position),
                ),
                Visibility::Visible | Visibility::Skip => None,
            };
            self.position = next_offset;
            return Ok(Some(VisibleBatch { next_offset, records }));
        }
        Ok(None)
    }
}

impl Iterator for VisibleBatches {
    type Item = Result<VisibleBatch, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_visible();
        if next.is_err() {
            self.batches = RecordSet::new(Bytes::new());
        }
        next.transpose()
    }
}
