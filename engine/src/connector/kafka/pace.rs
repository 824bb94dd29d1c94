//! When a source is in no hurry: its output is seen with the next commit, so what is read long before that is read in few,
//! larger answers. At a low rate requests cost more than records do.

use std::time::Duration;

use millstream_protocol_client::ClientConfig;

/// Bytes that are worth an answer at any time.
const MIN_BYTES: i32 = 64 * 1024;

/// A record is read so soon in any case: functions may look at the time.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Before the next barrier is expected every byte is worth an answer for a tenth of the interval, within these bounds: a broker
/// may be late by some milliseconds, and what misses the barrier waits for the next one.
const HURRY_MIN: Duration = Duration::from_millis(10);
const HURRY_MAX: Duration = Duration::from_millis(25);

/// How the source of a job that commits at an interval reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadPace {
    /// After a barrier there is no hurry for so long.
    pub(super) calm: Duration,
    pub(super) min_bytes: i32,
    pub(super) max_wait: Duration,
}

impl ReadPace {
    /// `None` if every byte is worth an answer at any time: commits are close together, or the user has said what is
    /// (`fetch.min.bytes`, `fetch.max.wait.ms`).
    pub(super) fn new(checkpoint_interval: Duration, config: &ClientConfig) -> Option<Self> {
        let hurry = (checkpoint_interval / 10).clamp(HURRY_MIN, HURRY_MAX);
        let calm = checkpoint_interval.checked_sub(hurry).filter(|calm| *calm > hurry)?;
        if config.is_explicit("fetch.min.bytes") || config.is_explicit("fetch.max.wait.ms") {
            return None;
        }
        Some(Self { calm, min_bytes: MIN_BYTES, max_wait: WAIT_MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_hurry_for_most_of_the_time_between_two_barriers() {
        let config = ClientConfig::new("localhost:9092");
        let calm = |millis| {
            ReadPace::new(Duration::from_millis(millis), &config).map(|pace| pace.calm.as_millis())
        };
        assert_eq!([10, 20, 21, 100, 1000].map(calm), [None, None, Some(11), Some(90), Some(975)]);
    }

    #[test]
    fn what_the_user_says_counts() {
        for property in ["fetch.min.bytes=1", "fetch.max.wait.ms=500"] {
            let config = ClientConfig::new("localhost:9092").with([property]).unwrap();
            assert_eq!(ReadPace::new(Duration::from_secs(1), &config), None, "{property}");
        }
    }
}
