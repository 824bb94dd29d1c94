//! The 61 bytes in front of every batch.

use super::compression::Compression;
use super::error::RecordsError;
use crate::ids::ProducerIdAndEpoch;

/// Bytes of a batch before its records.
pub const BATCH_HEADER_BYTES: usize = 61;

/// Bytes of a batch that its length field does not count: base offset and the field itself.
pub(super) const LOG_OVERHEAD_BYTES: usize = 12;
/// Offset of the leader epoch, which brokers rewrite; like the base offset it is outside the CRC.
pub(super) const LEADER_EPOCH_AT: usize = 12;
/// Offset of the magic byte. All three message formats have it at the same place.
pub(super) const MAGIC_AT: usize = 16;
/// Offset of the CRC-32C.
pub(super) const CRC_AT: usize = 17;
/// Offset of the attributes, where the checksummed part begins.
pub(super) const ATTRIBUTES_AT: usize = 21;
/// Offset of `max_timestamp`.
pub(super) const MAX_TIMESTAMP_AT: usize = 35;
/// Offset of `producer_id`, followed by epoch and base sequence.
pub(super) const PRODUCER_ID_AT: usize = 43;

/// The format version this module reads and writes.
pub(super) const MAGIC: i8 = 2;

/// Bits of `attributes` that hold the codec.
pub(super) const CODEC_MASK: i16 = 0b111;
/// Set if timestamps were given by the broker.
pub(super) const LOG_APPEND_TIME: i16 = 1 << 3;
/// Set if the batch is part of a transaction.
pub(super) const TRANSACTIONAL: i16 = 1 << 4;
/// Set if the batch holds a marker, not data.
pub(super) const CONTROL: i16 = 1 << 5;
/// Set if `base_timestamp` is the time at which tombstones may go (KIP-534).
pub(super) const DELETE_HORIZON: i16 = 1 << 6;

/// Who gave the records their timestamps (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer; each record has its own.
    #[default]
    CreateTime,
    /// The broker at append; all records of a batch have the batch's `max_timestamp`.
    LogAppendTime,
}

