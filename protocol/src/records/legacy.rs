//! Messages of formats 0 and 1, written before Kafka 0.11 and served as they are on disk (KIP-724).
//!
//! A message is a batch of its own here. A compressed one wraps a set of messages, and bears the offset of the last. Their
//! records are written anew in format 2, so that whoever reads records knows one format only.

use bytes::Bytes;
use flate2::Crc;
use xxhash_rust::xxh32::xxh32;

use super::batch_header::{BatchHeader, CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, MAGIC_AT};
use super::compression::{Compression, DecodeLimits, Decompressor};
use super::error::RecordsError;
use super::record_block::RecordBlock;
use super::varint::{Prefix, length_bytes, varint_bytes, varlong_bytes};

/// Whether `raw` begins with a message of format 0 or 1. Too few bytes to tell are none.
pub(super) fn is_legacy(raw: &[u8]) -> bool {
    matches!(raw.get(MAGIC_AT), Some(0 | 1))
}

/// What the message `raw`, checked with its CRC, would have for a header as a batch of one record.
pub(super) fn header(raw: &[u8]) -> Result<BatchHeader, RecordsError> {
    let message = Message::parse(raw).map_err(|reason| invalid(raw, reason))?;
    if message.offset < 0 || message.offset == i64::MAX {
        return Err(invalid(raw, "its offset is impossible"));
    }
    Ok(BatchHeader {
        base_offset: message.offset,
        batch_length: i32::try_from(raw.len() - LOG_OVERHEAD_BYTES).unwrap_or(i32::MAX),
        partition_leader_epoch: -1,
        crc: message.crc,
        attributes: message.attributes & (CODEC_MASK | message.timestamp_type_mask()),
        last_offset_delta: 0,
        base_timestamp: message.timestamp,
        max_timestamp: message.timestamp,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: 1,
    })
}

/// The records of the message `raw`, whose header is `outer`.
pub(super) fn records(
    raw: &[u8],
    outer: &BatchHeader,
    limits: &DecodeLimits,
    decompressor: &mut Decompressor,
) -> Result<RecordBlock, RecordsError> {
    let refused = |reason| invalid(raw, reason);
    let message = Message::parse(raw).map_err(refused)?;
    let compression = outer.compression()?;
    if compression == Compression::None {
        let mut records = Vec::new();
        put(&mut records, &message, 0, 0);
        return RecordBlock::new(*outer, compression, records.into());
    }
    let inner = unwrap(raw, &message, outer, compression, limits, decompressor)?;
    let (first, last) = bounds(&inner, message.magic).map_err(refused)?;
    // Format 1 counts from the first message of the set, format 0 has the partition's own offsets.
    let shift = if message.magic == 0 { Some(0) } else { outer.base_offset.checked_sub(last) };
    let base_offset = shift.and_then(|shift| first.offset.checked_add(shift)).filter(|o| *o >= 0);
    let base_offset = base_offset.ok_or_else(|| refused("its offsets are impossible"))?;
    let width = outer.base_offset.checked_sub(base_offset).and_then(|w| i32::try_from(w).ok());
    let mut header = BatchHeader {
        base_offset,
        last_offset_delta: width
            .filter(|width| *width >= 0)
            .ok_or_else(|| refused("its messages' offsets do not grow, or lie apart too far"))?,
        base_timestamp: first.timestamp,
        record_count: 0,
        ..*outer
    };
    let mut records = Vec::with_capacity(inner.len());
    let mut below = -1;
    for message in (Messages { rest: &inner, magic: message.magic }) {
        let message = message.map_err(refused)?;
        let delta = message.offset.checked_sub(first.offset).and_then(|d| i32::try_from(d).ok());
        let delta = delta.filter(|delta| *delta > below && *delta <= header.last_offset_delta);
        below = delta.ok_or_else(|| refused("its messages' offsets do not grow"))?;
        let age = message.timestamp.wrapping_sub(header.base_timestamp);
        put(&mut records, &message, age, below);
        header.record_count = header.record_count.saturating_add(1);
    }
    RecordBlock::new(header, compression, records.into())
}

/// The set of messages inside a compressed one.
fn unwrap(
    raw: &[u8],
    message: &Message<'_>,
    outer: &BatchHeader,
    compression: Compression,
    limits: &DecodeLimits,
    decompressor: &mut Decompressor,
) -> Result<Bytes, RecordsError> {
    let value = message.value.ok_or_else(|| invalid(raw, "it is compressed and has no value"))?;
    let repaired;
    let set = match compression {
        Compression::Zstd => return Err(invalid(raw, "format 2 is the first to have zstd")),
        Compression::Lz4 if message.magic == 0 => {
            repaired = with_right_checksum(value);
            &repaired
        }
        _ => value,
    };
    decompressor.decompress(compression, set, limits).map_err(|source| RecordsError::Decompress {
        base_offset: outer.base_offset,
        batch_bytes: raw.len(),
        codec: compression,
        source,
    })
}

/// Kafka's first clients put the frame's magic into the checksum of its descriptor (KAFKA-3160).
fn with_right_checksum(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let has_content_size = frame.get(4).is_some_and(|flags| flags & 0b1000 != 0);
    let end = if has_content_size { 14 } else { 6 };
    if let Some(descriptor) = frame.get(4..end) {
        let checksum = xxh32(descriptor, 0).to_be_bytes()[2];
        if let Some(slot) = frame.get_mut(end) {
            *slot = checksum;
        }
    }
    frame
}

