//! Writing a batch.

use bytes::Bytes;

use super::batch_header::{BATCH_HEADER_BYTES, BatchHeader};
use super::compression::{Compression, Compressor};
use super::error::RecordsError;
use super::record_block::{Header, RecordView};
use super::sealed_batch::{SealedBatch, seal};
use super::varint::{Prefix, length_bytes, varint_bytes, varlong_bytes};

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the batch.
    Record {
        /// Its position in the batch, from 0. Its offset is the batch's base offset plus this.
        batch_index: i32,
        /// Bytes it takes before compression.
        bytes: usize,
    },
    /// The batch has no room for it and is unchanged: build it, then append again.
    Full,
}

/// Collects records into one batch at a time.
///
/// Records are encoded straight into the batch's buffer, behind a gap for the header; nothing is
/// allocated per record. Buffers and codec tables are kept from batch to batch, and
/// [`BatchBuilder::recycle`] brings back the buffer of a batch that has been sent.
#[derive(Debug)]
pub struct BatchBuilder {
    compressor: Compressor,
    max_bytes: usize,
    /// Empty, or a header's gap and the encoded records.
    buffer: Vec<u8>,
    /// A buffer without contents, for the next batch (not compressed) or the codec's output.
    spare: Vec<u8>,
    /// A buffer without contents, for the next compressed batch.
    recycled: Vec<u8>,
    record_count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl BatchBuilder {
    /// A builder for batches of up to `max_bytes` bytes, header included, counted **before**
    /// compression (`batch.size`). As in Kafka a single record may be larger: it gets a batch of
    /// its own. What a broker accepts (`max.request.size`) is for the caller to check with
    /// [`BatchBuilder::batch_bytes_for`].
    #[must_use]
    pub const fn new(compression: Compression, max_bytes: usize) -> Self {
        Self::with_level(compression, None, max_bytes)
    }

    /// Like [`BatchBuilder::new`], with a compression level (KIP-390): 0 to 9 for gzip, -131072 to
    /// 22 for zstd; the other codecs have none. `None` is the codec's default.
    #[must_use]
    pub const fn with_level(
        compression: Compression,
        level: Option<i32>,
        max_bytes: usize,
    ) -> Self {
        Self {
            compressor: Compressor::new(compression, level),
            max_bytes,
            buffer: Vec::new(),
            spare: Vec::new(),
            recycled: Vec::new(),
            record_count: 0,
            base_timestamp: -1,
            max_timestamp: -1,
        }
    }

    /// Appends a record. `timestamp` is in milliseconds since the Unix epoch, -1 for none; headers
    /// keep their order and may repeat keys.
    ///
    /// # Errors
    ///
    /// [`RecordsError::InvalidTimestamp`] or [`RecordsError::RecordTooLarge`]; the batch is
    /// unchanged.
    #[inline]
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<Appended, RecordsError> {
        let headers = headers.iter().map(|&(key, value)| Header { key, value });
        self.append_record(timestamp, key, value, headers)
    }

    /// Appends a record that was read elsewhere. Its offset is not kept.
    ///
    /// # Errors
    ///
    /// As [`BatchBuilder::append`].
    #[inline]
    pub fn append_view(&mut self, record: &RecordView<'_>) -> Result<Appended, RecordsError> {
        self.append_record(record.timestamp, record.key, record.value, record.headers)
    }

    #[inline]
    fn append_record<'r>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = Header<'r>> + Clone,
    ) -> Result<Appended, RecordsError> {
        if timestamp < -1 {
            return Err(RecordsError::InvalidTimestamp { timestamp });
        }
        let is_first = self.record_count == 0;
        // Readers add with wrapping, as Java does, so even the widest difference comes back.
        let timestamp_delta =
            if is_first { 0 } else { timestamp.wrapping_sub(self.base_timestamp) };
        let body_bytes = 1
            + varlong_bytes(timestamp_delta)
            + varint_bytes(self.record_count)
            + nullable_bytes(key)
            + nullable_bytes(value)
            + headers_bytes(headers.clone());
        let record_bytes = length_bytes(body_bytes).saturating_add(body_bytes);
        let start = self.buffer.len().max(BATCH_HEADER_BYTES);
        let end = start.saturating_add(record_bytes);
        if !is_first && (end > self.max_bytes || end > MAX_BATCH_BYTES) {
            return Ok(Appended::Full);
        }
        if end > MAX_BATCH_BYTES {
            return Err(RecordsError::RecordTooLarge { record_bytes });
        }

        if is_first {
            if self.compressor.compression() == Compression::None
                && self.buffer.capacity() < self.spare.capacity()
            {
                std::mem::swap(&mut self.buffer, &mut self.spare);
            }
            self.buffer.clear();
            self.buffer.reserve(end);
            self.buffer.resize(BATCH_HEADER_BYTES, 0);
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        } else {
            self.buffer.reserve(record_bytes);
            self.max_timestamp = self.max_timestamp.max(timestamp);
        }
        let mut fixed = Prefix::new();
        // All lengths are below the batch's, which was just compared with 31 bits.
        fixed.varint(body_bytes as i32);
        fixed.byte(0);
        fixed.varlong(timestamp_delta);
        fixed.varint(self.record_count);
        // The few bytes between key, value and headers are gathered: each write costs as much as several bytes.
        self.put_nullable(&mut fixed, key);
        self.put_nullable(&mut fixed, value);
        fixed.varint(headers.len() as i32);
        for header in headers {
            self.put_nullable(&mut fixed, Some(header.key));
            self.put_nullable(&mut fixed, header.value);
        }
        self.buffer.extend_from_slice(fixed.as_slice());
        debug_assert_eq!(self.buffer.len(), end, "a record takes the bytes computed for it");

        let batch_index = self.record_count;
        self.record_count += 1;
        Ok(Appended::Record { batch_index, bytes: record_bytes })
    }

