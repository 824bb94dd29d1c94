//! The brokers: the core of the dev broker as a cluster, with everything that real brokers do badly.
//!
//! All brokers share one core: one log per partition, one table of transactions. What makes them several is who answers:
//! only a partition's leader and an id's coordinator do, and those fail over. A write is held for as long as its
//! replication takes, then it is handled and answered at once. A broker that dies in between leaves its held writes
//! behind: each is handled or lost, by the throw of a coin, and none is answered. So what was answered survives every
//! failover, as with `acks=all` and replicas in sync, and what was not may or may not, as there.

mod describe;
mod failover;
mod port;
mod setup;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use millstream_dev_broker::core::{
    Cluster, ClusterConfig, CoordinatorKind, Outgoing, StorageEffect,
};
use millstream_protocol::{ApiKey, ErrorCode, Timestamp};

use crate::history::History;
use crate::network::{Event, World};
use crate::runtime::Random;
use describe::{describe_answer, describe_request};
pub(crate) use port::Port;
pub use setup::InputRecord;

/// How the cluster behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Brokers, at least one.
    pub brokers: u8,
    /// Finalized `transaction.version`: 0, 1 or 2.
    pub transaction_version: i16,
    /// Replication of a write takes from 0 to this many milliseconds.
    pub replication_max_ms: u64,
    /// Between the decision of a transaction and its first markers, in milliseconds.
    pub marker_delay_ms: u64,
    /// Between the markers of one transaction, in milliseconds; 0 writes all at once.
    pub marker_spread_ms: u64,
    /// Milliseconds until somebody leads in the place of a broker that has died, at most.
    pub election_max_ms: u64,
    /// Milliseconds that a new coordinator reads its log, at most.
    pub loading_max_ms: u64,
    /// Milliseconds a frozen broker stays in office.
    pub session_timeout_ms: u64,
    /// Milliseconds between looks for transactions past their timeout.
    pub abort_scan_ms: u64,
}

impl ClusterSettings {
    /// Three brokers that never keep anybody waiting.
    #[must_use]
    pub fn calm(transaction_version: i16) -> Self {
        Self {
            brokers: 3,
            transaction_version,
            replication_max_ms: 1,
            marker_delay_ms: 1,
            marker_spread_ms: 0,
            election_max_ms: 100,
            loading_max_ms: 10,
            session_timeout_ms: 1_000,
            abort_scan_ms: 500,
        }
    }
}

/// Something that happens in the cluster by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokerEvent {
    /// A held write is replicated.
    Replicated(u64),
    /// Vacant offices are filled.
    Elect,
    /// A coordinator has read its log.
    Loaded(CoordinatorKind, u32),
    /// A broker that was down is back.
    Restarted(i32),
    /// A frozen broker is waited for no longer.
    Expired(i32, u64),
    /// A frozen broker goes on.
    Thawed(i32),
    /// The core has asked for its time.
    CoreTimeout,
}

/// What a broker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokerState {
    Up,
    /// Connections stay, nothing is read; with the number of this freeze.
    Frozen(u64),
    Down,
}

/// A write that is being replicated.
#[derive(Debug)]
struct Held {
    connection: u64,
    node: i32,
    frame: Bytes,
    /// Set for requests to a transaction coordinator: while one is at work no other is handled.
    transactional_id: Option<String>,
    /// Its time is over, but its broker is frozen.
    overdue: bool,
}

/// All brokers.
#[derive(Debug)]
pub(crate) struct Brokers {
    pub(crate) core: Cluster,
    settings: ClusterSettings,
    states: BTreeMap<i32, BrokerState>,
    held: BTreeMap<u64, Held>,
    next_hold: u64,
    freezes: u64,
    random: Random,
    core_timeout: Option<u64>,
    election_due: bool,
    wall_clock_ms: i64,
    /// Every batch ever appended to a topic of that name, also if compaction has removed it since, or the topic is another one by
    /// now; an empty one stands where a topic was deleted.
    appended: BTreeMap<(String, i32), Vec<Bytes>>,
    /// Requests whose answer is due, for a history.
    asked: BTreeMap<u64, VecDeque<(ApiKey, i16)>>,
    /// How often each fault of the cluster has struck.
    pub(crate) failovers: u64,
}

/// Brokers are called `broker-1` and so on.
const HOST_PREFIX: &str = "broker-";

/// Port that all of them listen on.
pub const BROKER_PORT: u16 = 9092;

