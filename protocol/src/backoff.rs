//! Exponential backoff with jitter from a seed (KIP-580, KIP-601): the same seed gives the same delays.

use std::time::Duration;

/// A small seeded generator for jitter and shuffling. Not for secrets.
#[derive(Clone, Debug)]
pub struct Jitter {
    state: u64,
}

impl Jitter {
    /// A generator that repeats its sequence for the same `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, all 64 bits usable (SplitMix64).
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let drawn = self.next_u64() % u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(drawn).unwrap_or(0)
    }
}

/// Delays that double from `initial` to `max`, each off by up to 20 % so that clients do not move in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentialBackoff {
    initial: Duration,
    max: Duration,
}

impl ExponentialBackoff {
    /// Delays from `initial` (after the first failure) to `max`, both before jitter. `max` below `initial` means `initial`.
    #[must_use]
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max: max.max(initial) }
    }

    /// The delay after `failures` failures in a row; zero without any.
    pub fn delay(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let factor = 1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
        let base = self.initial.saturating_mul(factor).min(self.max);
        let permille = 800 + u32::try_from(jitter.below(401)).unwrap_or(200);
        base.saturating_mul(permille) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_within_twenty_percent() {
        let backoff =
            ExponentialBackoff::new(Duration::from_millis(50), Duration::from_millis(1000));
        let mut jitter = Jitter::new(7);
        assert_eq!(backoff.delay(0, &mut jitter), Duration::ZERO);
        for (failures, base) in [
            (1, 50),
            (2, 100),
            (3, 200),
            (4, 400),
            (5, 800),
            (6, 1000),
            (40, 1000),
            (u32::MAX, 1000),
        ] {
            let delay = backoff.delay(failures, &mut jitter);
            assert!(delay >= Duration::from_millis(base) * 8 / 10, "{failures}: {delay:?}");
            assert!(delay <= Duration::from_millis(base) * 12 / 10, "{failures}: {delay:?}");
        }
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let backoff = ExponentialBackoff::new(Duration::from_millis(50), Duration::from_secs(1));
        let run = |seed| {
            let mut jitter = Jitter::new(seed);
            (1..9).map(|n| backoff.delay(n, &mut jitter)).collect::<Vec<_>>()
        };
        assert_eq!(run(42), run(42));
        assert_ne!(run(42), run(43));
    }
}
