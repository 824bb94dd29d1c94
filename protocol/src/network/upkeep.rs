//! What time alone brings: deadlines, backoffs that end, idle connections.

use std::collections::BTreeSet;

use super::coordinators::CoordinatorKey;
use super::link::{LinkKey, LinkState, Pending};
use super::routing::attempt_deadline;
use super::{Destination, DisconnectReason, NetworkClient, RequestError};
use crate::{NodeId, Timestamp};

impl NetworkClient {
    /// When [`handle_timeout`](Self::handle_timeout) has something to do; `None` if only an answer can change anything.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let waiting = self.waiting.iter().flat_map(|pending| {
            let search = CoordinatorKey::of(&pending.destination);
            let search = search.and_then(|key| self.coordinators.retry_at(&key));
            [Some(pending.deadline), search]
        });
        let any_broker_waits = self.waiting.iter().any(|pending| seeks_any(&pending.destination));
        // What was allowed at the last call has been tried then; only later moments change anything.
        let later = |at: Timestamp| (any_broker_waits && at > self.clock).then_some(at);
        let links = self.links.iter().flat_map(|(key, link)| {
            let state = match &link.state {
                LinkState::Idle { retry_at } if link.queue.is_empty() => later(*retry_at),
                LinkState::Idle { retry_at } => Some(*retry_at),
                LinkState::Connecting { deadline, .. }
                | LinkState::Handshaking { deadline, .. } => Some(*deadline),
                LinkState::Authenticating(link) => Some(link.deadline),
                LinkState::Ready(ready) => {
                    let answers = ready.in_flight.iter().map(|sent| sent.deadline).min();
                    answers.or(Some(ready.last_used.after(self.config.connections_max_idle)))
                }
            };
            let competition = attempt_deadline(link).and_then(later);
            let muted = if link.queue.is_empty() { None } else { self.muted_until.get(&key.node) };
            let queue = link.queue.iter().map(|pending| pending.deadline).min();
            [state, competition, muted.copied(), queue]
        });
        let muted = if any_broker_waits { self.muted_until.values().min().copied() } else { None };
        waiting.chain(links).chain([self.refresh.due_at(), muted]).flatten().min()
    }

    /// Does what is due at `now`. Harmless if nothing is.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.muted_until.retain(|_, until| *until > now);
        for key in self.links.keys().copied().collect::<Vec<_>>() {
            self.expire_queue(now, key);
            self.expire_link(now, key);
            self.advance_link(now, key);
        }
        for pending in self.take_waiting(|pending| pending.deadline <= now) {
            let error = self.unsent_error(now, &pending);
            self.fail_pending(now, pending, error);
        }
        self.route_waiting(now);
    }

    /// Nothing that waits can be served: every address speaks something else.
    pub(super) fn fail_waiting(&mut self, now: Timestamp) {
        for pending in std::mem::take(&mut self.waiting) {
            let error = self.unsent_error(now, &pending);
            self.fail_pending(now, pending, error);
        }
    }

    fn expire_queue(&mut self, now: Timestamp, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if link.queue.iter().all(|pending| pending.deadline > now) {
            return;
        }
        let (late, kept) =
            std::mem::take(&mut link.queue).into_iter().partition(|p: &Pending| p.deadline <= now);
        link.queue = kept;
        let late: std::collections::VecDeque<Pending> = late;
        for pending in late {
            let error = self.unsent_error(now, &pending);
            self.fail_pending(now, pending, error);
        }
    }

    fn expire_link(&mut self, now: Timestamp, key: LinkKey) {
        let Some(link) = self.links.get(&key) else { return };
        let reason = match &link.state {
            LinkState::Connecting { since, deadline, .. } if *deadline <= now => {
                DisconnectReason::ConnectTimedOut { after: now.since(*since) }
            }
            LinkState::Handshaking { since, deadline, .. } if *deadline <= now => {
                DisconnectReason::Silent { after: now.since(*since) }
            }
            LinkState::Authenticating(link) if link.deadline <= now => link.silence(now),
            LinkState::Ready(ready) => match ready.in_flight.iter().find(|s| s.deadline <= now) {
                // A late answer would be taken for the next request's: the connection must go.
                Some(late) => {
                    DisconnectReason::RequestTimedOut { api: late.api, after: late.timeout }
                }
                None => {
                    let idle = ready.in_flight.is_empty()
                        && ready.last_used.after(self.config.connections_max_idle) <= now;
                    if !idle {
                        return;
                    }
                    DisconnectReason::Local
                }
            },
            _ => return,
        };
        self.fail_link(now, key, reason, true);
    }

    fn unsent_error(&self, now: Timestamp, pending: &Pending) -> RequestError {
        let failures = self.address_failures(now);
        let connected = self.links.values().any(|link| matches!(link.state, LinkState::Ready(_)));
        if !connected && !failures.is_empty() {
            return RequestError::BootstrapFailed { failures, after: pending.timeout };
        }
        RequestError::TimedOut {
            destination: pending.destination.clone(),
            after: pending.timeout,
            sent: false,
        }
    }

    /// True if every address was tried and none can ever serve: all speak something else than Kafka.
    #[must_use]
    pub fn bootstrap_is_hopeless(&self) -> bool {
        if !self.metadata.brokers().is_empty() || self.failures.is_empty() {
            return false;
        }
        let addresses: BTreeSet<_> = (1..=self.config.bootstrap_servers.len())
            .filter_map(|n| self.address(NodeId(i32::try_from(n).ok()?.checked_neg()?)))
            .collect();
        addresses.iter().all(|address| {
            self.failures.get(address).is_some_and(|failure| failure.reason.is_definitive())
        })
    }
}

fn seeks_any(destination: &Destination) -> bool {
    matches!(destination, Destination::AnyBroker | Destination::Controller)
}
