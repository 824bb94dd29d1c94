//! What one worker contributes to a checkpoint, collected chain by chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_checkpoint::{Positions, SealedState, SourcePosition};
use tokio::time::Instant;

use super::{BarrierTiming, SealedSnapshot};

/// Collects what the operators of one worker have to say at a barrier.
#[derive(Debug)]
pub struct SnapshotContext {
    sealed: SealedSnapshot,
}

impl SnapshotContext {
    pub(crate) fn new(checkpoint: u64, worker: usize, now: Instant) -> Self {
        Self {
            sealed: SealedSnapshot {
                checkpoint,
                worker,
                states: Vec::new(),
                positions: Positions::new(),
                watermarks: Vec::new(),
                timing: BarrierTiming::begin(now),
            },
        }
    }

    /// Adds the changes of one keyed state.
    pub fn add_state(&mut self, changes: SealedState) {
        if !changes.is_empty() {
            self.sealed.states.push(changes);
        }
    }

    /// Adds the position of one split of the source `uid`.
    pub fn add_position(&mut self, uid: &Arc<str>, position: SourcePosition) {
        self.sealed.positions.insert(Arc::clone(uid), position);
    }

    /// Adds the watermark of the operator `uid`, or another time of it that must not go back behind the checkpoint, under a
    /// name that is no uid.
    pub fn add_watermark(&mut self, uid: &str, watermark: i64) {
        self.sealed.watermarks.push((uid.to_owned(), watermark));
    }
}

/// The checkpoints of one worker that have begun and are not sealed. There is at most one unless a chain is faster than
/// the mailbox, which alignment rules out for all but the first barrier.
#[derive(Debug)]
pub(crate) struct Snapshots {
    worker: usize,
    tasks: usize,
    pending: BTreeMap<u64, Pending>,
    sealed: Vec<SealedSnapshot>,
}

#[derive(Debug)]
struct Pending {
    context: SnapshotContext,
    /// Tasks that have added all of their part.
    complete: usize,
}

impl Snapshots {
    /// For a worker with `tasks` tasks, each of which has its part in every checkpoint.
    pub(crate) fn new(worker: usize, tasks: usize) -> Self {
        Self { worker, tasks, pending: BTreeMap::new(), sealed: Vec::new() }
    }

    /// Lets one task add its part of `checkpoint`; `add` says whether that was all of it. Once all tasks have added theirs the
    /// snapshot is sealed. Gives what `add` said.
    pub(crate) fn add<E>(
        &mut self,
        checkpoint: u64,
        add: impl FnOnce(&mut SnapshotContext) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let worker = self.worker;
        let begun = Instant::now();
        let pending = self.pending.entry(checkpoint).or_insert_with(|| Pending {
            context: SnapshotContext::new(checkpoint, worker, begun),
            complete: 0,
        });
        let complete = add(&mut pending.context)?;
        let timing = &mut pending.context.sealed.timing;
        timing.last = Instant::now();
        // Between two calls units of input are processed.
        timing.stall = timing.stall.max(timing.last.saturating_duration_since(begun));
        pending.complete += usize::from(complete);
        if pending.complete == self.tasks
            && let Some(pending) = self.pending.remove(&checkpoint)
        {
            self.sealed.push(pending.context.sealed);
        }
        Ok(complete)
    }

    /// The snapshots sealed since the last call.
    pub(crate) fn take_sealed(&mut self) -> impl Iterator<Item = SealedSnapshot> {
        std::mem::take(&mut self.sealed).into_iter()
    }
}
