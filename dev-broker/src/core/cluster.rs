//! The cluster as a machine: request frames and time in, response frames, timers and storage effects out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use millstream_protocol::{EncodedFrame, ErrorCode, Timestamp, TopicPartition};
use uuid::Uuid;

use super::config::ClusterConfig;
use super::connection::Connection;
use super::faults::Faults;
use super::fetch_session::FetchSessions;
use super::groups::Groups;
use super::nodes::Nodes;
use super::random::Random;
use super::storage::{StateRecord, StorageEffect, Stored};
use super::topics::Topics;
use super::transaction::{TransactionMetadata, TransactionState};

/// What the cluster wants done with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Send this answer.
    Response {
        /// The connection that asked.
        connection: u64,
        /// The answer, its size included.
        frame: EncodedFrame,
    },
    /// A request is done and has no answer (Produce with acks 0).
    Done {
        /// The connection that asked.
        connection: u64,
    },
    /// Close the connection: its bytes made no sense, or a fault rule says so.
    Close {
        /// The connection.
        connection: u64,
    },
}

/// What time it is, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) now: Timestamp,
    pub(crate) wall_clock_ms: i64,
}

/// A Kafka cluster, of one node unless more are added, without sockets, files, clock or randomness.
///
/// After every `handle_*` call, carry out [`poll_storage`](Self::poll_storage) until it yields nothing, then
/// [`poll_outgoing`](Self::poll_outgoing), then look at [`poll_timeout`](Self::poll_timeout). Answers of one
/// connection come in the order of its requests; a Fetch that waits holds back the requests behind it, as in Kafka.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) config: ClusterConfig,
    pub(crate) random: Random,
    pub(crate) cluster_id: String,
    pub(crate) topics: Topics,
    pub(crate) transactions: BTreeMap<String, TransactionMetadata>,
    /// Decided transactions whose markers are due, by time.
    pub(crate) markers: BTreeSet<(Timestamp, String)>,
    pub(crate) next_producer_id: i64,
    pub(crate) groups: Groups,
    pub(crate) sessions: FetchSessions,
    pub(crate) faults: Faults,
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) nodes: Nodes,
    /// The node whose request is at work.
    pub(crate) serving: i32,
    /// Partitions whose readable end moved since waiting fetches were last looked at.
    pub(crate) moved: BTreeSet<TopicPartition>,
    pub(crate) next_abort_scan: Timestamp,
    pub(crate) next_compaction: Timestamp,
    pub(crate) outgoing: VecDeque<Outgoing>,
    effects: VecDeque<StorageEffect>,
}

impl Cluster {
    /// A cluster without topics. Everything random in it (ids) comes from `seed`.
    #[must_use]
    pub fn new(config: ClusterConfig, seed: u64) -> Self {
        Self::from_stored(config, seed, Stored::default(), Timestamp::ZERO)
    }

    /// A cluster that goes on at `now` from what an earlier one stored.
    ///
    /// Decided transactions whose markers were not all written are finished soon after the first
    /// [`handle_timeout`](Self::handle_timeout). Open ones get their whole timeout again.
    #[must_use]
    pub fn from_stored(config: ClusterConfig, seed: u64, stored: Stored, now: Timestamp) -> Self {
        let mut random = Random::new(seed);
        let cluster_id = random.base64_id();
        let mut cluster = Self {
            next_abort_scan: now.after(config.transaction_abort_scan_interval),
            next_compaction: now.after(config.compaction_interval),
            sessions: FetchSessions::new(config.fetch_session_slots, config.fetch_session_eviction),
            serving: config.node_id,
            config,
            random,
            cluster_id,
            topics: Topics::default(),
            transactions: BTreeMap::new(),
            markers: BTreeSet::new(),
            next_producer_id: 0,
            groups: Groups::default(),
            faults: Faults::default(),
            connections: BTreeMap::new(),
            nodes: Nodes::default(),
            moved: BTreeSet::new(),
            outgoing: VecDeque::new(),
            effects: VecDeque::new(),
        };
        super::replay::replay(&mut cluster, stored, now);
        cluster
    }

    /// Records that make the present state log in one piece. A shell that keeps a state log replaces it by these at its
    /// start, before it handles anything.
    #[must_use]
    pub fn state_snapshot(&self) -> Vec<Bytes> {
        super::replay::snapshot(self).iter().map(StateRecord::encode).collect()
    }

    /// Ids of the topics there are; logs of others are left over from deleted ones.
    #[must_use]
    pub fn topic_ids(&self) -> BTreeSet<Uuid> {
        self.topics.by_name.values().map(|topic| topic.id).collect()
    }

