//! A window and what comes out of it.

/// A half-open interval of event time in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeWindow {
    /// First millisecond.
    pub start: i64,
    /// First millisecond after the window.
    pub end: i64,
}

impl TimeWindow {
    /// The window's last millisecond. The window closes when the watermark reaches it.
    #[must_use]
    pub fn max_timestamp(self) -> i64 {
        self.end - 1
    }
}

/// The result of one key in one window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowResult<K, V> {
    /// The key.
    pub key: K,
    /// The window.
    pub window: TimeWindow,
    /// The aggregate's result.
    pub value: V,
}
