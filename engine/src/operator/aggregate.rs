//! The running aggregate: a changelog with one output per input, the key's result so far.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Collector, Output};
use crate::api::{AggregateFunction, Keyed};
use crate::error::OperatorError;
use crate::exchange::{CheckpointBarrier, KeyedBatch, KeyedElement};
use crate::metrics::Counters;
use crate::state::{SealBudget, StateCodec, ValueTable};
use crate::task::{ProcessBatch, SnapshotContext};
use crate::time::WatermarkStatus;

/// See [`KeyedStream::aggregate`](crate::api::KeyedStream::aggregate).
pub(crate) struct RunningAggregate<K, A, D>
where
    A: AggregateFunction,
{
    pub(crate) uid: Arc<str>,
    pub(crate) function: A,
    pub(crate) key: PhantomData<fn() -> K>,
    pub(crate) accumulators: ValueTable<A::Accumulator>,
    pub(crate) counters: Counters,
    pub(crate) downstream: D,
}

impl<K, A, D> ProcessBatch<KeyedBatch<A::Input>> for RunningAggregate<K, A, D>
where
    K: StateCodec,
    A: AggregateFunction,
    A::Accumulator: StateCodec + Send,
    D: Collector<Keyed<K, A::Output>>,
{
    fn process_batch(&mut self, batch: &mut KeyedBatch<A::Input>) -> Result<(), OperatorError> {
        let Self { uid, function, accumulators, counters, downstream, .. } = self;
        let function = &*function;
        for KeyedElement { key, element, timestamp } in batch.drain() {
            counters.records_in += 1;
            let change = |accumulator: &mut A::Accumulator| {
                function.add(element, accumulator);
                function.result(accumulator)
            };
            let value = accumulators
                .update(key, || function.create_accumulator(), change)
                .map_err(|error| error.in_operator(uid))?;
            let key =
                K::decode(key.bytes).map_err(|error| OperatorError::new(error).in_operator(uid))?;
            counters.records_out += 1;
            downstream.collect(Keyed { key, value }, timestamp)?;
        }
        Ok(())
    }

    fn seal_some(
        &mut self,
        snapshot: &mut SnapshotContext,
        budget: &mut SealBudget,
    ) -> Result<bool, OperatorError> {
        self.accumulators
            .seal_some(budget, |changes| snapshot.add_state(changes))
            .map_err(|error| error.in_operator(&self.uid))
    }
}

impl<K, A, D> Output for RunningAggregate<K, A, D>
where
    K: StateCodec,
    A: AggregateFunction,
    A::Accumulator: StateCodec + Send,
    D: Output,
{
    fn open(&mut self) -> Result<(), OperatorError> {
        self.downstream.open()
    }

    fn on_watermark(&mut self, watermark: i64) -> Result<(), OperatorError> {
        self.counters.watermark(watermark);
        self.downstream.on_watermark(watermark)
    }

    fn on_watermark_status(&mut self, status: WatermarkStatus) -> Result<(), OperatorError> {
        self.downstream.on_watermark_status(status)
    }

    fn on_barrier(
        &mut self,
        barrier: CheckpointBarrier,
        snapshot: &mut SnapshotContext,
    ) -> Result<(), OperatorError> {
        self.accumulators
            .freeze(barrier.checkpoint)
            .map_err(|error| error.in_operator(&self.uid))?;
        self.downstream.on_barrier(barrier, snapshot)
    }

    fn on_batch_end(&mut self) -> Result<(), OperatorError> {
        self.counters.publish();
        self.downstream.on_batch_end()
    }

    fn on_end(&mut self) -> Result<(), OperatorError> {
        self.downstream.on_end()
    }

    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.accumulators.confirm(checkpoint);
        self.downstream.on_checkpoint_confirmed(checkpoint)
    }

    fn has_capacity(&self) -> bool {
        self.downstream.has_capacity()
    }
}
