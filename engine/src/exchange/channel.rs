//! One direction between two workers: bounded in bytes for batches, always open for control elements.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::StreamElement;
use crate::task::WorkerNotifier;

/// Queue from one source worker to one target worker on one edge.
///
/// A batch may be pushed while [`has_capacity`](Self::has_capacity) holds; one batch may overshoot the bound. Control
/// elements need no capacity. They stay few: barriers come one at a time, watermarks without a batch between them are
/// merged, statuses alternate.
#[derive(Debug)]
pub(crate) struct Channel<E> {
    // Guards the queue between exactly two threads. A lock per batch, not per element; a lock-free ring would need unsafe.
    queue: Mutex<VecDeque<StreamElement<E>>>,
    bytes: AtomicUsize,
    bytes_max: usize,
    producer: WorkerNotifier,
    consumer: WorkerNotifier,
}

impl<E> Channel<E> {
    pub(crate) fn new(
        bytes_max: usize,
        producer: WorkerNotifier,
        consumer: WorkerNotifier,
    ) -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            bytes: AtomicUsize::new(0),
            bytes_max,
            producer,
            consumer,
        }
    }

    /// Whether a batch may be pushed.
    pub(crate) fn has_capacity(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < self.bytes_max
    }

    /// Appends an element and wakes the consumer.
    pub(crate) fn push(&self, element: StreamElement<E>) {
        let mut queue = self.lock();
        match (&element, queue.back_mut()) {
            (StreamElement::Watermark(new), Some(StreamElement::Watermark(last))) => {
                *last = (*last).max(*new);
                return;
            }
            (StreamElement::Batch { bytes, .. }, _) => {
                self.bytes.fetch_add(*bytes, Ordering::AcqRel);
            }
            _ => {}
        }
        queue.push_back(element);
        drop(queue);
        self.consumer.notify();
    }

    /// Takes the next element, if `admit` agrees with it.
    pub(crate) fn pop_if(
        &self,
        admit: impl FnOnce(&StreamElement<E>) -> bool,
    ) -> Option<StreamElement<E>> {
        let mut queue = self.lock();
        let element = queue.pop_front_if(|element| admit(element))?;
        drop(queue);
        if let StreamElement::Batch { bytes, .. } = &element {
            let before = self.bytes.fetch_sub(*bytes, Ordering::AcqRel);
            if before >= self.bytes_max && before - bytes < self.bytes_max {
                self.producer.notify();
            }
        }
        Some(element)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<StreamElement<E>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All channels of one edge: `parallelism` × `parallelism`.
#[derive(Debug)]
pub(crate) struct ChannelMatrix<E> {
    channels: Vec<Vec<Arc<Channel<E>>>>,
}

impl<E> ChannelMatrix<E> {
    /// One channel of `bytes_max` bytes between any two of the workers behind `notifiers`.
    pub(crate) fn new(bytes_max: usize, notifiers: &[WorkerNotifier]) -> Self {
        let row = |producer: &WorkerNotifier| {
            let channel = |consumer: &WorkerNotifier| {
                Arc::new(Channel::new(bytes_max, producer.clone(), consumer.clone()))
            };
            notifiers.iter().map(channel).collect()
        };
        Self { channels: notifiers.iter().map(row).collect() }
    }

    /// The channels that worker `source` writes, by target.
    pub(crate) fn outputs_of(&self, source: usize) -> Vec<Arc<Channel<E>>> {
        self.channels.get(source).cloned().unwrap_or_default()
    }

    /// The channels that worker `target` reads, by source.
    pub(crate) fn inputs_of(&self, target: usize) -> Vec<Arc<Channel<E>>> {
        self.channels.iter().filter_map(|row| row.get(target).cloned()).collect()
    }
}
