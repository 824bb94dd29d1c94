//! The machine's face: what it is told, what it asks for, what it reports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::broker_versions::{BrokerVersions, FinalizedFeatures};
use super::coordinators::{CoordinatorKey, Coordinators};
use super::link::{Link, LinkKey, LinkState, Pending, Purpose};
use super::metadata_refresh::MetadataRefresh;
use super::{
    AddressFailure, ConnectionClass, ConnectionId, Destination, DisconnectReason, Metadata,
    MetadataNews, NetworkConfig, OutgoingRequest, RequestError, RequestToken,
};
use crate::backoff::Jitter;
use crate::messages::{ApiKey, Response};
use crate::sasl::SaslLogin;
use crate::wire::EncodedFrame;
use crate::{NodeId, Timestamp, TopicPartition};

/// The connections to a cluster and everything known of it. See the [module](super).
#[derive(Debug)]
pub struct NetworkClient {
    pub(super) config: NetworkConfig,
    pub(super) jitter: Jitter,
    /// The last time given: everything that may be done until then has been done.
    pub(super) clock: Timestamp,
    pub(super) links: BTreeMap<LinkKey, Link>,
    pub(super) connections: BTreeMap<ConnectionId, LinkKey>,
    pub(super) next_connection: u64,
    /// Requests whose receiver is not known or not connected yet.
    pub(super) waiting: Vec<Pending>,
    pub(super) metadata: Metadata,
    pub(super) tracked_topics: BTreeMap<Arc<str>, usize>,
    pub(super) refresh: MetadataRefresh,
    pub(super) coordinators: Coordinators,
    /// Brokers that only a FindCoordinator answer has named so far.
    pub(super) extra_endpoints: BTreeMap<NodeId, super::BrokerEndpoint>,
    pub(super) versions: BTreeMap<NodeId, BrokerVersions>,
    pub(super) features: FinalizedFeatures,
    /// KIP-219: a throttled broker is left alone until then.
    pub(super) muted_until: BTreeMap<NodeId, Timestamp>,
    /// The last failure of each address since it last worked.
    pub(super) failures: BTreeMap<Arc<str>, AddressFailure>,
    pub(super) outputs: VecDeque<NetworkOutput>,
    pub(super) events: VecDeque<NetworkEvent>,
}

/// What the driver is to do. Order matters per connection.
#[derive(Clone, Debug)]
pub enum NetworkOutput {
    /// Resolve, connect, and report [`handle_connected`](NetworkClient::handle_connected) or
    /// [`handle_disconnected`](NetworkClient::handle_disconnected).
    Connect {
        /// Names the attempt in later calls.
        connection: ConnectionId,
        /// Host name or address.
        host: Arc<str>,
        /// Port.
        port: u16,
    },
    /// Write the frame.
    Transmit {
        /// The connection to write to.
        connection: ConnectionId,
        /// Size, header and body.
        frame: EncodedFrame,
    },
    /// Get what an authentication needs (name and password, a fresh nonce, a valid token) and report
    /// [`handle_login`](NetworkClient::handle_login). Only if [`NetworkConfig::authenticate`] is set.
    Login {
        /// The connection to authenticate.
        connection: ConnectionId,
        /// The broker's host: some mechanisms sign it.
        host: Arc<str>,
    },
    /// Close the connection, or give up connecting. Nothing it still delivers matters.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
}

/// What happened.
#[derive(Clone, Debug)]
pub enum NetworkEvent {
    /// A request's answer, or why there is none. Exactly one per request sent.
    Response {
        /// The request's token.
        token: RequestToken,
        /// The version of request and answer; -1 if the request was not sent.
        api_version: i16,
        /// The answer.
        result: Result<Response, RequestError>,
    },
    /// Brokers, topics or leaders are not what they were.
    MetadataChanged,
    /// A tracked topic was recreated, or another cluster answers.
    MetadataNews(MetadataNews),
}

