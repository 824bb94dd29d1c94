//! What a running job tells about itself, cheap enough to be asked at any time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::graph::JobGraph;
use crate::metrics::JobMetrics;

/// Where a job stands in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Connecting, recovering, taking the job over.
    #[default]
    Starting,
    /// Workers read, compute and write.
    Running,
    /// The last checkpoint is being taken.
    Finishing,
    /// Ended without error.
    Finished,
}

/// A moment of a job's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSnapshot {
    /// Where the job stands.
    pub phase: Phase,
    /// Checkpoint from which this process resumed state; 0 for a first start.
    pub resumed_from: u64,
    /// The last committed checkpoint.
    pub checkpoint: u64,
    /// Transactions this process committed for checkpoints.
    pub committed: u64,
    /// Soft rollbacks: transactions that died and were replayed in this process.
    pub rollbacks: u64,
    /// From the barrier to the commit of the last checkpoint.
    pub checkpoint_duration: Duration,
    /// Elements that sources have emitted in this process.
    pub records_in: u64,
    /// Elements that sinks have taken in this process.
    pub records_out: u64,
    /// Elements that came behind the watermark and were dropped.
    pub late_dropped: u64,
}

/// Reads a job's progress from any thread.
#[derive(Clone, Debug)]
pub struct JobMonitor {
    // Guards a few numbers that change once a checkpoint.
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    snapshot: JobSnapshot,
    metrics: JobMetrics,
    sources: BTreeSet<Arc<str>>,
    sinks: BTreeSet<Arc<str>>,
}

impl JobMonitor {
    pub(crate) fn new(graph: &JobGraph) -> Self {
        let state = State {
            snapshot: JobSnapshot::default(),
            metrics: graph.metrics().clone(),
            sources: graph.sources().map(|source| Arc::clone(&source.uid)).collect(),
            sinks: graph.sinks().map(|sink| Arc::clone(&sink.uid)).collect(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// How the job stands now.
    #[must_use]
    pub fn snapshot(&self) -> JobSnapshot {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut snapshot = state.snapshot.clone();
        for operator in state.metrics.snapshot() {
            if state.sources.contains(&operator.uid) {
                snapshot.records_in += operator.records_out;
            }
            if state.sinks.contains(&operator.uid) {
                snapshot.records_out += operator.records_in;
            }
            snapshot.late_dropped += operator.late_records_dropped;
        }
        snapshot
    }

    /// Elements read and written so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let now = self.snapshot();
        (now.records_in, now.records_out)
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut JobSnapshot)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).snapshot);
    }
}
