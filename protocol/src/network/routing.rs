//! From a destination to a connection: which broker is meant, is it reachable, what else must be known first.

use std::sync::Arc;
use std::time::Duration;

use super::coordinators::CoordinatorKey;
use super::link::{InFlight, Link, LinkKey, LinkState, Pending, Purpose};
use super::{
    BrokerEndpoint, ConnectionClass, ConnectionId, Destination, DisconnectReason, NetworkClient,
    NetworkOutput, RequestError,
};
use crate::messages::Request;
use crate::{NodeId, Timestamp};

enum Route {
    To(LinkKey),
    Wait,
    Fail(RequestError),
}

impl NetworkClient {
    /// Gives every waiting request to the connection it belongs on, as far as that is known now, and starts what is
    /// missing. Harmless to call at any time.
    pub(super) fn route_waiting(&mut self, now: Timestamp) {
        self.clock = now;
        self.start_metadata_request(now);
        if !self.waiting.is_empty() && self.bootstrap_is_hopeless() {
            self.fail_waiting(now);
            return;
        }
        let mut index = 0;
        // Searches for coordinators are appended while this runs, so the length is read each time.
        while let Some(pending) = self.waiting.get(index) {
            let (destination, class, lane) =
                (pending.destination.clone(), pending.class, pending.lane);
            match self.route(now, &destination, class, lane) {
                Route::Wait => index += 1,
                Route::To(key) => {
                    let pending = self.waiting.remove(index);
                    self.links.entry(key).or_insert_with(Link::new).queue.push_back(pending);
                    self.advance_link(now, key);
                }
                Route::Fail(error) => {
                    let pending = self.waiting.remove(index);
                    self.fail_pending(now, pending, error);
                }
            }
        }
    }

    fn route(
        &mut self,
        now: Timestamp,
        destination: &Destination,
        class: ConnectionClass,
        lane: u32,
    ) -> Route {
        match destination {
            Destination::Node(node) if self.endpoint(*node).is_some() => {
                Route::To(LinkKey { node: *node, class, lane })
            }
            Destination::Node(_) => {
                self.refresh.request(now, &mut self.jitter);
                Route::Fail(RequestError::UnknownNode { destination: destination.clone() })
            }
            Destination::AnyBroker => self.route_any(now, class, lane),
            Destination::Controller => match self.metadata.controller() {
                Some(node) => Route::To(LinkKey { node, class, lane }),
                // KRaft brokers forward to the controller; others answer NOT_CONTROLLER.
                None => self.route_any(now, class, lane),
            },
            Destination::TransactionCoordinator(_) | Destination::GroupCoordinator(_) => {
                self.route_coordinator(now, destination, class, lane)
            }
        }
    }

    fn route_coordinator(
        &mut self,
        now: Timestamp,
        destination: &Destination,
        class: ConnectionClass,
        lane: u32,
    ) -> Route {
        let Some(key) = CoordinatorKey::of(destination) else { return Route::Wait };
        if let Some(node) = self.coordinators.node(&key) {
            if self.endpoint(node).is_some() {
                return Route::To(LinkKey { node, class, lane });
            }
            self.coordinators.forget(&key);
        }
        if self.coordinators.start_search(now, &key) {
            let timeout = self.config.request_timeout;
            self.waiting.push(Pending {
                purpose: Purpose::Coordinator { key },
                destination: Destination::AnyBroker,
                class: ConnectionClass::Control,
                lane: 0,
                max_version: None,
                timeout,
                deadline: now.after(timeout),
            });
        }
        Route::Wait
    }

    /// The least loaded connected broker; else one is being connected.
    fn route_any(&mut self, now: Timestamp, class: ConnectionClass, lane: u32) -> Route {
        let ready = self
            .links
            .iter()
            .filter(|(key, link)| {
                (key.class, key.lane) == (class, lane)
                    && matches!(link.state, LinkState::Ready(_))
                    && self.is_usable(key.node)
                    && !self.is_muted(now, key.node)
            })
            .min_by_key(|(_, link)| link.load());
        if let Some((key, _)) = ready {
            return Route::To(*key);
        }
        self.connect_any(now, class, lane);
        Route::Wait
    }

