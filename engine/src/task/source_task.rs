//! A chain that is fed by a source reader.

use std::sync::Arc;

use millstream_protocol::Timestamp;

use super::{Snapshots, Task, TaskStatus};
use crate::api::{
    RawSourceReader, SourceOutput, SourceReader, SourceStatus, SplitOutput, SplitReader,
};
use crate::error::OperatorError;
use crate::exchange::{CheckpointBarrier, CheckpointKind};
use crate::metrics::Counters;
use crate::operator::{Collector, Output};
use crate::time::{Clock, SplitWatermarks, TimestampAssigner, WATERMARK_MAX, WatermarkStatus};
use millstream_protocol::records::RecordView;

/// A reader, the splits' event time and the chain behind them.
pub(crate) struct SourceTask<R, A, D> {
    pub(crate) uid: Arc<str>,
    pub(crate) reader: R,
    pub(crate) assigner: A,
    pub(crate) downstream: D,
    pub(crate) watermarks: SplitWatermarks,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Counters,
    pub(crate) state: SourceState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SourceState {
    #[default]
    Running,
    /// Ends at the next opportunity, although there may be more to read.
    Draining,
    /// A suspending barrier has passed: nothing is read any more.
    Suspended,
    Ended,
}

/// Reads one unit into a chain. Bridges readers of owned elements and of borrowed records.
pub(crate) trait ReadInto<A, D>: Send {
    fn read(&mut self, output: &mut Emitter<'_, A, D>) -> Result<SourceStatus, OperatorError>;
    fn splits(&self) -> &dyn SplitReader;
    fn splits_mut(&mut self) -> &mut dyn SplitReader;
}

/// A reader of owned elements.
pub(crate) struct Typed<R>(pub(crate) R);

impl<R, A, D> ReadInto<A, D> for Typed<R>
where
    R: SourceReader,
    A: TimestampAssigner<R::Item>,
    D: Collector<R::Item>,
{
    fn read(&mut self, output: &mut Emitter<'_, A, D>) -> Result<SourceStatus, OperatorError> {
        self.0.poll_next(output)
    }
    fn splits(&self) -> &dyn SplitReader {
        &self.0
    }
    fn splits_mut(&mut self) -> &mut dyn SplitReader {
        &mut self.0
    }
}

/// A reader of borrowed records.
pub(crate) struct Raw<R>(pub(crate) R);

impl<R, A, D> ReadInto<A, D> for Raw<R>
where
    R: RawSourceReader,
    A: for<'r> TimestampAssigner<RecordView<'r>>,
    D: for<'r> Collector<RecordView<'r>>,
{
    fn read(&mut self, output: &mut Emitter<'_, A, D>) -> Result<SourceStatus, OperatorError> {
        self.0.poll_next(output)
    }
    fn splits(&self) -> &dyn SplitReader {
        &self.0
    }
    fn splits_mut(&mut self) -> &mut dyn SplitReader {
        &mut self.0
    }
}

/// The [`SourceOutput`] that a reader writes into: stamps event time and calls the chain.
pub(crate) struct Emitter<'a, A, D> {
    assigner: &'a mut A,
    downstream: &'a mut D,
    watermarks: &'a mut SplitWatermarks,
    now: Timestamp,
    records: u64,
}

impl<A, D> SplitOutput for Emitter<'_, A, D> {
    fn caught_up(&mut self, split: usize) {
        self.watermarks.caught_up(split, self.now);
    }

    fn finish_split(&mut self, split: usize) {
        self.watermarks.finish(split);
    }
}

impl<T, A, D> SourceOutput<T> for Emitter<'_, A, D>
where
    A: TimestampAssigner<T>,
    D: Collector<T>,
{
    #[inline]
    fn emit(
        &mut self,
        split: usize,
        element: T,
        record_timestamp: i64,
    ) -> Result<(), OperatorError> {
        let timestamp = self.assigner.extract_timestamp(&element, record_timestamp);
        if self.watermarks.on_element(split, timestamp) {
            self.downstream.on_watermark_status(WatermarkStatus::Active)?;
        }
        self.records += 1;
        self.downstream.collect(element, timestamp)
    }
}

