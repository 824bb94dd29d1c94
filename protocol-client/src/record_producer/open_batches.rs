//! Records gathered into one open batch per partition, until the batch is full or has waited for `linger.ms`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_protocol::TopicPartition;
use millstream_protocol::producer::{StickyPartitioner, partition_for_key};
use millstream_protocol::records::{
    Appended, BatchBuilder, Compression, RecordsError, SealedBatch,
};
use tokio::time::Instant;

use super::delivery::BatchFate;
use super::{Delivery, ProducerRecord, SendError};

/// What the batches are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchOptions {
    pub(super) batch_bytes: usize,
    pub(super) max_request_bytes: usize,
    pub(super) buffer_bytes: usize,
    pub(super) linger: Duration,
    /// So many batches of a partition may be under way at once.
    pub(super) max_in_flight: usize,
    pub(super) compression: Compression,
    pub(super) compression_level: Option<i32>,
    pub(super) ignore_keys: bool,
}

/// The open batches of all topics.
#[derive(Debug)]
pub(super) struct OpenBatches {
    options: BatchOptions,
    topics: Vec<Topic>,
    by_name: HashMap<Arc<str>, usize>,
    /// The topic of the last record: most likely that of the next.
    last: usize,
    /// How many batches are open.
    open: usize,
    /// A batch's time is up, and it waits for others of its partition.
    held_back: bool,
    /// Batches that were acknowledged, for their memory.
    spare: Vec<SealedBatch>,
    seed: u64,
}

#[derive(Debug)]
struct Topic {
    name: Arc<str>,
    sticky: StickyPartitioner,
    /// Partitions with a leader.
    available: Vec<i32>,
    partitions: Vec<Partition>,
    described_at: Instant,
}

#[derive(Debug)]
struct Partition {
    topic_partition: TopicPartition,
    builder: BatchBuilder,
    open: Option<Open>,
    /// Batches that were handed over and are not settled.
    under_way: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Open {
    fate: Arc<BatchFate>,
    since: Instant,
}

/// A batch that is ready to be sent.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) topic_partition: TopicPartition,
    pub(super) batch: SealedBatch,
    pub(super) fate: Arc<BatchFate>,
    /// When it got its first record.
    pub(super) begun_at: Instant,
}

/// What became of a record.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) delivery: Delivery,
    /// The batch before it, which had no room for it. Boxed, for most records come without, and this is handed on.
    pub(super) ready: Option<Box<Ready>>,
    /// It is the first record of the only open batch: somebody must look after `linger.ms`.
    pub(super) first: bool,
}

impl OpenBatches {
    pub(super) fn new(options: BatchOptions, seed: u64) -> Self {
        Self {
            options,
            topics: Vec::new(),
            by_name: HashMap::new(),
            last: 0,
            open: 0,
            held_back: false,
            spare: Vec::new(),
            seed,
        }
    }

    /// Takes what the brokers say of a topic: for each partition, ascending from 0, whether it has a leader. Partitions
    /// are never taken away, for Kafka does not either.
    pub(super) fn describe(&mut self, name: &Arc<str>, led: &[bool], now: Instant) {
        let options = self.options;
        self.seed = self.seed.wrapping_add(1);
        let seed = self.seed;
        let topics = &mut self.topics;
        let index = *self.by_name.entry(Arc::clone(name)).or_insert_with(|| {
            topics.push(Topic {
                name: Arc::clone(name),
                sticky: StickyPartitioner::new(options.batch_bytes, seed),
                available: Vec::new(),
                partitions: Vec::new(),
                described_at: now,
            });
            topics.len() - 1
        });
        let Some(topic) = topics.get_mut(index) else { return };
        topic.described_at = now;
        topic.available.clear();
        for (partition, has_leader) in (0..).zip(led) {
            if *has_leader {
                topic.available.push(partition);
            }
            if topic.partitions.len() <= usize::try_from(partition).unwrap_or(0) {
                topic.partitions.push(Partition {
                    topic_partition: TopicPartition::new(Arc::clone(name), partition),
                    builder: BatchBuilder::with_level(
                        options.compression,
                        options.compression_level,
                        options.batch_bytes,
                    ),
                    open: None,
                    under_way: Arc::default(),
                });
            }
        }
    }

