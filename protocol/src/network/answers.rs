//! What comes back: version negotiation, answers, and the end of a connection.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{FindCoordinatorResponse, MetadataResponse};

use super::broker_versions::BrokerVersions;
use super::coordinators::{CoordinatorKey, SearchResult, search_result};
use super::link::{
    Asker, AuthenticatingLink, HANDSHAKE_VERSION, InFlight, LinkKey, LinkState, Pending,
};
use super::routing::is_bootstrap;
use super::throttle::throttle_time;
use super::{
    AddressFailure, Destination, DisconnectReason, NetworkClient, NetworkEvent, NetworkOutput,
    RequestError,
};
use crate::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse, Request, Response};
use crate::wire::ResponseHeader;
use crate::{ErrorCode, Timestamp};

impl NetworkClient {
    pub(super) fn start_handshake(&mut self, now: Timestamp, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key) else { return };
        let LinkState::Connecting { connection, since, deadline } = link.state else { return };
        let version = link.handshake_version;
        link.state =
            LinkState::Handshaking { connection, since, deadline, version, correlation_id: -1 };
        self.ask_api_versions(now, key, version);
    }

    fn ask_api_versions(&mut self, now: Timestamp, key: LinkKey, asked: i16) {
        let request = Request::ApiVersions(ApiVersionsRequest {
            client_software_name: "millstream".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        let Some(link) = self.links.get_mut(&key) else { return };
        let LinkState::Handshaking { connection, version, correlation_id, .. } = &mut link.state
        else {
            return;
        };
        *version = asked;
        *correlation_id += 1;
        let connection = *connection;
        match request.encode(asked, *correlation_id, &self.config.client_id) {
            Ok(frame) => self.outputs.push_back(NetworkOutput::Transmit { connection, frame }),
            Err(error) => {
                let reason = DisconnectReason::Protocol { detail: error.to_string() };
                self.fail_link(now, key, reason, true);
            }
        }
    }

    pub(super) fn handle_answer(&mut self, now: Timestamp, key: LinkKey, frame: Bytes) {
        let Some(link) = self.links.get_mut(&key) else { return };
        let protocol = |detail: String| DisconnectReason::Protocol { detail };
        match &mut link.state {
            LinkState::Idle { .. } | LinkState::Connecting { .. } => {}
            LinkState::Handshaking { version, correlation_id, .. } => {
                let (version, expected) = (*version, *correlation_id);
                match decode_api_versions(version, expected, frame) {
                    Ok(response) => self.handle_api_versions(now, key, version, &response),
                    Err(detail) => self.fail_link(now, key, protocol(detail), true),
                }
            }
            LinkState::Authenticating(_) => self.handle_sasl_answer(now, key, frame),
            LinkState::Ready(ready) => {
                let expected = ready.in_flight.front().map(|sent| sent.correlation_id);
                let correlation_id = ResponseHeader::peek_correlation_id(&frame).ok();
                if expected.is_none() || expected != correlation_id {
                    let detail = format!(
                        "answer {correlation_id:?} where {expected:?} was expected: answers come in order"
                    );
                    self.fail_link(now, key, protocol(detail), true);
                    return;
                }
                ready.last_used = now;
                ready.proven = true;
                link.failures = 0;
                let Some(sent) = ready.in_flight.pop_front() else { return };
                self.handle_body(now, key, sent, frame);
                self.advance_link(now, key);
            }
        }
    }

    fn handle_api_versions(
        &mut self,
        now: Timestamp,
        key: LinkKey,
        asked: i16,
        response: &ApiVersionsResponse,
    ) {
        if response.error_code == ErrorCode::UNSUPPORTED_VERSION && asked > 0 {
            // KIP-511: the broker names the version to ask in; older ones do not.
            let offered =
                response.api_keys.iter().find(|v| v.api_key == ApiKey::ApiVersions.code());
            let version = offered.map_or(0, |v| v.max_version.clamp(0, asked - 1));
            self.ask_api_versions(now, key, version);
            return;
        }
        if response.error_code.is_error() {
            let reason = DisconnectReason::HandshakeRefused { code: response.error_code };
            self.fail_link(now, key, reason, true);
            return;
        }
        if self.features.update(response) {
            self.events.push_back(NetworkEvent::MetadataChanged);
        }
        let versions = BrokerVersions::new(response);
        self.versions.insert(key.node, versions.clone());
        let Some(link) = self.links.get_mut(&key) else { return };
        let LinkState::Handshaking { connection, correlation_id, .. } = link.state else {
            return;
        };
        let next_correlation_id = correlation_id + 1;
        if self.config.authenticate {
            link.state = LinkState::Authenticating(Box::new(AuthenticatingLink {
                connection,
                versions,
                next_correlation_id,
                since: now,
                // A token may have to be fetched first.
                deadline: now.after(self.config.request_timeout),
                exchange: None,
                asked: None,
            }));
            self.ask_login(now, key);
            return;
        }
        self.link_ready(now, key, connection, versions, next_correlation_id, None);
    }

    fn handle_body(&mut self, now: Timestamp, key: LinkKey, sent: InFlight, frame: Bytes) {
        let InFlight { api, version, asker, destination, .. } = sent;
        let decoded = ResponseHeader::decode(api, version, frame)
            .and_then(|(_, body)| Response::decode(api, version, body));
        let response = match decoded {
            Ok(response) => response,
            Err(error) => {
                self.fail_asker(now, asker, version, RequestError::Decode(error));
                return;
            }
        };
        self.throttle(now, key, throttle_time(&response, version));
        if names_other_coordinator(&response) {
            self.invalidate_coordinator(now, &destination);
        }
        match (asker, response) {
            (Asker::Metadata, Response::Metadata(response)) => {
                self.take_metadata(now, &response, version);
                // A broker that is still starting knows of none; what we know is kept, and asked for again.
                let settled = !response.brokers.is_empty() && self.metadata_settled();
                self.refresh.answered(now, settled, &mut self.jitter);
            }
            (Asker::Coordinator(key), Response::FindCoordinator(response)) => {
                self.handle_coordinator(now, &key, &response, version);
            }
            (Asker::Caller(token), response) => {
                if let Response::Metadata(metadata) = &response {
                    self.take_metadata(now, metadata, version);
                }
                self.respond(token, version, Ok(response));
            }
            // An answer is decoded as what was asked for, so the kinds agree.
            (Asker::Metadata | Asker::Coordinator(_), _) => {}
        }
    }

    fn take_metadata(&mut self, now: Timestamp, response: &MetadataResponse, version: i16) {
        let before = self.metadata.clone();
        let tracked = &self.tracked_topics;
        for news in self.metadata.update(response, version, |topic| tracked.contains_key(topic)) {
            self.events.push_back(NetworkEvent::MetadataNews(news));
        }
        if self.metadata != before {
            self.events.push_back(NetworkEvent::MetadataChanged);
        }
        if self.metadata.brokers().is_empty() {
            return;
        }
        // The bootstrap connections have served; the brokers' own addresses are used from here on.
        let unused: Vec<_> = self
            .links
            .iter()
            .filter(|(key, link)| is_bootstrap(key.node) && link.load() == 0)
            .map(|(key, _)| *key)
            .collect();
        for key in unused {
            self.fail_link(now, key, DisconnectReason::Local, true);
            self.links.remove(&key);
        }
    }

    /// Nothing that is tracked misses its partitions or a leader.
    fn metadata_settled(&self) -> bool {
        !self.metadata.brokers().is_empty()
            && self.tracked_topics.keys().all(|name| {
                self.metadata.topic(name).is_some_and(|topic| {
                    !topic.error.is_error()
                        && !topic.partitions.is_empty()
                        && topic.partitions.values().all(|partition| partition.leader.is_some())
                })
            })
    }

    fn handle_coordinator(
        &mut self,
        now: Timestamp,
        key: &CoordinatorKey,
        response: &FindCoordinatorResponse,
        version: i16,
    ) {
        match search_result(response, version, key) {
            SearchResult::Found { node, endpoint } => {
                self.extra_endpoints.insert(node, endpoint);
                self.coordinators.found(key, node);
            }
            SearchResult::Retry => self.coordinator_search_failed(now, key),
            SearchResult::Refused { code, message } => {
                let destination = key.destination();
                self.coordinators.forget(key);
                for pending in self.take_waiting(|pending| pending.destination == destination) {
                    let destination = destination.clone();
                    let message = message.clone();
                    let error = RequestError::CoordinatorRefused { destination, code, message };
                    self.fail_pending(now, pending, error);
                }
            }
        }
    }

    fn coordinator_search_failed(&mut self, now: Timestamp, key: &CoordinatorKey) {
        let backoff = self.config.retry_backoff;
        self.coordinators.search_failed(now, key, backoff, &mut self.jitter);
    }

    pub(super) fn take_waiting(&mut self, matches: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        let (taken, left) = std::mem::take(&mut self.waiting).into_iter().partition(matches);
        self.waiting = left;
        taken
    }

    /// Ends a connection or an attempt, and everything that depends on it.
    pub(super) fn fail_link(
        &mut self,
        now: Timestamp,
        key: LinkKey,
        reason: DisconnectReason,
        close: bool,
    ) {
        let address = self.address(key.node);
        let Some(link) = self.links.get_mut(&key) else { return };
        let connection = link.connection();
        let ended = std::mem::replace(&mut link.state, LinkState::Idle { retry_at: now });
        let mut reason = reason;
        let mut in_flight = std::collections::VecDeque::new();
        let local = reason == DisconnectReason::Local;
        match ended {
            LinkState::Handshaking { version, .. } if reason == DisconnectReason::Closed => {
                // Some proxies reset the connection on a version they do not know; they get one try with the oldest.
                link.handshake_version = if version > 0 { 0 } else { HANDSHAKE_VERSION };
                if version == 0 {
                    reason = DisconnectReason::ClosedInHandshake;
                } else {
                    self.drop_connection(connection, close);
                    self.reconnect_at_once(now, key);
                    return;
                }
            }
            LinkState::Authenticating(_) if reason == DisconnectReason::Closed => {
                reason = DisconnectReason::ClosedInAuthentication;
            }
            LinkState::Ready(ready) => {
                let unproven = !ready.proven && !ready.in_flight.is_empty();
                if unproven && !self.config.authenticate && reason == DisconnectReason::Closed {
                    reason = DisconnectReason::ClosedOnFirstRequest;
                }
                in_flight = ready.in_flight;
            }
            LinkState::Idle { .. }
            | LinkState::Connecting { .. }
            | LinkState::Handshaking { .. }
            | LinkState::Authenticating(_) => {}
        }
        if !local {
            link.failures = link.failures.saturating_add(1);
            if reason.is_security() {
                // The longest delay at once: brokers count failed logins.
                link.failures = link.failures.max(SECURITY_FAILURES);
            }
            let delay = self.config.reconnect_backoff.delay(link.failures, &mut self.jitter);
            link.state = LinkState::Idle { retry_at: now.after(delay) };
        }
        let queue = std::mem::take(&mut link.queue);
        if !local && let Some(address) = address {
            let attempts = self.failures.get(&address).map_or(0, |failure| failure.attempts) + 1;
            // A connection that ends now and then is normal; one that does not come back is not. Ever fewer are told of.
            let telling =
                attempts == WARN_AFTER || (attempts > WARN_AFTER && attempts.is_power_of_two());
            if telling && !is_bootstrap(key.node) {
                tracing::warn!(
                    broker = key.node.0, %address, %reason, attempts,
                    "the broker can not be reached; trying again"
                );
            }
            let failure =
                AddressFailure { address: address.clone(), reason: reason.clone(), attempts };
            self.failures.insert(address, failure);
        }
        self.drop_connection(connection, close);
        if reason.is_authentication() {
            self.fail_all_waiting(now, key, &reason);
        }
        for sent in in_flight {
            self.fail_in_flight(now, sent, &reason);
        }
        for pending in queue {
            self.requeue_or_fail(now, key, pending, &reason);
        }
        if !local && !is_bootstrap(key.node) {
            self.refresh.request(now, &mut self.jitter);
        }
    }

    fn reconnect_at_once(&mut self, now: Timestamp, key: LinkKey) {
        if self.links.get(&key).is_some_and(|link| link.queue.is_empty()) {
            // Nothing waits here by name, but whoever waits for any broker does: it is connected by `connect_any`.
            return;
        }
        self.advance_link(now, key);
    }

    fn drop_connection(&mut self, connection: Option<super::ConnectionId>, close: bool) {
        if let Some(connection) = connection {
            self.connections.remove(&connection);
            if close {
                self.outputs.push_back(NetworkOutput::Close { connection });
            }
        }
    }

    fn fail_in_flight(&mut self, now: Timestamp, sent: InFlight, reason: &DisconnectReason) {
        let error = if now >= sent.deadline {
            RequestError::TimedOut {
                destination: sent.destination.clone(),
                after: sent.timeout,
                sent: true,
            }
        } else {
            RequestError::Disconnected {
                destination: sent.destination.clone(),
                reason: reason.clone(),
                sent: true,
            }
        };
        self.invalidate_coordinator(now, &sent.destination);
        self.fail_asker(now, sent.asker, sent.version, error);
    }

    /// A request that was not sent may take another way, unless it was for this broker alone.
    fn requeue_or_fail(
        &mut self,
        now: Timestamp,
        key: LinkKey,
        pending: Pending,
        reason: &DisconnectReason,
    ) {
        if reason.is_security() {
            let error = self.security_error(key, reason);
            self.invalidate_coordinator(now, &pending.destination.clone());
            self.fail_pending(now, pending, error);
            return;
        }
        match &pending.destination {
            Destination::Node(_) => {
                let destination = pending.destination.clone();
                let reason = reason.clone();
                let error = RequestError::Disconnected { destination, reason, sent: false };
                self.fail_pending(now, pending, error);
            }
            destination => {
                let destination = destination.clone();
                self.invalidate_coordinator(now, &destination);
                self.waiting.push(pending);
            }
        }
    }

    pub(super) fn fail_pending(&mut self, now: Timestamp, pending: Pending, error: RequestError) {
        self.fail_asker(now, pending.purpose.asker(), -1, error);
    }

    pub(super) fn fail_asker(
        &mut self,
        now: Timestamp,
        asker: Asker,
        version: i16,
        error: RequestError,
    ) {
        match asker {
            Asker::Caller(token) => self.respond(token, version, Err(error)),
            Asker::Metadata => self.refresh.failed(now, &mut self.jitter),
            Asker::Coordinator(key) => {
                // A broker without this API will not learn it: those who wait are told.
                if matches!(error, RequestError::UnsupportedByBroker { .. }) {
                    let destination = key.destination();
                    self.coordinators.forget(&key);
                    for pending in self.take_waiting(|pending| pending.destination == destination) {
                        self.fail_pending(now, pending, error.clone());
                    }
                } else {
                    self.coordinator_search_failed(now, &key);
                }
            }
        }
    }

    /// KIP-219: the broker has answered before its quota allows the next request, and would only let that one wait.
    fn throttle(&mut self, now: Timestamp, key: LinkKey, throttle: Duration) {
        if throttle.is_zero() {
            return;
        }
        let throttle = throttle.min(LONGEST_THROTTLE);
        let until = now.after(throttle);
        let known = self.muted_until.entry(key.node).or_insert(until);
        *known = until.max(*known);
        for (_, link) in self.links.iter_mut().filter(|(other, _)| other.node == key.node) {
            for pending in &mut link.queue {
                pending.deadline = pending.deadline.after(throttle);
            }
        }
    }
}

/// A broker that asks for more is asked again after this time: a corrupt answer must not silence the client for weeks. Brokers
/// hold back by themselves whoever comes too early.
const LONGEST_THROTTLE: Duration = Duration::from_secs(300);

/// So many failures in a row count for one that retrying does not cure.
const SECURITY_FAILURES: u32 = 16;

fn decode_api_versions(
    version: i16,
    expected: i32,
    frame: Bytes,
) -> Result<ApiVersionsResponse, String> {
    let (header, body) = ResponseHeader::decode(ApiKey::ApiVersions, version, frame)
        .map_err(|error| error.to_string())?;
    if header.correlation_id != expected {
        return Err(format!("answer {} to request {expected}", header.correlation_id));
    }
    // A broker that does not know the version answers in version 0, whatever was asked; its first two bytes say so.
    let refused = body
        .first_chunk::<2>()
        .is_some_and(|code| ErrorCode(i16::from_be_bytes(*code)) == ErrorCode::UNSUPPORTED_VERSION);
    match Response::decode(ApiKey::ApiVersions, if refused { 0 } else { version }, body) {
        Ok(Response::ApiVersions(response)) => Ok(response),
        Ok(_) => Err("not an ApiVersions answer".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// True if a coordinator's answer says that it is not the coordinator (any more).
fn names_other_coordinator(response: &Response) -> bool {
    let moved = |code: i16| ErrorCode(code).is_coordinator_moved();
    match response {
        Response::InitProducerId(r) => moved(r.error_code),
        Response::EndTxn(r) => moved(r.error_code),
        Response::AddPartitionsToTxn(r) => r
            .results_by_topic_v3_and_below
            .iter()
            .flat_map(|topic| &topic.results_by_partition)
            .any(|partition| moved(partition.partition_error_code)),
        Response::OffsetCommit(r) => {
            r.topics.iter().flat_map(|topic| &topic.partitions).any(|p| moved(p.error_code))
        }
        Response::OffsetFetch(r) => {
            moved(r.error_code) || r.groups.iter().any(|group| moved(group.error_code))
        }
        Response::OffsetDelete(r) => moved(r.error_code),
        Response::DescribeGroups(r) => r.groups.iter().any(|group| moved(group.error_code)),
        Response::ConsumerGroupDescribe(r) => r.groups.iter().any(|group| moved(group.error_code)),
        Response::DeleteGroups(r) => r.results.iter().any(|result| moved(result.error_code)),
        Response::DescribeTransactions(r) => {
            r.transaction_states.iter().any(|state| moved(state.error_code))
        }
        Response::AddOffsetsToTxn(r) => moved(r.error_code),
        Response::TxnOffsetCommit(r) => {
            r.topics.iter().flat_map(|topic| &topic.partitions).any(|p| moved(p.error_code))
        }
        Response::JoinGroup(r) => moved(r.error_code),
        Response::SyncGroup(r) => moved(r.error_code),
        Response::Heartbeat(r) => moved(r.error_code),
        Response::LeaveGroup(r) => moved(r.error_code),
        Response::ConsumerGroupHeartbeat(r) => moved(r.error_code),
        _ => false,
    }
}

/// Failures in a row after which a broker is told to be away: its connection ended, and two attempts to reconnect failed.
pub(super) const WARN_AFTER: u32 = 3;