impl<R, A, D> SourceTask<R, A, D>
where
    R: ReadInto<A, D>,
    D: Output,
{
    fn advance_time(&mut self) -> Result<(), OperatorError> {
        let progress = self.watermarks.progress();
        if progress.active {
            self.downstream.on_watermark_status(WatermarkStatus::Active)?;
        }
        if let Some(watermark) = progress.watermark {
            self.counters.watermark(watermark);
            self.downstream.on_watermark(watermark)?;
        }
        if progress.idle {
            self.downstream.on_watermark_status(WatermarkStatus::Idle)?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<TaskStatus, OperatorError> {
        let mut output = Emitter {
            assigner: &mut self.assigner,
            downstream: &mut self.downstream,
            watermarks: &mut self.watermarks,
            now: self.clock.now(),
            records: 0,
        };
        let status = self.reader.read(&mut output)?;
        let records = output.records;
        self.counters.records_out += records;
        self.counters.publish();
        self.advance_time()?;
        self.downstream.on_batch_end()?;
        match status {
            SourceStatus::Emitted => Ok(TaskStatus::Worked),
            SourceStatus::Pending => Ok(TaskStatus::Idle),
            SourceStatus::Finished => self.end(),
        }
    }

    /// Event time has come to its end, and no element follows.
    fn end(&mut self) -> Result<TaskStatus, OperatorError> {
        self.state = SourceState::Ended;
        self.counters.watermark(WATERMARK_MAX);
        self.downstream.on_watermark(WATERMARK_MAX)?;
        self.downstream.on_end()?;
        Ok(TaskStatus::Worked)
    }
}

impl<R, A, D> Task for SourceTask<R, A, D>
where
    R: ReadInto<A, D>,
    A: Send,
    D: Output,
{
    fn is_source(&self) -> bool {
        true
    }

    fn open(&mut self) -> Result<(), OperatorError> {
        self.downstream.open()?;
        // A restored source has come as far as its splits had: said at once, so that late stays late.
        self.advance_time()
    }

    fn poll(&mut self, _snapshots: &mut Snapshots) -> Result<TaskStatus, OperatorError> {
        if !self.downstream.has_capacity() {
            return Ok(TaskStatus::Idle);
        }
        let done = match self.state {
            SourceState::Running => self.read(),
            SourceState::Draining => self.end(),
            SourceState::Suspended | SourceState::Ended => return Ok(TaskStatus::Idle),
        };
        done.map_err(|error| error.in_operator(&self.uid))
    }

    fn trigger(
        &mut self,
        barrier: CheckpointBarrier,
        snapshots: &mut Snapshots,
    ) -> Result<(), OperatorError> {
        if barrier.kind == CheckpointKind::Suspend && self.state == SourceState::Running {
            self.state = SourceState::Suspended;
        }
        let Self { uid, reader, watermarks, downstream, .. } = self;
        let added = snapshots.add(barrier.checkpoint, |context| {
            let reader = reader.splits();
            for split in 0..reader.split_count() {
                let mut position = reader.position(split);
                (position.max_event_time, position.finished) = watermarks.state(split);
                context.add_position(uid, position);
            }
            downstream.on_barrier(barrier, context)?;
            Ok(true)
        });
        added.map(|_| ())
    }

    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.reader.splits_mut().on_checkpoint_confirmed(checkpoint);
        self.downstream.on_checkpoint_confirmed(checkpoint)
    }

    fn drain(&mut self) {
        if self.state == SourceState::Running {
            self.state = SourceState::Draining;
        }
    }

    fn is_ended(&self) -> bool {
        self.state == SourceState::Ended
    }
}
