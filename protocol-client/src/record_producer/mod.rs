//! Writing record by record: partitioning, batching, acknowledgements, transactions.

mod delivery;
mod error;
mod linger;
mod open_batches;
mod record;
mod transactions;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use millstream_protocol::network::RequestError;
use millstream_protocol::producer::{self as machine, BatchId};
use millstream_protocol::transaction::{AbortCause, FatalCause, ProduceError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::delivery::BatchFate;
use self::open_batches::{BatchOptions, OpenBatches, Ready, Taken};
use self::transactions::Transaction;
use crate::surroundings::{seed, spawn, wall_time_ms};
use crate::{ClientError, KafkaClient, Producer};

pub use self::delivery::Delivery;
pub use self::error::SendError;
pub use self::record::{ProducerRecord, RecordMetadata};
pub use self::transactions::Committing;

/// Writes records as Kafka's own producer does, always idempotent (KIP-98): batches per partition by `batch.size` and
/// `linger.ms`, keys hashed by murmur2, records without a key to one partition until its batch is full (KIP-794), memory
/// bounded by `buffer.memory`, each record acknowledged by all in-sync replicas or failed after `delivery.timeout.ms`.
///
/// Cheap to clone; all clones are one producer. Records that were taken and not yet sent are lost with the last clone:
/// end with [`close`](Self::close).
///
/// `buffer.memory` bounds sealed batches that are not acknowledged, in their compressed size. Beside it each partition that
/// has records has one open batch of `batch.size` bytes, or of one larger record.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use millstream_protocol_client::{ClientConfig, KafkaClient, ProducerRecord};
///
/// let client = KafkaClient::connect(ClientConfig::new("localhost:9092")).await?;
/// let producer = client.record_producer(None);
/// let record = ProducerRecord::to("flights", b"on time").key(b"UA1545");
/// let written = producer.send(&record).await?.wait().await?;
/// println!("{} at offset {:?}", written.topic_partition, written.offset);
/// producer.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RecordProducer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: KafkaClient,
    producer: Producer,
    transactional: bool,
    max_block: Duration,
    // Held for one record, or for closing batches; never across an await. The machine's lock is taken inside, never around.
    state: Mutex<State>,
    fates: Arc<Fates>,
    /// A batch was begun while none was open, one that was held back may go now, or the producer is gone.
    opened: Arc<Notify>,
    /// The bound of memory was left.
    room: Arc<Notify>,
    /// A batch was handed over and the driver has not had its turn since.
    handed_over: AtomicBool,
}

#[derive(Debug)]
struct State {
    batches: OpenBatches,
    transaction: Transaction,
}

/// Batches under way.
#[derive(Debug, Default)]
struct Fates {
    under_way: Mutex<UnderWay>,
}

#[derive(Debug, Default)]
struct UnderWay {
    by_id: HashMap<u64, (Arc<BatchFate>, i32)>,
    next_id: u64,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The linger task sees that nobody is left.
        self.opened.notify_one();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let dropped =
            drop_batches(state, &ProduceError::Abortable { cause: AbortCause::Discarded });
        debug_assert!(dropped.is_ok(), "what was taken can be closed: {dropped:?}");
    }
}

impl KafkaClient {
    /// A producer of single records: idempotent (`None`) or transactional. Must be called on a tokio runtime, where the task
    /// that minds `linger.ms` runs; it panics elsewhere. No broker is asked.
    #[must_use]
    pub fn record_producer(&self, transactional_id: Option<&str>) -> RecordProducer {
        let config = self.config();
        let size = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        let options = BatchOptions {
            batch_bytes: size(config.batch_size),
            // Below what a batch can be at all: once a batch was closed for a record, that record must fit the next.
            max_request_bytes: size(config.max_request_size).min(1 << 30),
            buffer_bytes: config.buffer_memory,
            linger: config.linger,
            max_in_flight: size(config.max_in_flight),
            compression: config.compression_type,
            compression_level: config.compression_level(),
            ignore_keys: config.partitioner_ignore_keys,
        };
        let (max_block, max_age) = (config.max_block, config.metadata_max_age);
        let producer = self.producer(transactional_id);
        let fates = Arc::new(Fates::default());
        let room = Arc::new(Notify::new());
        let opened = Arc::new(Notify::new());
        let batches = OpenBatches::new(options, seed());
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| {
            let (on_room, told, owner) = (Arc::clone(&room), Arc::clone(&fates), shared.clone());
            producer.on_capacity(Arc::new(move || on_room.notify_waiters()));
            producer.on_delivery(Arc::new(move |delivery| told.tell(delivery, &owner)));
            let closing = shared.clone();
            producer.on_close(Arc::new(move || {
                if let Some(shared) = closing.upgrade() {
                    shared.client_closed();
                }
            }));
            Shared {
                client: self.clone(),
                max_block,
                state: Mutex::new(State { batches, transaction: Transaction::default() }),
                fates,
                opened: Arc::clone(&opened),
                room,
                handed_over: AtomicBool::new(false),
                transactional: transactional_id.is_some(),
                producer,
            }
        });
        spawn(linger::run(Arc::downgrade(&shared), opened, max_age));
        RecordProducer { shared }
    }
}

