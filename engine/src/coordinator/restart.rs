//! What follows a failure: a restart after a pause, or the end of the job.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use millstream_checkpoint::{StateError, StoreError};
use millstream_protocol_client::{ClientError, FatalCause, ProduceError, Recovery};

use super::error::JobError;
use super::exit::{DATA, NO_INPUT, exit_code};
use super::ledger::LedgerTopicError;
use super::recovery::needs_ledger;
use crate::api::RestartStrategy;
use crate::connector::kafka::{ConnectorError, ReadError};
use crate::error::{Bug, OperatorError};

/// Why and when a job went back to its last committed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartRecord {
    /// Milliseconds since 1970 at which the failure was met.
    pub at_ms: i64,
    /// What failed.
    pub kind: RestartKind,
    /// The checkpoint from which the job goes on.
    pub checkpoint: u64,
    /// The error and its causes, in one line.
    pub reason: String,
    /// The pause before the job goes on.
    pub delay: Duration,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartKind {
    /// A checkpoint: its transaction died, the disk was full, it took too long. It is rolled back and replayed.
    FailedCheckpoint,
    /// The job: the restart strategy allowed another try.
    Failure,
}

impl RestartRecord {
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.checkpoint, &self.reason) == (other.kind, other.checkpoint, &other.reason)
    }
}

impl fmt::Display for RestartRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RestartKind::FailedCheckpoint => "rolled back to",
            RestartKind::Failure => "restarted from",
        };
        write!(
            f,
            "{} {kind} checkpoint {} after {:?}: {}",
            Utc(self.at_ms),
            self.checkpoint,
            self.delay,
            self.reason
        )
    }
}

/// Restarts of a job that is given up, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartHistory(pub Vec<RestartRecord>);

impl fmt::Display for RestartHistory {
    /// Records that are alike share a line; the first lines and the last ones are said, so that the cause and the end are
    /// seen and the text stays short.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<&[RestartRecord]> = self.0.chunk_by(|one, next| one.is_like(next)).collect();
        let left_out = runs.len().saturating_sub(FIRST_LINES + LAST_LINES);
        for (number, run) in runs.iter().enumerate() {
            if left_out > 0 && number == FIRST_LINES {
                write!(f, "\n  ({left_out} more)")?;
            }
            if (FIRST_LINES..FIRST_LINES + left_out).contains(&number) {
                continue;
            }
            let [first, rest @ ..] = *run else { continue };
            write!(f, "\n  {first}")?;
            if let Some(last) = rest.last() {
                write!(f, " ({} times, last {})", run.len(), Utc(last.at_ms))?;
            }
        }
        Ok(())
    }
}

const FIRST_LINES: usize = 3;
const LAST_LINES: usize = 7;

/// How many records are kept; a job that restarts for weeks must not grow by it.
pub(crate) const RESTARTS_KEPT: usize = 100;

/// The memory of a [`RestartStrategy`]. Pure: time is an argument.
#[derive(Debug)]
pub(crate) struct RestartBackoff {
    strategy: RestartStrategy,
    /// Restarts that count against the limit of attempts.
    attempts: u32,
    /// The next pause of an exponential delay, before jitter.
    backoff: Duration,
    /// Of the last failure: when it was met, and the pause that followed.
    last: Option<(Duration, Duration)>,
    /// Of a failure rate: the last failures.
    failures: VecDeque<Duration>,
}

impl RestartBackoff {
    pub(crate) fn new(strategy: RestartStrategy) -> Self {
        let backoff = match strategy {
            RestartStrategy::ExponentialDelay { initial_backoff, .. } => initial_backoff,
            _ => Duration::ZERO,
        };
        Self { strategy, attempts: 0, backoff, last: None, failures: VecDeque::new() }
    }

    /// The pause before the next restart; `None` ends the job. `now` counts from any fixed moment, `random` is from 0 to 1.
    pub(crate) fn on_failure(&mut self, now: Duration, random: f64) -> Option<Duration> {
        let pause = match self.strategy {
            RestartStrategy::NoRestart => None,
            RestartStrategy::FixedDelay { attempts, delay } => {
                self.attempts = self.attempts.saturating_add(1);
                (self.attempts <= attempts).then_some(delay)
            }
            RestartStrategy::FailureRate {
                max_failures_per_interval,
                failure_rate_interval,
                delay,
            } => {
                self.failures.push_back(now);
                while self.failures.front().is_some_and(|at| now - *at >= failure_rate_interval) {
                    self.failures.pop_front();
                }
                let few = self.failures.len() <= max_failures_per_interval as usize;
                few.then_some(delay)
            }
            RestartStrategy::ExponentialDelay {
                initial_backoff,
                max_backoff,
                backoff_multiplier,
                reset_backoff_threshold,
                jitter_factor,
                attempts_before_reset_backoff,
            } => {
                let ran_well = self
                    .last
                    .is_some_and(|(at, pause)| now - at >= pause + reset_backoff_threshold);
                if ran_well {
                    self.backoff = initial_backoff;
                    self.attempts = 0;
                }
                self.attempts = self.attempts.saturating_add(1);
                let pause = jittered(self.backoff, jitter_factor, random).min(max_backoff);
                self.backoff = grown(self.backoff, backoff_multiplier, max_backoff);
                (self.attempts <= attempts_before_reset_backoff).then_some(pause)
            }
        };
        self.last = pause.map(|pause| (now, pause));
        pause
    }
}

