//! Time to live of state.
//!
//! A value is stored with the time at which it expires, and whoever reads it compares that with the operator's time. The
//! operator's time is part of the checkpoint and never goes back behind it, and a value that was found expired is deleted
//! in the same checkpoint: what was decided in a checkpoint that counts is not decided otherwise by a replay, a restart, or
//! a clock that was set back. The cleaning of values that nobody reads only saves room.

use std::time::Duration;

use super::{CodecError, StateCodec};
use crate::time::WATERMARK_MIN;

/// How long a state's values live (Flink's `StateTtlConfig`). Of lists and maps every element lives by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTtlConfig {
    ttl_ms: i64,
    update: TtlUpdateType,
    visibility: TtlStateVisibility,
    time: TtlTimeCharacteristic,
}

/// What gives a value its full time to live again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtlUpdateType {
    /// Writing it.
    #[default]
    OnCreateAndWrite,
    /// Writing or reading it. Every read is a change then, which the next checkpoint holds.
    OnReadAndWrite,
}

/// What a read gives of a value that has expired and is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtlStateVisibility {
    /// Nothing.
    #[default]
    NeverReturnExpired,
    /// The value, as long as the cleaning has not removed it.
    ReturnExpiredIfNotCleanedUp,
}

/// Which time passes for a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtlTimeCharacteristic {
    /// The machine's clock, but never before the last checkpoint's.
    #[default]
    ProcessingTime,
    /// The operator's watermark. A value expires that long after the element (or watermark, if that is later) that wrote it.
    EventTime,
}

impl StateTtlConfig {
    /// Values live for `ttl` (whole milliseconds, at least one) after they were written, in processing time.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).max(1);
        Self {
            ttl_ms,
            update: TtlUpdateType::default(),
            visibility: TtlStateVisibility::default(),
            time: TtlTimeCharacteristic::default(),
        }
    }

    /// Sets what prolongs a value's life.
    #[must_use]
    pub fn update_type(mut self, update: TtlUpdateType) -> Self {
        self.update = update;
        self
    }

    /// Sets what is seen of expired values.
    #[must_use]
    pub fn state_visibility(mut self, visibility: TtlStateVisibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// Sets which time counts.
    #[must_use]
    pub fn time_characteristic(mut self, time: TtlTimeCharacteristic) -> Self {
        self.time = time;
        self
    }

    pub(crate) fn is_prolonged_by_reads(self) -> bool {
        self.update == TtlUpdateType::OnReadAndWrite
    }

    pub(crate) fn hides_expired(self) -> bool {
        self.visibility == TtlStateVisibility::NeverReturnExpired
    }

    /// When a value that is written now expires; never 0.
    pub(crate) fn expires_at(self, time: StateTime) -> u64 {
        let written = match self.time {
            TtlTimeCharacteristic::ProcessingTime => time.processing_ms,
            TtlTimeCharacteristic::EventTime => time.watermark.max(time.timestamp),
        };
        u64::try_from(written.saturating_add(self.ttl_ms)).unwrap_or(1).max(1)
    }

    /// Whether a value that expires at `expires_at` has done so.
    pub(crate) fn has_expired(self, expires_at: u64, time: StateTime) -> bool {
        let now = match self.time {
            TtlTimeCharacteristic::ProcessingTime => time.processing_ms,
            TtlTimeCharacteristic::EventTime => time.watermark,
        };
        expires_at != NEVER && u64::try_from(now).is_ok_and(|now| now >= expires_at)
    }
}

/// The times of an operator while it processes one element or timer, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateTime {
    /// The operator's event time.
    pub(crate) watermark: i64,
    /// Event time of the element.
    pub(crate) timestamp: i64,
    /// Processing time, since the epoch.
    pub(crate) processing_ms: i64,
}

impl Default for StateTime {
    fn default() -> Self {
        Self { watermark: WATERMARK_MIN, timestamp: WATERMARK_MIN, processing_ms: 0 }
    }
}

/// The expiry of values that do not expire.
pub(crate) const NEVER: u64 = 0;

/// A value and when it expires. Every value of a user's state is stored like this, so that a time to live can be given to a
/// state, or taken from it, without another layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiring<T> {
    /// Milliseconds since the epoch; [`NEVER`] if it does not.
    pub(crate) expires_at: u64,
    pub(crate) value: T,
}

impl<T: StateCodec> StateCodec for Expiring<T> {
    fn encode(&self, to: &mut Vec<u8>) -> Result<(), CodecError> {
        put_varint(self.expires_at, to);
        self.value.encode(to)
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (expires_at, value) = split_expiry::<T>(bytes)?;
        Ok(Self { expires_at, value: T::decode(value)? })
    }

    fn schema() -> String {
        T::schema()
    }
}

/// Expiry and encoded value of what [`Expiring`] has encoded.
pub(crate) fn split_expiry<T>(bytes: &[u8]) -> Result<(u64, &[u8]), CodecError> {
    take_varint(bytes).ok_or_else(|| CodecError::decode::<T>("its expiry can not be read"))
}

/// Appends a number, seven bits a byte, the lowest first.
pub(crate) fn put_varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

/// A number at the front of `bytes`, and what is behind it.
pub(crate) fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        let shifted = part.checked_shl(u32::try_from(7 * index).ok()?)?;
        if shifted >> (7 * index) != part {
            return None;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_and_endless_ones_are_refused() {
        for number in [0, 1, 127, 128, 300, 1 << 40, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(number, &mut bytes);
            bytes.push(7);
            assert_eq!(take_varint(&bytes), Some((number, &[7][..])));
        }
        assert_eq!(take_varint(&[0x80; 12]), None);
        assert_eq!(take_varint(&[0xff; 9]), None);
        assert_eq!(take_varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
    }

    #[test]
    fn a_value_expires_by_the_time_that_was_chosen() {
        let time = |watermark, processing_ms| StateTime { watermark, timestamp: 40, processing_ms };
        let ttl = StateTtlConfig::new(Duration::from_millis(10));
        let expires_at = ttl.expires_at(time(0, 1_000));
        assert!(!ttl.has_expired(expires_at, time(5_000, 1_009)));
        assert!(ttl.has_expired(expires_at, time(0, 1_010)));
        let ttl = ttl.time_characteristic(TtlTimeCharacteristic::EventTime);
        let expires_at = ttl.expires_at(time(WATERMARK_MIN, 0));
        assert!(!ttl.has_expired(expires_at, time(49, 1 << 50)));
        assert!(ttl.has_expired(expires_at, time(50, 0)));
        assert!(!ttl.has_expired(NEVER, time(50, 0)));
    }
}