impl Brokers {
    /// The brokers of a history. `wall_clock_ms` is their clock at its beginning, in milliseconds since 1970.
    pub(crate) fn new(seed: u64, settings: ClusterSettings, wall_clock_ms: i64) -> Self {
        let ms = std::time::Duration::from_millis;
        let config = ClusterConfig {
            advertised_host: format!("{HOST_PREFIX}1"),
            advertised_port: BROKER_PORT,
            transaction_version: settings.transaction_version,
            transaction_abort_scan_interval: ms(settings.abort_scan_ms),
            transaction_marker_delay: ms(settings.marker_delay_ms),
            transaction_marker_spread: ms(settings.marker_spread_ms),
            durable: true,
            ..ClusterConfig::default()
        };
        let mut random = Random::named(seed, "brokers");
        let mut core = Cluster::new(config, random.next());
        let mut states = BTreeMap::new();
        for node in 1..=i32::from(settings.brokers) {
            if node > 1 {
                core.add_node(node, format!("{HOST_PREFIX}{node}"), BROKER_PORT);
            }
            states.insert(node, BrokerState::Up);
        }
        let mut brokers = Self {
            core,
            settings,
            states,
            held: BTreeMap::new(),
            next_hold: 0,
            freezes: 0,
            random,
            core_timeout: None,
            election_due: false,
            wall_clock_ms,
            appended: BTreeMap::new(),
            asked: BTreeMap::new(),
            failovers: 0,
        };
        brokers.seat_first_coordinators();
        brokers
    }

    pub(crate) fn node_of_host(&self, host: &str) -> Option<i32> {
        let node = host.strip_prefix(HOST_PREFIX)?.parse().ok()?;
        self.states.contains_key(&node).then_some(node)
    }

    /// Addresses of all brokers, as `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> String {
        let hosts: Vec<String> =
            self.states.keys().map(|node| format!("{HOST_PREFIX}{node}:{BROKER_PORT}")).collect();
        hosts.join(",")
    }

    /// Whether the system of a broker takes connections; a frozen one's does.
    pub(crate) fn is_listening(&self, node: i32) -> bool {
        self.states.get(&node).is_some_and(|state| *state != BrokerState::Down)
    }

    fn is_up(&self, node: i32) -> bool {
        self.states.get(&node) == Some(&BrokerState::Up)
    }

    /// Every batch ever written to a partition, in order.
    pub(crate) fn appended(&self) -> impl Iterator<Item = (&str, i32, &[Bytes])> {
        let all = self.appended.iter();
        all.map(|((topic, partition), batches)| (topic.as_str(), *partition, batches.as_slice()))
    }

    /// A topic was deleted: what is appended to one of its name from now on is behind nothing.
    pub(crate) fn was_deleted(&mut self, topic: &str) {
        for ((name, _), batches) in &mut self.appended {
            if name == topic {
                batches.push(Bytes::new());
            }
        }
    }

    fn keep(&mut self) {
        while let Some(effect) = self.core.poll_storage() {
            if let StorageEffect::Append { topic_id, partition, batch } = effect
                && let Some(topic) = self.core.topic_name(topic_id)
            {
                self.appended.entry((topic.to_owned(), partition)).or_default().push(batch);
            }
        }
    }

    pub(crate) fn clock(&self, now: u64) -> (Timestamp, i64) {
        let since = i64::try_from(now / 1000).unwrap_or(i64::MAX);
        (Timestamp::from_micros(now), self.wall_clock_ms.saturating_add(since))
    }
}

/// What a frame asks, as far as it must be known before it is handled.
fn peek(frame: &Bytes) -> Option<(ApiKey, i16)> {
    let code = i16::from_be_bytes(frame.get(..2)?.try_into().ok()?);
    let version = i16::from_be_bytes(frame.get(2..4)?.try_into().ok()?);
    Some((ApiKey::from_code(code)?, version))
}

fn is_held(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::Produce
            | ApiKey::InitProducerId
            | ApiKey::AddPartitionsToTxn
            | ApiKey::EndTxn
            | ApiKey::OffsetCommit
            | ApiKey::CreateTopics
    )
}

/// The id that a request to a transaction coordinator is about.
fn transactional_id(api: ApiKey, frame: &Bytes) -> Option<String> {
    use millstream_protocol::Request;
    if !matches!(api, ApiKey::InitProducerId | ApiKey::AddPartitionsToTxn | ApiKey::EndTxn) {
        return None;
    }
    match Request::decode(frame.clone()).ok()?.1 {
        Request::InitProducerId(request) => request.transactional_id.map(|id| id.0.to_string()),
        Request::AddPartitionsToTxn(request) => {
            Some(request.v3_and_below_transactional_id.0.to_string())
        }
        Request::EndTxn(request) => Some(request.transactional_id.0.to_string()),
        _ => None,
    }
}

