//! Random choices that can be repeated.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millstream_protocol::backoff::Jitter;

/// A generator (SplitMix64) whose seed is known.
#[derive(Clone, Debug)]
pub struct Random(Jitter);

impl Random {
    /// Seeded by `MILLSTREAM_SEED` if that is set, else by the time of day. Prints the seed, so that a failure can be repeated.
    ///
    /// # Panics
    ///
    /// If `MILLSTREAM_SEED` is no number.
    #[must_use]
    pub fn from_environment(test_name: &str) -> Self {
        let seed = match std::env::var("MILLSTREAM_SEED") {
            Ok(text) => text.parse().expect("MILLSTREAM_SEED is a number"),
            Err(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs() << 20),
        };
        eprintln!("{test_name}: repeat with MILLSTREAM_SEED={seed}");
        Self::new(seed)
    }

    /// Seeded by a number.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Jitter::new(seed))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number of the range; its start if it is empty.
    pub fn number(&mut self, range: Range<u64>) -> u64 {
        let span = range.end.saturating_sub(range.start).max(1);
        range.start + self.next_u64() % span
    }

    /// A time of the range, in whole microseconds.
    pub fn time(&mut self, range: Range<Duration>) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.number(micros(range.start)..micros(range.end)))
    }

    /// So many random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next_u64().to_le_bytes()[0]).collect()
    }
}
