//! Merges watermarks and statuses of several inputs into one of each (Flink's StatusWatermarkValve).

use super::{WATERMARK_MIN, WatermarkStatus};

/// Watermark and status of every input and what was last told downstream.
#[derive(Debug)]
pub(crate) struct WatermarkValve {
    inputs: Vec<Input>,
    emitted: i64,
    status: WatermarkStatus,
}

#[derive(Clone, Copy, Debug)]
struct Input {
    watermark: i64,
    status: WatermarkStatus,
    ended: bool,
}

/// What an input's message changed for downstream. Of both, the watermark goes first when the stream turns idle, the
/// status goes first when it turns active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValveOutput {
    pub(crate) watermark: Option<i64>,
    pub(crate) status: Option<WatermarkStatus>,
}

impl WatermarkValve {
    /// `inputs` inputs, all active, none with a watermark.
    pub(crate) fn new(inputs: usize) -> Self {
        let input =
            Input { watermark: WATERMARK_MIN, status: WatermarkStatus::Active, ended: false };
        Self {
            inputs: vec![input; inputs],
            emitted: WATERMARK_MIN,
            status: WatermarkStatus::Active,
        }
    }

    /// `input` has come to `watermark`. A watermark of an idle input is kept for when it turns active.
    pub(crate) fn on_watermark(&mut self, input: usize, watermark: i64) -> ValveOutput {
        if let Some(input) = self.inputs.get_mut(input) {
            input.watermark = input.watermark.max(watermark);
        }
        self.advance()
    }

    /// `input` turned idle or active.
    pub(crate) fn on_status(&mut self, input: usize, status: WatermarkStatus) -> ValveOutput {
        if let Some(input) = self.inputs.get_mut(input) {
            input.status = status;
        }
        self.advance()
    }

    /// `input` has ended: it holds nothing back, and says nothing about the others.
    pub(crate) fn on_end(&mut self, input: usize) -> ValveOutput {
        if let Some(input) = self.inputs.get_mut(input) {
            input.ended = true;
        }
        self.advance()
    }

    fn advance(&mut self) -> ValveOutput {
        let open = || self.inputs.iter().filter(|i| !i.ended);
        let active = open().filter(|i| i.status == WatermarkStatus::Active);
        let (status, merged) = match active.map(|i| i.watermark).min() {
            Some(min) => (WatermarkStatus::Active, min),
            // All idle: nothing older is awaited, so the farthest input decides.
            None => {
                let max = open().map(|i| i.watermark).max();
                (WatermarkStatus::Idle, max.unwrap_or(WATERMARK_MIN))
            }
        };
        let mut output = ValveOutput::default();
        if merged > self.emitted {
            self.emitted = merged;
            output.watermark = Some(merged);
        }
        if status != self.status {
            self.status = status;
            output.status = Some(status);
        }
        output
    }
}

#[cfg(test)]
mod tests;
