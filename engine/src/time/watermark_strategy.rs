//! How a source makes event time out of its elements.

use std::time::Duration;

/// Gives an element its event time.
pub trait TimestampAssigner<T>: Send {
    /// Event time in milliseconds since the epoch; `record_timestamp` is what the record itself carries.
    fn extract_timestamp(&mut self, element: &T, record_timestamp: i64) -> i64;
}

/// Event time is the timestamp of the record. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordTimestamp;

impl<T> TimestampAssigner<T> for RecordTimestamp {
    fn extract_timestamp(&mut self, _element: &T, record_timestamp: i64) -> i64 {
        record_timestamp
    }
}

impl<T, F> TimestampAssigner<T> for F
where
    F: FnMut(&T, i64) -> i64 + Send,
{
    fn extract_timestamp(&mut self, element: &T, record_timestamp: i64) -> i64 {
        self(element, record_timestamp)
    }
}

/// Watermarks and timestamps of one source. Every split has a generator of its own; the source's watermark is the
/// minimum over its splits that are not idle.
#[derive(Clone, Debug)]
pub struct WatermarkStrategy<A = RecordTimestamp> {
    pub(crate) generator: Generator,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) assigner: A,
}

/// What a split's watermark is, given the largest timestamp it has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generator {
    /// Only the end of a bounded source moves event time.
    None,
    /// The largest timestamp, less this bound, less one millisecond.
    BoundedOutOfOrderness { bound_ms: i64 },
}

impl WatermarkStrategy {
    /// A split is idle after this long without data, unless the strategy says otherwise.
    pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

    /// No watermarks until the end of the input.
    #[must_use]
    pub fn no_watermarks() -> Self {
        Self::with_generator(Generator::None)
    }

    /// Timestamps of a split never fall.
    #[must_use]
    pub fn for_monotonous_timestamps() -> Self {
        Self::for_bounded_out_of_orderness(Duration::ZERO)
    }

    /// An element may be older than the newest of its split by at most `bound` (millisecond precision).
    #[must_use]
    pub fn for_bounded_out_of_orderness(bound: Duration) -> Self {
        let bound_ms = i64::try_from(bound.as_millis()).unwrap_or(i64::MAX);
        Self::with_generator(Generator::BoundedOutOfOrderness { bound_ms })
    }

    fn with_generator(generator: Generator) -> Self {
        Self {
            generator,
            idle_timeout: Some(Self::DEFAULT_IDLE_TIMEOUT),
            assigner: RecordTimestamp,
        }
    }
}

impl<A> WatermarkStrategy<A> {
    /// Declares a split idle after `timeout` without data. Only time counts in which the source answered that the split
    /// has nothing to read: an unreachable broker or a stopped process makes no split idle. Default: 60 s.
    #[must_use]
    pub fn with_idleness(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// A split without data holds event time back for ever.
    #[must_use]
    pub fn without_idleness(mut self) -> Self {
        self.idle_timeout = None;
        self
    }

    /// Takes event time from the element instead of from the record.
    pub fn with_timestamp_assigner<T, F>(self, assigner: F) -> WatermarkStrategy<F>
    where
        F: FnMut(&T, i64) -> i64 + Send,
    {
        WatermarkStrategy { generator: self.generator, idle_timeout: self.idle_timeout, assigner }
    }
}

impl Generator {
    /// The watermark of a split whose largest timestamp is `max_timestamp`.
    pub(crate) fn watermark(self, max_timestamp: Option<i64>) -> i64 {
        match (self, max_timestamp) {
            (Self::BoundedOutOfOrderness { bound_ms }, Some(max)) => {
                max.saturating_sub(bound_ms).saturating_sub(1)
            }
            (Self::None, _) | (_, None) => super::WATERMARK_MIN,
        }
    }
}
