//! Event time: who knows how far a stream has come, and the clock that idleness is measured with.

mod clock;
mod split_watermarks;
mod watermark_strategy;
mod watermark_valve;

pub use clock::{Clock, ManualClock, MonotonicClock};
pub(crate) use split_watermarks::SplitWatermarks;
pub use watermark_strategy::{RecordTimestamp, TimestampAssigner, WatermarkStrategy};
pub(crate) use watermark_valve::{ValveOutput, WatermarkValve};

/// Nothing is known about event time yet.
pub const WATERMARK_MIN: i64 = i64::MIN;
/// The end of event time: every window closes.
pub const WATERMARK_MAX: i64 = i64::MAX;

/// Whether a stream takes part in the minimum that makes a merged watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatermarkStatus {
    /// Elements and watermarks flow.
    Active,
    /// Nothing is expected for now: do not wait for this stream.
    Idle,
}
