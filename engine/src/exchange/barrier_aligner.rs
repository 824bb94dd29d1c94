//! Aligns barriers: an input that delivered barrier n is not read until all inputs have.

use super::CheckpointBarrier;
use crate::error::Bug;

/// Which inputs are blocked, and for which barrier.
#[derive(Debug)]
pub(crate) struct BarrierAligner {
    blocked: Vec<bool>,
    pending: Option<CheckpointBarrier>,
    /// The mutant of the alignment test: barriers are counted, inputs go on. Never set outside tests.
    #[cfg(test)]
    pub(crate) never_block: bool,
}

impl BarrierAligner {
    pub(crate) fn new(inputs: usize) -> Self {
        Self {
            blocked: vec![false; inputs],
            pending: None,
            #[cfg(test)]
            never_block: false,
        }
    }

    /// Whether `input` waits for the others.
    pub(crate) fn is_blocked(&self, input: usize) -> bool {
        #[cfg(test)]
        if self.never_block {
            return false;
        }
        self.blocked.get(input).copied().unwrap_or(false)
    }

    /// `input` delivered `barrier`. The barrier comes back once every input has delivered it.
    pub(crate) fn on_barrier(
        &mut self,
        input: usize,
        barrier: CheckpointBarrier,
    ) -> Result<Option<CheckpointBarrier>, Bug> {
        if self.pending.is_some_and(|pending| pending != barrier) {
            return Err(Bug(format!(
                "input {input} delivered {barrier:?} while {:?} is being aligned",
                self.pending
            )));
        }
        self.pending = Some(barrier);
        if let Some(blocked) = self.blocked.get_mut(input) {
            *blocked = true;
        }
        if self.blocked.iter().all(|blocked| *blocked) {
            self.blocked.fill(false);
            self.pending = None;
            return Ok(Some(barrier));
        }
        Ok(None)
    }
}