impl fmt::Display for RestartBackoff {
    /// What the strategy allows, for the error of a job that it gave up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            RestartStrategy::NoRestart => write!(f, "the restart strategy allows no restart"),
            RestartStrategy::FixedDelay { attempts, .. } => {
                write!(
                    f,
                    "the fixed-delay restart strategy allows {attempts} restart{}",
                    plural(attempts)
                )
            }
            RestartStrategy::FailureRate {
                max_failures_per_interval,
                failure_rate_interval,
                ..
            } => write!(
                f,
                "the failure-rate restart strategy allows {max_failures_per_interval} failure{} in {failure_rate_interval:?}",
                plural(max_failures_per_interval)
            ),
            RestartStrategy::ExponentialDelay { attempts_before_reset_backoff, .. } => write!(
                f,
                "the exponential-delay restart strategy allows {attempts_before_reset_backoff} restart{} before the job has run well for long enough",
                plural(attempts_before_reset_backoff)
            ),
        }
    }
}

/// The ending of a counted noun.
fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn jittered(backoff: Duration, factor: f64, random: f64) -> Duration {
    backoff.mul_f64((1.0 + factor * (2.0 * random - 1.0)).max(0.0))
}

/// The next pause. A product beyond what a duration holds is the longest as well.
fn grown(backoff: Duration, multiplier: f64, longest: Duration) -> Duration {
    let seconds = backoff.as_secs_f64() * multiplier;
    Duration::try_from_secs_f64(seconds).unwrap_or(longest).min(longest)
}

/// Counts failures that are alike, at the same record.
#[derive(Debug, Default)]
pub(crate) struct SameRecord {
    last: Option<String>,
    times: u32,
}

impl SameRecord {
    /// How often in a row the job has failed like this; 0 for a failure that is not bound to a record.
    pub(crate) fn count(&mut self, error: &JobError) -> u32 {
        let signature = of_a_record(error).then(|| one_line(error));
        self.times = match &signature {
            None => 0,
            Some(_) if signature == self.last => self.times.saturating_add(1),
            Some(_) => 1,
        };
        self.last = signature;
        self.times
    }
}

/// Whether one record made the job fail, so that it may do so again.
fn of_a_record(error: &JobError) -> bool {
    match error {
        JobError::Operator(error) => error.place().is_some(),
        _ => error.exit_code() == DATA,
    }
}

/// Whether the job may be started again in this process. Never if another owns it, if the state, the ledger or the disk is not
/// what it should be, or if only a changed configuration helps.
pub(crate) fn may_restart(error: &JobError) -> bool {
    match error {
        JobError::Operator(error) => operator_may_restart(error),
        JobError::Client(error)
        | JobError::Connector(ConnectorError::Client { source: error, .. }) => {
            error.recovery() == Recovery::Retriable
        }
        JobError::Ledger(error) => match error {
            LedgerTopicError::Client { source, .. }
            | LedgerTopicError::Read { source: ReadError::Client(source), .. } => {
                source.recovery() == Recovery::Retriable
            }
            LedgerTopicError::Read { source: ReadError::Stalled { .. }, .. } => true,
            _ => false,
        },
        JobError::Producer { source, .. } => producer_may_restart(source),
        JobError::TooManyFailedCheckpoints { .. } => true,
        _ => false,
    }
}

fn operator_may_restart(error: &OperatorError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error.cause());
    while let Some(inner) = cause {
        // The store or the disk behind it failed; what it holds is known only after a new start has read it.
        if inner.is::<StoreError>() || inner.is::<StateError>() || inner.is::<Bug>() {
            return false;
        }
        if let Some(error) = inner.downcast_ref::<ProduceError>() {
            return producer_may_restart(error);
        }
        if let Some(error) = inner.downcast_ref::<ClientError>() {
            return error.recovery() == Recovery::Retriable;
        }
        cause = inner.source();
    }
    // Records that are gone will not come back.
    exit_code(error.cause()) != NO_INPUT
}

fn producer_may_restart(error: &ProduceError) -> bool {
    match error {
        ProduceError::Fatal { cause } => matches!(
            cause,
            FatalCause::RecordTooLarge { .. }
                | FatalCause::SplitFailed { .. }
                | FatalCause::UnknownTopicOrPartition { .. }
        ),
        other => needs_ledger(other),
    }
}

/// The error and its causes, each once.
pub(crate) fn one_line(error: &dyn Error) -> String {
    super::exit::error_chain(error).replace("\n  caused by: ", ": ").replace('\n', " ")
}

/// Milliseconds since 1970 as a time of day.
pub(crate) struct Utc(pub(crate) i64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000);
        let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Years begin in March here, so that the day that leap years add is the last one of a year.
        let from_march = day + 719_468;
        let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        write!(
            f,
            "{year:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

#[cfg(test)]
mod tests;