    /// Whether the partitions of a topic are known.
    pub(super) fn knows(&self, topic: &str) -> bool {
        self.by_name.contains_key(topic)
    }

    /// Topics that were described before `limit`.
    pub(super) fn described_before(&self, limit: Instant) -> Vec<Arc<str>> {
        let old = self.topics.iter().filter(|topic| topic.described_at < limit);
        old.map(|topic| Arc::clone(&topic.name)).collect()
    }

    /// Puts a record into its partition's batch. `has_room` is asked before a batch is begun.
    pub(super) fn append(
        &mut self,
        record: &ProducerRecord<'_>,
        timestamp: i64,
        has_room: impl FnOnce() -> bool,
    ) -> Result<Taken, SendError> {
        let Self { options, topics, by_name, last, open, spare, .. } = self;
        if topics.get(*last).is_none_or(|topic| *topic.name != *record.topic) {
            *last = by_name.get(record.topic).copied().unwrap_or(usize::MAX);
        }
        let Some(topic) = topics.get_mut(*last) else {
            return Err(SendError::NotPrepared { topic: record.topic.to_owned() });
        };
        let (partition, chosen_by_us) = topic.choose(record, options.ignore_keys);
        let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let Some(target) =
            usize::try_from(partition).ok().and_then(|index| topic.partitions.get_mut(index))
        else {
            let topic = record.topic.to_owned();
            return Err(SendError::UnknownPartition { topic, partition, partitions });
        };
        let mut ready = None;
        if let Some(current) = &target.open {
            let fate = Arc::clone(&current.fate);
            // What fits into a batch with others fits into a request as a rule, and need not be measured twice.
            if options.max_request_bytes < options.batch_bytes {
                target.check_size(record, options.max_request_bytes)?;
            }
            match target.append(timestamp, record)? {
                Appended::Record { batch_index, bytes } => {
                    if chosen_by_us {
                        topic.sticky.appended(bytes, false);
                    }
                    let delivery = Delivery { fate, batch_index };
                    return Ok(Taken { delivery, ready: None, first: false });
                }
                Appended::Full => {
                    target.check_size(record, options.max_request_bytes)?;
                    if !has_room() {
                        return Err(target.full(options.buffer_bytes));
                    }
                    ready = target.close(spare)?.map(Box::new);
                    *open = open.saturating_sub(1);
                }
            }
        } else {
            target.check_size(record, options.max_request_bytes)?;
            if !has_room() {
                return Err(target.full(options.buffer_bytes));
            }
        }
        let first = *open == 0;
        target.take_memory(spare, options.compression == Compression::None);
        let appended = target.append(timestamp, record)?;
        let Appended::Record { batch_index, bytes } = appended else {
            return Err(target.full(options.buffer_bytes));
        };
        let under_way = Arc::clone(&target.under_way);
        let fate = Arc::new(BatchFate::new(target.topic_partition.clone(), under_way));
        target.open = Some(Open { fate: Arc::clone(&fate), since: Instant::now() });
        *open += 1;
        if chosen_by_us {
            topic.sticky.appended(bytes, ready.is_some());
        }
        Ok(Taken { delivery: Delivery { fate, batch_index }, ready, first })
    }