/// Header of a version 2 batch (KIP-98). Fields are as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record when the batch was written; compaction may have removed it.
    pub base_offset: i64,
    /// Bytes after this field: the batch's size minus 12.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch, -1 if none has. Not checksummed.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything from the attributes to the end.
    pub crc: u32,
    /// Codec in bits 0 to 2, then timestamp type, transactional, control, delete horizon.
    pub attributes: i16,
    /// Last offset minus base offset. Compaction keeps it, even if that record is gone.
    pub last_offset_delta: i32,
    /// What record deltas are relative to: the first timestamp, or the delete horizon (KIP-534).
    pub base_timestamp: i64,
    /// Largest timestamp, milliseconds since the Unix epoch.
    pub max_timestamp: i64,
    /// Id of an idempotent producer, or -1.
    pub producer_id: i64,
    /// Epoch of that producer, or -1.
    pub producer_epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Records present. May be 0 after compaction.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header from the start of `input`, which may be longer. Lengths, magic and fields
    /// are checked, the CRC is not.
    ///
    /// # Errors
    ///
    /// [`RecordsError::Truncated`], [`RecordsError::InvalidLength`],
    /// [`RecordsError::LegacyMessageFormat`], [`RecordsError::UnknownMagic`] or
    /// [`RecordsError::InvalidHeader`].
    pub fn parse(input: &[u8]) -> Result<Self, RecordsError> {
        let header = Self::read(input)?;
        header.validate()?;
        Ok(header)
    }

    /// Reads a header whose field values are not checked yet.
    pub(super) fn read(input: &[u8]) -> Result<Self, RecordsError> {
        let claim = BatchClaim::read(input).ok_or(RecordsError::Truncated {
            base_offset: -1,
            batch_bytes: BATCH_HEADER_BYTES,
            available_bytes: input.len(),
        })?;
        claim.check_magic()?;
        let cut = RecordsError::Truncated {
            base_offset: claim.base_offset,
            batch_bytes: claim.batch_bytes()?,
            available_bytes: input.len(),
        };
        let Some(fields) = input.first_chunk::<BATCH_HEADER_BYTES>() else { return Err(cut) };
        Ok(Self {
            base_offset: claim.base_offset,
            batch_length: claim.batch_length,
            partition_leader_epoch: i32::from_be_bytes(field(fields, LEADER_EPOCH_AT)),
            crc: u32::from_be_bytes(field(fields, CRC_AT)),
            attributes: i16::from_be_bytes(field(fields, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(field(fields, 23)),
            base_timestamp: i64::from_be_bytes(field(fields, 27)),
            max_timestamp: i64::from_be_bytes(field(fields, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(field(fields, PRODUCER_ID_AT)),
            producer_epoch: i16::from_be_bytes(field(fields, 51)),
            base_sequence: i32::from_be_bytes(field(fields, 53)),
            record_count: i32::from_be_bytes(field(fields, 57)),
        })
    }

    /// Refuses values no writer may produce, so that arithmetic on the fields cannot overflow.
    pub(super) fn validate(&self) -> Result<(), RecordsError> {
        if self.record_count < 0 {
            return Err(self.invalid("record_count", self.record_count.into()));
        }
        if self.last_offset_delta < 0 {
            return Err(self.invalid("last_offset_delta", self.last_offset_delta.into()));
        }
        // The next offset must exist too, so the last offset has to stay below the maximum.
        let last = self.base_offset.checked_add(self.last_offset_delta.into());
        if self.base_offset < 0 || last.is_none_or(|last| last == i64::MAX) {
            return Err(self.invalid("base_offset", self.base_offset));
        }
        Ok(())
    }

    /// An error about one field of this header.
    pub(super) fn invalid(&self, field: &'static str, value: i64) -> RecordsError {
        RecordsError::InvalidHeader {
            base_offset: self.base_offset,
            batch_bytes: self.batch_bytes(),
            field,
            value,
        }
    }

    /// Writes the header to the first 61 bytes of `batch`.
    pub(super) fn write(&self, batch: &mut [u8]) {
        put(batch, 0, &self.base_offset.to_be_bytes());
        put(batch, 8, &self.batch_length.to_be_bytes());
        put(batch, LEADER_EPOCH_AT, &self.partition_leader_epoch.to_be_bytes());
        put(batch, MAGIC_AT, &MAGIC.to_be_bytes());
        put(batch, CRC_AT, &self.crc.to_be_bytes());
        put(batch, ATTRIBUTES_AT, &self.attributes.to_be_bytes());
        put(batch, 23, &self.last_offset_delta.to_be_bytes());
        put(batch, 27, &self.base_timestamp.to_be_bytes());
        put(batch, MAX_TIMESTAMP_AT, &self.max_timestamp.to_be_bytes());
        put(batch, PRODUCER_ID_AT, &self.producer_id.to_be_bytes());
        put(batch, 51, &self.producer_epoch.to_be_bytes());
        put(batch, 53, &self.base_sequence.to_be_bytes());
        put(batch, 57, &self.record_count.to_be_bytes());
    }

    /// Size of the whole batch.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        usize::try_from(self.batch_length).unwrap_or(0).saturating_add(LOG_OVERHEAD_BYTES)
    }

    /// Offset of the last record when the batch was written.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(self.last_offset_delta.into())
    }

    /// Where reading goes on after this batch. Not "last record + 1": compaction may have removed
    /// the last record, or all of them.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Codec of the records.
    ///
    /// # Errors
    ///
    /// [`RecordsError::UnknownCodec`] for ids 5 to 7.
    pub fn compression(&self) -> Result<Compression, RecordsError> {
        let codec = (self.attributes & CODEC_MASK) as u8;
        Compression::from_id(codec).ok_or(RecordsError::UnknownCodec {
            base_offset: self.base_offset,
            batch_bytes: self.batch_bytes(),
            codec,
        })
    }

    /// Who gave the timestamps.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the batch holds a marker instead of data. Control records are never delivered.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// When tombstones of the batch may be removed, milliseconds since the Unix epoch (KIP-534).
    #[must_use]
    pub const fn delete_horizon_ms(&self) -> Option<i64> {
        // KIP-534: compaction keeps the horizon where the first timestamp was.
        if self.attributes & DELETE_HORIZON == 0 { None } else { Some(self.base_timestamp) }
    }

    /// Identity of the producer; [`ProducerIdAndEpoch::NONE`] if it was not idempotent.
    #[must_use]
    pub const fn producer(&self) -> ProducerIdAndEpoch {
        ProducerIdAndEpoch { producer_id: self.producer_id, producer_epoch: self.producer_epoch }
    }

    /// Sequence number of the last record, -1 if the batch has none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        increment_sequence(self.base_sequence, self.last_offset_delta)
    }
}

