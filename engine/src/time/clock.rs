//! Processing time as a number that tests can move.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_protocol::Timestamp;
use millstream_protocol_client::surroundings;
use tokio::time::Instant;

/// Where workers read processing time: for idleness, timers and times to live.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Time since the clock's origin; never goes back.
    fn now(&self) -> Timestamp;

    /// Milliseconds since the Unix epoch, as timers in processing time see them. May go back; whoever keeps it does not.
    /// Default: the clock's origin is the epoch.
    fn wall_time_ms(&self) -> i64 {
        i64::try_from(self.now().as_micros() / 1000).unwrap_or(i64::MAX)
    }
}

/// The machine's monotonic clock, and its clock of the day.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO.after(self.origin.elapsed())
    }

    fn wall_time_ms(&self) -> i64 {
        surroundings::wall_time_ms()
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    micros: AtomicU64,
}

impl ManualClock {
    /// A clock at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}
