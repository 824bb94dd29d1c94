//! Operators: each is generic over its downstream, so that a chain fuses into one function at compile time.
//!
//! A chain is push based. Its control half ([`Output`]) is apart from its data half ([`Collector`]) because a raw chain
//! implements `Collector<RecordView<'a>>` for every `'a`, and control must not depend on `'a`.

mod aggregate;
mod filter;
mod flat_map;
mod keyed_process;
mod map;
mod sink;
mod window;

pub(crate) use aggregate::RunningAggregate;
pub(crate) use filter::Filter;
pub(crate) use flat_map::FlatMap;
pub(crate) use keyed_process::{KeyedProcess, processing_time_name};
pub(crate) use map::{Map, RawMap, RawTryMap, TryMap};
pub(crate) use sink::SinkOperator;
pub(crate) use window::WindowAggregate;

use crate::error::OperatorError;
use crate::exchange::CheckpointBarrier;
use crate::task::SnapshotContext;
use crate::time::WatermarkStatus;

/// The control half of a chain: everything that is not an element, in the order of the stream.
pub trait Output: Send {
    /// Called once on the worker's thread, downstream first, before anything else: the place to load state.
    fn open(&mut self) -> Result<(), OperatorError>;
    /// No element with a timestamp at or below `watermark` (milliseconds) is expected any more.
    fn on_watermark(&mut self, watermark: i64) -> Result<(), OperatorError>;
    /// The stream turned idle or active again.
    fn on_watermark_status(&mut self, status: WatermarkStatus) -> Result<(), OperatorError>;
    /// Everything before this call belongs to checkpoint `barrier.checkpoint`, everything after does not.
    fn on_barrier(
        &mut self,
        barrier: CheckpointBarrier,
        snapshot: &mut SnapshotContext,
    ) -> Result<(), OperatorError>;
    /// One unit of input (a fetched chunk, one exchange batch) has passed: hand out what was buffered.
    fn on_batch_end(&mut self) -> Result<(), OperatorError>;
    /// No element follows. Barriers still may.
    fn on_end(&mut self) -> Result<(), OperatorError>;
    /// The state changes of `checkpoint` are committed and can be read through the store.
    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError>;
    /// Whether one more unit of input may be taken. May turn true again at any time, false only by own output.
    fn has_capacity(&self) -> bool;
}

/// The data half of a chain.
pub trait Collector<T>: Output {
    /// Processes one element. `timestamp` is its event time in milliseconds since the epoch.
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError>;
}

/// Implements [`Output`] for an operator without state or time of its own: everything goes on downstream.
macro_rules! forward_control {
    ($name:ident < $($param:ident),* >) => {
        impl<$($param: Send),*> $crate::operator::Output for $name<$($param),*>
        where
            D: $crate::operator::Output,
        {
            fn open(&mut self) -> Result<(), $crate::error::OperatorError> {
                self.downstream.open()
            }
            fn on_watermark(&mut self, watermark: i64) -> Result<(), $crate::error::OperatorError> {
                self.downstream.on_watermark(watermark)
            }
            fn on_watermark_status(
                &mut self,
                status: $crate::time::WatermarkStatus,
            ) -> Result<(), $crate::error::OperatorError> {
                self.downstream.on_watermark_status(status)
            }
            fn on_barrier(
                &mut self,
                barrier: $crate::exchange::CheckpointBarrier,
                snapshot: &mut $crate::task::SnapshotContext,
            ) -> Result<(), $crate::error::OperatorError> {
                self.downstream.on_barrier(barrier, snapshot)
            }
            fn on_batch_end(&mut self) -> Result<(), $crate::error::OperatorError> {
                self.downstream.on_batch_end()
            }
            fn on_end(&mut self) -> Result<(), $crate::error::OperatorError> {
                self.downstream.on_end()
            }
            fn on_checkpoint_confirmed(
                &mut self,
                checkpoint: u64,
            ) -> Result<(), $crate::error::OperatorError> {
                self.downstream.on_checkpoint_confirmed(checkpoint)
            }
            fn has_capacity(&self) -> bool {
                self.downstream.has_capacity()
            }
        }
    };
}
pub(crate) use forward_control;
