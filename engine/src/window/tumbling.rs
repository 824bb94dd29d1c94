//! Windows of one size that follow each other without gap or overlap.

use std::time::Duration;

use thiserror::Error;

use super::TimeWindow;

/// Assigns every timestamp to the one window of fixed size that contains it. Windows are aligned to the epoch (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TumblingEventTimeWindows {
    size_ms: i64,
    offset_ms: i64,
}

/// A timestamp too near to the ends of time to have a window.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("timestamp {timestamp} has no window of {size_ms} ms; is the timestamp assigner right?")]
pub struct TimestampOutOfRange {
    timestamp: i64,
    size_ms: i64,
}

impl TumblingEventTimeWindows {
    /// Windows of `size`, whole milliseconds; less than one millisecond counts as one.
    #[must_use]
    pub fn of(size: Duration) -> Self {
        Self { size_ms: i64::try_from(size.as_millis()).unwrap_or(i64::MAX).max(1), offset_ms: 0 }
    }

    /// Shifts all windows, for days that do not begin at midnight UTC.
    #[must_use]
    pub fn with_offset(mut self, offset: Duration) -> Self {
        let offset_ms = offset.as_millis() % u128::from(self.size_ms.unsigned_abs());
        self.offset_ms = i64::try_from(offset_ms).unwrap_or(0);
        self
    }

    /// The window of `timestamp`.
    ///
    /// # Errors
    ///
    /// [`TimestampOutOfRange`] if the window would begin or end outside of 64 bits.
    pub fn assign(self, timestamp: i64) -> Result<TimeWindow, TimestampOutOfRange> {
        let window = || {
            let within = timestamp.checked_sub(self.offset_ms)?.rem_euclid(self.size_ms);
            let start = timestamp.checked_sub(within)?;
            Some(TimeWindow { start, end: start.checked_add(self.size_ms)? })
        };
        window().ok_or(TimestampOutOfRange { timestamp, size_ms: self.size_ms })
    }

    /// The window that ends at `end`.
    pub(crate) fn ending_at(self, end: i64) -> TimeWindow {
        TimeWindow { start: end.saturating_sub(self.size_ms), end }
    }

    /// Size and offset as the state's schema names them: with other ones, open windows would not be found again.
    pub(crate) fn schema(self) -> String {
        format!("tumble({} ms, offset {} ms)", self.size_ms, self.offset_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64, end: i64) -> Result<TimeWindow, TimestampOutOfRange> {
        Ok(TimeWindow { start, end })
    }

    #[test]
    fn a_window_contains_its_start_and_not_its_end() {
        let windows = TumblingEventTimeWindows::of(Duration::from_millis(10));
        assert_eq!(windows.assign(20), window(20, 30));
        assert_eq!(windows.assign(29), window(20, 30));
        assert_eq!(windows.assign(30), window(30, 40));
    }

    #[test]
    fn times_before_the_epoch_have_windows_like_others() {
        let windows = TumblingEventTimeWindows::of(Duration::from_millis(10));
        assert_eq!(windows.assign(-1), window(-10, 0));
        assert_eq!(windows.assign(-10), window(-10, 0));
    }

    #[test]
    fn an_offset_shifts_the_windows() {
        let windows = TumblingEventTimeWindows::of(Duration::from_millis(10))
            .with_offset(Duration::from_millis(13));
        assert_eq!(windows.assign(12), window(3, 13));
        assert_eq!(windows.assign(13), window(13, 23));
    }

    #[test]
    fn a_timestamp_at_the_end_of_time_is_an_error() {
        let windows = TumblingEventTimeWindows::of(Duration::from_millis(10));
        assert!(windows.assign(i64::MAX).is_err());
        assert!(windows.assign(i64::MIN).is_err());
    }
}
