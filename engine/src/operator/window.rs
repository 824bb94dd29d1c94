//! Tumbling windows in event time: one accumulator per key and open window, one result when the watermark passes its end.

use std::sync::Arc;

use super::{Collector, Output};
use crate::api::AggregateFunction;
use crate::error::OperatorError;
use crate::exchange::{CheckpointBarrier, KeyedBatch, KeyedElement};
use crate::metrics::Counters;
use crate::state::{SealBudget, StateCodec};
use crate::task::{ProcessBatch, SnapshotContext};
use crate::time::{WATERMARK_MIN, WatermarkStatus};
use crate::window::{OpenWindows, TumblingEventTimeWindows, WindowResult};

/// See [`WindowedStream::aggregate`](crate::api::WindowedStream::aggregate).
pub(crate) struct WindowAggregate<K, A, D>
where
    A: AggregateFunction,
{
    pub(crate) uid: Arc<str>,
    pub(crate) assigner: TumblingEventTimeWindows,
    pub(crate) function: A,
    pub(crate) windows: OpenWindows<K, A::Accumulator>,
    /// Event time of this operator; part of the checkpoint, so that a replay drops what was late before. Windows at or
    /// below it that are still there have closed and wait for capacity downstream.
    pub(crate) watermark: i64,
    /// What downstream has been told.
    pub(crate) forwarded: i64,
    pub(crate) counters: Counters,
    pub(crate) downstream: D,
}

impl<K, A, D> ProcessBatch<KeyedBatch<A::Input>> for WindowAggregate<K, A, D>
where
    K: StateCodec,
    A: AggregateFunction,
    A::Accumulator: StateCodec + Send,
    D: Collector<WindowResult<K, A::Output>>,
{
    fn process_batch(&mut self, batch: &mut KeyedBatch<A::Input>) -> Result<(), OperatorError> {
        let Self { uid, assigner, function, windows, counters, watermark, .. } = self;
        let function = &*function;
        for KeyedElement { key, element, timestamp } in batch.drain() {
            counters.records_in += 1;
            let window = assigner
                .assign(timestamp)
                .map_err(|error| OperatorError::new(error).in_operator(uid))?;
            if window.max_timestamp() <= *watermark {
                counters.late_records_dropped += 1;
                continue;
            }
            let create = || function.create_accumulator();
            windows
                .update(window, key, create, |accumulator| function.add(element, accumulator))
                .map_err(|error| error.in_operator(uid))?;
        }
        Ok(())
    }

    fn seal_some(
        &mut self,
        snapshot: &mut SnapshotContext,
        budget: &mut SealBudget,
    ) -> Result<bool, OperatorError> {
        self.windows
            .seal_some(budget, |changes| snapshot.add_state(changes))
            .map_err(|error| error.in_operator(&self.uid))
    }

    fn has_backlog(&self) -> bool {
        self.forwarded < self.watermark
    }

    /// Emits the results of closed windows in the order of (end, key group, key), with a window's last millisecond as their
    /// timestamp: whole windows, until there are enough for one unit. After the last one the watermark may go on.
    fn drain_backlog(&mut self) -> Result<(), OperatorError> {
        let mut results = 0;
        while results < UNIT_RESULTS {
            let closed = self.windows.take_closed(self.watermark);
            let Some(pane) = closed.map_err(|error| error.in_operator(&self.uid))? else {
                self.forwarded = self.watermark;
                return self.downstream.on_watermark(self.watermark);
            };
            let window = pane.window();
            for entry in pane.into_entries() {
                let (key, accumulator) = entry.map_err(|error| error.in_operator(&self.uid))?;
                let value = self.function.result(&accumulator);
                results += 1;
                self.counters.records_out += 1;
                let result = WindowResult { key, window, value };
                self.downstream.collect(result, window.max_timestamp())?;
            }
        }
        Ok(())
    }
}

/// After this many results of closed windows the operator asks again whether there is capacity.
const UNIT_RESULTS: u64 = 1024;

impl<K, A, D> Output for WindowAggregate<K, A, D>
where
    K: StateCodec,
    A: AggregateFunction,
    A::Accumulator: StateCodec + Send,
    D: Collector<WindowResult<K, A::Output>>,
{
    fn open(&mut self) -> Result<(), OperatorError> {
        self.downstream.open()?;
        self.counters.watermark(self.watermark);
        self.windows.load().map_err(|error| error.in_operator(&self.uid))
    }

    fn on_watermark(&mut self, watermark: i64) -> Result<(), OperatorError> {
        // After a restore with other workers the inputs may lag behind what this operator has fired.
        if watermark > self.watermark {
            self.watermark = watermark;
            self.counters.watermark(watermark);
        }
        Ok(())
    }

    fn on_watermark_status(&mut self, status: WatermarkStatus) -> Result<(), OperatorError> {
        self.downstream.on_watermark_status(status)
    }

    fn on_barrier(
        &mut self,
        barrier: CheckpointBarrier,
        snapshot: &mut SnapshotContext,
    ) -> Result<(), OperatorError> {
        self.windows.freeze(barrier.checkpoint).map_err(|error| error.in_operator(&self.uid))?;
        if self.watermark > WATERMARK_MIN {
            snapshot.add_watermark(&self.uid, self.watermark);
        }
        self.downstream.on_barrier(barrier, snapshot)
    }

    fn on_batch_end(&mut self) -> Result<(), OperatorError> {
        self.counters.publish();
        self.downstream.on_batch_end()
    }

    fn on_end(&mut self) -> Result<(), OperatorError> {
        self.counters.publish();
        self.downstream.on_end()
    }

    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.downstream.on_checkpoint_confirmed(checkpoint)
    }

    fn has_capacity(&self) -> bool {
        self.downstream.has_capacity()
    }
}
