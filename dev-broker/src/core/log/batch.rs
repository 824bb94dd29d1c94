//! The header of a magic 2 batch, read and patched in place (schema of `DefaultRecordBatch`, KIP-98).
//!
//! The log keeps batches exactly as producers sent them; a broker only ever touches the fields named here.

use millstream_protocol::ProducerIdAndEpoch;

/// Bytes before the first record.
pub(crate) const HEADER_BYTES: usize = 61;

/// Bytes of base offset and length, which the length field does not count.
pub(crate) const LENGTH_PREFIX_BYTES: usize = 12;

/// No producer id, epoch or sequence.
pub(crate) const NONE: i64 = -1;

/// There is one coordinator and it never moves.
const COORDINATOR_EPOCH: i32 = 0;

const LEADER_EPOCH: usize = 12;
const MAGIC: usize = 16;
const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const LAST_OFFSET_DELTA: usize = 23;
const BASE_TIMESTAMP: usize = 27;
const MAX_TIMESTAMP: usize = 35;
const PRODUCER_ID: usize = 43;
const PRODUCER_EPOCH: usize = 51;
const BASE_SEQUENCE: usize = 53;
const RECORD_COUNT: usize = 57;

const TIMESTAMP_TYPE_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;
const CODEC_MASK: i16 = 0b111;

/// What the broker needs to know of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchInfo {
    pub(crate) base_offset: i64,
    /// Bytes of the whole batch, prefix included.
    pub(crate) size: usize,
    pub(crate) leader_epoch: i32,
    pub(crate) magic: i8,
    pub(crate) crc: u32,
    pub(crate) attributes: i16,
    pub(crate) last_offset_delta: i32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) record_count: i32,
}

impl BatchInfo {
    /// Reads the header at the start of `bytes`; `None` if no whole batch lies there.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let length = usize::try_from(i32_at(header, 8)?).ok()?;
        let size = length.checked_add(LENGTH_PREFIX_BYTES)?;
        if size < HEADER_BYTES || size > bytes.len() {
            return None;
        }
        Some(Self {
            base_offset: i64_at(header, 0)?,
            size,
            leader_epoch: i32_at(header, LEADER_EPOCH)?,
            magic: header.get(MAGIC)?.cast_signed(),
            crc: i32_at(header, CRC)?.cast_unsigned(),
            attributes: i16_at(header, ATTRIBUTES)?,
            last_offset_delta: i32_at(header, LAST_OFFSET_DELTA)?,
            base_timestamp: i64_at(header, BASE_TIMESTAMP)?,
            max_timestamp: i64_at(header, MAX_TIMESTAMP)?,
            producer_id: i64_at(header, PRODUCER_ID)?,
            producer_epoch: i16_at(header, PRODUCER_EPOCH)?,
            base_sequence: i32_at(header, BASE_SEQUENCE)?,
            record_count: i32_at(header, RECORD_COUNT)?,
        })
    }

    /// Offset of the last record, or where it was before compaction removed it.
    pub(crate) fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// Sequence of the last record; sequences wrap from `i32::MAX` to 0.
    pub(crate) fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        let sum = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        i32::try_from(sum % (i64::from(i32::MAX) + 1)).unwrap_or(0)
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    pub(crate) fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Codec number of the attributes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub(crate) fn codec(&self) -> i16 {
        self.attributes & CODEC_MASK
    }

    pub(crate) fn has_producer(&self) -> bool {
        self.producer_id != NONE
    }
}

/// Whether the checksum of the batch that fills `batch` is right.
pub(crate) fn crc_is_right(batch: &[u8], info: &BatchInfo) -> bool {
    batch.get(ATTRIBUTES..info.size).is_some_and(|covered| crc32c::crc32c(covered) == info.crc)
}

/// Gives the batch its place in the log. Both fields lie outside the checksum.
pub(crate) fn stamp(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
    put(batch, 0, &base_offset.to_be_bytes());
    put(batch, LEADER_EPOCH, &leader_epoch.to_be_bytes());
}

