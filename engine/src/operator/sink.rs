//! The end of a chain: hands elements to a sink's writer.

use std::sync::Arc;

use super::{Collector, Output};
use crate::api::{SinkWriter, Writer};
use crate::error::OperatorError;
use crate::exchange::CheckpointBarrier;
use crate::metrics::Counters;
use crate::task::SnapshotContext;
use crate::time::WatermarkStatus;

/// See [`DataStream::sink_to`](crate::api::DataStream::sink_to).
pub(crate) struct SinkOperator<W> {
    pub(crate) uid: Arc<str>,
    pub(crate) writer: W,
    pub(crate) counters: Counters,
}

impl<T, W> Collector<T> for SinkOperator<W>
where
    W: SinkWriter<T>,
{
    #[inline]
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        self.counters.records_in += 1;
        self.writer.write(element, timestamp).map_err(|error| error.in_operator(&self.uid))
    }
}

impl<W> Output for SinkOperator<W>
where
    W: Writer,
{
    fn open(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    fn on_watermark(&mut self, watermark: i64) -> Result<(), OperatorError> {
        self.counters.watermark(watermark);
        Ok(())
    }

    fn on_watermark_status(&mut self, _status: WatermarkStatus) -> Result<(), OperatorError> {
        Ok(())
    }

    fn on_barrier(
        &mut self,
        barrier: CheckpointBarrier,
        _snapshot: &mut SnapshotContext,
    ) -> Result<(), OperatorError> {
        self.counters.publish();
        self.writer.on_barrier(barrier.checkpoint).map_err(|error| error.in_operator(&self.uid))
    }

    fn on_batch_end(&mut self) -> Result<(), OperatorError> {
        self.counters.publish();
        self.writer.on_batch_end().map_err(|error| error.in_operator(&self.uid))
    }

    fn on_end(&mut self) -> Result<(), OperatorError> {
        self.counters.publish();
        self.writer.on_end().map_err(|error| error.in_operator(&self.uid))
    }

    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.writer
            .on_checkpoint_confirmed(checkpoint)
            .map_err(|error| error.in_operator(&self.uid))
    }

    fn has_capacity(&self) -> bool {
        self.writer.has_capacity()
    }
}
