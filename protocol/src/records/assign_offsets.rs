//! The broker's side of a batch: accept it from a producer, give it its place in the log.

use bytes::{Bytes, BytesMut};

use super::batch_header::{
    ATTRIBUTES_AT, BatchHeader, CRC_AT, LEADER_EPOCH_AT, LOG_APPEND_TIME, MAX_TIMESTAMP_AT, put,
};
use super::batch_view::{BatchView, checksum};
use super::error::RecordsError;

/// Checks the records of one partition of a Produce request (v3 and later) as a broker does before
/// it appends them: exactly one whole batch, checksum good, at least one record, offsets without
/// gaps, no control batch, a known codec, and a sequence if there is a producer id. Records are
/// not decompressed.
///
/// # Errors
///
/// What [`BatchView::parse`] finds, [`RecordsError::UnknownCodec`], or
/// [`RecordsError::InvalidHeader`] naming the field.
pub fn validate_produced_batch(records: Bytes) -> Result<BatchView, RecordsError> {
    // Messages of older formats can be read, and are not to be written any more.
    BatchHeader::parse(&records)?;
    let batch = BatchView::parse(records)?;
    let header = batch.header();
    header.compression()?;
    if header.record_count == 0 {
        return Err(header.invalid("record_count", 0));
    }
    if header.last_offset_delta != header.record_count - 1 {
        return Err(header.invalid("last_offset_delta", header.last_offset_delta.into()));
    }
    if header.is_control() {
        return Err(header.invalid("attributes", header.attributes.into()));
    }
    let has_producer = header.producer_id >= 0;
    if header.is_transactional() && !has_producer {
        return Err(header.invalid("producer_id", header.producer_id));
    }
    if has_producer && header.base_sequence < 0 {
        return Err(header.invalid("base_sequence", header.base_sequence.into()));
    }
    if has_producer && header.producer_epoch < 0 {
        return Err(header.invalid("producer_epoch", header.producer_epoch.into()));
    }
    Ok(batch)
}

/// Gives a checked batch its base offset and leader epoch. Both are outside the checksum, so this
/// touches 12 bytes; they are changed in place if `batch` is not shared, else in a copy.
///
/// # Errors
///
/// What [`BatchView::parse`] finds except a wrong checksum, which is not looked at again, and
/// [`RecordsError::InvalidHeader`] if the offsets would overflow.
pub fn assign_offsets(
    batch: Bytes,
    base_offset: i64,
    leader_epoch: i32,
) -> Result<Bytes, RecordsError> {
    let mut header = super::BatchHeader::parse(&batch)?;
    header.base_offset = base_offset;
    header.validate()?;
    let mut batch = unshared(batch);
    put(&mut batch, 0, &base_offset.to_be_bytes());
    put(&mut batch, LEADER_EPOCH_AT, &leader_epoch.to_be_bytes());
    Ok(batch.freeze())
}

/// Gives all records of a batch the time of their append, milliseconds since the Unix epoch, as a
/// topic with `message.timestamp.type=LogAppendTime` wants it. The checksum is renewed; records
/// are not touched.
///
/// # Errors
///
/// What [`BatchView::parse`] finds except a wrong checksum.
pub fn set_log_append_time(batch: Bytes, timestamp: i64) -> Result<Bytes, RecordsError> {
    let header = super::BatchHeader::parse(&batch)?;
    let mut batch = unshared(batch);
    put(&mut batch, ATTRIBUTES_AT, &(header.attributes | LOG_APPEND_TIME).to_be_bytes());
    put(&mut batch, MAX_TIMESTAMP_AT, &timestamp.to_be_bytes());
    let crc = checksum(&batch);
    put(&mut batch, CRC_AT, &crc.to_be_bytes());
    Ok(batch.freeze())
}

/// The same bytes, writable: copied only if somebody else holds them too.
pub(super) fn unshared(bytes: Bytes) -> BytesMut {
    bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(shared.as_ref()))
}