impl World {
    /// The next request of a connection, if its broker works and has answered the one before.
    pub(crate) fn serve(&mut self, id: u64, now: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let node = connection.node;
        if connection.port.busy || !self.brokers.is_up(node) {
            return;
        }
        let Some(frame) = connection.port.inbox.pop_front() else {
            if connection.port.lost {
                self.finish_port(id);
            }
            return;
        };
        connection.port.busy = true;
        let process = connection.process.clone();
        let Some((api, version)) = peek(&frame) else {
            return self.hand_over(id, node, frame, now);
        };
        if self.history.is_recording() {
            self.brokers.asked.entry(id).or_default().push_back((api, version));
            self.history.note(&format!("broker {node}"), || {
                format!("c{id} ({process}) asks {}", describe_request(&frame))
            });
        }
        if !is_held(api) {
            return self.hand_over(id, node, frame, now);
        }
        let transactional_id = transactional_id(api, &frame);
        let at_work = transactional_id.is_some()
            && self.brokers.held.values().any(|held| held.transactional_id == transactional_id);
        if at_work {
            // What a coordinator says while the last step of this id is not replicated yet.
            self.brokers.core.refuse_request(id, frame, ErrorCode::CONCURRENT_TRANSACTIONS);
            return self.pump(now);
        }
        let brokers = &mut self.brokers;
        brokers.next_hold += 1;
        let hold = brokers.next_hold;
        let takes = brokers.random.within(0..=brokers.settings.replication_max_ms * 1000);
        brokers
            .held
            .insert(hold, Held { connection: id, node, frame, transactional_id, overdue: false });
        self.schedule(now + takes, Event::Broker(BrokerEvent::Replicated(hold)));
    }

    /// A write that is replicated is handled, unless its broker is frozen.
    fn replicated(&mut self, hold: u64, now: u64) {
        let Some(held) = self.brokers.held.get_mut(&hold) else { return };
        let node = held.node;
        if self.brokers.states.get(&node) != Some(&BrokerState::Up) {
            held.overdue = true;
            return;
        }
        if let Some(held) = self.brokers.held.remove(&hold) {
            self.hand_over(held.connection, node, held.frame, now);
        }
    }

    fn hand_over(&mut self, connection: u64, node: i32, frame: Bytes, now: u64) {
        let (time, wall_clock_ms) = self.brokers.clock(now);
        self.brokers.core.handle_request_at(node, time, wall_clock_ms, connection, frame);
        self.pump(now);
    }

    /// Carries out what the core wants, and lets connections go on that have their answer.
    pub(crate) fn pump(&mut self, now: u64) {
        self.brokers.keep();
        let mut answered = Vec::new();
        while let Some(outgoing) = self.brokers.core.poll_outgoing() {
            match outgoing {
                Outgoing::Response { connection, frame } => {
                    let frame = frame.to_bytes();
                    self.note_answer(connection, &frame);
                    self.broker_writes(connection, frame, now);
                    answered.push(connection);
                }
                Outgoing::Done { connection } => answered.push(connection),
                Outgoing::Close { connection } => {
                    self.broker_closes(connection, true, now);
                    answered.push(connection);
                }
            }
        }
        self.follow_core_timeout();
        for id in answered {
            match self.connections.get_mut(&id) {
                Some(connection) => connection.port.busy = false,
                None => self.brokers.core.handle_disconnect(id),
            }
            self.serve(id, now);
        }
    }

    fn note_answer(&mut self, id: u64, frame: &Bytes) {
        if !self.history.is_recording() {
            return;
        }
        let asked = self.brokers.asked.get_mut(&id).and_then(VecDeque::pop_front);
        let (Some((api, version)), Some(connection)) = (asked, self.connections.get(&id)) else {
            return;
        };
        let node = connection.node;
        self.history.note(&format!("broker {node}"), || {
            format!("c{id} is told {}", describe_answer(api, version, frame))
        });
    }

    fn follow_core_timeout(&mut self) {
        let due = self.brokers.core.poll_timeout().map(|due| due.as_micros());
        let Some(due) = due else { return };
        if self.brokers.core_timeout.is_none_or(|scheduled| due < scheduled) {
            self.brokers.core_timeout = Some(due);
            self.schedule(due, Event::Broker(BrokerEvent::CoreTimeout));
        }
    }

    /// Gives the core its time.
    pub(crate) fn core_timeout(&mut self, now: u64) {
        let (time, wall_clock_ms) = self.brokers.clock(now);
        if self.brokers.core_timeout.is_some_and(|scheduled| scheduled <= now) {
            self.brokers.core_timeout = None;
        }
        self.brokers.core.handle_timeout(time, wall_clock_ms);
        self.pump(now);
    }

    pub(crate) fn broker_event(&mut self, event: BrokerEvent, now: u64) {
        match event {
            BrokerEvent::Replicated(hold) => self.replicated(hold, now),
            BrokerEvent::Elect => self.elect(now),
            BrokerEvent::Loaded(kind, slot) => self.loaded(kind, slot, now),
            BrokerEvent::Restarted(node) => self.restarted(node, now),
            BrokerEvent::Expired(node, freeze) => self.expired(node, freeze, now),
            BrokerEvent::Thawed(node) => self.thawed(node, now),
            BrokerEvent::CoreTimeout => self.core_timeout(now),
        }
    }

    pub(crate) fn note_cluster(&self, what: impl FnOnce() -> String) {
        let history: &History = &self.history;
        history.note(&"cluster", what);
    }
}
