//! Why a job ended without success.

use std::time::Duration;

use millstream_checkpoint::{
    FencedReason, ResolutionRefused, SavepointError, StateError, StopReason, StoreError,
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
        "no savepoint was written to {}: the job has ended; `millstream savepoint create --state-dir` takes one of what it has left",
        target.display()
    )]
    SavepointNotTaken {
        /// Where it was to be.
        target: std::path::PathBuf,
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
        "job {job:?} has finished (checkpoint {checkpoint}); start it bounded to see that again, or give an empty state directory and another job name to run it anew"
    )]
    AlreadyFinished {
        /// Job name.
        job: String,
        /// Its last checkpoint.
        checkpoint: u64,
    },
    /// Checkpoints can not be that far apart.
    #[error(
        "checkpoint interval {interval:?} is longer than a third of transaction.timeout.ms={}; a transaction would expire before it is committed: checkpoint more often, or set transaction.timeout.ms={} or more",
        timeout.as_millis(),
        needed.as_millis()
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
    #[error("checkpoint {checkpoint} did not complete within {limit:?}: {phase}")]
    CheckpointTimeout {
        /// Checkpoint.
        checkpoint: u64,
        /// The bound.
        limit: Duration,
        /// What was being waited for.
        phase: &'static str,
    },
    /// More checkpoints in a row failed than may.
    #[error(
        "{failed} checkpoints in a row failed, {tolerable} may (tolerable-failed-checkpoints); the last one: {last}"
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
