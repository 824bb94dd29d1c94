//! Settings by Flink's option names, as they stand in a `config.yaml`.

use std::time::Duration;

use thiserror::Error;

use super::{ExecutionConfig, RestartStrategy};

/// An option can not be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no such option.
    #[error("unknown option {name:?}{}", nearest.map(|known| format!(", did you mean {known}?")).unwrap_or_default())]
    Unknown {
        /// The name.
        name: String,
        /// The known one that is most like it, if any is.
        nearest: Option<&'static str>,
    },
    /// The value is not one of the option's.
    #[error("option {name}={value:?}: {expected}")]
    InvalidValue {
        /// The option.
        name: &'static str,
        /// The value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The option belongs to another restart strategy than the one chosen.
    #[error(
        "option {name} belongs to restart-strategy.type={belongs_to}, which has to be set before it"
    )]
    OtherStrategy {
        /// The option.
        name: &'static str,
        /// The strategy that has it.
        belongs_to: &'static str,
    },
}

/// Every option, in the order of its documentation.
const NAMES: [&str; 21] = [
    INTERVAL,
    TIMEOUT,
    MIN_PAUSE,
    TOLERABLE_FAILED,
    DIRTY_BYTES,
    NUM_RETAINED,
    HISTORY,
    PARALLELISM,
    RECORD_FAILURES,
    STRATEGY,
    FIXED_ATTEMPTS,
    FIXED_DELAY,
    RATE_FAILURES,
    RATE_INTERVAL,
    RATE_DELAY,
    INITIAL_BACKOFF,
    MAX_BACKOFF,
    MULTIPLIER,
    RESET_THRESHOLD,
    JITTER,
    EXPONENTIAL_ATTEMPTS,
];

const INTERVAL: &str = "execution.checkpointing.interval";
const TIMEOUT: &str = "execution.checkpointing.timeout";
const MIN_PAUSE: &str = "execution.checkpointing.min-pause";
const TOLERABLE_FAILED: &str = "execution.checkpointing.tolerable-failed-checkpoints";
const DIRTY_BYTES: &str = "execution.checkpointing.dirty-bytes";
const NUM_RETAINED: &str = "execution.checkpointing.num-retained";
const HISTORY: &str = "web.checkpoints.history";
const PARALLELISM: &str = "parallelism.default";
const RECORD_FAILURES: &str = "restart-strategy.same-record-failures";
const STRATEGY: &str = "restart-strategy.type";
const FIXED_ATTEMPTS: &str = "restart-strategy.fixed-delay.attempts";
const FIXED_DELAY: &str = "restart-strategy.fixed-delay.delay";
const RATE_FAILURES: &str = "restart-strategy.failure-rate.max-failures-per-interval";
const RATE_INTERVAL: &str = "restart-strategy.failure-rate.failure-rate-interval";
const RATE_DELAY: &str = "restart-strategy.failure-rate.delay";
const INITIAL_BACKOFF: &str = "restart-strategy.exponential-delay.initial-backoff";
const MAX_BACKOFF: &str = "restart-strategy.exponential-delay.max-backoff";
const MULTIPLIER: &str = "restart-strategy.exponential-delay.backoff-multiplier";
const RESET_THRESHOLD: &str = "restart-strategy.exponential-delay.reset-backoff-threshold";
const JITTER: &str = "restart-strategy.exponential-delay.jitter-factor";
const EXPONENTIAL_ATTEMPTS: &str =
    "restart-strategy.exponential-delay.attempts-before-reset-backoff";

/// A setting changed by its option name.
pub(super) fn set(
    config: &mut ExecutionConfig,
    name: &str,
    value: &str,
) -> Result<(), OptionError> {
    let checkpoints = &mut config.checkpoints;
    match name {
        INTERVAL => config.checkpoint_interval = duration(INTERVAL, value)?,
        TIMEOUT => checkpoints.timeout = duration(TIMEOUT, value)?,
        MIN_PAUSE => checkpoints.min_pause = duration(MIN_PAUSE, value)?,
        TOLERABLE_FAILED => {
            checkpoints.tolerable_failed_checkpoints = count(TOLERABLE_FAILED, value)?;
        }
        DIRTY_BYTES => checkpoints.dirty_bytes_max = bytes(DIRTY_BYTES, value)?,
        NUM_RETAINED => checkpoints.num_retained = at_least_one(NUM_RETAINED, value)?,
        HISTORY => checkpoints.history_size = size(HISTORY, value)?,
        PARALLELISM => config.parallelism = at_least_one(PARALLELISM, value)?,
        RECORD_FAILURES => config.same_record_failures = count(RECORD_FAILURES, value)?,
        STRATEGY => config.restart_strategy = strategy(value)?,
        _ => return set_strategy(&mut config.restart_strategy, name, value),
    }
    Ok(())
}

/// Flink's spellings of a strategy, with Flink's defaults for what it needs.
fn strategy(value: &str) -> Result<RestartStrategy, OptionError> {
    let second = Duration::from_secs(1);
    match value {
        "none" | "off" | "disable" => Ok(RestartStrategy::NoRestart),
        "fixed-delay" | "fixeddelay" => Ok(RestartStrategy::fixed_delay(1, second)),
        "failure-rate" | "failurerate" => {
            Ok(RestartStrategy::failure_rate(1, Duration::from_secs(60), second))
        }
        "exponential-delay" | "exponentialdelay" => Ok(RestartStrategy::exponential_delay()),
        _ => {
            let expected = "one of none, fixed-delay, failure-rate, exponential-delay";
            Err(OptionError::InvalidValue { name: STRATEGY, value: value.to_owned(), expected })
        }
    }
}