impl NetworkClient {
    /// A client without connections. The same `seed` and the same calls give the same outputs.
    #[must_use]
    pub fn new(config: NetworkConfig, seed: u64) -> Self {
        let refresh = MetadataRefresh::new(config.retry_backoff, config.metadata_max_age);
        Self {
            config,
            jitter: Jitter::new(seed),
            clock: Timestamp::ZERO,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            waiting: Vec::new(),
            metadata: Metadata::default(),
            tracked_topics: BTreeMap::new(),
            refresh,
            coordinators: Coordinators::default(),
            extra_endpoints: BTreeMap::new(),
            versions: BTreeMap::new(),
            features: FinalizedFeatures::default(),
            muted_until: BTreeMap::new(),
            failures: BTreeMap::new(),
            outputs: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Sends a request over the class's common connection, connecting and finding out what is missing. Its outcome is one
    /// [`NetworkEvent::Response`]; a request is sent once, and repeating it is the sender's business.
    pub fn send(&mut self, now: Timestamp, request: OutgoingRequest) {
        self.send_on_lane(now, request, 0);
    }

    /// Sends a request over the class's connection number `lane`. Each consumer has its own, because a broker that
    /// holds one consumer's fetch would make the others on the connection wait.
    pub fn send_on_lane(&mut self, now: Timestamp, request: OutgoingRequest, lane: u32) {
        let timeout = request.timeout;
        self.waiting.push(Pending {
            purpose: Purpose::Caller { token: request.token, request: request.request },
            destination: request.destination,
            class: request.class,
            lane,
            max_version: request.max_version,
            timeout,
            deadline: now.after(timeout),
        });
        self.route_waiting(now);
    }

    /// Closes the connections of a lane. Requests on them end without an event: nobody waits for them any more.
    pub fn close_lane(&mut self, now: Timestamp, class: ConnectionClass, lane: u32) {
        self.waiting.retain(|pending| (pending.class, pending.lane) != (class, lane));
        let keys: Vec<_> = self.links.keys().copied().collect();
        for key in keys.into_iter().filter(|key| (key.class, key.lane) == (class, lane)) {
            if let Some(link) = self.links.remove(&key)
                && let Some(connection) = link.connection()
            {
                self.connections.remove(&connection);
                self.outputs.push_back(NetworkOutput::Close { connection });
            }
        }
        self.route_waiting(now);
    }

    /// The connection is made: version negotiation begins.
    pub fn handle_connected(&mut self, now: Timestamp, connection: ConnectionId) {
        if let Some(key) = self.connections.get(&connection).copied() {
            self.start_handshake(now, key);
        }
        self.route_waiting(now);
    }

    /// A frame has come, without its size. The driver has bounded its length.
    pub fn handle_frame(&mut self, now: Timestamp, connection: ConnectionId, frame: Bytes) {
        if let Some(key) = self.connections.get(&connection).copied() {
            self.handle_answer(now, key, frame);
        }
        self.route_waiting(now);
    }

    /// The login asked for by [`NetworkOutput::Login`] is there, or can not be had.
    pub fn handle_login(
        &mut self,
        now: Timestamp,
        connection: ConnectionId,
        login: Result<SaslLogin, DisconnectReason>,
    ) {
        if let Some(key) = self.connections.get(&connection).copied() {
            match login {
                Ok(login) => self.start_exchange(now, key, login),
                Err(reason) => self.fail_link(now, key, reason, true),
            }
        }
        self.route_waiting(now);
    }

    /// The connection could not be made, or ended.
    pub fn handle_disconnected(
        &mut self,
        now: Timestamp,
        connection: ConnectionId,
        reason: DisconnectReason,
    ) {
        if let Some(key) = self.connections.get(&connection).copied() {
            self.fail_link(now, key, reason, false);
        }
        self.route_waiting(now);
    }

    /// What to do next. Poll after every `send*`, `handle_*`, `track_topic` and `request_metadata_update`, until `None`.
    pub fn poll_output(&mut self) -> Option<NetworkOutput> {
        self.outputs.pop_front()
    }

    /// What happened. Poll when [`poll_output`](Self::poll_output) has nothing more.
    pub fn poll_event(&mut self) -> Option<NetworkEvent> {
        self.events.pop_front()
    }

    /// The cluster as known now.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Asks for fresh metadata: something they said turned out wrong. Coalesced, with backoff (`retry.backoff.ms`).
    pub fn request_metadata_update(&mut self, now: Timestamp) {
        self.refresh.request(now, &mut self.jitter);
        self.route_waiting(now);
    }

    /// Keeps metadata of this topic from now on. Counted: each call needs one [`untrack_topic`](Self::untrack_topic).
    pub fn track_topic(&mut self, now: Timestamp, topic: &Arc<str>) {
        let count = self.tracked_topics.entry(Arc::clone(topic)).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.refresh.request(now, &mut self.jitter);
            self.route_waiting(now);
        }
    }

    /// Takes back one [`track_topic`](Self::track_topic).
    pub fn untrack_topic(&mut self, topic: &str) {
        let Some(count) = self.tracked_topics.get_mut(topic) else { return };
        *count -= 1;
        if *count == 0 {
            self.tracked_topics.remove(topic);
            self.metadata.forget_topic(topic);
        }
    }

    /// Takes a newer leader that a Produce or Fetch answer named (KIP-951), and asks for metadata all the same.
    pub fn apply_leader_hint(
        &mut self,
        now: Timestamp,
        partition: &TopicPartition,
        leader: NodeId,
        epoch: i32,
    ) {
        if self.metadata.apply_leader_hint(partition, leader, epoch) {
            self.events.push_back(NetworkEvent::MetadataChanged);
        }
        self.request_metadata_update(now);
    }

    /// Forgets a coordinator: it answered NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE.
    pub fn invalidate_coordinator(&mut self, now: Timestamp, destination: &Destination) {
        if let Some(key) = CoordinatorKey::of(destination) {
            self.coordinators.invalidate(now, &key, self.config.retry_backoff, &mut self.jitter);
        }
    }

    /// The finalized level of `transaction.version` (KIP-890): 2 means that EndTxn bumps the epoch. 0 if the cluster has
    /// none.
    #[must_use]
    pub fn transaction_version(&self) -> i16 {
        self.features.level("transaction.version")
    }

    /// The highest version of `api` that this broker and we speak; `None` if it was never connected or lacks the API.
    #[must_use]
    pub fn max_version(&self, node: NodeId, api: ApiKey) -> Option<i16> {
        self.versions.get(&node)?.max_version(api)
    }

    /// Every address that failed since it last worked, and those tried right now without success so far.
    #[must_use]
    pub fn address_failures(&self, now: Timestamp) -> Vec<AddressFailure> {
        let mut failures = self.failures.clone();
        for (key, link) in &self.links {
            let reason = match &link.state {
                LinkState::Connecting { since, .. } => {
                    DisconnectReason::ConnectTimedOut { after: now.since(*since) }
                }
                LinkState::Handshaking { since, .. } => {
                    DisconnectReason::Silent { after: now.since(*since) }
                }
                LinkState::Authenticating(link) => link.silence(now),
                LinkState::Idle { .. } | LinkState::Ready(_) => continue,
            };
            if let Some(address) = self.address(key.node) {
                failures.entry(Arc::clone(&address)).or_insert(AddressFailure {
                    address,
                    reason,
                    attempts: 1,
                });
            }
        }
        failures.into_values().collect()
    }

    /// Ids of the brokers that can be reached by name: those of the metadata.
    #[must_use]
    pub fn broker_ids(&self) -> BTreeSet<NodeId> {
        self.metadata.brokers().keys().copied().collect()
    }

    /// Fails everything that waits and closes every connection.
    pub fn close(&mut self, now: Timestamp) {
        for key in self.links.keys().copied().collect::<Vec<_>>() {
            self.fail_link(now, key, DisconnectReason::Local, true);
        }
        for pending in std::mem::take(&mut self.waiting) {
            self.fail_pending(now, pending, RequestError::Closed);
        }
        // What the failures above have asked for again must not reconnect.
        self.waiting.clear();
    }

    pub(super) fn respond(
        &mut self,
        token: RequestToken,
        api_version: i16,
        result: Result<Response, RequestError>,
    ) {
        self.events.push_back(NetworkEvent::Response { token, api_version, result });
    }
}
