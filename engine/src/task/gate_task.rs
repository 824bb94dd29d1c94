//! A chain that is fed by an exchange.

use std::time::Duration;

use super::{SnapshotContext, Snapshots, Task, TaskStatus};
use crate::error::OperatorError;
use crate::exchange::{CheckpointBarrier, GateEvent, InputGate};
use crate::operator::Output;
use crate::state::SealBudget;
use crate::time::{ValveOutput, WATERMARK_MAX, WatermarkStatus};

/// The first operator behind an exchange: takes exchanged batches.
pub(crate) trait ProcessBatch<B>: Output {
    /// Processes the elements of `batch` in their order and leaves it empty, for its sender to fill again.
    fn process_batch(&mut self, batch: &mut B) -> Result<(), OperatorError>;

    /// Encodes state that the last barrier set aside, as much as the budget allows, and adds it to the snapshot; `true` once
    /// nothing is left.
    fn seal_some(
        &mut self,
        _snapshot: &mut SnapshotContext,
        _budget: &mut SealBudget,
    ) -> Result<bool, OperatorError> {
        Ok(true)
    }

    /// How long until there is a backlog by the passing of time alone.
    fn wakes_in(&self) -> Option<Duration> {
        None
    }

    /// Whether a watermark has set off more output than one unit may have. While it has, nothing but barriers is taken.
    fn has_backlog(&self) -> bool {
        false
    }

    /// Gives out the next part of that output.
    fn drain_backlog(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// An input gate and the chain behind it.
pub(crate) struct GateTask<B, C> {
    gate: InputGate<B>,
    chain: C,
    state: GateState,
    /// The checkpoint whose state is not all encoded yet.
    sealing: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    Running,
    /// All inputs have ended; the output that the end set off is not out yet.
    Ending,
    Ended,
}

impl<B, C> GateTask<B, C> {
    pub(crate) fn new(gate: InputGate<B>, chain: C) -> Self {
        Self { gate, chain, state: GateState::Running, sealing: None }
    }
}

impl<B, C> GateTask<B, C>
where
    C: ProcessBatch<B>,
{
    fn on_time(&mut self, output: ValveOutput) -> Result<(), OperatorError> {
        if output.status == Some(WatermarkStatus::Active) {
            self.chain.on_watermark_status(WatermarkStatus::Active)?;
        }
        if let Some(watermark) = output.watermark {
            self.chain.on_watermark(watermark)?;
        }
        if output.status == Some(WatermarkStatus::Idle) {
            self.chain.on_watermark_status(WatermarkStatus::Idle)?;
        }
        if output == ValveOutput::default() { Ok(()) } else { self.chain.on_batch_end() }
    }
}

impl<B, C> Task for GateTask<B, C>
where
    B: Send,
    C: ProcessBatch<B>,
{
    fn is_source(&self) -> bool {
        false
    }

    fn open(&mut self) -> Result<(), OperatorError> {
        self.chain.open()
    }

    fn poll(&mut self, snapshots: &mut Snapshots) -> Result<TaskStatus, OperatorError> {
        let capacity = self.chain.has_capacity();
        let backlog = self.chain.has_backlog();
        if backlog && capacity {
            self.chain.drain_backlog()?;
            self.chain.on_batch_end()?;
            return Ok(TaskStatus::Worked);
        }
        if self.state == GateState::Ending && !backlog {
            self.chain.on_end()?;
            self.state = GateState::Ended;
            return Ok(TaskStatus::Worked);
        }
        match self.gate.poll(capacity && !backlog).map_err(OperatorError::new)? {
            None => return Ok(TaskStatus::Idle),
            Some(GateEvent::Batch { input, mut batch }) => {
                self.chain.process_batch(&mut batch)?;
                self.gate.give_back(input, batch);
                self.chain.on_batch_end()?;
            }
            Some(GateEvent::Time(output)) => self.on_time(output)?,
            Some(GateEvent::Barrier(barrier)) => {
                let chain = &mut self.chain;
                let sealed = snapshots.add(barrier.checkpoint, |context| {
                    chain.on_barrier(barrier, context)?;
                    chain.seal_some(context, &mut SealBudget::slice())
                })?;
                self.sealing = (!sealed).then_some(barrier.checkpoint);
            }
            Some(GateEvent::End) => {
                self.chain.on_watermark(WATERMARK_MAX)?;
                self.chain.on_batch_end()?;
                self.state = GateState::Ending;
            }
            Some(GateEvent::Absorbed) => {}
        }
        Ok(TaskStatus::Worked)
    }

    fn trigger(
        &mut self,
        _barrier: CheckpointBarrier,
        _snapshots: &mut Snapshots,
    ) -> Result<(), OperatorError> {
        Ok(())
    }

    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.chain.on_checkpoint_confirmed(checkpoint)
    }

    fn seal(&mut self, snapshots: &mut Snapshots) -> Result<TaskStatus, OperatorError> {
        let Some(checkpoint) = self.sealing else { return Ok(TaskStatus::Idle) };
        let chain = &mut self.chain;
        let sealed = snapshots
            .add(checkpoint, |context| chain.seal_some(context, &mut SealBudget::slice()))?;
        if sealed {
            self.sealing = None;
        }
        Ok(TaskStatus::Worked)
    }

    fn wakes_in(&self) -> Option<Duration> {
        if self.state == GateState::Running { self.chain.wakes_in() } else { None }
    }

    fn is_ended(&self) -> bool {
        self.state == GateState::Ended
    }
}
