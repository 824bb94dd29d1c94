//! Many channels, one ordered view: aligned barriers, merged watermarks.

use std::sync::Arc;

use super::barrier_aligner::BarrierAligner;
use super::{Channel, CheckpointBarrier, StreamElement};
use crate::error::Bug;
use crate::time::{ValveOutput, WatermarkValve};

/// The input side of one edge at one worker.
#[derive(Debug)]
pub(crate) struct InputGate<B> {
    channels: Vec<Arc<Channel<B>>>,
    aligner: BarrierAligner,
    valve: WatermarkValve,
    ended: Vec<bool>,
    next: usize,
}

/// What one element of an input means for the operators behind the gate.
#[derive(Debug)]
pub(crate) enum GateEvent<B> {
    /// Elements to process. Emptied, the batch goes back to its input; see [`InputGate::give_back`].
    Batch { input: usize, batch: B },
    /// Event time moved or the merged stream changed its status.
    Time(ValveOutput),
    /// All inputs have delivered the barrier.
    Barrier(CheckpointBarrier),
    /// All inputs have ended.
    End,
    /// The element was taken and changes nothing yet.
    Absorbed,
}

impl<B> InputGate<B> {
    pub(crate) fn new(channels: Vec<Arc<Channel<B>>>) -> Self {
        let inputs = channels.len();
        Self {
            channels,
            aligner: BarrierAligner::new(inputs),
            valve: WatermarkValve::new(inputs),
            ended: vec![false; inputs],
            next: 0,
        }
    }

    /// Takes one element from the inputs in turn. Batches, watermarks and ends are taken only with `capacity`; barriers
    /// at the head of an input always are, since they produce nothing.
    pub(crate) fn poll(&mut self, capacity: bool) -> Result<Option<GateEvent<B>>, Bug> {
        let inputs = self.channels.len();
        for step in 0..inputs {
            let input = (self.next + step) % inputs;
            if self.aligner.is_blocked(input) {
                continue;
            }
            let Some(channel) = self.channels.get(input) else { continue };
            let admit = |element: &StreamElement<B>| {
                capacity || matches!(element, StreamElement::CheckpointBarrier(_))
            };
            if let Some(element) = channel.pop_if(admit) {
                self.next = (input + 1) % inputs;
                return self.on_element(input, element).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns an emptied batch to the input that it came from.
    pub(crate) fn give_back(&self, input: usize, batch: B) {
        if let Some(channel) = self.channels.get(input) {
            channel.give_back(batch);
        }
    }

    fn on_element(&mut self, input: usize, element: StreamElement<B>) -> Result<GateEvent<B>, Bug> {
        Ok(match element {
            StreamElement::Batch { batch, .. } => GateEvent::Batch { input, batch },
            StreamElement::Watermark(watermark) => {
                GateEvent::Time(self.valve.on_watermark(input, watermark))
            }
            StreamElement::WatermarkStatus(status) => {
                GateEvent::Time(self.valve.on_status(input, status))
            }
            StreamElement::CheckpointBarrier(barrier) => {
                match self.aligner.on_barrier(input, barrier)? {
                    Some(barrier) => GateEvent::Barrier(barrier),
                    None => GateEvent::Absorbed,
                }
            }
            StreamElement::EndOfInput => {
                if let Some(ended) = self.ended.get_mut(input) {
                    *ended = true;
                }
                let time = self.valve.on_end(input);
                if self.ended.iter().all(|ended| *ended) {
                    GateEvent::End
                } else {
                    GateEvent::Time(time)
                }
            }
        })
    }

    #[cfg(test)]
    pub(crate) fn never_align(&mut self) {
        self.aligner.never_block = true;
    }
}

#[cfg(test)]
mod tests;
