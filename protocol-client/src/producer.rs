//! The writer's end: batches and verbs go straight into the produce machine, the driver carries its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_protocol::group::MemberIdentity;
use millstream_protocol::group::offsets::OffsetAndMetadata;
use millstream_protocol::network::RequestError;
use millstream_protocol::producer::{self as machine, BatchId, Delivery, ProducerEvent};
use millstream_protocol::records::SealedBatch;
use millstream_protocol::transaction::{
    FatalCause, GroupOffsets, PreparedTransaction, ProduceError,
};
use millstream_protocol::{ProducerIdAndEpoch, Timestamp, TopicPartition};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::ConsumerGroupMetadata;
use crate::driver::Command;

/// A transactional or an idempotent producer (KIP-98; Produce 3 to 12). Cheap to clone; all clones are one producer, which
/// ends with the last: batches that are not acknowledged then are dropped.
///
/// Batches are sealed by the caller and tagged with the transaction (a checkpoint) they belong to: those of the open
/// transaction are sent, later ones wait until theirs is begun. Tags of transactions ascend. An idempotent producer needs no
/// transaction; its tags only say what [`flush`](Self::flush) waits for.
///
/// A dropped future takes nothing back: what it was to wait for goes on. Verbs of the transaction (`init_transactions` to
/// `abort_transaction`) are called one after the other. One that is called while the same is under way waits for that one,
/// so that its outcome can still be learned; a commit during an abort and an abort during a commit are refused with
/// [`ProduceError::InvalidState`], and change nothing.
#[derive(Clone, Debug)]
pub struct Producer {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    producer: u32,
    shared: Arc<ProducerShared>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Without a driver the producer has ended already.
        let _ = self.commands.send(Command::CloseProducer { producer: self.producer });
    }
}

impl Producer {
    pub(crate) fn new(
        producer: u32,
        shared: Arc<ProducerShared>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self { handle: Arc::new(Handle { producer, shared, commands }) }
    }

    /// Fences: becomes the newest producer of the transactional id (InitProducerId 0 to 5), and has the coordinator abort
    /// what its predecessor left open. Legal in every state; clears everything queued or in flight and any error. Only for
    /// a transactional id: an idempotent producer takes its identity by itself.
    ///
    /// # Errors
    ///
    /// [`ProduceError::ConcurrentTransactions`] after one try that met an open transaction, so that the caller can look at
    /// its ledger before it calls again; other retriable answers are tried again inside, for `max.block.ms`, then it is
    /// [`ProduceError::TimedOut`]. [`ProduceError::InvalidTransactionTimeout`] if `transaction.timeout.ms` is above the
    /// broker's maximum. [`ProduceError::Fatal`] for a missing permission, refused credentials or a closed client.
    pub async fn init_transactions(&self) -> Result<ProducerIdAndEpoch, ProduceError> {
        self.verb(|state, now, end| {
            // Who asks again while it is under way, perhaps because a future was dropped, waits for the same.
            let is_first = state.waiters.initialized.is_empty();
            state.waiters.initialized.push(end);
            if is_first {
                state.machine.init_transactions(now);
            }
        })
        .await
    }

    /// Takes the next epoch with the current id and epoch (KIP-360; InitProducerId 3 to 5): before the next transaction under
    /// TV1, and past the last epoch under either. Outside a transaction only. Queued batches stay.
    ///
    /// # Errors
    ///
    /// [`ProduceError::Fenced`] if another producer took over meanwhile; [`ProduceError::InvalidState`] inside a transaction
    /// or without an identity; else as [`init_transactions`](Self::init_transactions).
    pub async fn bump_epoch(&self) -> Result<ProducerIdAndEpoch, ProduceError> {
        self.verb(|state, now, end| {
            let is_first = state.waiters.bumped.is_empty();
            state.waiters.bumped.push(end);
            if is_first {
                state.machine.bump_epoch(now);
            }
        })
        .await
    }

    /// True if no transaction can begin before [`bump_epoch`](Self::bump_epoch).
    #[must_use]
    pub fn needs_bump(&self) -> bool {
        self.handle.shared.lock().machine.needs_bump()
    }

