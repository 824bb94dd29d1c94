//! The fetch machine's face: positions in, requests and events out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::fetch_partition::{FetchedState, Phase};
use super::{FetchError, FetchEvent, FetchSession, SessionRequest};
use crate::StaleMetadata;
use crate::backoff::{ExponentialBackoff, Jitter};
use crate::messages::{
    FIRST_FETCH_BY_ID, FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, Request, Response,
};
use crate::network::OutgoingRequest;
use crate::network::{ConnectionClass, Destination, Metadata, RequestError, RequestToken};
use crate::{ErrorCode, IsolationLevel, NO_TOPIC_ID, NodeId, Timestamp, TopicPartition};

/// Bounds and habits of a [`Fetcher`]. Defaults are Kafka's, except the isolation level.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// Whether undecided and aborted records are wanted (`isolation.level`, KIP-98). Default: read committed.
    pub isolation_level: IsolationLevel,
    /// How long the broker may wait for `min_bytes` (`fetch.max.wait.ms`), in whole milliseconds. Default 500 ms.
    pub max_wait: Duration,
    /// Bytes worth an answer (`fetch.min.bytes`). Default 1.
    pub min_bytes: i32,
    /// Bytes of one answer (`fetch.max.bytes`); one batch may exceed it (KIP-74). Default 50 MiB.
    pub max_bytes: i32,
    /// Bytes of one partition in one answer (`max.partition.fetch.bytes`); one batch may exceed it (KIP-74). Default 1 MiB.
    pub max_partition_bytes: i32,
    /// A partition with this many unread bytes is not asked for. Default 1 MiB (ours).
    pub partition_prefetch_bytes: usize,
    /// With this many unread bytes altogether, only partitions without any are asked for. Those always are: a reader that
    /// waits for one partition may hold back the others. Default 64 MiB (ours).
    pub prefetch_bytes: usize,
    /// How long the broker may take to answer, beyond `max_wait` (`request.timeout.ms`). Default 30 s.
    pub request_timeout: Duration,
    /// Between tries of what failed (`retry.backoff.ms`, `retry.backoff.max.ms`). Default 100 ms to 1 s.
    pub retry_backoff: ExponentialBackoff,
    /// How long errors are borne that may be permanent: an unknown topic, a corrupt answer (`default.api.timeout.ms`).
    /// Default 60 s.
    pub patience: Duration,
    /// Where this reader is (`client.rack`, KIP-392): a leader may then name a replica nearby to read from. Empty: nowhere,
    /// the default.
    pub rack_id: Arc<str>,
    /// After so long the leader is asked again which replica is near (`metadata.max.age.ms`). Default 5 min.
    pub read_replica_lease: Duration,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            isolation_level: IsolationLevel::ReadCommitted,
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 50 << 20,
            max_partition_bytes: 1 << 20,
            partition_prefetch_bytes: 1 << 20,
            prefetch_bytes: 64 << 20,
            request_timeout: Duration::from_secs(30),
            retry_backoff: ExponentialBackoff::new(
                Duration::from_millis(100),
                Duration::from_secs(1),
            ),
            patience: Duration::from_secs(60),
            rack_id: Arc::from(""),
            read_replica_lease: Duration::from_secs(300),
        }
    }
}

/// How a reader that is in no hurry is served until some time: in fewer, larger answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPace {
    /// From here on every byte is worth an answer again, as [`FetchConfig`] says.
    pub until: Timestamp,
    /// Bytes worth an answer before.
    pub min_bytes: i32,
    /// How long the broker may wait for them, in whole milliseconds; never longer than `until`.
    pub max_wait: Duration,
}

/// Where reading of a partition starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchStart {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The next offset to read, from 0; one outside the log comes back as a failed partition.
    pub offset: i64,
    /// Leader epoch of the record before `offset`, with which a truncation is noticed (KIP-320); -1 if not known.
    pub leader_epoch: i32,
}