    /// Adds a length to what is gathered; if bytes follow, writes both, and gathers anew.
    #[inline]
    fn put_nullable(&mut self, gathered: &mut Prefix, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                gathered.varint(bytes.len() as i32);
                self.buffer.extend_from_slice(gathered.as_slice());
                self.buffer.extend_from_slice(bytes);
                gathered.clear();
            }
            None => gathered.varint(-1),
        }
    }

    /// Codec of the batches.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.compressor.compression()
    }

    /// Whether no record has been appended since the last build.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Records appended since the last build.
    #[must_use]
    pub const fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Size of the batch as it stands, before compression; 0 if it is empty.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { self.buffer.len() }
    }

    /// Largest size a batch of just this record can have before compression.
    #[must_use]
    pub fn batch_bytes_for(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> usize {
        let headers = headers.iter().map(|&(key, value)| Header { key, value });
        let body_bytes = 3 + nullable_bytes(key) + nullable_bytes(value) + headers_bytes(headers);
        BATCH_HEADER_BYTES + length_bytes(body_bytes) + body_bytes
    }

    /// Compresses and closes the batch; the builder is empty again. `None` if it was empty before.
    ///
    /// # Errors
    ///
    /// [`RecordsError::Compress`]; the builder keeps its records.
    pub fn build(&mut self) -> Result<Option<SealedBatch>, RecordsError> {
        if self.is_empty() {
            return Ok(None);
        }
        let compression = self.compressor.compression();
        let header = BatchHeader {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: -1,
            crc: 0,
            attributes: i16::from(compression.id()),
            last_offset_delta: self.record_count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: self.record_count,
        };
        let batch = if compression == Compression::None {
            // Nothing is kept: of many builders few have an open batch at a time.
            std::mem::take(&mut self.buffer)
        } else {
            self.compress(compression)?
        };
        self.buffer.clear();
        self.record_count = 0;
        Ok(Some(seal(header, batch)))
    }

    /// The header's gap and the compressed records, in a buffer of just that size: batches wait in
    /// memory until they are acknowledged, and a codec's output buffer is several times larger.
    fn compress(&mut self, compression: Compression) -> Result<Vec<u8>, RecordsError> {
        let records = self.buffer.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        self.spare.clear();
        self.spare.resize(BATCH_HEADER_BYTES, 0);
        self.compressor.compress(records, &mut self.spare).map_err(|reason| {
            RecordsError::Compress { codec: compression, records_bytes: records.len(), reason }
        })?;
        let mut batch = std::mem::take(&mut self.recycled);
        batch.reserve_exact(self.spare.len());
        batch.extend_from_slice(&self.spare);
        Ok(batch)
    }

    /// Takes the buffer of a batch that is no longer needed, unless its bytes are still shared.
    pub fn recycle(&mut self, batch: SealedBatch) {
        let kept = match self.compressor.compression() {
            Compression::None => &mut self.spare,
            _ => &mut self.recycled,
        };
        if let Ok(mut buffer) = Bytes::try_into_mut(batch.into_bytes())
            && buffer.capacity() > kept.capacity()
        {
            // Emptied first: contents would be moved.
            buffer.clear();
            *kept = buffer.into();
        }
    }
}

fn nullable_bytes(bytes: Option<&[u8]>) -> usize {
    // The length of null is -1, one byte.
    bytes.map_or(1, |bytes| length_bytes(bytes.len()) + bytes.len())
}

fn headers_bytes<'r>(headers: impl ExactSizeIterator<Item = Header<'r>>) -> usize {
    let count = length_bytes(headers.len());
    headers.fold(count, |sum, header| {
        sum + nullable_bytes(Some(header.key)) + nullable_bytes(header.value)
    })
}

/// Batch lengths are 31 bits; compressed output may be a little larger than its input.
const MAX_BATCH_BYTES: usize = 0x7000_0000;