    /// Closes every batch that has waited for `linger.ms` at `now`; gives when the next one will have. A batch that could not
    /// be sent yet, with as many of its partition under way as may be, goes on taking records: while a broker is slow or
    /// away, few full batches gather rather than many small ones, which would take longer still.
    pub(super) fn close_due(
        &mut self,
        now: Instant,
        ready: &mut Vec<Ready>,
    ) -> Result<Option<Instant>, SendError> {
        let BatchOptions { linger, max_in_flight, .. } = self.options;
        let mut next: Option<Instant> = None;
        let mut held_back = false;
        self.close_where(ready, |since, under_way| {
            let due = since + linger;
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                return false;
            }
            let waits = under_way >= max_in_flight;
            held_back |= waits;
            !waits
        })?;
        self.held_back = held_back;
        Ok(next)
    }

    /// Closes every open batch.
    pub(super) fn close_all(&mut self, ready: &mut Vec<Ready>) -> Result<(), SendError> {
        self.close_where(ready, |_, _| true)
    }

    fn close_where(
        &mut self,
        ready: &mut Vec<Ready>,
        mut is_due: impl FnMut(Instant, usize) -> bool,
    ) -> Result<(), SendError> {
        if self.open == 0 {
            return Ok(());
        }
        for topic in &mut self.topics {
            for (index, partition) in (0..).zip(&mut topic.partitions) {
                let under_way = partition.under_way.load(Ordering::Relaxed);
                if partition.open.as_ref().is_some_and(|open| is_due(open.since, under_way)) {
                    ready.extend(partition.close(&mut self.spare)?);
                    topic.sticky.batch_closed(index);
                    self.open = self.open.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    /// A batch is settled: takes its memory; tells whether another one has waited for it.
    pub(super) fn settled(&mut self, batch: SealedBatch) -> bool {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(batch);
        }
        std::mem::take(&mut self.held_back)
    }
}

/// Batches kept for their memory: about as many as are in flight to one broker.
const SPARE_MAX: usize = 16;

impl Topic {
    /// The partition, and whether it was ours to choose.
    fn choose(&mut self, record: &ProducerRecord<'_>, ignore_keys: bool) -> (i32, bool) {
        if let Some(partition) = record.partition {
            return (partition, false);
        }
        let partitions = i32::try_from(self.partitions.len()).unwrap_or(i32::MAX);
        match record.key {
            Some(key) if !ignore_keys => (partition_for_key(key, partitions), false),
            // Without any leader the record waits with partition 0, for delivery.timeout.ms.
            _ => (self.sticky.partition(&self.available).unwrap_or(0), true),
        }
    }
}

impl Partition {
    fn append(
        &mut self,
        timestamp: i64,
        record: &ProducerRecord<'_>,
    ) -> Result<Appended, SendError> {
        let appended = self.builder.append(timestamp, record.key, record.value, record.headers);
        appended.map_err(|source| self.encode_error(source))
    }

    /// Refuses a record that no request can carry.
    fn check_size(
        &self,
        record: &ProducerRecord<'_>,
        max_request_size: usize,
    ) -> Result<(), SendError> {
        let bytes = BatchBuilder::batch_bytes_for(record.key, record.value, record.headers);
        if bytes <= max_request_size {
            return Ok(());
        }
        let topic_partition = self.topic_partition.clone();
        Err(SendError::RecordTooLarge { topic_partition, bytes, max_request_size })
    }

    fn close(&mut self, spare: &mut Vec<SealedBatch>) -> Result<Option<Ready>, SendError> {
        let Some(open) = self.open.take() else { return Ok(None) };
        self.take_memory(spare, self.builder.compression() != Compression::None);
        match self.builder.build() {
            Ok(batch) => Ok(batch.map(|batch| Ready {
                topic_partition: self.topic_partition.clone(),
                batch,
                fate: open.fate,
                begun_at: open.since,
            })),
            Err(source) => {
                // The builder still has its records, and their fate is still open.
                self.open = Some(open);
                Err(self.encode_error(source))
            }
        }
    }

    /// Memory of an acknowledged batch, where a batch's memory is `needed`: at its begin, or at its end if that is when it
    /// is compressed.
    fn take_memory(&mut self, spare: &mut Vec<SealedBatch>, needed: bool) {
        if needed && let Some(batch) = spare.pop() {
            self.builder.recycle(batch);
        }
    }

    fn full(&self, buffer_memory: usize) -> SendError {
        SendError::Full { topic_partition: self.topic_partition.clone(), buffer_memory }
    }

    fn encode_error(&self, source: RecordsError) -> SendError {
        SendError::Encode { topic_partition: self.topic_partition.clone(), source }
    }
}

#[cfg(test)]
mod tests;