/// The first message of a set, and the offset of the last.
fn bounds(set: &[u8], magic: i8) -> Result<(Message<'_>, i64), &'static str> {
    let mut messages = Messages { rest: set, magic };
    let first = messages.next().ok_or("it wraps no message")??;
    let mut last = first.offset;
    for message in messages {
        last = message?.offset;
    }
    Ok((first, last))
}

/// The messages of a set, which has to be whole and of one format.
struct Messages<'a> {
    rest: &'a [u8],
    magic: i8,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let next = self.take();
        if next.is_err() {
            self.rest = &[];
        }
        Some(next)
    }
}

impl<'a> Messages<'a> {
    fn take(&mut self) -> Result<Message<'a>, &'static str> {
        const CUT: &str = "a message inside is cut";
        let size = self.rest.get(8..LOG_OVERHEAD_BYTES).and_then(|bytes| bytes.first_chunk::<4>());
        let size = i32::from_be_bytes(*size.ok_or(CUT)?);
        let size = usize::try_from(size).map_err(|_| "a message inside has a negative size")?;
        let bytes = size.saturating_add(LOG_OVERHEAD_BYTES);
        let (raw, rest) = self.rest.split_at_checked(bytes).ok_or(CUT)?;
        self.rest = rest;
        let message = Message::parse(raw)?;
        if message.magic != self.magic {
            return Err("a message inside is of another format");
        }
        if message.attributes & CODEC_MASK != 0 {
            return Err("a message inside is compressed again");
        }
        Ok(message)
    }
}

/// One message, borrowed.
#[derive(Clone, Copy)]
struct Message<'a> {
    offset: i64,
    crc: u32,
    magic: i8,
    attributes: i16,
    /// -1 in format 0, which has none.
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads `raw`, which must be exactly one message: offset (8), size (4), CRC (4), magic, attributes, in format 1 the
    /// timestamp (8), then key and value with their lengths (4 each, -1 for null).
    fn parse(raw: &'a [u8]) -> Result<Self, &'static str> {
        const CUT: &str = "it is cut";
        let mut rest = raw;
        let offset = i64::from_be_bytes(*take(&mut rest)?);
        let _size: &[u8; 4] = take(&mut rest)?;
        let crc = u32::from_be_bytes(*take(&mut rest)?);
        let mut computed = Crc::new();
        computed.update(rest);
        if computed.sum() != crc {
            return Err("its CRC-32 does not match");
        }
        let [magic, attributes] = *take(&mut rest)?;
        let timestamp = match magic {
            0 => -1,
            1 => i64::from_be_bytes(*take(&mut rest)?),
            _ => return Err("its format is neither 0 nor 1"),
        };
        let key = take_nullable(&mut rest)?;
        let value = take_nullable(&mut rest)?;
        if !rest.is_empty() {
            return Err(CUT);
        }
        let (magic, attributes) = (magic.cast_signed(), i16::from(attributes));
        Ok(Self { offset, crc, magic, attributes, timestamp, key, value })
    }

    /// Format 0 has no timestamps, and so no type of them.
    const fn timestamp_type_mask(&self) -> i16 {
        if self.magic == 0 { 0 } else { LOG_APPEND_TIME }
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], &'static str> {
    let (taken, after) = rest.split_first_chunk().ok_or("it is cut")?;
    *rest = after;
    Ok(taken)
}

fn take_nullable<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
    let length = i32::from_be_bytes(*take(rest)?);
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| "a length is negative")?;
    let (taken, after) = rest.split_at_checked(length).ok_or("it is cut")?;
    *rest = after;
    Ok(Some(taken))
}

/// Appends one record of format 2. It is never longer than the message was.
fn put(records: &mut Vec<u8>, message: &Message<'_>, timestamp_delta: i64, offset_delta: i32) {
    let nullable = |bytes: Option<&[u8]>| {
        bytes.map_or(1, |bytes| length_bytes(bytes.len()).saturating_add(bytes.len()))
    };
    let body = 2
        + varlong_bytes(timestamp_delta)
        + varint_bytes(offset_delta)
        + nullable(message.key)
        + nullable(message.value);
    let mut fixed = Prefix::new();
    fixed.varint(length(body));
    fixed.byte(0);
    fixed.varlong(timestamp_delta);
    fixed.varint(offset_delta);
    records.extend_from_slice(fixed.as_slice());
    for part in [message.key, message.value] {
        let mut prefix = Prefix::new();
        prefix.varint(part.map_or(-1, |bytes| length(bytes.len())));
        records.extend_from_slice(prefix.as_slice());
        records.extend_from_slice(part.unwrap_or_default());
    }
    // No headers.
    records.push(0);
}

/// A message's own length field has 31 bits, so nothing inside is longer.
fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

fn invalid(raw: &[u8], reason: &'static str) -> RecordsError {
    let offset = raw.first_chunk().map_or(-1, |bytes| i64::from_be_bytes(*bytes));
    let magic = raw.get(MAGIC_AT).map_or(-1, |byte| byte.cast_signed());
    RecordsError::InvalidLegacyMessage { offset, magic, message_bytes: raw.len(), reason }
}

#[cfg(test)]
mod tests;
