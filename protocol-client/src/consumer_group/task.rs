//! The task behind a group's consumer: it carries the member machine's requests, finds start positions, commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream_protocol::fetch::FetchStart;
use millstream_protocol::group::offsets::{OffsetAndMetadata, commit_request};
use millstream_protocol::group::{GroupError, GroupEvent, GroupMember, TopicInfo};
use millstream_protocol::network::{Destination, RequestError, RequestToken};
use millstream_protocol::{Request, Response, Timestamp, TopicPartition};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::commits::{AfterCommit, CommitJob, Commits, Offsets};
use super::shared::{GroupNews, GroupShared};
use super::{CommitError, GroupConsumerError, PositionError, positions};
use crate::client::Ask;
use crate::{ClientError, KafkaClient, Recovery};

/// What reaches the task: from the reader's end, and the ends of what it has begun itself.
#[derive(Debug)]
pub(super) enum Message {
    Subscribe(BTreeSet<Arc<str>>),
    /// The reader has let go of what this revocation named.
    Acknowledge(u64),
    /// Processed positions if `None`.
    Commit(Option<Offsets>, AfterCommit),
    /// The partition's position lies outside the log.
    Reset(TopicPartition),
    /// The reader is there again.
    Wake,
    /// `Some` after an orderly close, which commits first.
    Close(Option<oneshot::Sender<Result<(), CommitError>>>),
    Answer(RequestToken, Result<Response, RequestError>),
    Committed(Result<Response, RequestError>),
    Topics(Result<BTreeMap<Arc<str>, TopicInfo>, ClientError>),
    Positions(BTreeSet<TopicPartition>, Result<Vec<FetchStart>, ClientError>),
    ResetTo(TopicPartition, Result<Option<FetchStart>, ClientError>),
}

pub(super) struct GroupTask {
    client: KafkaClient,
    group: Arc<str>,
    member: GroupMember,
    shared: Arc<GroupShared>,
    inbox: mpsc::UnboundedReceiver<Message>,
    outbox: mpsc::UnboundedSender<Message>,
    /// What is under way; ends with the task.
    running: JoinSet<()>,
    lane: u32,
    commits: Commits,
    /// When `enable.auto.commit` commits next; `None` if it is off.
    auto_commit_at: Option<Instant>,
    /// What was committed last, so that nothing is said twice.
    committed: BTreeMap<TopicPartition, i64>,
    /// Assigned, but the reader has not been told yet, because positions are being looked up.
    starting: BTreeSet<TopicPartition>,
    /// The number of the last revocation that the reader was told of.
    revocation: u64,
    polls: u64,
    /// Metadata are being asked for.
    topics_running: bool,
    /// When they were last answered or refused, and how long that is good for.
    topics_known: Option<(Instant, Duration)>,
    closing: Option<Closing>,
}

#[derive(Debug)]
struct Closing {
    done: Option<oneshot::Sender<Result<(), CommitError>>>,
    /// What became of the last commit; while it is under way, what will have become of it if the time is up.
    committed: Result<(), CommitError>,
    /// The machine has been told.
    leaving: bool,
    deadline: Instant,
}

impl GroupTask {
    pub(super) fn new(
        client: KafkaClient,
        group: Arc<str>,
        member: GroupMember,
        shared: Arc<GroupShared>,
        (outbox, inbox): (mpsc::UnboundedSender<Message>, mpsc::UnboundedReceiver<Message>),
    ) -> Self {
        let config = client.config();
        let auto_commit_at =
            config.enable_auto_commit.then(|| Instant::now() + config.auto_commit_interval);
        Self {
            commits: Commits::new(config.retry_backoff(), crate::surroundings::seed()),
            lane: client.new_lane(),
            client,
            group,
            member,
            shared,
            inbox,
            outbox,
            running: JoinSet::new(),
            auto_commit_at,
            committed: BTreeMap::new(),
            starting: BTreeSet::new(),
            revocation: 0,
            polls: 0,
            topics_running: false,
            topics_known: None,
            closing: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let now = self.shared.now();
            self.take_activity(now);
            if self.member.poll_timeout().is_some_and(|at| at <= now) {
                self.member.handle_timeout(now);
            }
            self.auto_commit();
            self.advance(now);
            if self.member.awaits_poll() {
                self.shared.awaits_poll.store(true, Ordering::Release);
                // It may have polled before it could see that somebody waits for it.
                if self.shared.activity().0 != self.polls {
                    continue;
                }
            }
            if self.is_done() {
                break;
            }
            let message = match self.deadline() {
                Some(deadline) => timeout_at(deadline, self.inbox.recv()).await.ok().flatten(),
                None => self.inbox.recv().await,
            };
            let mut next = message;
            while let Some(message) = next {
                self.take(message);
                next = self.inbox.try_recv().ok();
            }
            while self.running.try_join_next().is_some() {}
        }
        self.end();
    }