    /// The identity, once there is one. Under `transaction.version` 2 it changes with every commit and abort.
    #[must_use]
    pub fn identity(&self) -> Option<ProducerIdAndEpoch> {
        self.handle.shared.lock().machine.identity()
    }

    /// Opens the transaction of `tag`, which is above those before: batches tagged with it may go out, and their
    /// `delivery.timeout.ms` begins. Sends nothing by itself; the broker's `transaction.timeout.ms` runs from the first
    /// batch.
    ///
    /// # Errors
    ///
    /// [`ProduceError::BumpRequired`] and [`ProduceError::EpochExhausted`] before [`bump_epoch`](Self::bump_epoch),
    /// [`ProduceError::InvalidState`] inside a transaction or without an identity, or the error that the producer is in.
    pub fn begin_transaction(&self, tag: u64) -> Result<(), ProduceError> {
        let shared = &self.handle.shared;
        let result = shared.lock().machine.begin_transaction(shared.now(), tag);
        self.wake_driver();
        result
    }

    /// Queues a sealed batch; never blocks, and takes it whatever [`has_capacity`](Self::has_capacity) says. Batches of one
    /// tag for one partition keep their order. A batch is sent until it is acknowledged by all in-sync replicas, for
    /// `delivery.timeout.ms`; one that the broker finds too large is split. After a failure of the transaction further
    /// batches of it are dropped; [`flush`](Self::flush) tells. A batch for a transaction that has ended fails the producer
    /// ([`FatalCause::LateBatch`]): it would be a lost one.
    pub fn send_batch(&self, partition: TopicPartition, batch: SealedBatch, tag: u64) {
        self.queue(partition, |machine, now, partition| {
            machine.send_batch(now, partition, batch, tag);
        });
    }

    /// As [`send_batch`](Self::send_batch); what becomes of the batch is told to [`on_delivery`](Self::on_delivery), part
    /// by part if the broker takes it only in parts, each record once. `batch_id` is the caller's own number; `begun_at` is when
    /// the batch got its first record, from where its `delivery.timeout.ms` counts.
    pub fn send_reported_batch(
        &self,
        partition: TopicPartition,
        batch: SealedBatch,
        tag: u64,
        batch_id: BatchId,
        begun_at: Instant,
    ) {
        let begun_at = self.handle.shared.timestamp(begun_at);
        self.queue(partition, |machine, now, partition| {
            machine.send_reported_batch(now, partition, batch, tag, batch_id, begun_at);
        });
    }

    fn queue(
        &self,
        partition: TopicPartition,
        send: impl FnOnce(&mut machine::Producer, Timestamp, TopicPartition),
    ) {
        let shared = &self.handle.shared;
        let mut state = shared.lock();
        if !state.topics.contains(&partition.topic) {
            state.topics.insert(Arc::clone(&partition.topic));
            state.new_topics.push(Arc::clone(&partition.topic));
        }
        send(&mut state.machine, shared.now(), partition);
        if state.closed {
            // Nobody would ever send it. Not told from here: the sender may hold a lock that being told takes as well.
            state.machine.close();
            return;
        }
        drop(state);
        self.wake_driver();
    }

    /// `tell` is called for each batch sent by [`send_reported_batch`](Self::send_reported_batch), from the driver's task
    /// as a rule; it must not block, and may call this producer. It replaces an earlier one.
    pub fn on_delivery(&self, tell: Arc<dyn Fn(Delivery) + Send + Sync>) {
        self.handle.shared.lock().on_delivery = Some(tell);
    }

    /// `tell` is called once the client is closed, from the driver's task.
    pub(crate) fn on_close(&self, tell: Arc<dyn Fn() + Send + Sync>) {
        self.handle.shared.lock().on_close = Some(tell);
    }

