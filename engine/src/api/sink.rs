//! What a connector implements to be written to.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::OperatorError;
use crate::graph::Extensions;
use crate::task::WorkerNotifier;

/// A sink: makes one writer per worker.
pub trait Sink: Clone + Send + 'static {
    /// The writer; implements [`SinkWriter`] for the elements it takes.
    type Writer: Writer;

    /// Makes the writer of one worker.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if the writer cannot be made; the job does not start.
    fn create_writer(&self, context: SinkContext) -> Result<Self::Writer, OperatorError>;

    /// What the connector wants the coordinator to know about this sink; see
    /// [`JobGraph::sinks`](crate::graph::JobGraph::sinks).
    fn description(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(())
    }
}

/// What a writer is made from.
pub struct SinkContext {
    /// The sink's uid.
    pub uid: Arc<str>,
    /// Index of the worker.
    pub worker: usize,
    /// Number of workers.
    pub parallelism: usize,
    /// The checkpoint that the first elements belong to. After [`Writer::on_barrier`] of n they belong to n + 1.
    pub checkpoint: u64,
    /// To be called when [`Writer::has_capacity`] turns true again.
    pub notifier: WorkerNotifier,
    /// What the coordinator provides to connectors.
    pub extensions: Extensions,
}

impl fmt::Debug for SinkContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkContext")
            .field("uid", &self.uid)
            .field("worker", &self.worker)
            .field("checkpoint", &self.checkpoint)
            .finish_non_exhaustive()
    }
}

/// The half of a writer that does not depend on its elements.
pub trait Writer: Send + 'static {
    /// Whether another unit of input may be taken; how much one unit writes is not known before.
    ///
    /// It must turn true again without a further checkpoint (elements of the open transaction are sent, those of the next wait
    /// for the one before to be confirmed, which needs no input): a barrier does not overtake the data in front of it, so a
    /// writer that waits for its own barrier waits for ever.
    fn has_capacity(&self) -> bool {
        true
    }

    /// Everything written so far belongs to `checkpoint` or earlier, everything after does not: hand out what is buffered.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], which ends this run of the job.
    fn on_barrier(&mut self, checkpoint: u64) -> Result<(), OperatorError>;

    /// A unit of input has passed: hand out what should not wait longer.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], which ends this run of the job.
    fn on_batch_end(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Nothing more is written. Barriers may still come.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], which ends this run of the job.
    fn on_end(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Checkpoint n is committed.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], which ends this run of the job.
    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        let _ = checkpoint;
        Ok(())
    }
}

/// A writer of elements `T`; of borrowed records if it is one for every `RecordView<'_>`.
pub trait SinkWriter<T>: Writer {
    /// Takes one element; never blocks. `timestamp` is event time in milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// [`OperatorError`], which ends this run of the job.
    fn write(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError>;
}
