//! What a connector implements to be read from.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::OperatorError;
use crate::graph::Extensions;
use crate::task::WorkerNotifier;
use millstream_checkpoint::SourcePosition;
use millstream_protocol::records::RecordView;

/// A source: makes one reader per worker.
pub trait Source: Clone + Send + 'static {
    /// The reader; implements [`SourceReader`] or [`RawSourceReader`].
    type Reader: SplitReader;

    /// Makes the reader of one worker.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if the reader cannot be made; the job does not start.
    fn create_reader(&self, context: SourceContext) -> Result<Self::Reader, OperatorError>;

    /// What the connector wants the coordinator to know about this source; see
    /// [`JobGraph::sources`](crate::graph::JobGraph::sources).
    fn description(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(())
    }
}

/// What a reader is made from.
pub struct SourceContext {
    /// The source's uid.
    pub uid: Arc<str>,
    /// Index of the worker.
    pub worker: usize,
    /// Number of workers.
    pub parallelism: usize,
    /// The splits that this worker reads and where each begins. The reader knows them by their index in this list.
    pub positions: Vec<SourcePosition>,
    /// Time between two barriers, as a rule.
    pub checkpoint_interval: Duration,
    /// To be called when [`SourceStatus::Pending`] may no longer hold.
    pub notifier: WorkerNotifier,
    /// What the coordinator provides to connectors.
    pub extensions: Extensions,
}

impl fmt::Debug for SourceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceContext")
            .field("uid", &self.uid)
            .field("worker", &self.worker)
            .field("positions", &self.positions)
            .finish_non_exhaustive()
    }
}

/// The half of a reader that does not depend on its elements.
pub trait SplitReader: Send + 'static {
    /// Number of splits; those of [`SourceContext::positions`].
    fn split_count(&self) -> usize;

    /// Where the split stands: after the last element that was emitted (and everything skipped after it). The engine fills in
    /// `max_event_time` and `finished`.
    fn position(&self, split: usize) -> SourcePosition;

    /// A barrier passes: the positions now are the checkpoint's.
    fn on_barrier(&mut self) {}

    /// Checkpoint n is committed: external systems may be told about its positions.
    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) {
        let _ = checkpoint;
    }
}

/// A reader of owned elements.
pub trait SourceReader: SplitReader {
    /// What it reads.
    type Item;

    /// Emits one unit (what one fetch brought for one split, say) and never blocks. Called only while everything downstream
    /// has capacity; the unit is taken whole.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], which ends this run of the job. Errors of [`SourceOutput::emit`] must be passed on, with the
    /// element's place added ([`OperatorError::at`]).
    fn poll_next<O>(&mut self, output: &mut O) -> Result<SourceStatus, OperatorError>
    where
        O: SourceOutput<Self::Item>;
}

/// A reader of borrowed records: nothing is copied or counted per record.
pub trait RawSourceReader: SplitReader {
    /// As [`SourceReader::poll_next`].
    ///
    /// # Errors
    ///
    /// As [`SourceReader::poll_next`].
    fn poll_next<O>(&mut self, output: &mut O) -> Result<SourceStatus, OperatorError>
    where
        O: for<'r> SourceOutput<RecordView<'r>>;
}

/// What polling a reader came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceStatus {
    /// A unit was emitted (it may be empty); there may be another one at once.
    Emitted,
    /// Nothing to read now. The reader's notifier is called when there is.
    Pending,
    /// All splits were read to their ends.
    Finished,
}

/// Where a reader tells about its splits, by index.
pub trait SplitOutput {
    /// The source has just answered that the split has nothing to read (the position is at the high watermark). Only time
    /// between such answers makes a split idle; report every one.
    fn caught_up(&mut self, split: usize);

    /// The split was read to its end.
    fn finish_split(&mut self, split: usize);
}

/// Where a reader emits elements.
pub trait SourceOutput<T>: SplitOutput {
    /// Sends an element through the whole chain. `record_timestamp` is in milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// What any operator of the chain met.
    fn emit(
        &mut self,
        split: usize,
        element: T,
        record_timestamp: i64,
    ) -> Result<(), OperatorError>;
}