/// The partitions of one consumer.
///
/// After every other call, [`poll_request`](Self::poll_request), [`poll_event`](Self::poll_event),
/// [`poll_stale_metadata`](Self::poll_stale_metadata) are to be polled until they return `None`, and
/// [`poll_timeout`](Self::poll_timeout) is to be asked anew. `poll_request` also after the metadata changed.
#[derive(Debug)]
pub struct Fetcher {
    pub(super) config: FetchConfig,
    pub(super) partitions: BTreeMap<TopicPartition, FetchedState>,
    pub(super) nodes: BTreeMap<NodeId, NodeState>,
    pub(super) in_flight: BTreeMap<RequestToken, InFlight>,
    pub(super) events: VecDeque<FetchEvent>,
    pub(super) stale: VecDeque<StaleMetadata>,
    pub(super) jitter: Jitter,
    pub(super) served: u64,
    next_token: u64,
    next_generation: u64,
    closing: bool,
    /// Something has changed since there was no request to make.
    changed: bool,
    /// Something was released since then.
    released: bool,
    /// Of the metadata when there was no request to make.
    metadata_revision: u64,
    pace: Option<FetchPace>,
}

/// The session with one broker.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) session: FetchSession,
    pub(super) busy: bool,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Timestamp>,
}

/// A request that awaits its answer.
#[derive(Debug)]
pub(super) enum InFlight {
    Fetch {
        node: NodeId,
        /// Every partition of the session, with what its position was.
        asked: BTreeMap<TopicPartition, Asked>,
    },
    Diagnosis {
        topic_partition: TopicPartition,
        generation: u64,
    },
    Close,
}

/// What a partition's position was when a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) generation: u64,
    pub(super) offset: i64,
}

impl Fetcher {
    /// A fetcher without partitions. `seed` decides the jitter of its waiting times.
    #[must_use]
    pub fn new(config: FetchConfig, seed: u64) -> Self {
        Self {
            config,
            partitions: BTreeMap::new(),
            nodes: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            events: VecDeque::new(),
            stale: VecDeque::new(),
            jitter: Jitter::new(seed),
            served: 0,
            next_token: 0,
            next_generation: 0,
            closing: false,
            changed: true,
            released: false,
            metadata_revision: 0,
            pace: None,
        }
    }

    /// Sets how requests are made from now on. One that is under way is not changed.
    pub fn set_pace(&mut self, pace: FetchPace) {
        self.pace = Some(pace);
    }

    /// Sets a partition's position, whether it was read before or not, failed or not. What was fetched for it and not
    /// polled is dropped; what was polled no longer counts as unread.
    pub fn assign(&mut self, start: FetchStart) {
        self.events.retain(|event| event.topic_partition() != &start.topic_partition);
        self.next_generation += 1;
        let mut state = FetchedState::new(start.offset, start.leader_epoch, self.next_generation);
        if let Some(old) = self.partitions.get(&start.topic_partition) {
            state.paused = old.paused;
            state.served = old.served;
        }
        self.partitions.insert(start.topic_partition, state);
        self.changed = true;
    }

    /// Ends reading of a partition. Its events that were not polled are dropped.
    pub fn unassign(&mut self, topic_partition: &TopicPartition) {
        self.partitions.remove(topic_partition);
        self.events.retain(|event| event.topic_partition() != topic_partition);
        self.changed = true;
    }

    /// Stops asking for a partition. What is under way still arrives.
    pub fn pause(&mut self, topic_partition: &TopicPartition) {
        if let Some(state) = self.partitions.get_mut(topic_partition) {
            state.paused = true;
        }
        self.changed = true;
    }

    /// Goes on asking for a paused partition.
    pub fn resume(&mut self, topic_partition: &TopicPartition) {
        if let Some(state) = self.partitions.get_mut(topic_partition) {
            state.paused = false;
        }
        self.changed = true;
    }

    /// The reader is done with `bytes` (the length of `records`) of what it was handed for a partition.
    pub fn release(&mut self, topic_partition: &TopicPartition, bytes: usize) {
        if let Some(state) = self.partitions.get_mut(topic_partition) {
            state.unread_bytes = state.unread_bytes.saturating_sub(bytes);
        }
        self.released = true;
    }

