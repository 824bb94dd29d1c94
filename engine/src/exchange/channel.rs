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
pub(crate) struct Channel<B> {
    // Guards the queue between exactly two threads. A lock per batch, not per element; a lock-free ring would need unsafe.
    queue: Mutex<Queue<B>>,
    bytes: AtomicUsize,
    bytes_max: usize,
    producer: WorkerNotifier,
    consumer: WorkerNotifier,
}

#[derive(Debug)]
struct Queue<B> {
    elements: VecDeque<StreamElement<B>>,
    /// Emptied batches on their way back to the producer.
    spare: Vec<B>,
}

/// Emptied batches that a channel keeps: about as many as one fetch of the upstream fills at once.
const SPARE_MAX: usize = 16;

impl<B> Channel<B> {
    pub(crate) fn new(
        bytes_max: usize,
        producer: WorkerNotifier,
        consumer: WorkerNotifier,
    ) -> Self {
        Self {
            queue: Mutex::new(Queue { elements: VecDeque::new(), spare: Vec::new() }),
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
    pub(crate) fn push(&self, element: StreamElement<B>) {
        let mut queue = self.lock();
        match (&element, queue.elements.back_mut()) {
            (StreamElement::Watermark(new), Some(StreamElement::Watermark(last))) => {
                *last = (*last).max(*new);
                return;
            }
            (StreamElement::Batch { bytes, .. }, _) => {
                self.bytes.fetch_add(*bytes, Ordering::AcqRel);
            }
            _ => {}
        }
        queue.elements.push_back(element);
        drop(queue);
        self.consumer.notify();
    }

    /// Takes the next element, if `admit` agrees with it.
    pub(crate) fn pop_if(
        &self,
        admit: impl FnOnce(&StreamElement<B>) -> bool,
    ) -> Option<StreamElement<B>> {
        let mut queue = self.lock();
        let element = queue.elements.pop_front_if(|element| admit(element))?;
        drop(queue);
        if let StreamElement::Batch { bytes, .. } = &element {
            let before = self.bytes.fetch_sub(*bytes, Ordering::AcqRel);
            if before >= self.bytes_max && before - bytes < self.bytes_max {
                self.producer.notify();
            }
        }
        Some(element)
    }

    /// An emptied batch to fill again, if one has come back.
    pub(crate) fn take_spare(&self) -> Option<B> {
        self.lock().spare.pop()
    }

    /// Sends an emptied batch back to the producer, which then need not allocate another.
    pub(crate) fn give_back(&self, batch: B) {
        let mut queue = self.lock();
        if queue.spare.len() < SPARE_MAX {
            queue.spare.push(batch);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<B>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All channels of one edge: `parallelism` × `parallelism`.
#[derive(Debug)]
pub(crate) struct ChannelMatrix<B> {
    channels: Vec<Vec<Arc<Channel<B>>>>,
}

impl<B> ChannelMatrix<B> {
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
    pub(crate) fn outputs_of(&self, source: usize) -> Vec<Arc<Channel<B>>> {
        self.channels.get(source).cloned().unwrap_or_default()
    }

    /// The channels that worker `target` reads, by source.
    pub(crate) fn inputs_of(&self, target: usize) -> Vec<Arc<Channel<B>>> {
        self.channels.iter().filter_map(|row| row.get(target).cloned()).collect()
    }
}
