//! The output side of a keyed edge: hash the key, find the worker that owns its key group, batch per worker.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Channel, CheckpointBarrier, KeyedBatch, StreamElement};
use crate::error::OperatorError;
use crate::operator::{Collector, Output};
use crate::state::{KeyGroups, StateCodec};
use crate::task::SnapshotContext;
use crate::time::{WATERMARK_MAX, WatermarkStatus};

/// Sends every element to the worker that owns its key.
pub(crate) struct KeyPartitioner<K, T, F> {
    key_selector: F,
    key_groups: KeyGroups,
    targets: Vec<Target<T>>,
    encoded_key: Vec<u8>,
    key: PhantomData<fn() -> K>,
}

struct Target<T> {
    channel: Arc<Channel<KeyedBatch<T>>>,
    batch: KeyedBatch<T>,
}

impl<K, T, F> KeyPartitioner<K, T, F> {
    pub(crate) fn new(
        key_selector: F,
        key_groups: KeyGroups,
        channels: Vec<Arc<Channel<KeyedBatch<T>>>>,
    ) -> Self {
        let target = |channel| Target { channel, batch: KeyedBatch::default() };
        Self {
            key_selector,
            key_groups,
            targets: channels.into_iter().map(target).collect(),
            encoded_key: Vec::new(),
            key: PhantomData,
        }
    }

    fn flush(&mut self) {
        for target in &mut self.targets {
            target.flush();
        }
    }

    fn broadcast(&mut self, element: impl Fn() -> StreamElement<KeyedBatch<T>>) {
        for target in &mut self.targets {
            // What was collected before the control element must arrive before it.
            target.flush();
            target.channel.push(element());
        }
    }
}

impl<T> Target<T> {
    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let bytes = self.batch.estimated_bytes();
        let mut spare = self.channel.take_spare().unwrap_or_default();
        spare.clear();
        let batch = std::mem::replace(&mut self.batch, spare);
        self.channel.push(StreamElement::Batch { batch, bytes });
    }
}

impl<K, T, F> Collector<T> for KeyPartitioner<K, T, F>
where
    K: StateCodec,
    T: Send,
    F: FnMut(&T) -> K + Send,
{
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        self.encoded_key.clear();
        let key = (self.key_selector)(&element);
        key.encode(&mut self.encoded_key).map_err(OperatorError::new)?;
        let key = self.key_groups.of_key(&self.encoded_key);
        let worker = self.key_groups.worker_of(key.key_group);
        if let Some(target) = self.targets.get_mut(worker) {
            target.batch.push(key, element, timestamp);
            if target.batch.is_full() {
                target.flush();
            }
        }
        Ok(())
    }
}

impl<K, T, F> Output for KeyPartitioner<K, T, F>
where
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