    /// Whether it has a transactional id.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.handle.shared.lock().machine.is_transactional()
    }

    /// True while the queued and unacknowledged bytes (as sealed, so compressed) are below `buffer.memory`, which counts
    /// apart for the open transaction and for all later ones together; without transactions once for all tags. Asked before
    /// a batch is built, it lets the bound be exceeded by that batch.
    #[must_use]
    pub fn has_capacity(&self, tag: u64) -> bool {
        self.handle.shared.lock().machine.has_capacity(tag)
    }

    /// `notify` is called from the driver's task when [`has_capacity`](Self::has_capacity) turns true again; it must not
    /// block. It replaces an earlier one.
    pub fn on_capacity(&self, notify: Arc<dyn Fn() + Send + Sync>) {
        self.handle.shared.lock().on_capacity = Some(notify);
    }

    /// Waits until every batch of `tag` so far is acknowledged or has failed, which takes `delivery.timeout.ms` and an
    /// answer that is under way at most. Gives the last offset written per partition, as far as known: a broker that had a
    /// batch already may not say where.
    ///
    /// # Errors
    ///
    /// The first failure of the transaction; of an idempotent producer the first of the tag since its last flush, after
    /// which it goes on. [`ProduceError::InvalidState`] for a transaction that is not the open one.
    pub async fn flush(&self, tag: u64) -> Result<BTreeMap<TopicPartition, i64>, ProduceError> {
        self.verb(|state, now, end| {
            state.waiters.flushed.entry(tag).or_default().push(end);
            state.machine.flush(now, tag);
        })
        .await
    }

    /// Commits offsets of a group with the open transaction (KIP-447): they count if and when it commits. `group` comes
    /// from [`GroupConsumer::group_metadata`](crate::GroupConsumer::group_metadata), at best asked right before: offsets of
    /// a member that is not in the group's generation any more are refused, so that no record counts twice. Each offset is
    /// the next to read. One call at a time; an empty map asks nobody. By TxnOffsetCommit 3 to 5 (Kafka 2.5),
    /// under TV1 after AddOffsetsToTxn.
    ///
    /// # Errors
    ///
    /// [`ProduceError::Abortable`] if the member was replaced or the group refuses: abort, and read again from what is
    /// committed. [`ProduceError::TimedOut`] after `max.block.ms`: abort as well. [`ProduceError::Fenced`] if another
    /// producer took over. [`ProduceError::InvalidState`] outside a transaction, or while others are sent.
    pub async fn send_offsets_to_transaction(
        &self,
        group: &ConsumerGroupMetadata,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<(), ProduceError> {
        let offsets = GroupOffsets {
            group_id: Arc::clone(&group.group_id),
            member: MemberIdentity {
                member_id: Arc::clone(&group.member_id),
                generation_or_epoch: group.generation_id,
                group_instance_id: group.group_instance_id.clone(),
            },
            offsets,
        };
        self.verb(|state, now, end| {
            state.waiters.offsets_sent.push(end);
            state.machine.send_offsets_to_transaction(now, offsets);
        })
        .await
    }

    /// Commits the open transaction once its batches are acknowledged and its offsets are sent. The same EndTxn (0 to 5) is
    /// repeated until a definite answer. All of it may take `limit`. One in which nothing was sent commits without a
    /// request. Once this returns, the commit is decided for good; readers see it when the brokers have written their
    /// markers, moments later.
    ///
    /// # Errors
    ///
    /// [`ProduceError::UnknownOutcome`] if EndTxn was sent and no definite answer came in time: nothing can be sent before
    /// [`init_transactions`](Self::init_transactions). [`ProduceError::Abortable`] if it is not committed, also because
    /// batches were not acknowledged in time. [`ProduceError::Fenced`] if another producer took over; of an EndTxn that was
    /// repeated it does not say what became of the transaction. [`ProduceError::InvalidState`] outside a transaction.
    pub async fn commit_transaction(&self, limit: Duration) -> Result<(), ProduceError> {
        self.verb(|state, now, end| {
            if !state.waiters.aborted.is_empty() {
                refuse(end, "commit_transaction", "aborting");
                return;
            }
            let is_first = state.waiters.committed.is_empty();
            state.waiters.committed.push(end);
            if is_first {
                state.machine.commit_transaction(now, limit);
            }
        })
        .await
    }

    /// What another process needs to end the open transaction by
    /// [`KafkaClient::finish_transaction`](crate::KafkaClient::finish_transaction). To be taken after a
    /// [`flush`](Self::flush), with nothing sent behind it: what is not acknowledged may be missing in what the other
    /// commits. `None` if nothing was sent in it, or it can not be committed any more.
    #[must_use]
    pub fn prepared_transaction(&self) -> Option<PreparedTransaction> {
        self.handle.shared.lock().machine.prepared_transaction()
    }

    /// A commit was asked for that has not ended, whether or not somebody still waits for it.
    pub(crate) fn is_committing(&self) -> bool {
        !self.handle.shared.lock().waiters.committed.is_empty()
    }

    /// Drops what is queued of the open transaction, waits for what is in flight, and aborts. For clients other than the
    /// engine, which rolls back by fencing.
    ///
    /// # Errors
    ///
    /// As [`commit_transaction`](Self::commit_transaction), within `max.block.ms`. The broker aborts by itself after
    /// `transaction.timeout.ms`.
    pub async fn abort_transaction(&self) -> Result<(), ProduceError> {
        self.verb(|state, now, end| {
            if !state.waiters.committed.is_empty() {
                refuse(end, "abort_transaction", "committing: commit again to hear how that ends");
                return;
            }
            let is_first = state.waiters.aborted.is_empty();
            state.waiters.aborted.push(end);
            if is_first {
                state.machine.abort_transaction(now);
            }
        })
        .await
    }

    /// Drops every queued batch, of all tags, and waits until nothing is in flight (`request.timeout.ms` at most, as a rule).
    /// The open transaction can not be committed any more.
    pub async fn discard(&self) {
        // The only error is a closed client, where nothing is queued or in flight.
        let _ = self
            .verb(|state, now, end| {
                state.waiters.discarded.push(end);
                state.machine.discard(now);
            })
            .await;
    }

    /// Calls a verb of the machine and waits for its end.
    async fn verb<T>(
        &self,
        call: impl FnOnce(&mut ProducerState, Timestamp, oneshot::Sender<Outcome<T>>),
    ) -> Outcome<T> {
        let (end, ended) = oneshot::channel();
        let shared = &self.handle.shared;
        // Ends of earlier verbs are for those who waited for them.
        shared.deliver_events();
        {
            let mut state = shared.lock();
            if state.closed {
                return Err(closed());
            }
            call(&mut state, shared.now(), end);
        }
        self.wake_driver();
        ended.await.unwrap_or_else(|_| Err(closed()))
    }

    fn wake_driver(&self) {
        // Without a driver nothing moves, and verbs say so.
        let _ = self.handle.commands.send(Command::Wake);
    }
}

