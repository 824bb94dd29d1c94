//! Time as a number: machines are told what time it is, they never ask.

use std::time::Duration;

/// Microseconds since an origin that the driver chooses (its start). Monotonic, never wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The driver's start.
    pub const ZERO: Self = Self(0);

    /// A time `micros` microseconds after the driver's start.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the driver's start.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time `delay` later; saturates instead of overflowing.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
