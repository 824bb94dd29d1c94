//! A batch that is built but not yet sent.

use bytes::Bytes;

use super::assign_offsets::unshared;
use super::batch_builder::BatchBuilder;
use super::batch_header::{
    ATTRIBUTES_AT, BATCH_HEADER_BYTES, BatchHeader, LOG_OVERHEAD_BYTES, TRANSACTIONAL,
    increment_sequence,
};
use super::batch_view::BatchView;
use super::compression::{Compression, DecodeLimits, Decompressor};
use super::crc;
use super::error::RecordsError;
use crate::ids::ProducerIdAndEpoch;

/// A finished batch whose producer identity can still be set, and set again when the epoch is
/// bumped (KIP-360). The records, compressed or not, and their checksum are computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBatch {
    header: BatchHeader,
    bytes: Bytes,
    /// CRC-32C of the records alone.
    records_crc: u32,
}

impl SealedBatch {
    /// Sets producer id, epoch, first sequence number and the transactional bit. Costs the same
    /// for any size of batch, unless a clone of [`SealedBatch::bytes`] is still around: that one
    /// keeps what it has, and this batch moves to a copy.
    pub fn stamp(&mut self, producer: ProducerIdAndEpoch, base_sequence: i32, transactional: bool) {
        // KIP-360: a bumped epoch restamps batches that were never acknowledged.
        self.header.producer_id = producer.producer_id;
        self.header.producer_epoch = producer.producer_epoch;
        self.header.base_sequence = base_sequence;
        self.header.attributes &= !TRANSACTIONAL;
        if transactional {
            self.header.attributes |= TRANSACTIONAL;
        }
        let mut bytes = unshared(std::mem::take(&mut self.bytes));
        write_header(&mut self.header, self.records_crc, &mut bytes);
        self.bytes = bytes.freeze();
    }

    /// The batch as on the wire. A cheap clone.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The batch as on the wire.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Size on the wire.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The header as it stands.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Number of records, at least 1.
    #[must_use]
    pub const fn record_count(&self) -> i32 {
        self.header.record_count
    }

    /// Largest timestamp of a record, milliseconds since the Unix epoch.
    #[must_use]
    pub const fn max_timestamp(&self) -> i64 {
        self.header.max_timestamp
    }

    /// Two batches with half of the records each, for a broker that answered MESSAGE_TOO_LARGE.
    /// Together they have this batch's sequence numbers, so their order must be kept. `None` if
    /// there is only one record.
    ///
    /// # Errors
    ///
    /// What reading the batch and building two new ones may find.
    pub fn split(&self) -> Result<Option<(Self, Self)>, RecordsError> {
        if self.record_count() < 2 {
            return Ok(None);
        }
        let compression = self.header.compression()?;
        // These are our own records; their reader's limit does not apply to their writer.
        let limits = DecodeLimits { max_decompressed_batch_bytes: usize::MAX };
        let view = BatchView::parse(self.bytes())?;
        let block = view.records(&limits, &mut Decompressor::new())?;
        let first_count = self.record_count() / 2;
        let mut records = block.iter();
        let mut first = rebuild(compression, records.by_ref().take(first_count as usize))?;
        let mut second = rebuild(compression, records)?;
        for (half, skipped) in [(&mut first, 0), (&mut second, first_count)] {
            let sequence = match self.header.base_sequence {
                none if none < 0 => none,
                sequence => increment_sequence(sequence, skipped),
            };
            half.stamp(self.header.producer(), sequence, self.header.is_transactional());
        }
        Ok(Some((first, second)))
    }
}

fn rebuild<'a>(
    compression: Compression,
    records: impl Iterator<Item = Result<super::RecordView<'a>, RecordsError>>,
) -> Result<SealedBatch, RecordsError> {
    let mut builder = BatchBuilder::new(compression, usize::MAX);
    for record in records {
        builder.append_view(&record?)?;
    }
    let nothing =
        RecordsError::NoCompleteBatch { available_bytes: 0, needed_bytes: BATCH_HEADER_BYTES };
    builder.build()?.ok_or(nothing)
}

/// Closes `batch`, which is a gap for the header and then the records: fills in its length and
/// checksum.
pub(super) fn seal(mut header: BatchHeader, mut batch: Vec<u8>) -> SealedBatch {
    // Builders keep batches within 31 bits.
    header.batch_length = (batch.len() - LOG_OVERHEAD_BYTES) as i32;
    let records_crc = crc32c::crc32c(batch.get(BATCH_HEADER_BYTES..).unwrap_or_default());
    write_header(&mut header, records_crc, &mut batch);
    SealedBatch { header, bytes: batch.into(), records_crc }
}

/// Writes the header, with the checksum of its own 40 checksummed bytes and of the records, which
/// need not be read again for that.
fn write_header(header: &mut BatchHeader, records_crc: u32, batch: &mut [u8]) {
    header.write(batch);
    let fields = batch.get(ATTRIBUTES_AT..BATCH_HEADER_BYTES).unwrap_or_default();
    let records_bytes = batch.len() - BATCH_HEADER_BYTES;
    header.crc = crc::combine(crc32c::crc32c(fields), records_crc, records_bytes);
    header.write(batch);
}
