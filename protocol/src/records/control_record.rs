//! Transaction markers (KIP-98): the one record of a control batch.

use bytes::Bytes;

use super::batch_header::{BATCH_HEADER_BYTES, BatchHeader, CONTROL, TRANSACTIONAL};
use super::error::RecordsError;
use super::record_block::RecordView;
use super::sealed_batch::seal;
use super::varint::{Prefix, varint_bytes};
use crate::ids::ProducerIdAndEpoch;

/// What a control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlRecordType {
    /// The producer's transaction is aborted; its records before this one do not exist.
    Abort,
    /// The producer's transaction is committed.
    Commit,
    /// A type of KRaft's own log, or of a later version. Readers pass over it.
    Other(i16),
}

impl ControlRecordType {
    /// The id in the record's key.
    #[must_use]
    pub const fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(id) => id,
        }
    }

    const fn from_id(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        }
    }
}

/// A parsed control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControlRecord {
    /// What it says.
    pub record_type: ControlRecordType,
    /// Epoch of the transaction coordinator that wrote it, if the value has one.
    pub coordinator_epoch: Option<i32>,
}

impl ControlRecord {
    /// Key: version i16, type i16. Value of a marker: version i16, coordinator epoch i32. Later
    /// versions may append fields, so longer keys and values are fine; a short value only loses
    /// the epoch.
    pub(super) fn parse(
        header: &BatchHeader,
        record: &RecordView<'_>,
    ) -> Result<Self, RecordsError> {
        let invalid = |reason| RecordsError::InvalidControlRecord {
            base_offset: header.base_offset,
            batch_bytes: header.batch_bytes(),
            reason,
        };
        let key = record.key.and_then(|key| key.first_chunk::<4>());
        let [version_high, version_low, type_high, type_low] =
            *key.ok_or_else(|| invalid("its key is shorter than 4 bytes"))?;
        if i16::from_be_bytes([version_high, version_low]) < 0 {
            return Err(invalid("its key has a negative version"));
        }
        let coordinator_epoch = record
            .value
            .and_then(|value| value.get(2..))
            .and_then(|rest| rest.first_chunk::<4>())
            .map(|epoch| i32::from_be_bytes(*epoch));
        let record_type = ControlRecordType::from_id(i16::from_be_bytes([type_high, type_low]));
        Ok(Self { record_type, coordinator_epoch })
    }
}

/// The control batch that ends `producer`'s transaction, as a partition leader writes it. Its base
/// offset is 0 until [`assign_offsets`](super::assign_offsets()). `timestamp` is in milliseconds
/// since the Unix epoch.
#[must_use]
pub fn control_batch(
    record_type: ControlRecordType,
    producer: ProducerIdAndEpoch,
    coordinator_epoch: i32,
    timestamp: i64,
) -> Bytes {
    let mut key = [0; 4];
    key[2..].copy_from_slice(&record_type.id().to_be_bytes());
    let mut value = [0; 6];
    value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());

    // Attributes, both deltas and the header count are one zero byte each.
    let body_bytes = 4 + 2 * varint_bytes(4) + key.len() + value.len();
    let mut fixed = Prefix::new();
    fixed.varint(body_bytes as i32);
    fixed.byte(0);
    fixed.varlong(0);
    fixed.varint(0);
    fixed.varint(key.len() as i32);

    let mut batch = Vec::with_capacity(BATCH_HEADER_BYTES + 1 + body_bytes);
    batch.resize(BATCH_HEADER_BYTES, 0);
    batch.extend_from_slice(fixed.as_slice());
    batch.extend_from_slice(&key);
    let mut value_length = Prefix::new();
    value_length.varint(value.len() as i32);
    batch.extend_from_slice(value_length.as_slice());
    batch.extend_from_slice(&value);
    batch.push(0);

    let header = BatchHeader {
        base_offset: 0,
        batch_length: 0,
        partition_leader_epoch: -1,
        crc: 0,
        attributes: TRANSACTIONAL | CONTROL,
        last_offset_delta: 0,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        base_sequence: -1,
        record_count: 1,
    };
    seal(header, batch).bytes()
}
