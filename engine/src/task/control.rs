//! What the coordinator tells a worker and what the worker answers.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_checkpoint::{Positions, SealedState, Watermarks};
use tokio::time::Instant;

use super::WorkerNotifier;
use crate::error::OperatorError;
use crate::exchange::CheckpointBarrier;

/// A message to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlMessage {
    /// Inject this barrier at all sources, between two units of input.
    TriggerCheckpoint(CheckpointBarrier),
    /// End all sources where they are, as if nothing came any more.
    Drain,
    /// Checkpoint n is committed and its state changes are readable through the store.
    CheckpointConfirmed(u64),
    /// Drop everything and end.
    Stop,
}

/// A worker's part of one checkpoint: complete once every worker's part is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSnapshot {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Index of the worker.
    pub worker: usize,
    /// Changes of keyed state since the checkpoint before, not sorted yet.
    pub states: Vec<SealedState>,
    /// Positions of the splits that the worker reads.
    pub positions: Positions,
    /// Watermarks of operators; of several workers the largest counts.
    pub watermarks: Watermarks,
    /// When the barrier passed.
    pub timing: BarrierTiming,
}

/// When and how a barrier passed the tasks of a worker; of several workers together the first, the last and the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierTiming {
    /// It reached the first task.
    pub first: Instant,
    /// It had passed the last one.
    pub last: Instant,
    /// The longest time at a stretch that the worker processed nothing because of it. (A channel that waits for the barrier of another does not count:
    /// the worker has other work meanwhile.)
    pub stall: Duration,
}

impl BarrierTiming {
    /// Nothing has passed yet.
    pub(crate) fn begin(now: Instant) -> Self {
        Self { first: now, last: now, stall: Duration::ZERO }
    }

    fn merge(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            stall: self.stall.max(other.stall),
        }
    }
}

impl SealedSnapshot {
    /// Puts the parts of all workers together; the index is that of the last part.
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let merged = parts.into_iter().reduce(|mut merged, part| {
            merged.worker = part.worker;
            merged.states.extend(part.states);
            merged.positions.extend(part.positions);
            merged.watermarks.extend(part.watermarks);
            merged.timing = merged.timing.merge(part.timing);
            merged
        })?;
        let mut watermarks = BTreeMap::new();
        for (uid, watermark) in merged.watermarks {
            // What one worker has fired must not be fired again by another that takes its key groups over.
            let known = watermarks.entry(uid).or_insert(watermark);
            *known = watermark.max(*known);
        }
        Some(Self { watermarks: watermarks.into_iter().collect(), ..merged })
    }
}

/// A message from a worker.
#[derive(Debug)]
pub enum WorkerReport {
    /// The worker's part of a checkpoint. Everything that belongs to it has been handed to the sinks.
    Sealed(SealedSnapshot),
    /// All inputs of the worker have ended. It still takes checkpoints until it is stopped.
    Finished {
        /// Index of the worker.
        worker: usize,
    },
    /// The worker ended by an error; the job has to be rolled back or ended.
    Failed {
        /// Index of the worker.
        worker: usize,
        /// What happened.
        error: OperatorError,
    },
    /// The worker ended because it was told to.
    Stopped {
        /// Index of the worker.
        worker: usize,
    },
}

/// Where reports go. Must not block.
#[derive(Clone)]
pub(crate) struct ReportSender(Arc<dyn Fn(WorkerReport) + Send + Sync>);

impl ReportSender {
    pub(crate) fn new(receive: impl Fn(WorkerReport) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    pub(crate) fn send(&self, report: WorkerReport) {
        (self.0)(report);
    }
}

impl fmt::Debug for ReportSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReportSender")
    }
}

/// The worker's inbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailbox {
    // Guards a handful of messages per checkpoint between the coordinator and one worker.
    messages: Arc<Mutex<VecDeque<ControlMessage>>>,
    notifier: WorkerNotifier,
}

impl Mailbox {
    pub(crate) fn new(notifier: WorkerNotifier) -> Self {
        Self { messages: Arc::default(), notifier }
    }

    pub(crate) fn send(&self, message: ControlMessage) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        self.notifier.notify();
    }

    pub(crate) fn take(&self) -> Option<ControlMessage> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
