//! Tasks and the worker that runs them: one thread, one cooperative loop, never blocked inside an operator.

mod control;
mod gate_task;
mod notifier;
mod snapshot;
mod source_task;
mod worker;
mod worker_set;

pub use control::{BarrierTiming, SealedSnapshot, WorkerReport};
pub(crate) use control::{ControlMessage, Mailbox, ReportSender};
pub(crate) use gate_task::{GateTask, ProcessBatch};
pub use notifier::WorkerNotifier;
pub use snapshot::SnapshotContext;
pub(crate) use source_task::{Raw, SourceTask, Typed};
pub use worker::{StepOutcome, Worker};
pub use worker_set::WorkerSet;

use std::time::Duration;

use crate::error::OperatorError;
use crate::exchange::CheckpointBarrier;

/// What a task did when it was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    /// It processed one unit of input.
    Worked,
    /// It has no input, or its output has no capacity. Whoever changes that notifies the worker.
    Idle,
}

/// One fused chain with its input: a source reader or an input gate.
pub(crate) trait Task: Send {
    fn is_source(&self) -> bool;
    /// Called once on the worker's thread before anything else.
    fn open(&mut self) -> Result<(), OperatorError>;
    /// Processes at most one unit of input. A barrier that passed the whole chain is told to `snapshots`.
    fn poll(&mut self, snapshots: &mut Snapshots) -> Result<TaskStatus, OperatorError>;
    /// Injects a barrier; only sources have anything to do.
    fn trigger(
        &mut self,
        barrier: CheckpointBarrier,
        snapshots: &mut Snapshots,
    ) -> Result<(), OperatorError>;
    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError>;
    /// Encodes a slice of the state that the last barrier set aside. Called after every unit of input; also while there is
    /// no input.
    fn seal(&mut self, _snapshots: &mut Snapshots) -> Result<TaskStatus, OperatorError> {
        Ok(TaskStatus::Idle)
    }
    /// How long until the task has something to do even if nothing comes: a timer in processing time.
    fn wakes_in(&self) -> Option<Duration> {
        None
    }
    /// Ends the input where it is, as if nothing came any more; only sources have anything to do.
    fn drain(&mut self) {}
    /// Whether its input has ended.
    fn is_ended(&self) -> bool;
}

pub(crate) use snapshot::Snapshots;
