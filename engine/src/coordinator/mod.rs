//! The coordinator of a job: takes it over, triggers checkpoints, commits them, rolls back, ends. One per process.
//!
//! ```text
//! Job ──start──> job thread ── job_master: open ─> recover ─> run an attempt ─┬─> ended
//!                                             ^                              │ transaction died, or the job failed
//!                                             └─ soft rollback or restart ───┘
//! ```
//!
//! `schedule` says when a checkpoint is due, `restart` what follows a failure, `resolution` how an operator's word leads out of
//! a state and a ledger that do not fit. `attempts` runs one after the other, `attempt` runs the workers and takes checkpoints. `recovery` performs the steps R1 to R6 of the commit protocol, `checkpoint` C1 to C6, `maintenance` C7, `ledger` the topic that
//! decides. `savepoint` takes savepoints between two checkpoints, asked for by a thread or, through `control`, by another process;
//! `restore` begins from one. Everything that chooses between ways to go on is a pure function of `millstream_checkpoint`.

use millstream_checkpoint::RandomError;
use millstream_protocol_client::surroundings::fill_random;

mod attempt;
mod attempts;
mod checkpoint;
mod control;
mod error;
mod exit;
pub(crate) mod fault;
mod job;
mod job_master;
mod ledger;
mod ledger_view;
mod maintenance;
mod monitor;
mod offset_publisher;
mod recovery;
mod resolution;
mod restart;
mod restore;
mod savepoint;
mod schedule;
mod signals;
#[cfg(feature = "simulation")]
mod simulated_job;
mod statistics;
mod stop_request;
mod storage;

pub use error::JobError;
pub use exit::{error_chain, exit, exit_code};
pub use job::{Job, JobHandle};
pub use ledger::LedgerTopicError;
pub use ledger_view::{LedgerView, preview_recovery, view_ledger};
pub use monitor::{JobMonitor, JobSnapshot, Phase};
pub use restart::{RestartHistory, RestartKind, RestartRecord};
pub use signals::shutdown_signal;
#[cfg(feature = "simulation")]
pub use simulated_job::{SavepointAnswer, SimulatedJob, SimulatedSavepoints, SimulatedStores};
pub use statistics::{CheckpointStatistics, CheckpointStatus, CheckpointTrigger};

/// Name of the ledger topic of a job, on the cluster of its sinks.
#[must_use]
pub fn ledger_topic(job: &str) -> String {
    ledger::Ledger::topic_name(job)
}

/// Sixteen random bytes.
fn random_id() -> Result<[u8; 16], JobError> {
    let mut bytes = [0; 16];
    fill_random(&mut bytes).map_err(RandomError)?;
    Ok(bytes)
}
