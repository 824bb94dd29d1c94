//! The reader's end of a group membership.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_protocol::fetch::{FetchError, FetchEvent, FetchStart};
use millstream_protocol::group::offsets::OffsetAndMetadata;
use millstream_protocol::group::{GroupConfig, GroupMember};
use millstream_protocol::{IsolationLevel, TopicPartition};
use tokio::sync::{mpsc, oneshot};

use super::commits::AfterCommit;
use super::shared::{GroupNews, GroupShared, Position};
use super::task::{GroupTask, Message};
use super::{
    CommitError, ConsumerEvent, ConsumerGroupMetadata, GroupConsumerError, PositionError, positions,
};
use crate::surroundings::{seed, spawn};
use crate::{ClientError, ConfigError, GroupProtocol, KafkaClient, OffsetReset, PartitionConsumer};

/// A member of the consumer group `group.id`.
///
/// Events come from [`next`](Self::next), and asking for one says that the last one is dealt with: its records are
/// processed, its revocation may go through. Between two calls at most `max.poll.interval.ms` may pass; heartbeats go on by
/// themselves. Give it up with [`close`](Self::close), which commits (with `enable.auto.commit`) and leaves the group at
/// once; dropping it leaves without a commit.
///
/// With `enable.auto.commit` what is processed is committed every `auto.commit.interval.ms`, before partitions are given
/// up, and on closing: a crash has records read again, none left out. Memory is bounded as that of a [`PartitionConsumer`].
///
/// ```no_run
/// # use millstream_protocol_client::{ClientConfig, ConsumerEvent, KafkaClient};
/// # async fn read() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = ClientConfig::new("broker:9092");
/// config.set("group.id", "billing")?;
/// config.set("auto.offset.reset", "earliest")?;
/// let client = KafkaClient::connect(config).await?;
/// let mut consumer = client.group_consumer()?;
/// consumer.subscribe(["orders"]);
/// loop {
///     match consumer.next().await? {
///         ConsumerEvent::Records(fetched) => {
///             for batch in fetched.visible_batches(Default::default()) {
///                 let Some(records) = batch?.records else { continue };
///                 for record in records.iter() {
///                     println!("{:?}", record?.value);
///                 }
///             }
///         }
///         ConsumerEvent::Assigned(starts) => println!("reading {starts:?}"),
///         ConsumerEvent::Revoked(partitions) => println!("giving up {partitions:?}"),
///         other => println!("{other:?}"),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct GroupConsumer {
    client: KafkaClient,
    group: Arc<str>,
    shared: Arc<GroupShared>,
    task: mpsc::UnboundedSender<Message>,
    fetching: PartitionConsumer,
    partitions: BTreeMap<TopicPartition, PartitionState>,
    /// What the last event handed out: processed once the next one is asked for.
    handed_out: Option<(TopicPartition, Position)>,
    /// A revocation that the reader has been told of and not left behind yet.
    revoking: Option<(u64, BTreeSet<TopicPartition>)>,
    subscription: BTreeSet<Arc<str>>,
}

/// A partition that is ours, as far as fetching has come.
#[derive(Clone, Copy, Debug, Default)]
struct PartitionState {
    position: i64,
    high_watermark: Option<i64>,
    last_stable_offset: Option<i64>,
}

impl KafkaClient {
    /// A member of the group `group.id`, by `group.protocol`: JoinGroup 2 to 9, SyncGroup, Heartbeat and LeaveGroup, or
    /// ConsumerGroupHeartbeat 0 to 1 (KIP-848, Kafka 4.0). It joins with its first subscription; no broker is asked before.
    /// Must be called on a tokio runtime, where the membership's task runs; it panics elsewhere.
    ///
    /// # Errors
    ///
    /// [`ClientError::Config`] if there is no `group.id`, if timeouts or assignors contradict each other, or if a property
    /// belongs to the other protocol.
    pub fn group_consumer(&self) -> Result<GroupConsumer, ClientError> {
        let config = self.config();
        config.validate_group()?;
        let Some(group) = config.group_id.as_deref().map(Arc::<str>::from) else {
            return Err(ConfigError::Invalid {
                name: "group.id",
                value: String::new(),
                expected: "the name of the group to be a member of".to_owned(),
            }
            .into());
        };
        let settings: GroupConfig = config.group_config(&group);
        let member = match config.group_protocol {
            GroupProtocol::Classic => GroupMember::classic(settings, seed()),
            GroupProtocol::Consumer => {
                let id = format!("{:016x}{:016x}", seed(), seed());
                GroupMember::modern(settings, Arc::from(id), seed())
            }
        };
        let shared = Arc::new(GroupShared::new(member.identity()));
        let (task, inbox) = mpsc::unbounded_channel();
        let wake = Arc::clone(&shared);
        let fetching = self.partition_consumer(
            Vec::new(),
            config.isolation_level,
            Arc::new(move || wake.arrived.notify_one()),
        );
        let channel = (task.clone(), inbox);
        let background =
            GroupTask::new(self.clone(), Arc::clone(&group), member, Arc::clone(&shared), channel);
        spawn(background.run());
        Ok(GroupConsumer {
            client: self.clone(),
            group,
            shared,
            task,
            fetching,
            partitions: BTreeMap::new(),
            handed_out: None,
            revoking: None,
            subscription: BTreeSet::new(),
        })
    }
}

