//! A sink that keeps what it is given, with the checkpoint each element belongs to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_protocol::records::RecordView;

use super::OwnedRecord;
use crate::api::{Sink, SinkContext, SinkWriter, Writer};
use crate::error::OperatorError;
use crate::task::WorkerNotifier;

/// Keeps elements in memory. Clones share what was collected, so keep one to look at. `T` may be [`OwnedRecord`] at the end
/// of a raw stream.
#[derive(Clone, Debug)]
pub struct CollectingSink<T> {
    collected: Arc<Mutex<Vec<Collected<T>>>>,
    pending_max: usize,
}

/// One collected element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected<T> {
    /// The element.
    pub element: T,
    /// Its event time in milliseconds.
    pub timestamp: i64,
    /// The checkpoint it belongs to: part of the output once that is confirmed.
    pub checkpoint: u64,
    /// The worker that wrote it.
    pub worker: usize,
}

impl<T> CollectingSink<T> {
    /// An empty sink.
    #[must_use]
    pub fn new() -> Self {
        Self { collected: Arc::default(), pending_max: usize::MAX }
    }

    /// Refuses more input at a worker that has `elements` elements waiting for the checkpoint before theirs to be confirmed, as
    /// a transactional sink with a bounded buffer does.
    #[must_use]
    pub fn with_pending_max(mut self, elements: usize) -> Self {
        self.pending_max = elements;
        self
    }

    /// Forgets every element of a checkpoint after `checkpoint`, as the abort of a transaction does.
    pub fn abort_after(&self, checkpoint: u64) {
        self.lock().retain(|collected| collected.checkpoint <= checkpoint);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Collected<T>>> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> CollectingSink<T> {
    /// Everything collected, in the order of arrival.
    #[must_use]
    pub fn collected(&self) -> Vec<Collected<T>> {
        self.lock().clone()
    }

    /// The elements alone, in the order of arrival.
    #[must_use]
    pub fn elements(&self) -> Vec<T> {
        self.lock().iter().map(|collected| collected.element.clone()).collect()
    }
}

impl<T> Default for CollectingSink<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Send + 'static> Sink for CollectingSink<T> {
    type Writer = CollectingWriter<T>;

    fn create_writer(&self, context: SinkContext) -> Result<Self::Writer, OperatorError> {
        Ok(CollectingWriter {
            sink: self.clone(),
            worker: context.worker,
            checkpoint: context.checkpoint,
            confirmed: context.checkpoint.saturating_sub(1),
            pending: 0,
            notifier: context.notifier,
        })
    }
}

/// Writer of a [`CollectingSink`].
#[derive(Debug)]
pub struct CollectingWriter<T> {
    sink: CollectingSink<T>,
    worker: usize,
    checkpoint: u64,
    confirmed: u64,
    /// Elements whose transaction cannot begin yet.
    pending: usize,
    notifier: WorkerNotifier,
}

impl<T: Send + 'static> Writer for CollectingWriter<T> {
    fn has_capacity(&self) -> bool {
        self.pending < self.sink.pending_max
    }

    fn on_barrier(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.checkpoint = checkpoint + 1;
        Ok(())
    }

    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.confirmed = checkpoint;
        self.pending = 0;
        self.notifier.notify();
        Ok(())
    }
}

impl<T: Send + 'static> CollectingWriter<T> {
    fn push(&mut self, element: T, timestamp: i64) {
        let Self { checkpoint, worker, .. } = *self;
        self.sink.lock().push(Collected { element, timestamp, checkpoint, worker });
        if checkpoint > self.confirmed + 1 {
            self.pending += 1;
        }
    }
}

impl<T: Send + 'static> SinkWriter<T> for CollectingWriter<T> {
    fn write(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        self.push(element, timestamp);
        Ok(())
    }
}

impl<'r> SinkWriter<RecordView<'r>> for CollectingWriter<OwnedRecord> {
    fn write(&mut self, record: RecordView<'r>, timestamp: i64) -> Result<(), OperatorError> {
        let owned = |bytes: &[u8]| bytes.to_vec();
        let record = OwnedRecord { key: record.key.map(owned), value: record.value.map(owned) };
        self.push(record, timestamp);
        Ok(())
    }
}
