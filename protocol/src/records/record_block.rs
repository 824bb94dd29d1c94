//! The records of one batch, borrowed.

use bytes::Bytes;

use super::batch_header::{BatchHeader, TimestampType};
use super::compression::Compression;
use super::error::RecordsError;
use super::varint::{read_varint, read_varlong};

/// Records of one batch, decompressed. The bytes are those of the fetched frame, or a buffer the
/// decompressor lends out; either way they live as long as the block or any clone of it.
#[derive(Clone, Debug)]
pub struct RecordBlock {
    header: BatchHeader,
    compression: Compression,
    records: Bytes,
    from_offset: i64,
}

impl RecordBlock {
    pub(super) fn new(
        header: BatchHeader,
        compression: Compression,
        records: Bytes,
    ) -> Result<Self, RecordsError> {
        let record_count = usize::try_from(header.record_count).unwrap_or(usize::MAX);
        // No record is smaller, so a count above this is a lie, told before anyone allocates for it.
        let possible = records.len() / SMALLEST_RECORD_BYTES;
        if record_count > possible || (record_count == 0 && !records.is_empty()) {
            return Err(RecordsError::InvalidRecordCount {
                base_offset: header.base_offset,
                batch_bytes: header.batch_bytes(),
                record_count: header.record_count,
                records_bytes: records.len(),
            });
        }
        Ok(Self { header, compression, records, from_offset: 0 })
    }

    /// The same block without the records below `offset`. A fetch in the middle of a batch
    /// returns the whole batch; its reader wants only the rest.
    #[must_use]
    pub const fn starting_at(mut self, offset: i64) -> Self {
        self.from_offset = offset;
        self
    }

    /// Header of the batch.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Codec the batch was stored with.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// Records in the batch, those below the starting offset included. At most one per 7 bytes of
    /// [`RecordBlock::bytes`], so it is safe to reserve for.
    #[must_use]
    pub fn record_count(&self) -> usize {
        usize::try_from(self.header.record_count).unwrap_or(0)
    }

    /// Where reading goes on after this batch.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.header.next_offset()
    }

    /// The encoded records, decompressed.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.records
    }

    /// A shared handle to `part`, a slice that a [`RecordView`] of this block gave out. Costs one
    /// reference count and keeps the whole block's bytes alive. A slice from elsewhere is copied.
    #[must_use]
    pub fn share(&self, part: &[u8]) -> Bytes {
        let start = part.as_ptr().addr().checked_sub(self.records.as_ptr().addr());
        match start.map(|start| (start, start.saturating_add(part.len()))) {
            Some((start, end)) if end <= self.records.len() => self.records.slice(start..end),
            _ => Bytes::copy_from_slice(part),
        }
    }

    /// Walks the records in order. Ends after the first error.
    #[must_use]
    pub fn iter(&self) -> Records<'_> {
        // KIP-32: what the broker's clock said at append replaces what each record says.
        let log_append_time = match self.header.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(self.header.max_timestamp),
        };
        Records { block: self, rest: &self.records, index: 0, log_append_time, failed: false }
    }
}

impl<'a> IntoIterator for &'a RecordBlock {
    type Item = Result<RecordView<'a>, RecordsError>;
    type IntoIter = Records<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterator over a [`RecordBlock`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    block: &'a RecordBlock,
    rest: &'a [u8],
    index: i32,
    log_append_time: Option<i64>,
    failed: bool,
}

impl<'a> Records<'a> {
    #[inline]
    fn read_record(&mut self) -> Result<RecordView<'a>, &'static str> {
        let header = &self.block.header;
        let length = read_varint(&mut self.rest).ok_or("its length is cut or too wide")?;
        let length = usize::try_from(length).map_err(|_| "its length is negative")?;
        let (mut body, rest) =
            self.rest.split_at_checked(length).ok_or("it is longer than what remains")?;
        self.rest = rest;
        let input = &mut body;
        // The attributes of a record have no meaning yet; brokers and clients pass them over.
        let (_attributes, after) = input.split_first().ok_or("it has no attributes")?;
        *input = after;
        let timestamp_delta = read_varlong(input).ok_or("its timestamp is cut or too wide")?;
        let offset_delta = read_varint(input).ok_or("its offset is cut or too wide")?;
        if offset_delta < 0 || offset_delta > header.last_offset_delta {
            return Err("its offset lies outside the batch");
        }
        let key = read_nullable_bytes(input).ok_or("its key is cut")?;
        let value = read_nullable_bytes(input).ok_or("its value is cut")?;
        let headers = Headers::read(input)?;
        let timestamp = match self.log_append_time {
            Some(append_time) => append_time,
            None => header.base_timestamp.wrapping_add(timestamp_delta),
        };
        Ok(RecordView {
            offset: header.base_offset.saturating_add(offset_delta.into()),
            timestamp,
            key,
            value,
            headers,
        })
    }

