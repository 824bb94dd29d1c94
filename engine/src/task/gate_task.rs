//! A chain that is fed by an exchange.

use super::{Snapshots, Task, TaskStatus};
use crate::error::OperatorError;
use crate::exchange::{CheckpointBarrier, GateEvent, InputGate};
use crate::operator::Output;
use crate::time::{ValveOutput, WATERMARK_MAX, WatermarkStatus};

/// The first operator behind an exchange: takes exchanged elements.
pub(crate) trait ProcessElement<E>: Output {
    fn process(&mut self, element: E) -> Result<(), OperatorError>;
}

/// An input gate and the chain behind it.
pub(crate) struct GateTask<E, C> {
    gate: InputGate<E>,
    chain: C,
    ended: bool,
}

impl<E, C> GateTask<E, C> {
    pub(crate) fn new(gate: InputGate<E>, chain: C) -> Self {
        Self { gate, chain, ended: false }
    }
}

impl<E, C> GateTask<E, C>
where
    C: ProcessElement<E>,
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

impl<E, C> Task for GateTask<E, C>
where
    E: Send,
    C: ProcessElement<E>,
{
    fn is_source(&self) -> bool {
        false
    }

    fn open(&mut self) -> Result<(), OperatorError> {
        self.chain.open()
    }

    fn poll(&mut self, snapshots: &mut Snapshots) -> Result<TaskStatus, OperatorError> {
        let capacity = self.chain.has_capacity();
        match self.gate.poll(capacity).map_err(OperatorError::new)? {
            None => return Ok(TaskStatus::Idle),
            Some(GateEvent::Batch(elements)) => {
                for element in elements {
                    self.chain.process(element)?;
                }
                self.chain.on_batch_end()?;
            }
            Some(GateEvent::Time(output)) => self.on_time(output)?,
            Some(GateEvent::Barrier(barrier)) => {
                let chain = &mut self.chain;
                snapshots.pass(barrier.checkpoint, |context| chain.on_barrier(barrier, context))?;
            }
            Some(GateEvent::End) => {
                self.chain.on_watermark(WATERMARK_MAX)?;
                self.chain.on_end()?;
                self.ended = true;
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

    fn is_ended(&self) -> bool {
        self.ended
    }
}
