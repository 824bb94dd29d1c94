//! One checked batch.

use bytes::Bytes;

use super::batch_header::{ATTRIBUTES_AT, BATCH_HEADER_BYTES, BatchHeader};
use super::compression::{Compression, DecodeLimits, Decompressor};
use super::control_record::ControlRecord;
use super::error::RecordsError;
use super::legacy;
use super::record_block::RecordBlock;

/// A whole batch whose length, magic, checksum and header fields are good. Its records are not
/// looked at before [`BatchView::records`]. Cheap to clone: the bytes are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchView {
    header: BatchHeader,
    raw: Bytes,
    /// A message of format 0 or 1; the header is what it would be.
    legacy: bool,
}

impl BatchView {
    /// Checks `raw`, which must be exactly one batch, or one message of format 0 or 1.
    ///
    /// # Errors
    ///
    /// What [`BatchHeader::parse`] finds, [`RecordsError::Truncated`],
    /// [`RecordsError::TrailingBytes`], [`RecordsError::CrcMismatch`] or
    /// [`RecordsError::InvalidLegacyMessage`].
    pub fn parse(raw: Bytes) -> Result<Self, RecordsError> {
        if legacy::is_legacy(&raw) {
            let header = legacy::header(&raw)?;
            return Ok(Self { header, raw, legacy: true });
        }
        let header = BatchHeader::read(&raw)?;
        let batch_bytes = header.batch_bytes();
        if raw.len() < batch_bytes {
            return Err(RecordsError::Truncated {
                base_offset: header.base_offset,
                batch_bytes,
                available_bytes: raw.len(),
            });
        }
        if raw.len() > batch_bytes {
            return Err(RecordsError::TrailingBytes {
                base_offset: header.base_offset,
                batch_bytes,
                extra_bytes: raw.len() - batch_bytes,
            });
        }
        let computed = checksum(&raw);
        if computed != header.crc {
            return Err(RecordsError::CrcMismatch {
                base_offset: header.base_offset,
                batch_bytes,
                stored: header.crc,
                computed,
            });
        }
        header.validate()?;
        Ok(Self { header, raw, legacy: false })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch as on the wire.
    #[must_use]
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The whole batch as on the wire.
    #[must_use]
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// Where reading goes on after this batch.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.header.next_offset()
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.header.is_transactional()
    }

    /// Whether the batch holds a marker instead of data.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.header.is_control()
    }

    /// The records: borrowed from this batch's bytes, or decompressed into a buffer that
    /// `decompressor` recycles once the block is dropped.
    ///
    /// # Errors
    ///
    /// [`RecordsError::UnknownCodec`], [`RecordsError::Decompress`], or
    /// [`RecordsError::InvalidRecordCount`] if the bytes cannot hold that many records.
    pub fn records(
        &self,
        limits: &DecodeLimits,
        decompressor: &mut Decompressor,
    ) -> Result<RecordBlock, RecordsError> {
        if self.legacy {
            return legacy::records(&self.raw, &self.header, limits, decompressor);
        }
        let compression = self.header.compression()?;
        let payload = self.raw.slice(BATCH_HEADER_BYTES..);
        if compression == Compression::None {
            return RecordBlock::new(self.header, compression, payload);
        }
        if self.header.record_count == 0 {
            // Compaction keeps the header of an emptied batch; whatever its codec left behind
            // holds no record.
            return RecordBlock::new(self.header, compression, Bytes::new());
        }
        let records = decompressor.decompress(compression, &payload, limits).map_err(|source| {
            RecordsError::Decompress {
                base_offset: self.header.base_offset,
                batch_bytes: self.raw.len(),
                codec: compression,
                source,
            }
        })?;
        RecordBlock::new(self.header, compression, records)
    }

    /// The marker of a control batch. `None` for a data batch, and for a control batch that
    /// compaction has emptied.
    ///
    /// # Errors
    ///
    /// [`RecordsError::InvalidControlRecord`], or what is wrong with the record itself.
    pub fn control_record(&self) -> Result<Option<ControlRecord>, RecordsError> {
        if !self.is_control() {
            return Ok(None);
        }
        // A marker is a few bytes and nobody compresses it.
        let limits = DecodeLimits { max_decompressed_batch_bytes: CONTROL_BATCH_MAX_BYTES };
        let block = self.records(&limits, &mut Decompressor::new())?;
        let Some(record) = block.iter().next() else { return Ok(None) };
        ControlRecord::parse(&self.header, &record?).map(Some)
    }
}

/// CRC-32C of the checksummed part of `batch`: attributes to end.
pub(super) fn checksum(batch: &[u8]) -> u32 {
    crc32c::crc32c(batch.get(ATTRIBUTES_AT..).unwrap_or_default())
}

/// Far above any marker: the largest, a KRaft voter list, has a few kilobytes.
const CONTROL_BATCH_MAX_BYTES: usize = 1024 * 1024;