    /// Once the brokers are known, the bootstrap addresses are only a last resort: they may be a load balancer's.
    fn is_usable(&self, node: NodeId) -> bool {
        !is_bootstrap(node) || self.metadata.brokers().is_empty() || self.all_brokers_failed()
    }

    fn all_brokers_failed(&self) -> bool {
        self.metadata.brokers().keys().all(|node| {
            self.links.iter().any(|(key, link)| key.node == *node && link.failures > 0)
                && !self.links.iter().any(|(key, link)| {
                    key.node == *node && matches!(link.state, LinkState::Ready(_))
                })
        })
    }

    /// Starts a connection to some broker, unless a young attempt is under way.
    fn connect_any(&mut self, now: Timestamp, class: ConnectionClass, lane: u32) {
        let young = self.links.iter().any(|(key, link)| {
            (key.class, key.lane) == (class, lane)
                && attempt_deadline(link).is_some_and(|at| at > now)
        });
        if young {
            return;
        }
        let mut candidates: Vec<NodeId> = self.metadata.brokers().keys().copied().collect();
        if candidates.is_empty() || self.all_brokers_failed() {
            candidates.extend(bootstrap_nodes(self.config.bootstrap_servers.len()));
        }
        let start = self.jitter.below(candidates.len());
        // `below` answers less than its bound, and 0 for none.
        candidates.rotate_left(start);
        let best = candidates
            .into_iter()
            .map(|node| LinkKey { node, class, lane })
            .filter_map(|key| match self.links.get(&key) {
                None => Some((0, key)),
                Some(link) => match link.state {
                    LinkState::Idle { retry_at } if retry_at <= now => Some((link.failures, key)),
                    _ => None,
                },
            })
            .min_by_key(|(failures, _)| *failures);
        if let Some((_, key)) = best {
            self.links.entry(key).or_insert_with(Link::new);
            self.connect(now, key);
        }
    }

    /// Does what the connection's state allows: connect it, or send from its queue.
    pub(super) fn advance_link(&mut self, now: Timestamp, key: LinkKey) {
        let Some(link) = self.links.get(&key) else { return };
        match link.state {
            LinkState::Idle { retry_at } if retry_at <= now && !link.queue.is_empty() => {
                self.connect(now, key);
            }
            LinkState::Ready(_) => self.transmit_queued(now, key),
            _ => {}
        }
    }

    fn connect(&mut self, now: Timestamp, key: LinkKey) {
        let Some(endpoint) = self.endpoint(key.node) else {
            self.fail_link(now, key, DisconnectReason::Local, false);
            return;
        };
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let Some(link) = self.links.get_mut(&key) else { return };
        let doubled = 1_u32.checked_shl(link.failures).unwrap_or(u32::MAX);
        let limit = self.config.connection_setup_timeout_max;
        let allowed = self.config.connection_setup_timeout.saturating_mul(doubled).min(limit);
        let deadline = now.after(allowed);
        link.state = LinkState::Connecting { connection, since: now, deadline };
        self.connections.insert(connection, key);
        self.outputs.push_back(NetworkOutput::Connect {
            connection,
            host: endpoint.host,
            port: endpoint.port,
        });
    }