    /// The name of a topic.
    #[must_use]
    pub fn topic_name(&self, id: Uuid) -> Option<&str> {
        self.topics.by_name.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| &**name)
    }

    /// Transactional ids with a transaction that is open or whose markers are not all written, and partitions that still
    /// hold readers back, in words.
    #[must_use]
    pub fn unfinished_transactions(&self) -> Vec<String> {
        let open = self.transactions.values().filter_map(|transaction| {
            let state = transaction.state;
            let unfinished = state == TransactionState::Ongoing || state.is_prepared();
            unfinished.then(|| format!("{} is {}", transaction.transactional_id, state.name()))
        });
        let held = self.topics.by_name.iter().flat_map(|(name, topic)| {
            (0..).zip(&topic.partitions).filter_map(move |(partition, log): (i32, _)| {
                let (stable, end) = (log.last_stable_offset(), log.log_end_offset());
                (stable < end).then(|| format!("{name}-{partition} is stable to {stable} of {end}"))
            })
        });
        open.chain(held).collect()
    }

    /// The settings it was made with.
    #[must_use]
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// Tells the port that clients must be sent to, once the shell knows it.
    pub fn set_advertised(&mut self, host: impl Into<String>, port: u16) {
        self.config.advertised_host = host.into();
        self.config.advertised_port = port;
    }

    /// Takes one request frame (without its size) of `connection`. Unknown connections are new ones.
    ///
    /// `wall_clock_ms` is milliseconds since 1970: markers and log-append times carry it.
    pub fn handle_request(
        &mut self,
        now: Timestamp,
        wall_clock_ms: i64,
        connection: u64,
        frame: Bytes,
    ) {
        let node = self.config.node_id;
        self.handle_request_at(node, now, wall_clock_ms, connection, frame);
    }

    /// [`handle_request`](Self::handle_request) of a connection to this very node.
    pub fn handle_request_at(
        &mut self,
        node: i32,
        now: Timestamp,
        wall_clock_ms: i64,
        connection: u64,
        frame: Bytes,
    ) {
        let entry = self.connections.entry(connection).or_default();
        entry.node = Some(node);
        entry.queue.push_back(frame);
        self.run(Clock { now, wall_clock_ms }, connection);
    }

    /// Answers a request of a connection with `code`, wherever its answer has room for one, without handling it.
    pub fn refuse_request(&mut self, connection: u64, frame: Bytes, code: ErrorCode) {
        self.connections.entry(connection).or_default();
        self.refuse(connection, frame, code);
    }

    /// Forgets a connection; what it waited for is dropped, what it wrote stays.
    pub fn handle_disconnect(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp, wall_clock_ms: i64) {
        let clock = Clock { now, wall_clock_ms };
        while let Some((due, id)) = self.markers.first().cloned()
            && due <= now
        {
            self.markers.remove(&(due, id.clone()));
            self.write_markers(clock, &id);
        }
        if self.next_abort_scan <= now {
            self.next_abort_scan = now.after(self.config.transaction_abort_scan_interval);
            self.abort_timed_out_transactions(clock);
        }
        if self.next_compaction <= now {
            self.next_compaction = now.after(self.config.compaction_interval);
            self.compact(wall_clock_ms);
        }
        self.wake(clock);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, if ever.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let markers = self.markers.first().map(|(due, _)| *due);
        let scan = self
            .transactions
            .values()
            .any(|transaction| transaction.deadline.is_some())
            .then_some(self.next_abort_scan);
        let compaction = self
            .topics
            .by_name
            .values()
            .any(|topic| topic.config.is_compacted())
            .then_some(self.next_compaction);
        let connections = self.connections.values().filter_map(Connection::deadline).min();
        [markers, scan, compaction, connections].into_iter().flatten().min()
    }

    /// The next answer to send.
    pub fn poll_outgoing(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// The next change to keep. Must be carried out before the answers that [`poll_outgoing`](Self::poll_outgoing)
    /// yields.
    pub fn poll_storage(&mut self) -> Option<StorageEffect> {
        self.effects.pop_front()
    }

    /// Rules that make the cluster misbehave; see [`Faults`].
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Compacts every topic that asks for it (`cleanup.policy=compact`) now, whatever its dirty ratio.
    pub fn compact_now(&mut self, wall_clock_ms: i64) {
        self.compact_with(wall_clock_ms, true);
    }

    fn compact(&mut self, wall_clock_ms: i64) {
        self.compact_with(wall_clock_ms, false);
    }

    fn compact_with(&mut self, wall_clock_ms: i64, forced: bool) {
        let mut rewrites = Vec::new();
        for topic in self.topics.by_name.values_mut().filter(|topic| topic.config.is_compacted()) {
            let rules = super::log::CompactionRules {
                wall_clock_ms,
                delete_retention: topic.config.delete_retention(),
                min_dirty_percent: topic.config.min_dirty_percent(),
                forced,
                segment_bytes: topic.config.segment_bytes(&self.config),
            };
            for (partition, log) in (0..).zip(&mut topic.partitions) {
                if let Some(compaction) = log.compact(&rules) {
                    rewrites.push((topic.id, partition, compaction.content));
                }
            }
        }
        for (topic_id, partition, content) in rewrites {
            self.effect(|| StorageEffect::Rewrite { topic_id, partition, content });
        }
    }

    /// A producer id nobody has had.
    pub(crate) fn fresh_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        let next = self.next_producer_id;
        self.store(|| StateRecord::ProducerIds { next });
        id
    }

    pub(crate) fn fresh_topic_id(&mut self) -> Uuid {
        self.random.uuid()
    }

    /// Keeps a record of the state log.
    pub(crate) fn store(&mut self, record: impl FnOnce() -> StateRecord) {
        self.effect(|| StorageEffect::State(record().encode()));
    }

    pub(crate) fn effect(&mut self, effect: impl FnOnce() -> StorageEffect) {
        if self.config.durable {
            self.effects.push_back(effect());
        }
    }

    /// Something a sleeping fetch may wait for has happened.
    pub(crate) fn note_moved(&mut self, topic_partition: TopicPartition) {
        self.moved.insert(topic_partition);
    }

    pub(crate) fn marker_due(&self, now: Timestamp) -> Timestamp {
        now.after(self.config.transaction_marker_delay)
    }
}