    #[cold]
    fn fail(&mut self, reason: &'static str) -> RecordsError {
        self.failed = true;
        RecordsError::InvalidRecord {
            base_offset: self.block.header.base_offset,
            batch_bytes: self.block.header.batch_bytes(),
            codec: self.block.compression,
            index: self.index,
            reason,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.failed {
                return None;
            }
            if self.index >= self.block.header.record_count {
                if self.rest.is_empty() {
                    return None;
                }
                // More bytes than records: somebody's count is wrong, and records would be lost.
                return Some(Err(self.fail("bytes follow the last record")));
            }
            match self.read_record() {
                Ok(record) => {
                    self.index += 1;
                    if record.offset >= self.block.from_offset {
                        return Some(Ok(record));
                    }
                }
                Err(reason) => return Some(Err(self.fail(reason))),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.block.header.record_count.saturating_sub(self.index);
        // One more for the error about bytes after the last record.
        (0, usize::try_from(left).ok().and_then(|left| left.checked_add(1)))
    }
}

impl std::iter::FusedIterator for Records<'_> {}

/// One record, borrowed from its [`RecordBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Offset in the partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch; -1 if the producer gave none.
    pub timestamp: i64,
    /// Key; `None` and empty are different things.
    pub key: Option<&'a [u8]>,
    /// Value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers in the order they were written.
    pub headers: Headers<'a>,
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Key: UTF-8 by convention. One producer's bad bytes must not stall a partition, so it is not
    /// checked here.
    pub key: &'a [u8],
    /// Value.
    pub value: Option<&'a [u8]>,
}

/// A record's headers: an ordered multimap, decoded while iterating. Keys may repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Takes the headers from `input`, which must end with them.
    #[inline]
    fn read(input: &mut &'a [u8]) -> Result<Self, &'static str> {
        let count = read_varint(input).ok_or("its header count is cut or too wide")?;
        if count == 0 {
            if !input.is_empty() {
                return Err("it does not end with its headers");
            }
            return Ok(Self::default());
        }
        Self::check(count, input)
    }

    /// Walks the headers once, so that iterating them later cannot fail.
    fn check(count: i32, input: &[u8]) -> Result<Headers<'_>, &'static str> {
        let left = u32::try_from(count).map_err(|_| "its header count is negative")?;
        if left as usize > input.len() / SMALLEST_HEADER_BYTES {
            return Err("it claims more headers than its bytes can hold");
        }
        let headers = Headers { left, rest: input };
        let mut walk = headers;
        if walk.by_ref().count() != left as usize {
            return Err("one of its headers is cut");
        }
        if !walk.rest.is_empty() {
            return Err("it does not end with its headers");
        }
        Ok(headers)
    }

    /// The last value under `key`, as Kafka's `lastHeader` gives it. Outer `None`: no such header.
    #[must_use]
    pub fn last(self, key: &[u8]) -> Option<Option<&'a [u8]>> {
        self.filter(|header| header.key == key).last().map(|header| header.value)
    }

    /// Whether the record has no headers.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let key = read_nullable_bytes(&mut self.rest)??;
        let value = read_nullable_bytes(&mut self.rest)?;
        Some(Header { key, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Reads a length and that many bytes; -1 is null. Outer `None`: cut, or another negative length.
#[inline]
fn read_nullable_bytes<'a>(input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = read_varint(input)?;
    if length == -1 {
        return Some(None);
    }
    let (bytes, rest) = input.split_at_checked(usize::try_from(length).ok()?)?;
    *input = rest;
    Some(Some(bytes))
}

/// Length, attributes, two deltas, two null lengths and a header count of one byte each.
const SMALLEST_RECORD_BYTES: usize = 7;
/// An empty key and a null value.
const SMALLEST_HEADER_BYTES: usize = 2;