/// Only who asked is refused; what is under way goes on.
fn refuse(end: oneshot::Sender<Outcome<()>>, verb: &'static str, state: &'static str) {
    let _ = end.send(Err(ProduceError::InvalidState { verb, state }));
}

fn closed() -> ProduceError {
    ProduceError::Fatal { cause: FatalCause::Request(RequestError::Closed) }
}

type Outcome<T> = Result<T, ProduceError>;

/// The machine, shared by handle and driver. A lock rather than messages, because the writer's questions (is there room, who
/// am I, may I begin) need their answer at once, from threads that must not wait for a task. It is held for one call of
/// the machine, never across an await.
pub(crate) struct ProducerShared {
    state: Mutex<ProducerState>,
    /// The origin of the driver's time.
    started: Instant,
}

/// What the lock guards.
pub(crate) struct ProducerState {
    pub(crate) machine: machine::Producer,
    /// Topics written to, whose metadata the driver keeps.
    pub(crate) topics: BTreeSet<Arc<str>>,
    /// Those of them the driver does not know of yet.
    pub(crate) new_topics: Vec<Arc<str>>,
    on_capacity: Option<Arc<dyn Fn() + Send + Sync>>,
    on_delivery: Option<Arc<dyn Fn(Delivery) + Send + Sync>>,
    on_close: Option<Arc<dyn Fn() + Send + Sync>>,
    waiters: Waiters,
    closed: bool,
}

/// The last offset written per partition.
type LastOffsets = BTreeMap<TopicPartition, i64>;

