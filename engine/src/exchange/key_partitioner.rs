//! The output side of a keyed edge: hash the key, find the worker that owns its key group, batch per worker.

use std::sync::Arc;

use super::{Channel, CheckpointBarrier, KeyedElement, StreamElement};
use crate::error::OperatorError;
use crate::operator::{Collector, Output};
use crate::state::{KeyGroups, StateCodec};
use crate::task::SnapshotContext;
use crate::time::{WATERMARK_MAX, WatermarkStatus};

/// Sends every element to the worker that owns its key.
pub(crate) struct KeyPartitioner<K, T, F> {
    key_selector: F,
    key_groups: KeyGroups,
    targets: Vec<Target<K, T>>,
    encoded_key: Vec<u8>,
}

struct Target<K, T> {
    channel: Arc<Channel<KeyedElement<K, T>>>,
    buffer: Vec<KeyedElement<K, T>>,
}

impl<K, T, F> KeyPartitioner<K, T, F> {
    pub(crate) fn new(
        key_selector: F,
        key_groups: KeyGroups,
        channels: Vec<Arc<Channel<KeyedElement<K, T>>>>,
    ) -> Self {
        let target = |channel| Target { channel, buffer: Vec::new() };
        Self {
            key_selector,
            key_groups,
            targets: channels.into_iter().map(target).collect(),
            encoded_key: Vec::new(),
        }
    }

    fn flush(&mut self) {
        for target in &mut self.targets {
            target.flush();
        }
    }

    fn broadcast(&mut self, element: impl Fn() -> StreamElement<KeyedElement<K, T>>) {
        for target in &mut self.targets {
            // What was collected before the control element must arrive before it.
            target.flush();
            target.channel.push(element());
        }
    }
}

impl<K, T> Target<K, T> {
    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let bytes = self.buffer.len() * estimated_bytes::<K, T>();
        let elements = std::mem::take(&mut self.buffer);
        self.channel.push(StreamElement::Batch { elements, bytes });
    }
}

/// Inline size of an element and a guess for what its key and value own on the heap. The bound of a channel is about
/// latency and memory of the order of magnitude; measuring every element would cost more than moving it.
const fn estimated_bytes<K, T>() -> usize {
    size_of::<KeyedElement<K, T>>() + HEAP_BYTES_GUESS
}
const HEAP_BYTES_GUESS: usize = 32;

/// Largest number of elements in one exchanged batch.
const BATCH_ELEMENTS_MAX: usize = 1024;

impl<K, T, F> Collector<T> for KeyPartitioner<K, T, F>
where
    K: StateCodec + Send,
    T: Send,
    F: FnMut(&T) -> K + Send,
{
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        let key = (self.key_selector)(&element);
        self.encoded_key.clear();
        key.encode(&mut self.encoded_key).map_err(OperatorError::new)?;
        let key_group = self.key_groups.of_key(&self.encoded_key);
        let worker = self.key_groups.worker_of(key_group);
        if let Some(target) = self.targets.get_mut(worker) {
            target.buffer.push(KeyedElement { key, key_group, element, timestamp });
            if target.buffer.len() >= BATCH_ELEMENTS_MAX {
                target.flush();
            }
        }
        Ok(())
    }
}

impl<K, T, F> Output for KeyPartitioner<K, T, F>
where
    K: Send,
    T: Send,
    F: Send,
{
    fn open(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    fn on_watermark(&mut self, watermark: i64) -> Result<(), OperatorError> {
        // The end of time travels as the end of the input: the gate then knows that this input is over, not far ahead.
        if watermark != WATERMARK_MAX {
            self.broadcast(|| StreamElement::Watermark(watermark));
        }
        Ok(())
    }

    fn on_watermark_status(&mut self, status: WatermarkStatus) -> Result<(), OperatorError> {
        self.broadcast(|| StreamElement::WatermarkStatus(status));
        Ok(())
    }

    fn on_barrier(
        &mut self,
        barrier: CheckpointBarrier,
        _snapshot: &mut SnapshotContext,
    ) -> Result<(), OperatorError> {
        self.broadcast(|| StreamElement::CheckpointBarrier(barrier));
        Ok(())
    }

    fn on_batch_end(&mut self) -> Result<(), OperatorError> {
        self.flush();
        Ok(())
    }

    fn on_end(&mut self) -> Result<(), OperatorError> {
        self.broadcast(|| StreamElement::EndOfInput);
        Ok(())
    }

    fn on_checkpoint_confirmed(&mut self, _checkpoint: u64) -> Result<(), OperatorError> {
        Ok(())
    }

    fn has_capacity(&self) -> bool {
        self.targets.iter().all(|target| target.channel.has_capacity())
    }
}