/// `sequence` moved on by `increment`, both at least 0. After `i32::MAX` comes 0.
#[must_use]
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(increment);
    (sum & i64::from(i32::MAX)) as i32
}

/// The start of a batch or legacy message: enough to know what it is and where it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchClaim {
    pub(super) base_offset: i64,
    pub(super) batch_length: i32,
    pub(super) magic: i8,
}

impl BatchClaim {
    /// Bytes needed to read a claim.
    pub(super) const BYTES: usize = MAGIC_AT + 1;

    /// `None` if `input` is too short to tell.
    pub(super) fn read(input: &[u8]) -> Option<Self> {
        let start = input.first_chunk::<{ Self::BYTES }>()?;
        Some(Self {
            base_offset: i64::from_be_bytes(field(start, 0)),
            batch_length: i32::from_be_bytes(field(start, 8)),
            magic: i8::from_be_bytes(field(start, MAGIC_AT)),
        })
    }

    /// Size of the whole batch. The smallest legacy message has 14 bytes after its length field.
    pub(super) fn batch_bytes(&self) -> Result<usize, RecordsError> {
        let smallest = if self.magic == MAGIC {
            BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
        } else {
            SMALLEST_LEGACY_MESSAGE_BYTES
        };
        match usize::try_from(self.batch_length) {
            Ok(length) if length >= smallest => Ok(length.saturating_add(LOG_OVERHEAD_BYTES)),
            _ => Err(RecordsError::InvalidLength {
                base_offset: self.base_offset,
                batch_length: self.batch_length,
            }),
        }
    }

    /// Whether it is a message of format 0 or 1.
    pub(super) const fn is_legacy(&self) -> bool {
        matches!(self.magic, 0 | 1)
    }

    /// Refuses everything but version 2.
    pub(super) fn check_magic(&self) -> Result<(), RecordsError> {
        match self.magic {
            MAGIC => Ok(()),
            magic @ 0..=1 => {
                Err(RecordsError::LegacyMessageFormat { offset: self.base_offset, magic })
            }
            magic => Err(RecordsError::UnknownMagic {
                base_offset: self.base_offset,
                batch_bytes: self.batch_bytes().unwrap_or(0),
                magic,
            }),
        }
    }
}

/// The `N` bytes at `at`; zeros past the end, which no caller reaches.
fn field<const N: usize>(input: &[u8], at: usize) -> [u8; N] {
    debug_assert!(at + N <= input.len(), "fields lie inside the header");
    input.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Writes `value` at `at`.
pub(super) fn put(batch: &mut [u8], at: usize, value: &[u8]) {
    debug_assert!(at + value.len() <= batch.len(), "fields lie inside the header");
    if let Some(slot) = batch.get_mut(at..at + value.len()) {
        slot.copy_from_slice(value);
    }
}

/// CRC, magic, attributes, key length, value length of a version 0 message.
const SMALLEST_LEGACY_MESSAGE_BYTES: usize = 14;