impl GroupConsumer {
    /// Sets the topics to be assigned from, in place of those before, in the background: events tell what comes of it. None
    /// at all gives up everything and leaves the group. Topics that do not exist yet are looked for every
    /// `metadata.max.age.ms`, with KIP-848 by the broker.
    pub fn subscribe(&mut self, topics: impl IntoIterator<Item = impl Into<Arc<str>>>) {
        self.subscription = topics.into_iter().map(Into::into).collect();
        self.tell(Message::Subscribe(self.subscription.clone()));
    }

    /// The topics subscribed to.
    #[must_use]
    pub fn subscription(&self) -> &BTreeSet<Arc<str>> {
        &self.subscription
    }

    /// The next event, however long it takes. It says that what the last one handed out is processed, and acknowledges a
    /// revocation. While it waits `max.poll.interval.ms` does not run. Can be dropped and called again: nothing is lost, but
    /// time counts from the drop on.
    ///
    /// # Errors
    ///
    /// [`GroupConsumerError`] once the membership can not go on; every later call gives the same. What passes, as a
    /// coordinator that moves or brokers that are away, is borne without an error.
    pub async fn next(&mut self) -> Result<ConsumerEvent, GroupConsumerError> {
        self.begin_poll();
        // Also when the caller stops waiting: it is away until it comes back.
        let _busy = BusyOnDrop(Arc::clone(&self.shared));
        loop {
            if let Some(event) = self.take_next()? {
                return Ok(event);
            }
            self.wake_task();
            self.shared.arrived.notified().await;
        }
    }

    /// The next event, if one is there; else as [`next`](Self::next).
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn try_next(&mut self) -> Result<Option<ConsumerEvent>, GroupConsumerError> {
        self.begin_poll();
        let _busy = BusyOnDrop(Arc::clone(&self.shared));
        let event = self.take_next()?;
        self.wake_task();
        Ok(event)
    }

    /// Says that the last event is dealt with, without asking for another: so a revocation goes through before other work that
    /// takes long. `max.poll.interval.ms` goes on running.
    pub fn acknowledge(&mut self) {
        if let Some((partition, position)) = self.handed_out.take() {
            self.shared.lock().processed.insert(partition, position);
        }
        if let Some((revocation, partitions)) = self.revoking.take() {
            for partition in &partitions {
                self.partitions.remove(partition);
            }
            self.shared.lock().assignment.retain(|tp| !partitions.contains(tp));
            self.tell(Message::Acknowledge(revocation));
        }
    }