/// Who waits for the end of which verb.
#[derive(Debug, Default)]
struct Waiters {
    initialized: Vec<oneshot::Sender<Outcome<ProducerIdAndEpoch>>>,
    bumped: Vec<oneshot::Sender<Outcome<ProducerIdAndEpoch>>>,
    flushed: BTreeMap<u64, Vec<oneshot::Sender<Outcome<LastOffsets>>>>,
    offsets_sent: Vec<oneshot::Sender<Outcome<()>>>,
    committed: Vec<oneshot::Sender<Outcome<()>>>,
    aborted: Vec<oneshot::Sender<Outcome<()>>>,
    discarded: Vec<oneshot::Sender<Outcome<()>>>,
}

impl fmt::Debug for ProducerShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerShared").finish_non_exhaustive()
    }
}

impl ProducerShared {
    pub(crate) fn new(machine: machine::Producer, started: Instant) -> Self {
        let state = ProducerState {
            machine,
            topics: BTreeSet::new(),
            new_topics: Vec::new(),
            on_capacity: None,
            on_delivery: None,
            on_close: None,
            waiters: Waiters::default(),
            closed: false,
        };
        Self { state: Mutex::new(state), started }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ProducerState> {
        // The machine's calls either finish or are a bug; a poisoned lock tells no more than the panic did.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.timestamp(Instant::now())
    }

    fn timestamp(&self, instant: Instant) -> Timestamp {
        Timestamp::ZERO.after(instant.saturating_duration_since(self.started))
    }

    /// Hands the machine's events to those who wait. True if there were any.
    pub(crate) fn deliver_events(&self) -> bool {
        let mut delivered = false;
        let mut capacity = None;
        // One at a time, because those who are told are told without the lock: they may well ask for capacity. And in
        // order: whoever waits for a flush finds its batches told.
        loop {
            let mut state = self.lock();
            let Some(event) = state.machine.poll_event() else { break };
            delivered = true;
            match event {
                ProducerEvent::Capacity => capacity.clone_from(&state.on_capacity),
                ProducerEvent::Delivered(delivery) => {
                    let tell = state.on_delivery.clone();
                    drop(state);
                    if let Some(tell) = tell {
                        tell(delivery);
                    }
                }
                event => state.waiters.end(event),
            }
        }
        if let Some(notify) = capacity {
            notify();
        }
        delivered
    }

    /// The driver ends: whoever waits is told.
    pub(crate) fn close(&self) {
        let (notify, tell) = {
            let mut state = self.lock();
            state.closed = true;
            state.machine.close();
            state.waiters = Waiters::default();
            (state.on_capacity.clone(), state.on_close.take())
        };
        // What was still under way will not be told of any more.
        self.deliver_events();
        if let Some(tell) = tell {
            tell();
            // And what was handed over in between.
            self.deliver_events();
        }
        if let Some(notify) = notify {
            notify();
        }
    }
}

impl Waiters {
    fn end(&mut self, event: ProducerEvent) {
        match event {
            ProducerEvent::Initialized(result) => tell(&mut self.initialized, &result),
            ProducerEvent::EpochBumped(result) => tell(&mut self.bumped, &result),
            ProducerEvent::Flushed { tag, result } => {
                tell(&mut self.flushed.remove(&tag).unwrap_or_default(), &result);
            }
            ProducerEvent::OffsetsSent(result) => tell(&mut self.offsets_sent, &result),
            ProducerEvent::Committed(result) => tell(&mut self.committed, &result),
            ProducerEvent::Aborted(result) => tell(&mut self.aborted, &result),
            ProducerEvent::Discarded => tell(&mut self.discarded, &Ok(())),
            // Told without waiting for them.
            ProducerEvent::Capacity | ProducerEvent::Delivered(_) => {}
        }
    }
}

/// Tells everyone who waits; one that gave up is not there any more.
fn tell<T: Clone>(waiters: &mut Vec<oneshot::Sender<Outcome<T>>>, result: &Outcome<T>) {
    for waiter in waiters.drain(..) {
        let _ = waiter.send(result.clone());
    }
}
