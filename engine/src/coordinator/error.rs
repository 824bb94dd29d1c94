//! Why a job ended without success.

use std::time::Duration;

use millstream_checkpoint::{
    FencedReason, Resolution, ResolutionRefused, SavepointError, StateError, StopReason, StoreError,
};
use millstream_protocol_client::{ClientError, ConfigError, ProduceError};
use thiserror::Error;

use super::ledger::LedgerTopicError;
use super::restart::RestartHistory;
use crate::api::OptionError;
use crate::connector::kafka::ConnectorError;
use crate::error::OperatorError;

/// A job could not start or could not go on. Each variant says what, where and what to do next.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JobError {
    /// A configuration value can not be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An option can not be used.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The job is not complete, or contradicts itself.
    #[error("job {job:?} can not start: {reason}")]
    InvalidJob {
        /// Job name.
        job: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cluster could not be reached or refused a request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A Kafka source or sink can not be opened.
    #[error(transparent)]
    Connector(#[from] ConnectorError),
    /// An operator, a user's function or a deserializer failed.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The state directory can not be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The state store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Recovery stopped instead of guessing.
    #[error(transparent)]
    Stop(#[from] StopReason),
    /// The ledger topic can not be used.
    #[error(transparent)]
    Ledger(#[from] LedgerTopicError),
    /// A savepoint could not be taken or restored.
    #[error(transparent)]
    Savepoint(#[from] SavepointError),
    /// The job ended, by an error or by itself, before it came to the savepoint.
    #[error(
        "no savepoint was written to {}: {}",
        target.display(),
        match holder {
            None => "the job has ended; `millstream savepoint create --state-dir` takes one of what it has left".to_owned(),
            Some(process) => format!("the job could not begin, since process {process} holds its state directory; `millstream savepoint trigger --state-dir` asks that process for one"),
        }
    )]
    SavepointNotTaken {
        /// Where it was to be.
        target: std::path::PathBuf,
        /// Process id of another process that holds the state directory, if that is why.
        holder: Option<String>,
    },
    /// A savepoint is to be restored into a directory that holds other state.
    #[error(
        "{} holds state of its own (checkpoint {checkpoint}), so savepoint {} can not be restored into it: give an empty state directory, or start without the savepoint to go on from what is there",
        directory.display(),
        savepoint.display()
    )]
    StateDirNotEmpty {
        /// The state directory.
        directory: std::path::PathBuf,
        /// The savepoint.
        savepoint: std::path::PathBuf,
        /// The checkpoint that the directory stands at.
        checkpoint: u64,
    },
    /// Another process owns the job.
    #[error(transparent)]
    Fenced(#[from] FencedReason),
    /// The transactional producer failed in a way that no rollback mends.
    #[error("transactional id {transactional_id:?} can not write")]
    Producer {
        /// Transactional id of the job.
        transactional_id: String,
        /// Why.
        #[source]
        source: ProduceError,
    },
    /// The job had ended; there is nothing to go on with.
    #[error(
        "job {job:?} has finished: {} holds its last checkpoint, {checkpoint}. Its input and event time are at their end, so it does \
         not read on, and nothing was changed. To read on take a savepoint of that directory (`millstream savepoint create \
         --state-dir`) and begin from it in an empty one; to run it anew give an empty state directory and another job name",
        directory.display()
    )]
    AlreadyFinished {
        /// Job name.
        job: String,
        /// The state directory.
        directory: std::path::PathBuf,
        /// Its last checkpoint.
        checkpoint: u64,
    },
    /// Checkpoints can not be that far apart.
    #[error(
        "checkpoint interval {interval:?} is longer than a third of transaction.timeout.ms={}; a transaction would expire before it is committed: {}",
        timeout.as_millis(),
        shorter_interval(*timeout, *needed)
    )]
    IntervalTooLong {
        /// Checkpoint interval.
        interval: Duration,
        /// Transaction timeout.
        timeout: Duration,
        /// A timeout that would do.
        needed: Duration,
    },
    /// A checkpoint took too long.
    #[error("checkpoint {checkpoint} did not complete within {limit:?} ({bound}): {phase}")]
    CheckpointTimeout {
        /// Checkpoint.
        checkpoint: u64,
        /// The bound.
        limit: Duration,
        /// Whose bound: the option's name, or a stop's.
        bound: &'static str,
        /// What was being waited for.
        phase: &'static str,
    },
    /// The disk was full when the job was asked to stop, and still was when the time for the stop was over.
    #[error(
        "no last checkpoint within {limit:?} of the request to stop, because the disk is full: {last}. What was committed up to checkpoint {checkpoint} is safe; free some space, and the next start goes on from there"
    )]
    StopOnFullDisk {
        /// The last committed checkpoint.
        checkpoint: u64,
        /// The bound.
        limit: Duration,
        /// Why the last try failed.
        last: String,
    },
    /// More checkpoints in a row failed than may.
    #[error(
        "{failed} checkpoint{} failed, {tolerable} may (execution.checkpointing.tolerable-failed-checkpoints); the last one: {last}",
        if *failed == 1 { "" } else { "s in a row" }
    )]
    TooManyFailedCheckpoints {
        /// How many.
        failed: u32,
        /// The bound.
        tolerable: u32,
        /// Why the last one failed.
        last: String,
    },
    /// A worker did not end when it was told to. It may still write, so this process can not go on.
    #[error(
        "a worker did not end within {limit:?}: a user's function hangs in it; what was committed is safe, start the job again in a new process"
    )]
    WorkerHangs {
        /// How long it was waited for.
        limit: Duration,
    },
    /// The job failed and is not started again.
    #[error("{source}; given up: {why}{restarts}")]
    GaveUp {
        /// Why there is no further restart.
        why: String,
        /// The failures before, with their times; empty if this was the first one.
        restarts: RestartHistory,
        /// The last failure.
        source: Box<JobError>,
    },
    /// `--adopt-local` or `--accept-rewind` was given where it does not apply.
    #[error(transparent)]
    Resolution(#[from] ResolutionRefused),
    /// One of the two was given, and the start came no further than the ledger topic.
    #[error("{resolution} does not apply, something else is wrong: {source}")]
    ResolutionNotActedOn {
        /// What was asked for.
        resolution: Resolution,
        /// What is wrong.
        source: LedgerTopicError,
    },
    /// The operating system refused something a job needs.
    #[error("{what}")]
    System {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The source of random numbers failed.
    #[error(transparent)]
    Random(#[from] millstream_checkpoint::RandomError),
    /// A defect of Millstream itself.
    #[error("bug: {what}; please report it")]
    Bug {
        /// What should not have happened.
        what: String,
    },
}

/// The default of the brokers' `transaction.max.timeout.ms`.
const BROKERS_MAX_TIMEOUT: Duration = Duration::from_secs(900);
/// The largest `transaction.timeout.ms`: it is an i32 on the wire.
const MAX_TIMEOUT_MS: u128 = 2_147_483_647;

/// What to do about an interval for which a transaction timeout of `timeout` is too short and one of `needed` would do.
fn shorter_interval(timeout: Duration, needed: Duration) -> String {
    let often = format!("checkpoint at least every {} ms", timeout.as_millis() / 3);
    let needed_ms = needed.as_millis();
    if needed_ms > MAX_TIMEOUT_MS {
        format!(
            "{often}; the interval is too long for any transaction timeout (at most {MAX_TIMEOUT_MS} ms)"
        )
    } else if needed > BROKERS_MAX_TIMEOUT {
        format!(
            "{often}, or set transaction.timeout.ms={needed_ms} or more, which the brokers have to allow (transaction.max.timeout.ms, {} unless it was raised)",
            BROKERS_MAX_TIMEOUT.as_millis()
        )
    } else {
        format!("{often}, or set transaction.timeout.ms={needed_ms} or more")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_is_too_long_is_met_with_a_timeout_that_can_be_set() {
        let said = |seconds: u64| {
            let interval = Duration::from_secs(seconds);
            let (timeout, needed) = (Duration::from_secs(60), interval.saturating_mul(3));
            JobError::IntervalTooLong { interval, timeout, needed }.to_string()
        };
        let short = said(30);
        assert!(short.contains("every 20000 ms, or set transaction.timeout.ms=90000"), "{short}");
        assert!(!short.contains("transaction.max.timeout.ms"), "{short}");
        let long = said(3600);
        assert!(long.contains("transaction.timeout.ms=10800000 or more, which"), "{long}");
        assert!(long.contains("transaction.max.timeout.ms, 900000"), "{long}");
        for seconds in [99_999_999 * 86_400, u64::MAX] {
            let endless = said(seconds);
            assert!(endless.contains("too long for any transaction timeout"), "{endless}");
            assert!(!endless.contains("set transaction.timeout.ms"), "{endless}");
        }
    }

    #[test]
    fn who_runs_out_of_time_is_told_whose_bound_it_was() {
        let stop = crate::coordinator::attempt::too_late(7).to_string();
        assert!(
            stop.contains("checkpoint 7 did not complete within 9s (the time for a stop)"),
            "{stop}"
        );
    }

    #[test]
    fn one_failed_checkpoint_is_not_many() {
        let said = |failed, tolerable| {
            let last = "disk full".to_owned();
            JobError::TooManyFailedCheckpoints { failed, tolerable, last }.to_string()
        };
        assert!(said(1, 0).starts_with("1 checkpoint failed, 0 may ("), "{}", said(1, 0));
        assert!(said(3, 2).starts_with("3 checkpoints in a row failed, 2 may ("));
    }
}