impl RecordProducer {
    /// Takes a record, waiting for room in `buffer.memory` and for the topic to exist up to `max.block.ms`. Records of
    /// one partition are written in the order of these calls. Once per batch it lets other tasks of its thread have a turn,
    /// before it takes the record; dropped while it waits, it has taken nothing. The record is copied: it may be reused at
    /// once.
    ///
    /// # Errors
    ///
    /// [`SendError`] but `Full` and `NotPrepared`; the record is not written then. While no broker tells the topic's
    /// partitions, [`SendError::Client`] after `default.api.timeout.ms`.
    pub async fn send(&self, record: &ProducerRecord<'_>) -> Result<Delivery, SendError> {
        // A loop of sends never waits while there is room. On a runtime of one thread the driver would write nothing
        // until there is none; and a batch that is written at once is still in the processor's cache.
        if self.shared.handed_over.load(Ordering::Relaxed) {
            self.shared.handed_over.store(false, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
        match self.try_send(record) {
            Err(
                SendError::Full { .. }
                | SendError::NotPrepared { .. }
                | SendError::UnknownPartition { .. },
            ) => Box::pin(self.send_when_possible(record)).await,
            sent => sent,
        }
    }

    async fn send_when_possible(&self, record: &ProducerRecord<'_>) -> Result<Delivery, SendError> {
        let deadline = Instant::now() + self.shared.max_block;
        loop {
            let room = self.shared.room.notified();
            match self.try_send(record) {
                Err(SendError::Full { .. }) => {
                    if timeout_at(deadline, room).await.is_err() {
                        let topic = record.topic.to_owned();
                        return Err(SendError::NoRoom { topic, after: self.shared.max_block });
                    }
                }
                Err(SendError::NotPrepared { .. }) => self.prepare(record.topic).await?,
                Err(error @ SendError::UnknownPartition { partition, .. }) => {
                    // The topic may have grown.
                    let partitions = self.shared.describe(&Arc::from(record.topic)).await?;
                    if !(0..partitions).contains(&partition) {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    /// Takes a record if there is room for it now and its topic was prepared, by [`prepare`](Self::prepare) or an earlier
    /// [`send`](Self::send). Never waits; may be called without a runtime.
    ///
    /// # Errors
    ///
    /// [`SendError`] but `NoRoom`; the record is not written then.
    pub fn try_send(&self, record: &ProducerRecord<'_>) -> Result<Delivery, SendError> {
        let shared = &self.shared;
        let timestamp = record.timestamp.unwrap_or_else(wall_time_ms);
        let Taken { delivery, ready, first } = {
            let mut state = shared.lock();
            let tag = shared.open_tag(&state, "send")?;
            let has_room = || shared.producer.has_capacity(tag);
            let mut taken = state.batches.append(record, timestamp, has_room)?;
            // Handed over under the lock: two batches of a partition must not overtake each other.
            if let Some(ready) = taken.ready.take() {
                shared.hand_over(*ready, tag);
            }
            taken
        };
        debug_assert!(ready.is_none(), "it was handed over");
        if first {
            shared.opened.notify_one();
        }
        Ok(delivery)
    }

    /// Learns a topic's partitions, waiting up to `max.block.ms` for the topic to exist. They are looked up again by
    /// themselves every `metadata.max.age.ms`. Returns at once for a topic that is known.
    ///
    /// # Errors
    ///
    /// [`SendError::Client`]: there is no such topic, or no broker answers within `default.api.timeout.ms`.
    pub async fn prepare(&self, topic: &str) -> Result<(), SendError> {
        if self.shared.lock().batches.knows(topic) {
            return Ok(());
        }
        self.shared.describe(&Arc::from(topic)).await.map(|_| ())
    }

    /// Sends what is open and waits until everything taken so far is acknowledged or has failed. Dropped while it waits, it
    /// leaves what it has sent on its way.
    ///
    /// # Errors
    ///
    /// The first failure since the last flush, or of the open transaction; [`ProduceError::InvalidState`] of a transactional
    /// producer outside a transaction.
    pub async fn flush(&self) -> Result<(), SendError> {
        self.shared.turned().await;
        let tag = self.shared.send_all(&mut self.shared.lock(), "flush")?;
        self.shared.producer.flush(tag).await?;
        Ok(())
    }

    /// [`flush`](Self::flush), and the end of this handle. An open transaction stays open until the broker aborts it: commit
    /// or abort it first.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub async fn close(self) -> Result<(), SendError> {
        let is_begun = {
            let transaction = &self.shared.lock().transaction;
            transaction.open || transaction.failed.is_some()
        };
        if is_begun || !self.shared.transactional { self.flush().await } else { Ok(()) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What records belong to now.
    fn open_tag(&self, state: &State, verb: &'static str) -> Result<u64, ProduceError> {
        if let Some(error) = &state.transaction.failed {
            return Err(error.clone());
        }
        if self.transactional && !state.transaction.open {
            let state = "in no transaction: call begin_transaction first";
            return Err(ProduceError::InvalidState { verb, state });
        }
        Ok(state.transaction.tag)
    }

    fn hand_over(&self, ready: Ready, tag: u64) {
        let Ready { topic_partition, batch, fate, begun_at } = ready;
        let batch_id = self.fates.add(fate, batch.record_count());
        self.handed_over.store(true, Ordering::Relaxed);
        self.producer.send_reported_batch(topic_partition, batch, tag, batch_id, begun_at);
    }

    /// Drops what is open, and lets nothing be sent behind it.
    fn drop_open(&self) -> Result<(), SendError> {
        let mut state = self.lock();
        state.transaction.open = false;
        drop_batches(&mut state, &ProduceError::Abortable { cause: AbortCause::Discarded })
    }

    /// Nothing is sent any more: whoever waits for a record, or brings another, is told.
    fn client_closed(&self) {
        let error = ProduceError::Fatal { cause: FatalCause::Request(RequestError::Closed) };
        let mut state = self.lock();
        let dropped = drop_batches(&mut state, &error);
        debug_assert!(dropped.is_ok(), "what was taken can be closed: {dropped:?}");
        state.transaction.failed = Some(error);
    }

    /// Sends what is open; gives the tag it belongs to.
    fn send_all(&self, state: &mut State, verb: &'static str) -> Result<u64, SendError> {
        let tag = self.open_tag(state, verb)?;
        let mut ready = Vec::new();
        let closed = state.batches.close_all(&mut ready);
        ready.into_iter().for_each(|ready| self.hand_over(ready, tag));
        closed?;
        Ok(tag)
    }

    /// Sends what has waited for `linger.ms`; gives when there is more to do.
    fn send_due(&self) -> Result<Option<Instant>, SendError> {
        let mut state = self.lock();
        let mut ready = Vec::new();
        let next = state.batches.close_due(Instant::now(), &mut ready);
        let tag = state.transaction.tag;
        ready.into_iter().for_each(|ready| self.hand_over(ready, tag));
        next
    }

    /// Asks the brokers for a topic's partitions; gives how many there are.
    async fn describe(&self, topic: &Arc<str>) -> Result<i32, SendError> {
        let deadline = Instant::now() + self.max_block;
        loop {
            if let Some(described) = self.client.describe_topic(topic).await? {
                let led: Vec<bool> = described.partitions.iter().map(|p| p.leader >= 0).collect();
                self.lock().batches.describe(topic, &led, Instant::now());
                return Ok(i32::try_from(led.len()).unwrap_or(i32::MAX));
            }
            if Instant::now() >= deadline {
                let operation = "write".to_owned();
                let topic = topic.to_string();
                return Err(ClientError::UnknownTopic { operation, topic }.into());
            }
        }
    }
}

/// Drops the open batches, and tells whoever waits for their records.
fn drop_batches(state: &mut State, error: &ProduceError) -> Result<(), SendError> {
    let mut dropped = Vec::new();
    let closed = state.batches.close_all(&mut dropped);
    for Ready { batch, fate, .. } in dropped {
        fate.tell(0, batch.record_count(), Err(error.clone()));
    }
    closed
}

impl Fates {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, fate: Arc<BatchFate>, record_count: i32) -> BatchId {
        let mut under_way = self.lock();
        let id = under_way.next_id;
        under_way.next_id += 1;
        fate.begin();
        under_way.by_id.insert(id, (fate, record_count));
        BatchId(id)
    }

    /// Tells those who wait for a batch, and gives its memory back.
    fn tell(&self, delivery: machine::Delivery, shared: &Weak<Shared>) {
        let machine::Delivery { batch_id, first_record, record_count, result, batch } = delivery;
        let fate = {
            let mut under_way = self.lock();
            let Some((fate, left)) = under_way.by_id.get_mut(&batch_id.0) else { return };
            *left -= record_count;
            let (fate, is_whole) = (Arc::clone(fate), *left <= 0);
            if is_whole {
                fate.end();
                under_way.by_id.remove(&batch_id.0);
            }
            fate
        };
        fate.tell(first_record, record_count, result);
        if let Some(shared) = shared.upgrade() {
            let is_awaited = shared.lock().batches.settled(batch);
            if is_awaited {
                shared.opened.notify_one();
            }
        }
    }
}
