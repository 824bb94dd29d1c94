//! What a broker demands of a client's batch before it takes it (`LogValidator`, KIP-467).

use std::time::Duration;

use bytes::Bytes;
use millstream_protocol::ErrorCode;
use millstream_protocol::records::{BatchView, DecodeLimits, Decompressor};

use super::batch::{self, BatchInfo};

/// The topic's rules for appends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppendRules {
    /// Largest batch in bytes, as compressed (`max.message.bytes`).
    pub(crate) max_message_bytes: usize,
    /// Every record needs a key.
    pub(crate) compacted: bool,
    /// Timestamps are the broker's (`message.timestamp.type=LogAppendTime`).
    pub(crate) log_append_time: bool,
    /// How far a record's timestamp may lie behind the clock (`message.timestamp.before.max.ms`).
    pub(crate) timestamp_before_max: Duration,
    /// How far a record's timestamp may lie ahead of the clock (`message.timestamp.after.max.ms`).
    pub(crate) timestamp_after_max: Duration,
}

/// Why a batch was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) error_code: ErrorCode,
    /// Index in the batch and reason of each offending record; empty if the whole batch is at fault.
    pub(crate) records: Vec<(i32, String)>,
    pub(crate) message: String,
}

impl Refusal {
    fn whole(error_code: ErrorCode, message: impl Into<String>) -> Self {
        Self { error_code, records: Vec::new(), message: message.into() }
    }
}

/// Checks the one batch in `records` against `rules`; returns it as it will be stored, but for its place.
pub(crate) fn validate_batch(
    records: &Bytes,
    produce_version: i16,
    rules: &AppendRules,
    wall_clock_ms: i64,
) -> Result<(BatchInfo, Vec<u8>), Refusal> {
    let info = one_batch(records, produce_version)?;
    if info.size > rules.max_message_bytes {
        return Err(Refusal::whole(
            ErrorCode::MESSAGE_TOO_LARGE,
            format!(
                "batch of {} bytes, max.message.bytes is {}",
                info.size, rules.max_message_bytes
            ),
        ));
    }
    if !batch::crc_is_right(records, &info) {
        return Err(Refusal::whole(ErrorCode::CORRUPT_MESSAGE, "checksum of the batch is wrong"));
    }
    header_rules(&info)?;
    let max_timestamp = record_rules(records, &info, rules, wall_clock_ms)?;
    let mut stored = records.to_vec();
    if rules.log_append_time {
        batch::set_max_timestamp(&mut stored, wall_clock_ms, true);
    } else if max_timestamp != info.max_timestamp {
        // The broker trusts the records, not what the header claims of them.
        batch::set_max_timestamp(&mut stored, max_timestamp, false);
    }
    Ok((info, stored))
}

fn one_batch(records: &Bytes, produce_version: i16) -> Result<BatchInfo, Refusal> {
    let invalid = |message: &str| Refusal::whole(ErrorCode::INVALID_RECORD, message);
    let Some(info) = BatchInfo::parse(records) else {
        return Err(Refusal::whole(ErrorCode::CORRUPT_MESSAGE, "no whole batch"));
    };
    if info.magic != 2 {
        return Err(invalid("only batches of magic 2 are taken"));
    }
    if info.size != records.len() {
        return Err(invalid("exactly one batch per partition and request"));
    }
    match info.codec() {
        // KIP-110: zstd needs Produce v7.
        4 if produce_version < 7 => Err(Refusal::whole(
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            "zstd needs Produce version 7",
        )),
        0..=4 => Ok(info),
        _ => Err(Refusal::whole(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, "unknown codec")),
    }
}

fn header_rules(info: &BatchInfo) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::whole(ErrorCode::INVALID_RECORD, message));
    if info.base_offset != 0 {
        return invalid("base offset of a produced batch must be 0");
    }
    if info.record_count <= 0
        || i64::from(info.last_offset_delta) != i64::from(info.record_count) - 1
    {
        return invalid("last offset delta must be the record count less one");
    }
    if info.is_control() {
        return invalid("clients may not write control batches");
    }
    if info.has_producer() && info.base_sequence < 0 {
        return invalid("a batch with a producer id needs a sequence");
    }
    if info.is_transactional() && !info.has_producer() {
        return invalid("a transactional batch needs a producer id");
    }
    Ok(())
}

/// Walks the records; returns their largest timestamp.
fn record_rules(
    records: &Bytes,
    info: &BatchInfo,
    rules: &AppendRules,
    wall_clock_ms: i64,
) -> Result<i64, Refusal> {
    let corrupt = |error: &dyn std::fmt::Display| {
        Refusal::whole(ErrorCode::CORRUPT_MESSAGE, error.to_string())
    };
    let view = BatchView::parse(records.clone()).map_err(|error| corrupt(&error))?;
    let block = view
        .records(&DecodeLimits::default(), &mut Decompressor::new())
        .map_err(|error| corrupt(&error))?;
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let earliest = wall_clock_ms.saturating_sub(millis(rules.timestamp_before_max));
    let latest = wall_clock_ms.saturating_add(millis(rules.timestamp_after_max));
    let mut max_timestamp = -1;
    let mut count: i32 = 0;
    let mut faults = Vec::new();
    let mut error_code = ErrorCode::INVALID_RECORD;
    for record in block.iter() {
        let record = record.map_err(|error| corrupt(&error))?;
        if record.offset != i64::from(count) {
            return Err(Refusal::whole(
                ErrorCode::INVALID_RECORD,
                "offsets of the records are not 0, 1, 2, …",
            ));
        }
        if rules.compacted && record.key.is_none() {
            faults.push((count, "a compacted topic needs a key in every record".to_owned()));
        }
        let out_of_range = record.timestamp < earliest || record.timestamp > latest;
        if !rules.log_append_time && out_of_range {
            error_code = ErrorCode::INVALID_TIMESTAMP;
            faults
                .push((count, format!("timestamp {} is too far from the clock", record.timestamp)));
        }
        max_timestamp = max_timestamp.max(record.timestamp);
        count = count.saturating_add(1);
    }
    if count != info.record_count {
        return Err(Refusal::whole(
            ErrorCode::CORRUPT_MESSAGE,
            "record count of the header is wrong",
        ));
    }
    if faults.is_empty() {
        return Ok(max_timestamp);
    }
    Err(Refusal {
        error_code,
        records: faults,
        message: "one or more records have been rejected".to_owned(),
    })
}