    /// The next offset that will be asked for, behind everything fetched so far.
    #[must_use]
    pub fn position(&self, topic_partition: &TopicPartition) -> Option<i64> {
        self.partitions.get(topic_partition).map(|state| state.offset)
    }

    /// The metadata show another topic under a name that is read: its positions mean nothing any more.
    pub fn handle_topic_recreated(&mut self, topic: &str, old_id: [u8; 16], new_id: [u8; 16]) {
        let of_topic: Vec<TopicPartition> =
            self.partitions.keys().filter(|key| &*key.topic == topic).cloned().collect();
        for topic_partition in of_topic {
            self.fail(&topic_partition, FetchError::TopicRecreated { old_id, new_id });
        }
    }

    /// Ends reading: from now on only requests that close the sessions are made.
    pub fn close(&mut self) {
        self.closing = true;
        self.partitions.clear();
        self.events.clear();
        self.stale.clear();
    }

    /// The next request to send at `now`, if any.
    pub fn poll_request(&mut self, now: Timestamp, metadata: &Metadata) -> Option<OutgoingRequest> {
        if self.closing {
            return self.poll_close();
        }
        // Most calls come while nothing has changed for us, or all that has is that readers are done with something while
        // every broker is asked already; and there may be thousands of partitions to look at.
        let unchanged = !self.changed && self.metadata_revision == metadata.revision();
        if unchanged && (!self.released || self.nodes.values().all(|node| node.busy)) {
            return None;
        }
        let request = self.poll_diagnosis(now, metadata).or_else(|| self.poll_fetch(now, metadata));
        self.changed = request.is_some();
        self.released = false;
        self.metadata_revision = metadata.revision();
        request
    }

