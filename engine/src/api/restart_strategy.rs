//! What happens after a failure: whether the job is started again, and when.

use std::time::Duration;

/// Decides after each failure of the job. The names and defaults are Flink's, and so is the choice of
/// [`exponential_delay`](Self::exponential_delay) for a job that names none.
///
/// A restart happens inside the process: the job recovers from its last committed checkpoint as it does after a crash. Some
/// failures are never followed by a restart, whatever the strategy: another process owns the job, the state or the ledger is
/// not what it should be, the configuration can not be used, a write to the disk failed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RestartStrategy {
    /// The first failure ends the job.
    NoRestart,
    /// A number of restarts in the life of the process, with the same pause before each.
    FixedDelay {
        /// Restarts before the job fails. Flink's default: 1.
        attempts: u32,
        /// Pause before each. Flink's default: 1 s.
        delay: Duration,
    },
    /// Restarts as long as failures are rare enough.
    FailureRate {
        /// Failures within the interval that are followed by a restart; one more ends the job. Flink's default: 1.
        max_failures_per_interval: u32,
        /// The interval. Flink's default: 1 minute.
        failure_rate_interval: Duration,
        /// Pause before each restart. Flink's default: 1 s.
        delay: Duration,
    },
    /// Restarts with pauses that grow while failures follow each other.
    ExponentialDelay {
        /// Pause before the first restart. Default: 1 s.
        initial_backoff: Duration,
        /// The longest pause. Default: 1 minute.
        max_backoff: Duration,
        /// By how much the pause grows with each failure, at least 1. Default: 1.5.
        backoff_multiplier: f64,
        /// After that long without a failure the pause is the first one again. Default: 1 hour.
        reset_backoff_threshold: Duration,
        /// Which part of the pause is added or taken away at random, from 0 to 1. Default: 0.1.
        jitter_factor: f64,
        /// Restarts before the job fails, counted anew when the pause is reset. Default: any number (`u32::MAX`).
        attempts_before_reset_backoff: u32,
    },
}

impl Default for RestartStrategy {
    fn default() -> Self {
        Self::exponential_delay()
    }
}

impl RestartStrategy {
    /// [`FixedDelay`](Self::FixedDelay).
    #[must_use]
    pub const fn fixed_delay(attempts: u32, delay: Duration) -> Self {
        Self::FixedDelay { attempts, delay }
    }

    /// [`FailureRate`](Self::FailureRate).
    #[must_use]
    pub const fn failure_rate(
        max_failures_per_interval: u32,
        failure_rate_interval: Duration,
        delay: Duration,
    ) -> Self {
        Self::FailureRate { max_failures_per_interval, failure_rate_interval, delay }
    }

    /// [`ExponentialDelay`](Self::ExponentialDelay) with Flink's defaults.
    #[must_use]
    pub const fn exponential_delay() -> Self {
        Self::ExponentialDelay {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            backoff_multiplier: 1.5,
            reset_backoff_threshold: Duration::from_secs(3600),
            jitter_factor: 0.1,
            attempts_before_reset_backoff: u32::MAX,
        }
    }

    /// What is wrong with it, as the end of a sentence about the job.
    pub(crate) fn problem(&self) -> Option<String> {
        match *self {
            Self::NoRestart | Self::FixedDelay { .. } => None,
            Self::FailureRate { failure_rate_interval, .. } if failure_rate_interval.is_zero() => {
                Some("the interval of its failure-rate restart strategy is zero".to_owned())
            }
            Self::FailureRate { .. } => None,
            Self::ExponentialDelay { initial_backoff, max_backoff, .. }
                if initial_backoff > max_backoff =>
            {
                Some(format!(
                    "its restart strategy begins with a pause of {initial_backoff:?}, which is longer than the longest, {max_backoff:?}"
                ))
            }
            Self::ExponentialDelay { backoff_multiplier, .. }
                if backoff_multiplier.is_nan() || backoff_multiplier < 1.0 =>
            {
                Some(format!(
                    "its restart strategy multiplies pauses by {backoff_multiplier}, it has to be at least 1"
                ))
            }
            Self::ExponentialDelay { jitter_factor, .. }
                if !(0.0..=1.0).contains(&jitter_factor) =>
            {
                Some(format!(
                    "its restart strategy has a jitter factor of {jitter_factor}, it has to be from 0 to 1"
                ))
            }
            Self::ExponentialDelay { .. } => None,
        }
    }
}
