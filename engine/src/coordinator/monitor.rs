//! What a running job tells about itself, cheap enough to be asked at any time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::restart::{RESTARTS_KEPT, RestartRecord};
use super::statistics::{CheckpointStatistics, CheckpointStatus};
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
    /// The job failed; it goes on after a pause.
    Restarting,
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
    /// Soft rollbacks: checkpoints that failed and were replayed in this process.
    pub rollbacks: u64,
    /// Restarts after a failure of the job (`numRestarts`).
    pub restarts: u64,
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
    // Guards what changes a few times a checkpoint.
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    snapshot: JobSnapshot,
    metrics: JobMetrics,
    sources: BTreeSet<Arc<str>>,
    sinks: BTreeSet<Arc<str>>,
    /// Oldest first.
    checkpoints: VecDeque<CheckpointStatistics>,
    checkpoints_max: usize,
    /// Oldest first.
    restarts: VecDeque<RestartRecord>,
}

impl JobMonitor {
    pub(crate) fn new(graph: &JobGraph) -> Self {
        let state = State {
            snapshot: JobSnapshot::default(),
            metrics: graph.metrics().clone(),
            sources: graph.sources().map(|source| Arc::clone(&source.uid)).collect(),
            sinks: graph.sinks().map(|sink| Arc::clone(&sink.uid)).collect(),
            checkpoints: VecDeque::new(),
            checkpoints_max: graph.config().checkpoints.history_size,
            restarts: VecDeque::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// How the job stands now.
    #[must_use]
    pub fn snapshot(&self) -> JobSnapshot {
        let state = self.lock();
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

    /// The last checkpoints, oldest first; how many are kept is
    /// [`history_size`](crate::api::CheckpointConfig::history_size).
    #[must_use]
    pub fn checkpoints(&self) -> Vec<CheckpointStatistics> {
        self.lock().checkpoints.iter().cloned().collect()
    }

    /// Why and when the job went back to its last committed checkpoint, oldest first; the last 100 times.
    #[must_use]
    pub fn restarts(&self) -> Vec<RestartRecord> {
        self.lock().restarts.iter().cloned().collect()
    }

    /// Remembers a checkpoint that has ended.
    pub(crate) fn checkpoint_ended(&self, statistics: CheckpointStatistics) {
        tracing::debug!(checkpoint = statistics.checkpoint, trigger = ?statistics.trigger, "{statistics}");
        let mut state = self.lock();
        if statistics.status == CheckpointStatus::Completed {
            state.snapshot.checkpoint = statistics.checkpoint;
            state.snapshot.committed += 1;
            state.snapshot.checkpoint_duration = statistics.end_to_end_duration;
        }
        state.checkpoints.push_back(statistics);
        while state.checkpoints.len() > state.checkpoints_max {
            state.checkpoints.pop_front();
        }
    }

    /// The changes of all checkpoints up to `checkpoint` went into the store, in so much time.
    pub(crate) fn applied(&self, checkpoint: u64, took: Duration) {
        let mut state = self.lock();
        let newest_first = state.checkpoints.iter_mut().rev();
        let committed = newest_first.filter(|known| {
            known.checkpoint <= checkpoint && known.status == CheckpointStatus::Completed
        });
        for known in committed.take_while(|known| known.apply_duration.is_none()) {
            known.apply_duration = Some(took);
        }
    }

    pub(crate) fn restarted(&self, record: RestartRecord) {
        let mut state = self.lock();
        state.restarts.push_back(record);
        while state.restarts.len() > RESTARTS_KEPT {
            state.restarts.pop_front();
        }
    }

    /// Elements read and written so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let now = self.snapshot();
        (now.records_in, now.records_out)
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut JobSnapshot)) {
        change(&mut self.lock().snapshot);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