    /// Takes the answer to the request of `token`, or why there is none. Unknown tokens are ignored.
    pub fn handle_response(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        result: Result<Response, RequestError>,
    ) {
        self.changed = true;
        match self.in_flight.remove(&token) {
            None | Some(InFlight::Close) => {}
            Some(InFlight::Fetch { node, asked }) => {
                if let Some(state) = self.nodes.get_mut(&node) {
                    state.busy = false;
                }
                match result {
                    Ok(Response::Fetch(response)) => {
                        self.handle_fetch(now, node, &asked, response);
                    }
                    Ok(_) => self.handle_fetch_failure(now, node, &asked, None),
                    Err(error) => self.handle_fetch_failure(now, node, &asked, Some(&error)),
                }
            }
            Some(InFlight::Diagnosis { topic_partition, generation }) => {
                self.handle_diagnosis(now, &topic_partition, generation, result);
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing else happens first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let partitions = self.partitions.values().filter_map(FetchedState::retry_at);
        let nodes = self.nodes.values().filter_map(|node| node.retry_at);
        partitions.chain(nodes).min()
    }

    /// Time has come to `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.changed = true;
        for state in self.partitions.values_mut() {
            state.handle_timeout(now);
        }
        for node in self.nodes.values_mut() {
            if node.retry_at.is_some_and(|at| at <= now) {
                node.retry_at = None;
            }
        }
    }

    /// The next event for the reader.
    pub fn poll_event(&mut self) -> Option<FetchEvent> {
        let event = self.events.pop_front()?;
        if let FetchEvent::Progress { topic_partition, .. } = &event
            && let Some(state) = self.partitions.get_mut(topic_partition)
        {
            state.progress_is_last = false;
        }
        Some(event)
    }

    /// Metadata that turned out to be old.
    pub fn poll_stale_metadata(&mut self) -> Option<StaleMetadata> {
        self.stale.pop_front()
    }

    fn poll_fetch(&mut self, now: Timestamp, metadata: &Metadata) -> Option<OutgoingRequest> {
        let mut wanted = self.wanted(now, metadata);
        let node = wanted.keys().copied().find(|node| {
            self.nodes
                .get(node)
                .is_none_or(|state| !state.busy && state.retry_at.is_none_or(|at| at <= now))
        })?;
        let Wanted { mut partitions, held_back } = wanted.remove(&node)?;
        partitions.sort_by_key(|(served, ..)| *served);
        let asked = partitions
            .iter()
            .map(|(_, key, entry, generation)| {
                (key.clone(), Asked { generation: *generation, offset: entry.fetch_offset })
            })
            .collect();
        let entries = partitions.into_iter().map(|(_, key, entry, _)| (key, entry)).collect();
        let state = self.nodes.entry(node).or_default();
        state.busy = true;
        let session = state.session.next_request(entries, |topic| metadata.topic_id(topic));
        let (mut max_wait, min_bytes) = self.worth(now);
        if held_back {
            // Whoever is held back for unread bytes must not wait out a long poll that was started without him.
            max_wait = max_wait.min(HELD_BACK_WAIT);
        }
        let max_version = newest_version(&session);
        let request = self.fetch_request(session, max_wait, min_bytes);
        let token = self.track(InFlight::Fetch { node, asked });
        Some(OutgoingRequest {
            token,
            destination: Destination::Node(node),
            class: ConnectionClass::Fetch,
            request: Request::Fetch(request),
            max_version,
            timeout: self.config.request_timeout + max_wait,
        })
    }

    /// How long a broker may wait now, and for how many bytes.
    fn worth(&self, now: Timestamp) -> (Duration, i32) {
        let FetchConfig { max_wait, min_bytes, .. } = self.config;
        match self.pace {
            Some(pace) if now < pace.until => {
                let wait = pace.until.since(now).min(pace.max_wait).min(max_wait);
                (wait, min_bytes.max(pace.min_bytes))
            }
            _ => (max_wait, min_bytes),
        }
    }

    /// Partitions to be asked for, by leader. Where the leader is not known, metadata are asked for instead.
    fn wanted(&mut self, now: Timestamp, metadata: &Metadata) -> BTreeMap<NodeId, Wanted> {
        let unread: usize = self.partitions.values().map(|state| state.unread_bytes).sum();
        let mut wanted: BTreeMap<NodeId, Wanted> = BTreeMap::new();
        let mut lost = Vec::new();
        let mut recreated = Vec::new();
        for (key, state) in &mut self.partitions {
            if state.phase != Phase::Fetching || state.paused || !state.is_due(now) {
                continue;
            }
            let Some(leader) = metadata.leader(key) else {
                lost.push(key.clone());
                continue;
            };
            // Metadata forget a topic that is gone for a while, and with it that there was another one.
            if let Some(new_id) = metadata.topic_id(&key.topic) {
                let old_id = *state.topic_id.get_or_insert(new_id);
                if old_id != new_id {
                    recreated.push((key.clone(), FetchError::TopicRecreated { old_id, new_id }));
                    continue;
                }
            }
            // A replica is asked for as long as its lease lasts and the cluster knows it.
            let replica =
                state.read_replica(now).filter(|node| metadata.brokers().contains_key(node));
            let of_node = wanted.entry(replica.unwrap_or(leader.node)).or_default();
            let full = state.unread_bytes >= self.config.partition_prefetch_bytes.max(1)
                || (unread >= self.config.prefetch_bytes && state.unread_bytes > 0);
            if full {
                of_node.held_back = true;
                continue;
            }
            let entry = FetchPartition {
                partition: key.partition,
                current_leader_epoch: leader.epoch,
                fetch_offset: state.offset,
                last_fetched_epoch: state.leader_epoch,
                log_start_offset: -1,
                partition_max_bytes: self.config.max_partition_bytes,
            };
            of_node.partitions.push((state.served, key.clone(), entry, state.generation));
        }
        wanted.retain(|_, of_node| !of_node.partitions.is_empty());
        for (key, error) in recreated {
            self.fail(&key, error);
        }
        for key in lost {
            let known = metadata.topic(&key.topic).is_some_and(|topic| {
                topic.error == ErrorCode::NONE && topic.partitions.contains_key(&key.partition)
            });
            // During an election a known partition has no leader, which may last; an unknown one may not exist at all.
            self.leader_unknown(now, &key, known);
        }
        wanted
    }

    fn fetch_request(
        &self,
        session: SessionRequest,
        max_wait: Duration,
        min_bytes: i32,
    ) -> FetchRequest {
        let id = |topic: &str| session.topic_ids.get(topic).copied().unwrap_or(NO_TOPIC_ID);
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (key, entry) in session.partitions {
            match topics.last_mut() {
                Some(last) if last.topic == key.topic => last.partitions.push(entry),
                _ => topics.push(FetchTopic {
                    topic_id: id(&key.topic),
                    topic: key.topic,
                    partitions: vec![entry],
                }),
            }
        }
        let mut forgotten_topics: Vec<ForgottenTopic> = Vec::new();
        for key in session.forgotten {
            match forgotten_topics.last_mut() {
                Some(last) if last.topic == key.topic => last.partitions.push(key.partition),
                _ => forgotten_topics.push(ForgottenTopic {
                    topic_id: id(&key.topic),
                    topic: key.topic,
                    partitions: vec![key.partition],
                }),
            }
        }
        FetchRequest {
            max_wait_ms: i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes,
            max_bytes: self.config.max_bytes,
            isolation_level: self.config.isolation_level,
            session_id: session.session_id,
            session_epoch: session.session_epoch,
            topics,
            forgotten_topics,
            rack_id: self.config.rack_id.to_string(),
        }
    }

    fn poll_close(&mut self) -> Option<OutgoingRequest> {
        let (node, session) = self.nodes.iter_mut().find_map(|(node, state)| {
            if state.busy { None } else { Some((*node, state.session.close()?)) }
        })?;
        let max_version = newest_version(&session);
        let request = self.fetch_request(session, Duration::ZERO, self.config.min_bytes);
        let token = self.track(InFlight::Close);
        Some(OutgoingRequest {
            token,
            destination: Destination::Node(node),
            class: ConnectionClass::Fetch,
            request: Request::Fetch(request),
            max_version,
            timeout: self.config.request_timeout,
        })
    }

    pub(super) fn track(&mut self, in_flight: InFlight) -> RequestToken {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        self.in_flight.insert(token, in_flight);
        token
    }

    /// Partitions under diagnosis whose request is on its way.
    pub(super) fn under_diagnosis(&self) -> BTreeSet<TopicPartition> {
        self.in_flight
            .values()
            .filter_map(|in_flight| match in_flight {
                InFlight::Diagnosis { topic_partition, .. } => Some(topic_partition.clone()),
                InFlight::Fetch { .. } | InFlight::Close => None,
            })
            .collect()
    }

    /// Ends fetching of a partition and says why.
    pub(super) fn fail(&mut self, topic_partition: &TopicPartition, error: FetchError) {
        self.changed = true;
        if let Some(state) = self.partitions.get_mut(topic_partition)
            && state.phase != Phase::Failed
        {
            let error = state.fail(error);
            self.events
                .push_back(FetchEvent::Failed { topic_partition: topic_partition.clone(), error });
        }
    }
}

/// Partitions to ask one broker for.
#[derive(Debug, Default)]
struct Wanted {
    partitions: Vec<(u64, TopicPartition, FetchPartition, u64)>,
    /// A partition of this broker has too many unread bytes to be asked for now.
    held_back: bool,
}

/// By names, if there are no ids.
fn newest_version(session: &SessionRequest) -> Option<i16> {
    (!session.by_ids).then_some(FIRST_FETCH_BY_ID - 1)
}

const HELD_BACK_WAIT: Duration = Duration::from_millis(50);

/// Names of topics, once each.
pub(super) fn topics_of<'a>(
    partitions: impl Iterator<Item = &'a TopicPartition>,
) -> BTreeMap<Arc<str>, TopicPartition> {
    partitions.map(|key| (Arc::clone(&key.topic), key.clone())).collect()
}

#[cfg(test)]
mod tests;