    /// The partitions that are ours, as far as events have told; those of a revocation until it is acknowledged.
    #[must_use]
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.shared.lock().assignment.clone()
    }

    /// The next offset to be handed out; `None` for a partition that is not ours or not read.
    #[must_use]
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        self.partitions.get(partition).map(|state| state.position)
    }

    /// Records that are there and not handed out yet, by partition: up to the last stable offset with `read_committed`, else
    /// up to the high watermark, control records and gaps counted. `None` before the first answer.
    #[must_use]
    pub fn lag(&self) -> BTreeMap<TopicPartition, Option<i64>> {
        let isolation = self.client.config().isolation_level;
        let lag = |state: &PartitionState| {
            let end = match isolation {
                IsolationLevel::ReadCommitted => state.last_stable_offset,
                IsolationLevel::ReadUncommitted => state.high_watermark,
            };
            end.map(|end| (end - state.position).max(0))
        };
        self.partitions.iter().map(|(tp, state)| (tp.clone(), lag(state))).collect()
    }

    /// Reads on from `offset`, the next to be handed out; what was fetched from elsewhere is dropped. It counts as the
    /// position to commit. Without effect for a partition that is not ours. An offset outside the log is met by
    /// `auto.offset.reset`.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) {
        if self.is_ours(partition) {
            if self.handed_out.as_ref().is_some_and(|(tp, _)| tp == partition) {
                self.handed_out = None;
            }
            self.shared.lock().processed.insert(partition.clone(), (offset, -1));
            let topic_partition = partition.clone();
            self.start(FetchStart { topic_partition, offset, leader_epoch: -1 });
        }
    }

    /// Stops fetching a partition until [`resume`](Self::resume); it stays ours. What is fetched already still comes. Keep
    /// asking for events meanwhile.
    pub fn pause(&mut self, partition: &TopicPartition) {
        self.fetching.pause(partition);
    }

    /// Goes on fetching a paused partition.
    pub fn resume(&mut self, partition: &TopicPartition) {
        self.fetching.resume(partition);
    }

    /// Commits the positions behind everything handed out, the last event's too, and waits until that is done (OffsetCommit 2
    /// to 9). Tried again until `default.api.timeout.ms`, also over rebalances, for what is still ours. A dropped future
    /// leaves the commit on its way.
    ///
    /// # Errors
    ///
    /// [`CommitError::NotOwned`] names partitions that were taken away meanwhile; the others are committed.
    /// [`CommitError::TimedOut`], [`CommitError::Broker`] for a refusal, [`CommitError::Request`] if no broker could be reached
    /// for `request.timeout.ms`, [`CommitError::Closed`].
    pub async fn commit(&mut self) -> Result<(), CommitError> {
        let committed = self.send_commit(None);
        committed.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Commits these offsets: each the next one to read. What was handed out counts as processed from then on, too.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub async fn commit_offsets(
        &mut self,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<(), CommitError> {
        let committed = self.send_commit(Some(offsets));
        committed.await.unwrap_or(Err(CommitError::Closed))
    }

    /// As [`commit`](Self::commit), without waiting. The receiver tells how it ended; it may be dropped. Commits are sent
    /// one after the other, so a later one is never overtaken.
    pub fn commit_async(&mut self) -> oneshot::Receiver<Result<(), CommitError>> {
        self.send_commit(None)
    }

    /// Committed offsets of the group (OffsetFetch 7, Kafka 2.5); partitions without one are absent. The answer waits for
    /// transactions that are about to commit some (KIP-447). Dropped, it has changed nothing.
    ///
    /// # Errors
    ///
    /// As [any call](KafkaClient#errors-of-any-call) of the client.
    pub async fn committed(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, ClientError> {
        positions::committed(&self.client, &self.group, partitions).await
    }

    /// As whom this consumer reads, for offsets in transactions
    /// ([`send_offsets_to_transaction`](crate::Producer::send_offsets_to_transaction)). Changes with each rebalance: ask
    /// right before it is used.
    #[must_use]
    pub fn group_metadata(&self) -> ConsumerGroupMetadata {
        let identity = self.shared.lock().identity.clone();
        ConsumerGroupMetadata {
            group_id: Arc::clone(&self.group),
            generation_id: identity.generation_or_epoch,
            member_id: identity.member_id,
            group_instance_id: identity.group_instance_id,
        }
    }

    /// Commits what was handed out (with `enable.auto.commit`) and leaves the group, so that others get the partitions at
    /// once. A static member (`group.instance.id`) only stops: its place is kept for the session timeout. Takes 30 s at most,
    /// or `default.api.timeout.ms` if that is shorter. Dropped, it goes on in the background.
    ///
    /// # Errors
    ///
    /// [`CommitError`] of the last commit: what was handed out since the one before it will be handed out again, to whoever gets the
    /// partitions. The group is left all the same.
    pub async fn close(mut self) -> Result<(), CommitError> {
        if let Some((partition, position)) = self.handed_out.take() {
            self.shared.lock().processed.insert(partition, position);
        }
        let (done, closed) = oneshot::channel();
        self.tell(Message::Close(Some(done)));
        // It has ended already where the membership did.
        closed.await.unwrap_or(Err(CommitError::Closed))
    }

    fn begin_poll(&mut self) {
        self.acknowledge();
        self.shared.poll();
    }

    /// The task may sleep until it hears of a poll.
    fn wake_task(&self) {
        if self.shared.awaits_poll.swap(false, Ordering::AcqRel) {
            self.tell(Message::Wake);
        }
    }

    fn take_next(&mut self) -> Result<Option<ConsumerEvent>, GroupConsumerError> {
        loop {
            let news = self.shared.lock().news.pop_front();
            if let Some(news) = news {
                if let Some(event) = self.take_news(news) {
                    return Ok(Some(event));
                }
                continue;
            }
            if let Some(error) = self.shared.lock().ended.clone() {
                return Err(error);
            }
            match self.fetching.try_next() {
                Some(event) => {
                    if let Some(event) = self.take_fetched(event) {
                        return Ok(Some(event));
                    }
                }
                None if self.fetching.is_closed() => {
                    return Err(GroupConsumerError::Closed { group: Arc::clone(&self.group) });
                }
                None => return Ok(None),
            }
        }
    }

    fn take_news(&mut self, news: GroupNews) -> Option<ConsumerEvent> {
        match news {
            GroupNews::Assigned(starts) => {
                for start in &starts {
                    self.shared.lock().assignment.insert(start.topic_partition.clone());
                    self.start(start.clone());
                }
                (!starts.is_empty()).then_some(ConsumerEvent::Assigned(starts))
            }
            GroupNews::Revoked { partitions, revocation } => {
                for partition in &partitions {
                    self.fetching.unassign(partition);
                }
                self.revoking = Some((revocation, partitions.clone()));
                Some(ConsumerEvent::Revoked(partitions))
            }
            GroupNews::Lost(partitions) => {
                self.revoking = None;
                for partition in &partitions {
                    self.fetching.unassign(partition);
                    self.partitions.remove(partition);
                }
                let mut state = self.shared.lock();
                state.assignment.retain(|tp| !partitions.contains(tp));
                state.processed.retain(|tp, _| !partitions.contains(tp));
                Some(ConsumerEvent::Lost(partitions))
            }
            GroupNews::Reset(start) => {
                if self.is_ours(&start.topic_partition) {
                    self.start(start);
                }
                None
            }
            GroupNews::Failed(topic_partition, error) => {
                // It is ours, though it is not read.
                self.shared.lock().assignment.insert(topic_partition.clone());
                Some(ConsumerEvent::Failed { topic_partition, error })
            }
        }
    }

    fn take_fetched(&mut self, event: FetchEvent) -> Option<ConsumerEvent> {
        match event {
            FetchEvent::Records(fetched) => {
                let state = self.partitions.get_mut(&fetched.topic_partition)?;
                state.position = fetched.next_offset;
                state.high_watermark = Some(fetched.high_watermark);
                state.last_stable_offset = Some(fetched.last_stable_offset);
                let position = (fetched.next_offset, fetched.leader_epoch);
                self.handed_out = Some((fetched.topic_partition.clone(), position));
                Some(ConsumerEvent::Records(fetched))
            }
            FetchEvent::Progress {
                topic_partition,
                position,
                high_watermark,
                last_stable_offset,
            } => {
                let state = self.partitions.get_mut(&topic_partition)?;
                state.high_watermark = (high_watermark >= 0).then_some(high_watermark);
                state.last_stable_offset = (last_stable_offset >= 0).then_some(last_stable_offset);
                if position > state.position {
                    // Nothing visible lay between, so there was nothing to process.
                    state.position = position;
                    self.shared.lock().processed.insert(topic_partition, (position, -1));
                }
                None
            }
            FetchEvent::Failed { topic_partition, error } => {
                let outside = matches!(
                    error,
                    FetchError::OffsetBelowLogStart { .. }
                        | FetchError::OffsetBeyondEnd { .. }
                        | FetchError::OffsetOutOfRange { .. }
                );
                let resets = self.client.config().auto_offset_reset != OffsetReset::None;
                if outside && resets && self.is_ours(&topic_partition) {
                    tracing::warn!(%topic_partition, %error, "auto.offset.reset applies");
                    self.tell(Message::Reset(topic_partition));
                    return None;
                }
                if matches!(error, FetchError::TopicRecreated { .. }) {
                    // Positions in the old topic must never be committed to the new one.
                    self.shared.lock().processed.remove(&topic_partition);
                }
                let error = PositionError::Fetch(error);
                Some(ConsumerEvent::Failed { topic_partition, error })
            }
        }
    }

    fn is_ours(&self, partition: &TopicPartition) -> bool {
        self.shared.lock().assignment.contains(partition)
            && !self.revoking.as_ref().is_some_and(|(_, revoked)| revoked.contains(partition))
    }

    fn start(&mut self, start: FetchStart) {
        let state = PartitionState { position: start.offset, ..PartitionState::default() };
        self.partitions.insert(start.topic_partition.clone(), state);
        self.fetching.assign(start);
    }

    fn send_commit(
        &mut self,
        offsets: Option<BTreeMap<TopicPartition, OffsetAndMetadata>>,
    ) -> oneshot::Receiver<Result<(), CommitError>> {
        // Who commits says that what was handed out is processed.
        if let Some((partition, position)) = self.handed_out.take() {
            self.shared.lock().processed.insert(partition, position);
        }
        let (reply, committed) = oneshot::channel();
        self.tell(Message::Commit(offsets, AfterCommit::Reply(reply)));
        committed
    }

    fn tell(&self, message: Message) {
        // Without a task the membership has ended, and the next event says so.
        let _ = self.task.send(message);
    }
}

impl Drop for GroupConsumer {
    fn drop(&mut self) {
        self.tell(Message::Close(None));
    }
}

struct BusyOnDrop(Arc<GroupShared>);

impl Drop for BusyOnDrop {
    fn drop(&mut self) {
        self.0.busy();
    }
}
