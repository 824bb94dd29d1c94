//! Runs a job graph in one thread: a random schedule, random barriers, random crashes, no clock.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use millstream_checkpoint::{
    CheckpointId, CheckpointRef, FrozenDelta, LayeredState, MemoryStore, Nonce, Positions,
    Watermarks,
};
use millstream_engine::CheckpointKind;
use millstream_engine::graph::{JobGraph, RestoreContext};
use millstream_engine::task::{SealedSnapshot, StepOutcome, Worker, WorkerReport, WorkerSet};

/// Random numbers from a seed (xorshift64*), so that a failure can be run again.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What survives a crash: the last confirmed checkpoint.
pub(crate) struct Confirmed {
    pub(crate) state: Arc<LayeredState>,
    pub(crate) positions: Positions,
    pub(crate) watermarks: Watermarks,
    pub(crate) checkpoint: u64,
}

impl Confirmed {
    pub(crate) fn start(positions: Positions) -> Self {
        let state = LayeredState::new(Arc::new(MemoryStore::new())).unwrap();
        Self { state: Arc::new(state), positions, watermarks: Vec::new(), checkpoint: 0 }
    }

    pub(crate) fn restore_context(&self) -> RestoreContext {
        RestoreContext {
            state: Arc::clone(&self.state),
            positions: self.positions.clone(),
            watermarks: self.watermarks.clone(),
            first_checkpoint: self.checkpoint + 1,
            ..RestoreContext::empty().unwrap()
        }
    }

    /// Confirms a checkpoint whose every part is there, as the coordinator does after the commit.
    pub(crate) fn confirm(&mut self, sealed: SealedSnapshot) {
        let at = CheckpointRef::new(CheckpointId(sealed.checkpoint), Nonce([7; 16]));
        let delta = FrozenDelta::from_parts(sealed.states).unwrap();
        self.state.push_frozen(at, Arc::new(delta)).unwrap();
        self.state.confirm(at).unwrap();
        if sealed.checkpoint.is_multiple_of(2) {
            while self.state.apply_confirmed(64).unwrap().is_some() {}
        }
        self.positions = sealed.positions;
        self.watermarks = sealed.watermarks;
        self.checkpoint = sealed.checkpoint;
    }
}

/// One run of the job between two crashes.
pub(crate) struct Run {
    pub(crate) workers: Vec<Worker>,
    pub(crate) set: WorkerSet,
    reports: Arc<Mutex<Vec<WorkerReport>>>,
    sealed: BTreeMap<u64, Vec<SealedSnapshot>>,
    pending: Option<u64>,
    finished: usize,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The final checkpoint after the end of the input is confirmed.
    Finished,
    Crashed,
}

impl Run {
    pub(crate) fn new(graph: &JobGraph, confirmed: &Confirmed) -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sender = Arc::clone(&reports);
        let (workers, set) = graph
            .build_workers(&confirmed.restore_context(), move |report| {
                sender.lock().unwrap().push(report);
            })
            .unwrap();
        Self { workers, set, reports, sealed: BTreeMap::new(), pending: None, finished: 0 }
    }

    /// Steps workers at random until the job has finished and its last checkpoint is confirmed, or until `steps_max` steps
    /// are done. A barrier comes with a chance of one in `barrier_every` per step.
    pub(crate) fn drive(
        &mut self,
        random: &mut Random,
        confirmed: &mut Confirmed,
        barrier_every: usize,
        steps_max: usize,
    ) -> Ended {
        let mut idle = vec![false; self.workers.len()];
        let mut last_checkpoint = None;
        for _ in 0..steps_max {
            if random.one_in(barrier_every) && self.pending.is_none() {
                self.trigger(confirmed);
            }
            let worker = random.below(self.workers.len());
            idle[worker] = match self.workers[worker].step() {
                StepOutcome::Worked => {
                    idle.fill(false);
                    false
                }
                StepOutcome::Idle => true,
                StepOutcome::Stopped => panic!("{:?}", self.reports.lock().unwrap()),
            };
            if let Some(checkpoint) = self.handle_reports(confirmed) {
                idle.fill(false);
                if last_checkpoint == Some(checkpoint) {
                    return Ended::Finished;
                }
            }
            if idle.iter().all(|idle| *idle) {
                // Nobody can do anything: only a barrier (and its confirmation) may free capacity.
                assert_eq!(self.pending, None, "deadlock: a barrier does not get through");
                let checkpoint = self.trigger(confirmed);
                if self.finished == self.workers.len() {
                    last_checkpoint = Some(checkpoint);
                }
                idle.fill(false);
            }
        }
        Ended::Crashed
    }

    fn trigger(&mut self, confirmed: &Confirmed) -> u64 {
        let checkpoint = confirmed.checkpoint + 1;
        self.pending = Some(checkpoint);
        self.set.trigger_checkpoint(checkpoint, CheckpointKind::Checkpoint);
        checkpoint
    }

    /// The checkpoint that was confirmed, if one was.
    fn handle_reports(&mut self, confirmed: &mut Confirmed) -> Option<u64> {
        let reports = std::mem::take(&mut *self.reports.lock().unwrap());
        let mut completed = None;
        for report in reports {
            match report {
                WorkerReport::Sealed(sealed) => {
                    let checkpoint = sealed.checkpoint;
                    let parts = self.sealed.entry(checkpoint).or_default();
                    parts.push(sealed);
                    if parts.len() == self.workers.len() {
                        let parts = self.sealed.remove(&checkpoint).unwrap();
                        confirmed.confirm(SealedSnapshot::merge(parts).unwrap());
                        self.set.confirm_checkpoint(checkpoint);
                        self.pending = None;
                        completed = Some(checkpoint);
                    }
                }
                WorkerReport::Finished { .. } => self.finished += 1,
                other => panic!("{other:?}"),
            }
        }
        completed
    }
}
