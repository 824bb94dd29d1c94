//! Windows in event time.

mod open_windows;
mod time_window;
mod tumbling;

pub(crate) use open_windows::OpenWindows;
pub use time_window::{TimeWindow, WindowResult};
pub use tumbling::{TimestampOutOfRange, TumblingEventTimeWindows};