    fn is_done(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| {
            (closing.leaving && self.lock_ended()) || closing.deadline <= Instant::now()
        })
    }

    fn lock_ended(&self) -> bool {
        self.shared.lock().ended.is_some()
    }

    fn end(mut self) {
        {
            let mut state = self.shared.lock();
            state.ended.get_or_insert(GroupConsumerError::Closed { group: self.group.clone() });
        }
        self.shared.arrived.notify_one();
        self.running.abort_all();
        self.client.close_lane(self.lane);
        if let Some(Closing { done: Some(done), committed, .. }) = self.closing {
            // A caller that gave up is not there any more.
            let _ = done.send(committed);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let member = self.member.poll_timeout().map(|at| self.shared.instant(at));
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        let commit = self.commits.retry_at();
        [member, self.topics_due(), closing, commit, self.auto_commit_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// What the reader has done since the last turn.
    fn take_activity(&mut self, now: Timestamp) {
        let (polls, busy_since) = self.shared.activity();
        if polls != self.polls {
            self.polls = polls;
            self.member.handle_poll(now);
        }
        if let Some(since) = busy_since {
            self.member.handle_busy(since);
        }
    }

    fn take(&mut self, message: Message) {
        let now = self.shared.now();
        match message {
            Message::Subscribe(topics) => {
                self.topics_known = None;
                self.member.subscribe(now, topics);
            }
            Message::Acknowledge(revocation) => self.let_go(revocation),
            Message::Commit(offsets, then) => {
                let offsets = offsets.unwrap_or_else(|| self.processed());
                let limit = self.client.config().default_api_timeout;
                self.commits.push(CommitJob::new(offsets, limit, then));
            }
            Message::Reset(partition) => self.reset(partition),
            Message::Wake => {}
            Message::Close(done) => self.close(done),
            Message::Answer(token, result) => self.member.handle_response(now, token, result),
            Message::Committed(result) => self.take_committed(now, result),
            Message::Topics(result) => self.take_topics(now, result),
            Message::Positions(asked, result) => self.take_positions(asked, result),
            Message::ResetTo(partition, result) => self.take_reset(partition, result),
        }
    }

    /// Carries out whatever the machine and the queues have, until nothing moves.
    fn advance(&mut self, now: Timestamp) {
        loop {
            let mut moved = false;
            while let Some(outgoing) = self.member.poll_request(now) {
                moved = true;
                // LeaveGroup must not wait behind a JoinGroup that the broker holds.
                let lane = match outgoing.request {
                    Request::LeaveGroup(_) => 0,
                    _ => self.lane,
                };
                let mut ask = Ask::new(outgoing.destination, outgoing.request).on_lane(lane);
                if let Some(version) = outgoing.max_version {
                    ask = ask.up_to(version);
                }
                let (token, timeout) = (outgoing.token, outgoing.timeout);
                self.start(async move |client| {
                    Message::Answer(token, client.request(ask, timeout).await)
                });
            }
            while let Some(event) = self.member.poll_event() {
                moved = true;
                self.take_event(now, event);
            }
            moved |= self.start_commits(now);
            if !moved {
                break;
            }
        }
        self.start_topics();
        self.shared.lock().identity = self.member.identity();
    }

    fn take_event(&mut self, now: Timestamp, event: GroupEvent) {
        match event {
            GroupEvent::Assigned(partitions) => {
                self.starting.extend(partitions.iter().cloned());
                self.start_positions(partitions);
            }
            GroupEvent::Revoked(mut partitions) => {
                // What the reader was never told of it need not let go of.
                partitions.retain(|tp| !self.starting.remove(tp));
                if partitions.is_empty() {
                    self.member.acknowledge_revoked(now);
                } else {
                    self.revocation += 1;
                    let revocation = self.revocation;
                    self.shared.push(GroupNews::Revoked { partitions, revocation });
                }
            }
            GroupEvent::Lost(partitions) => {
                self.starting.clear();
                // Acknowledgements that are still to come are void.
                self.revocation += 1;
                {
                    let mut state = self.shared.lock();
                    state.news.clear();
                    let told = partitions.intersection(&state.assignment).cloned();
                    let told: BTreeSet<_> = told.collect();
                    state.processed.retain(|tp, _| !partitions.contains(tp));
                    if !told.is_empty() {
                        state.news.push_back(GroupNews::Lost(told));
                    }
                }
                self.committed.retain(|tp, _| !partitions.contains(tp));
                self.shared.arrived.notify_one();
            }
            GroupEvent::Left => {
                self.finish(GroupConsumerError::Closed { group: self.group.clone() })
            }
            GroupEvent::Failed(source) => {
                let group = self.group.clone();
                self.finish(GroupConsumerError::Membership { group, source });
            }
        }
    }

    fn finish(&self, error: GroupConsumerError) {
        self.shared.lock().ended.get_or_insert(error);
        self.shared.arrived.notify_one();
    }

    /// Runs something beside the task; its end comes as a message.
    fn start<F>(&mut self, work: impl FnOnce(KafkaClient) -> F)
    where
        F: Future<Output = Message> + Send + 'static,
    {
        let (client, outbox) = (self.client.clone(), self.outbox.clone());
        let work = work(client);
        self.running.spawn(async move {
            // Without a task nobody needs to know.
            let _ = outbox.send(work.await);
        });
    }

    fn start_positions(&mut self, partitions: BTreeSet<TopicPartition>) {
        let group = Arc::clone(&self.group);
        self.start(async move |client| {
            let result = positions::start_positions(&client, &group, &partitions).await;
            Message::Positions(partitions, result)
        });
    }

    fn take_positions(
        &mut self,
        mut asked: BTreeSet<TopicPartition>,
        result: Result<Vec<FetchStart>, ClientError>,
    ) {
        asked.retain(|tp| self.starting.contains(tp));
        match result {
            Ok(mut starts) => {
                starts.retain(|start| asked.contains(&start.topic_partition));
                for tp in &asked {
                    self.starting.remove(tp);
                }
                let started: BTreeSet<_> =
                    starts.iter().map(|start| start.topic_partition.clone()).collect();
                for start in &starts {
                    self.committed.insert(start.topic_partition.clone(), start.offset);
                }
                if !asked.is_empty() {
                    self.shared.push(GroupNews::Assigned(starts));
                }
                for tp in asked.difference(&started) {
                    let error = PositionError::NoCommittedOffset { group: self.group.clone() };
                    self.shared.push(GroupNews::Failed(tp.clone(), error));
                }
            }
            Err(_) if asked.is_empty() => {}
            Err(error) if error.recovery() == Recovery::Retriable => {
                tracing::warn!(%error, "start positions are looked up once more");
                self.start_positions(asked);
            }
            // One topic that was deleted meanwhile must not stop the others.
            Err(ClientError::UnknownTopic { topic, .. }) => {
                let (gone, others): (BTreeSet<_>, BTreeSet<_>) =
                    asked.into_iter().partition(|tp| *tp.topic == *topic);
                for tp in gone {
                    self.starting.remove(&tp);
                    self.shared.push(GroupNews::Failed(tp, PositionError::UnknownTopic));
                }
                if !others.is_empty() {
                    self.start_positions(others);
                }
            }
            Err(source) => {
                let group = self.group.clone();
                self.finish(GroupConsumerError::StartPositions { group, source });
            }
        }
    }

    fn reset(&mut self, partition: TopicPartition) {
        self.start(async move |client| {
            let asked = BTreeSet::from([partition.clone()]);
            let result = positions::reset_positions(&client, &asked).await;
            Message::ResetTo(partition, result.map(|starts| starts.into_iter().next()))
        });
    }

    fn take_reset(
        &mut self,
        partition: TopicPartition,
        result: Result<Option<FetchStart>, ClientError>,
    ) {
        if !self.member.owned().contains(&partition) {
            return;
        }
        match result {
            Ok(Some(start)) => self.shared.push(GroupNews::Reset(start)),
            // The policy is checked before a reset is asked for.
            Ok(None) => {}
            Err(error) if error.recovery() == Recovery::Retriable => self.reset(partition),
            Err(ClientError::UnknownTopic { .. }) => {
                self.shared.push(GroupNews::Failed(partition, PositionError::UnknownTopic));
            }
            Err(source) => {
                let group = self.group.clone();
                self.finish(GroupConsumerError::StartPositions { group, source });
            }
        }
    }

    /// When to ask for metadata; `None` while they are asked for, and if nobody needs them.
    fn topics_due(&self) -> Option<Instant> {
        if self.topics_running || self.member.topics().is_empty() {
            return None;
        }
        let Some((at, age)) = self.topics_known else { return Some(Instant::now()) };
        // Not in a tight loop, if the metadata do not have it yet.
        let soon = self.client.config().retry_backoff;
        Some(at + if self.member.awaits_topics() { soon.min(age) } else { age })
    }

    fn start_topics(&mut self) {
        if self.topics_due().is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.topics_running = true;
        let topics: Vec<_> = self.member.topics().into_iter().collect();
        self.start(async move |client| Message::Topics(describe(&client, &topics).await));
    }

    fn take_topics(
        &mut self,
        now: Timestamp,
        result: Result<BTreeMap<Arc<str>, TopicInfo>, ClientError>,
    ) {
        self.topics_running = false;
        let config = self.client.config();
        match result {
            Ok(topics) => {
                self.member.handle_topics(now, topics);
                self.topics_known = Some((Instant::now(), config.metadata_max_age));
            }
            Err(error) => {
                if matches!(error, ClientError::Closed { .. }) {
                    let source = GroupError::Request(RequestError::Closed);
                    let group = self.group.clone();
                    self.finish(GroupConsumerError::Membership { group, source });
                }
                tracing::warn!(%error, "metadata of the group's topics are not known yet");
                let age = config.retry_backoff_max;
                self.topics_known = Some((Instant::now(), age));
            }
        }
    }

    /// Positions behind what the reader is done with, of partitions that are ours.
    fn processed(&self) -> Offsets {
        let state = self.shared.lock();
        let owned = state.processed.iter().filter(|(tp, _)| self.member.owned().contains(tp));
        owned
            .map(|(tp, (offset, epoch))| (tp.clone(), OffsetAndMetadata::new(*offset, *epoch)))
            .collect()
    }

    /// Those of them that are not committed yet.
    fn uncommitted(&self) -> Offsets {
        let mut offsets = self.processed();
        offsets.retain(|tp, position| self.committed.get(tp) != Some(&position.offset));
        offsets
    }

    fn auto_commit(&mut self) {
        if self.auto_commit_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let config = self.client.config();
        let (limit, interval) = (config.default_api_timeout, config.auto_commit_interval);
        self.auto_commit_at = Some(Instant::now() + interval);
        // One that is still under way is followed by one with newer positions.
        if self.commits.is_idle() {
            let offsets = self.uncommitted();
            if !offsets.is_empty() {
                self.commits.push(CommitJob::new(offsets, limit, AfterCommit::Nothing));
            }
        }
    }

    /// The reader has let go: commit what it is done with, if that is ours to do, and tell the machine.
    fn let_go(&mut self, revocation: u64) {
        let config = self.client.config();
        let offsets =
            if config.enable_auto_commit { self.uncommitted() } else { Offsets::default() };
        // Half the time that the group waits for us.
        let limit = config.default_api_timeout.min(config.max_poll_interval / 2);
        self.commits.push(CommitJob::new(offsets, limit, AfterCommit::Acknowledge(revocation)));
    }

    fn start_commits(&mut self, now: Timestamp) -> bool {
        match self.commits.start(self.member.owned()) {
            None => false,
            Some(Ok(offsets)) => {
                let request = commit_request(&self.group, &self.member.identity(), &offsets);
                let destination = Destination::GroupCoordinator(Arc::clone(&self.group));
                let timeout = self.client.config().request_timeout;
                // Not on the member's lane: there it would wait behind a JoinGroup.
                let ask = Ask::new(destination, Request::OffsetCommit(request));
                self.start(async move |client| {
                    Message::Committed(client.request(ask, timeout).await)
                });
                true
            }
            Some(Err((job, result))) => {
                self.end_commit(now, job, result);
                true
            }
        }
    }

    fn take_committed(&mut self, now: Timestamp, result: Result<Response, RequestError>) {
        let outcome = self.commits.answered(result);
        if outcome.suspect {
            self.member.suspect(now);
        }
        if let Some((job, result)) = outcome.ended {
            self.end_commit(now, job, result);
        }
    }

    fn end_commit(&mut self, now: Timestamp, job: CommitJob, result: Result<(), CommitError>) {
        if result.is_ok() {
            let offsets = job.offsets().iter();
            self.committed.extend(offsets.map(|(tp, position)| (tp.clone(), position.offset)));
        } else if let (Err(error), AfterCommit::Nothing | AfterCommit::Acknowledge(_)) =
            (&result, &job.then)
        {
            tracing::warn!(group = %self.group, %error, "offsets are not committed");
        }
        match job.then {
            AfterCommit::Nothing => {}
            AfterCommit::Reply(reply) => {
                // A caller that gave up is not there any more.
                let _ = reply.send(result);
            }
            AfterCommit::Acknowledge(revocation) => {
                if revocation == self.revocation {
                    self.member.acknowledge_revoked(now);
                }
                // Should a partition come back one day, it comes with a position of its own: an old one must not be
                // committed over what others have done meanwhile.
                let owned = self.member.owned();
                self.shared.lock().processed.retain(|tp, _| owned.contains(tp));
                self.committed.retain(|tp, _| owned.contains(tp));
            }
            AfterCommit::Close => {
                if let Some(closing) = &mut self.closing {
                    closing.leaving = true;
                    closing.committed = result;
                }
                self.member.leave(now);
            }
        }
    }

    fn close(&mut self, done: Option<oneshot::Sender<Result<(), CommitError>>>) {
        if self.closing.is_some() {
            return;
        }
        let config = self.client.config();
        let commits = done.is_some() && config.enable_auto_commit;
        let within = config.default_api_timeout.min(CLOSE_LIMIT);
        let offsets = if commits { self.uncommitted() } else { Offsets::default() };
        let limit: Duration = CLOSE_LIMIT / 2;
        let last = "no answer yet".to_owned();
        let committed = Err(CommitError::TimedOut { after: within, last });
        let deadline = Instant::now() + within;
        self.closing = Some(Closing { done, committed, leaving: false, deadline });
        self.commits.push(CommitJob::new(offsets, limit, AfterCommit::Close));
    }
}

/// Those of the topics that exist.
async fn describe(
    client: &KafkaClient,
    topics: &[Arc<str>],
) -> Result<BTreeMap<Arc<str>, TopicInfo>, ClientError> {
    let mut attempts = client.attempts("describe the group's topics");
    let metadata = client.cluster_metadata(&mut attempts, topics).await?;
    let known = metadata.topics.into_iter().filter_map(|topic| {
        let name: Arc<str> = Arc::from(topic.name.as_ref()?.as_str());
        let partitions = i32::try_from(topic.partitions.len()).ok().filter(|count| *count > 0)?;
        Some((name, TopicInfo { partitions, topic_id: topic.topic_id.into_bytes() }))
    });
    Ok(known.collect())
}

/// How long closing may take, Java's default.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);