/// Sets the largest timestamp, with `append_time` the log-append-time bit too, and the checksum anew.
pub(crate) fn set_max_timestamp(batch: &mut [u8], max_timestamp: i64, append_time: bool) {
    put(batch, MAX_TIMESTAMP, &max_timestamp.to_be_bytes());
    if append_time && let Some(attributes) = i16_at(batch, ATTRIBUTES) {
        put(batch, ATTRIBUTES, &(attributes | TIMESTAMP_TYPE_BIT).to_be_bytes());
    }
    refresh_crc(batch);
}

/// The batch of `info` with other records: what compaction leaves of it. The records are not compressed.
///
/// Offsets, producer and sequence stay, so duplicates are still recognised after a replay.
pub(crate) fn rewritten(info: &BatchInfo, records: &[u8], record_count: i32) -> Vec<u8> {
    let mut batch = vec![0; HEADER_BYTES];
    let length = HEADER_BYTES - LENGTH_PREFIX_BYTES + records.len();
    // An empty batch has no base timestamp (KIP-534).
    let base_timestamp = if record_count == 0 { NONE } else { info.base_timestamp };
    stamp(&mut batch, info.base_offset, info.leader_epoch);
    put(&mut batch, 8, &i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
    put(&mut batch, MAGIC, &info.magic.to_be_bytes());
    put(&mut batch, ATTRIBUTES, &(info.attributes & !CODEC_MASK).to_be_bytes());
    put(&mut batch, LAST_OFFSET_DELTA, &info.last_offset_delta.to_be_bytes());
    put(&mut batch, BASE_TIMESTAMP, &base_timestamp.to_be_bytes());
    put(&mut batch, MAX_TIMESTAMP, &info.max_timestamp.to_be_bytes());
    put(&mut batch, PRODUCER_ID, &info.producer_id.to_be_bytes());
    put(&mut batch, PRODUCER_EPOCH, &info.producer_epoch.to_be_bytes());
    put(&mut batch, BASE_SEQUENCE, &info.base_sequence.to_be_bytes());
    put(&mut batch, RECORD_COUNT, &record_count.to_be_bytes());
    batch.extend_from_slice(records);
    refresh_crc(&mut batch);
    batch
}

/// Which way a transaction ended, as its control batch says (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Abort,
    Commit,
}

/// A control batch of one marker. The broker writes it when a transaction ends.
pub(crate) fn marker_batch(
    marker: Marker,
    identity: ProducerIdAndEpoch,
    timestamp: i64,
) -> Vec<u8> {
    let kind: i16 = match marker {
        Marker::Abort => 0,
        Marker::Commit => 1,
    };
    // One record: attributes, timestamp delta, offset delta, key (version, type), value (version, coordinator epoch),
    // no headers. Every length fits one zig-zag byte.
    let mut record = vec![0, 0, 0, 8];
    record.extend_from_slice(&0_i16.to_be_bytes());
    record.extend_from_slice(&kind.to_be_bytes());
    record.push(12);
    record.extend_from_slice(&0_i16.to_be_bytes());
    record.extend_from_slice(&COORDINATOR_EPOCH.to_be_bytes());
    record.push(0);
    let zig_zag_length = u8::try_from(record.len() * 2).unwrap_or(u8::MAX);
    record.insert(0, zig_zag_length);
    let info = BatchInfo {
        base_offset: 0,
        size: HEADER_BYTES + record.len(),
        leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: TRANSACTIONAL_BIT | CONTROL_BIT,
        last_offset_delta: 0,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: identity.producer_id,
        producer_epoch: identity.producer_epoch,
        base_sequence: -1,
        record_count: 1,
    };
    rewritten(&info, &record, 1)
}

/// The marker in a control batch; `None` for an emptied batch or another kind of control record.
pub(crate) fn marker_of(batch: &[u8], info: &BatchInfo) -> Option<Marker> {
    if info.record_count < 1 {
        return None;
    }
    // Our own encoding: the key begins after five one-byte fields, its type is the second short.
    match i16_at(batch, HEADER_BYTES + 7)? {
        0 => Some(Marker::Abort),
        1 => Some(Marker::Commit),
        _ => None,
    }
}

fn refresh_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(batch.get(ATTRIBUTES..).unwrap_or_default());
    put(batch, CRC, &crc.to_be_bytes());
}

fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = batch.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    bytes.get(at..at + 2)?.try_into().ok().map(i16::from_be_bytes)
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes)
}