fn set_strategy(chosen: &mut RestartStrategy, name: &str, value: &str) -> Result<(), OptionError> {
    use RestartStrategy::{ExponentialDelay, FailureRate, FixedDelay};
    match (name, chosen) {
        (FIXED_ATTEMPTS, FixedDelay { attempts, .. }) => *attempts = count(FIXED_ATTEMPTS, value)?,
        (FIXED_DELAY, FixedDelay { delay, .. }) => *delay = duration(FIXED_DELAY, value)?,
        (RATE_FAILURES, FailureRate { max_failures_per_interval, .. }) => {
            *max_failures_per_interval = count(RATE_FAILURES, value)?;
        }
        (RATE_INTERVAL, FailureRate { failure_rate_interval, .. }) => {
            *failure_rate_interval = duration(RATE_INTERVAL, value)?;
        }
        (RATE_DELAY, FailureRate { delay, .. }) => *delay = duration(RATE_DELAY, value)?,
        (INITIAL_BACKOFF, ExponentialDelay { initial_backoff, .. }) => {
            *initial_backoff = duration(INITIAL_BACKOFF, value)?;
        }
        (MAX_BACKOFF, ExponentialDelay { max_backoff, .. }) => {
            *max_backoff = duration(MAX_BACKOFF, value)?;
        }
        (MULTIPLIER, ExponentialDelay { backoff_multiplier, .. }) => {
            *backoff_multiplier = factor(MULTIPLIER, value)?;
        }
        (RESET_THRESHOLD, ExponentialDelay { reset_backoff_threshold, .. }) => {
            *reset_backoff_threshold = duration(RESET_THRESHOLD, value)?;
        }
        (JITTER, ExponentialDelay { jitter_factor, .. }) => *jitter_factor = factor(JITTER, value)?,
        (EXPONENTIAL_ATTEMPTS, ExponentialDelay { attempts_before_reset_backoff, .. }) => {
            *attempts_before_reset_backoff = count(EXPONENTIAL_ATTEMPTS, value)?;
        }
        _ => return Err(misplaced(name)),
    }
    Ok(())
}

/// No option, or one of a strategy that is not chosen.
fn misplaced(name: &str) -> OptionError {
    for option in NAMES.into_iter().filter(|option| *option == name) {
        for strategy in ["fixed-delay", "failure-rate", "exponential-delay"] {
            if option.contains(strategy) {
                return OptionError::OtherStrategy { name: option, belongs_to: strategy };
            }
        }
    }
    let distance = |option: &&'static str| strsim::damerau_levenshtein(option, name);
    let nearest = NAMES.into_iter().min_by_key(distance);
    let nearest = nearest.filter(|option| distance(option) <= option.len() / 3);
    OptionError::Unknown { name: name.to_owned(), nearest }
}

/// A number and one of Flink's units; without one it counts milliseconds.
fn duration(name: &'static str, value: &str) -> Result<Duration, OptionError> {
    let refuse = || OptionError::InvalidValue {
        name,
        value: value.to_owned(),
        expected: "a time such as 500ms, 10 s, 5 min or 1 h",
    };
    let (number, unit) = split_unit(value);
    let number: u64 = number.parse().map_err(|_| refuse())?;
    let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs).ok_or_else(refuse);
    match unit {
        "" | "ms" | "milli" | "millis" => Ok(Duration::from_millis(number)),
        "us" | "µs" | "micro" | "micros" => Ok(Duration::from_micros(number)),
        "s" | "sec" | "second" | "seconds" => seconds(1),
        "m" | "min" | "minute" | "minutes" => seconds(60),
        "h" | "hour" | "hours" => seconds(3600),
        "d" | "day" | "days" => seconds(86_400),
        _ => Err(refuse()),
    }
}

/// A number and one of Flink's units of memory; without one it counts bytes.
fn bytes(name: &'static str, value: &str) -> Result<usize, OptionError> {
    let refuse = || OptionError::InvalidValue {
        name,
        value: value.to_owned(),
        expected: "a size such as 1000, 64kb, 64mb or 1gb (each 1024 times the one before)",
    };
    let (number, unit) = split_unit(value);
    let number: usize = number.parse().map_err(|_| refuse())?;
    let shift = match unit {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        _ => return Err(refuse()),
    };
    number.checked_mul(1 << shift).ok_or_else(refuse)
}

fn split_unit(value: &str) -> (&str, &str) {
    let value = value.trim();
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    (number, unit.trim())
}

fn count(name: &'static str, value: &str) -> Result<u32, OptionError> {
    if value == "infinite" {
        return Ok(u32::MAX);
    }
    let expected = "a number from 0 on, or infinite";
    let refuse = |_| OptionError::InvalidValue { name, value: value.to_owned(), expected };
    value.trim().parse().map_err(refuse)
}

fn size(name: &'static str, value: &str) -> Result<usize, OptionError> {
    let expected = "a number from 0 on";
    let refuse = |_| OptionError::InvalidValue { name, value: value.to_owned(), expected };
    value.trim().parse().map_err(refuse)
}

fn at_least_one(name: &'static str, value: &str) -> Result<usize, OptionError> {
    let number: Option<usize> = value.trim().parse().ok().filter(|number| *number > 0);
    let expected = "a number from 1 on";
    number.ok_or_else(|| OptionError::InvalidValue { name, value: value.to_owned(), expected })
}

fn factor(name: &'static str, value: &str) -> Result<f64, OptionError> {
    let expected = "a number such as 1.5";
    let refuse = || OptionError::InvalidValue { name, value: value.to_owned(), expected };
    let number: f64 = value.trim().parse().map_err(|_| refuse())?;
    if number.is_finite() { Ok(number) } else { Err(refuse()) }
}

#[cfg(test)]
mod tests;