    fn transmit_queued(&mut self, now: Timestamp, key: LinkKey) {
        if self.is_muted(now, key.node) {
            return;
        }
        loop {
            let Some(link) = self.links.get_mut(&key) else { return };
            let LinkState::Ready(ready) = &mut link.state else { return };
            if ready.renew_at.is_some_and(|at| at <= now) && !link.queue.is_empty() {
                // What is in flight is answered first, so that answers and exchange can not be mixed up.
                if ready.in_flight.is_empty() {
                    self.authenticate_again(now, key);
                }
                return;
            }
            if ready.in_flight.len() >= self.config.max_in_flight.max(1) {
                return;
            }
            let Some(pending) = link.queue.pop_front() else { return };
            let api = pending.purpose.api_key();
            let version = match ready.versions.choose(api, pending.max_version) {
                Ok(version) => version,
                Err(error) => {
                    self.fail_pending(now, pending, error);
                    continue;
                }
            };
            let (destination, asker) = (pending.destination, pending.purpose.asker());
            let request = pending.purpose.into_request(version);
            let correlation_id = ready.next_correlation_id;
            ready.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
            match request.encode(version, correlation_id, &self.config.client_id) {
                Ok(frame) => {
                    let limit = answer_timeout(&request, self.config.request_timeout);
                    let timeout = pending.timeout.min(limit);
                    ready.last_used = now;
                    ready.in_flight.push_back(InFlight {
                        correlation_id,
                        api,
                        version,
                        asker,
                        destination,
                        timeout,
                        deadline: now.after(timeout),
                    });
                    let connection = ready.connection;
                    self.outputs.push_back(NetworkOutput::Transmit { connection, frame });
                }
                Err(error) => self.fail_asker(now, asker, version, RequestError::Encode(error)),
            }
        }
    }

    fn start_metadata_request(&mut self, now: Timestamp) {
        if !self.refresh.start(now) {
            return;
        }
        let request = Request::Metadata(super::metadata_request(self.tracked_topics.keys()));
        let timeout = self.config.request_timeout;
        self.waiting.push(Pending {
            purpose: Purpose::Metadata { request },
            destination: Destination::AnyBroker,
            class: ConnectionClass::Control,
            lane: 0,
            max_version: None,
            timeout,
            deadline: now.after(timeout),
        });
    }

    pub(super) fn is_muted(&self, now: Timestamp, node: NodeId) -> bool {
        self.muted_until.get(&node).is_some_and(|until| *until > now)
    }

    pub(super) fn endpoint(&self, node: NodeId) -> Option<BrokerEndpoint> {
        if let Some(index) = bootstrap_index(node) {
            let (host, port) = self.config.bootstrap_servers.get(index)?;
            return Some(BrokerEndpoint { host: Arc::clone(host), port: *port, rack: None });
        }
        let known = self.metadata.brokers().get(&node);
        known.or_else(|| self.extra_endpoints.get(&node)).cloned()
    }

    pub(super) fn address(&self, node: NodeId) -> Option<Arc<str>> {
        let endpoint = self.endpoint(node)?;
        // An IPv6 address keeps its brackets in front of a port.
        Some(if endpoint.host.contains(':') {
            format!("[{}]:{}", endpoint.host, endpoint.port).into()
        } else {
            format!("{}:{}", endpoint.host, endpoint.port).into()
        })
    }
}

/// When an attempt under way no longer keeps others from starting; `None` if there is none.
pub(super) fn attempt_deadline(link: &Link) -> Option<Timestamp> {
    match link.state {
        LinkState::Connecting { since, .. } | LinkState::Handshaking { since, .. } => {
            Some(since.after(NEXT_ADDRESS_AFTER))
        }
        LinkState::Authenticating(ref link) => Some(link.since.after(NEXT_ADDRESS_AFTER)),
        LinkState::Idle { .. } | LinkState::Ready(_) => None,
    }
}

/// Bootstrap addresses are brokers with negative ids, as in Kafka's own client.
pub(super) fn is_bootstrap(node: NodeId) -> bool {
    node.0 < 0
}

fn bootstrap_index(node: NodeId) -> Option<usize> {
    usize::try_from(-1 - i64::from(node.0)).ok()
}

fn bootstrap_nodes(count: usize) -> impl Iterator<Item = NodeId> {
    (1..=i32::try_from(count).unwrap_or(i32::MAX)).map(|n| NodeId(-n))
}

/// A broker may hold a fetch for its `max_wait_ms` before the answer is late, and a JoinGroup until every member of the
/// group has joined: that is for its sender to limit.
fn answer_timeout(request: &Request, timeout: Duration) -> Duration {
    match request {
        Request::Fetch(fetch) => {
            let wait = u64::try_from(fetch.max_wait_ms).unwrap_or(0);
            timeout + Duration::from_millis(wait)
        }
        Request::JoinGroup(_) => Duration::MAX,
        _ => timeout,
    }
}

/// An address that has not answered after this time gets competition from the next one.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(1);
