//! Authentication of a connection: after its versions are known, and again before its session ends (KIP-152, KIP-368).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::answers::WARN_AFTER;
use super::broker_versions::BrokerVersions;
use super::link::{AuthenticatingLink, LinkKey, LinkState, ReadyLink};
use super::routing::is_bootstrap;
use super::{ConnectionId, DisconnectReason, NetworkClient, NetworkOutput, RequestError};
use crate::Timestamp;
use crate::messages::{ApiKey, Response};
use crate::sasl::{SaslError, SaslExchange, SaslLogin, SaslProgress};
use crate::wire::ResponseHeader;

impl NetworkClient {
    /// Requests may flow.
    pub(super) fn link_ready(
        &mut self,
        now: Timestamp,
        key: LinkKey,
        connection: ConnectionId,
        versions: BrokerVersions,
        next_correlation_id: i32,
        renew_at: Option<Timestamp>,
    ) {
        if let Some(address) = self.address(key.node)
            && let Some(failure) = self.failures.remove(&address)
            && failure.attempts >= WARN_AFTER
            && !is_bootstrap(key.node)
        {
            // As loud as the warning before it, or that would be the last word.
            tracing::warn!(broker = key.node.0, %address, "the broker can be reached again");
        }
        let Some(link) = self.links.get_mut(&key) else { return };
        link.state = LinkState::Ready(ReadyLink {
            connection,
            versions,
            next_correlation_id,
            in_flight: VecDeque::new(),
            last_used: now,
            proven: false,
            renew_at,
        });
        self.advance_link(now, key);
    }

    /// Asks the driver for what the exchange needs.
    pub(super) fn ask_login(&mut self, now: Timestamp, key: LinkKey) {
        let connection = self.links.get(&key).and_then(|link| link.connection());
        match (connection, self.endpoint(key.node)) {
            (Some(connection), Some(endpoint)) => {
                let host = endpoint.host;
                self.outputs.push_back(NetworkOutput::Login { connection, host });
            }
            // The broker has left the cluster in between.
            _ => self.fail_link(now, key, DisconnectReason::Local, true),
        }
    }

    /// The session ends soon, and nothing is in flight: authenticate on the same connection.
    pub(super) fn authenticate_again(&mut self, now: Timestamp, key: LinkKey) {
        let deadline = now.after(self.config.request_timeout);
        let Some(link) = self.links.get_mut(&key) else { return };
        match std::mem::replace(&mut link.state, LinkState::Idle { retry_at: now }) {
            LinkState::Ready(ready) => {
                link.state = LinkState::Authenticating(Box::new(AuthenticatingLink {
                    connection: ready.connection,
                    versions: ready.versions,
                    next_correlation_id: ready.next_correlation_id,
                    since: now,
                    deadline,
                    exchange: None,
                    asked: None,
                }));
                self.ask_login(now, key);
            }
            other => link.state = other,
        }
    }

    pub(super) fn start_exchange(&mut self, now: Timestamp, key: LinkKey, login: SaslLogin) {
        let Some(link) = self.links.get_mut(&key) else { return };
        let LinkState::Authenticating(link) = &mut link.state else { return };
        match SaslExchange::new(login) {
            Ok(exchange) => {
                link.exchange = Some(exchange);
                self.advance_exchange(now, key);
            }
            Err(error) => self.fail_authentication(now, key, error),
        }
    }

    fn advance_exchange(&mut self, now: Timestamp, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key) else { return };
        let LinkState::Authenticating(link) = &mut link.state else { return };
        let Some(request) = link.exchange.as_mut().and_then(SaslExchange::poll_request) else {
            return;
        };
        let api = request.api_key();
        let version = match link.versions.choose(api, None) {
            Ok(version) if api != ApiKey::SaslHandshake || version > 0 => version,
            // Version 0 of the handshake would be followed by bytes without Kafka's framing.
            _ => return self.fail_authentication(now, key, SaslError::BrokerTooOld),
        };
        let (connection, correlation_id) = (link.connection, link.next_correlation_id);
        link.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
        link.asked = Some((correlation_id, api, version));
        match request.encode(version, correlation_id, &self.config.client_id) {
            Ok(frame) => self.outputs.push_back(NetworkOutput::Transmit { connection, frame }),
            Err(error) => {
                let reason = DisconnectReason::Protocol { detail: error.to_string() };
                self.fail_link(now, key, reason, true);
            }
        }
    }

    pub(super) fn handle_sasl_answer(&mut self, now: Timestamp, key: LinkKey, frame: Bytes) {
        let Some(link) = self.links.get_mut(&key) else { return };
        let LinkState::Authenticating(link) = &mut link.state else { return };
        let (asked, exchange) = (link.asked.take(), link.exchange.take());
        let protocol = |detail: String| DisconnectReason::Protocol { detail };
        let (Some((expected, api, version)), Some(exchange)) = (asked, exchange) else {
            let reason = protocol("an answer to nothing, during authentication".to_owned());
            return self.fail_link(now, key, reason, true);
        };
        let decoded = ResponseHeader::decode(api, version, frame).and_then(|(header, body)| {
            Ok((header.correlation_id, Response::decode(api, version, body)?))
        });
        let response = match decoded {
            Ok((correlation_id, response)) if correlation_id == expected => response,
            Ok((other, _)) => {
                let detail = format!("answer {other} where {expected} was expected");
                return self.fail_link(now, key, protocol(detail), true);
            }
            Err(error) => {
                return self.fail_link(now, key, protocol(error.to_string()), true);
            }
        };
        match exchange.handle_response(&response) {
            Ok((exchange, SaslProgress::Continue)) => {
                link.exchange = Some(exchange);
                self.advance_exchange(now, key);
            }
            Ok((_, SaslProgress::Done { session_lifetime })) => {
                let renew_at = session_lifetime.map(|lifetime| now.after(self.renewal(lifetime)));
                self.authenticated(now, key, renew_at);
            }
            Err(error) => self.fail_authentication(now, key, error),
        }
    }

    fn authenticated(&mut self, now: Timestamp, key: LinkKey, renew_at: Option<Timestamp>) {
        let Some(link) = self.links.get_mut(&key) else { return };
        match std::mem::replace(&mut link.state, LinkState::Idle { retry_at: now }) {
            LinkState::Authenticating(done) => {
                let AuthenticatingLink { connection, versions, next_correlation_id, .. } = *done;
                self.link_ready(now, key, connection, versions, next_correlation_id, renew_at);
            }
            other => link.state = other,
        }
    }

    /// Between 85 and 95 percent of a session, as Java's client: many connections do not renew at the same time.
    fn renewal(&mut self, lifetime: Duration) -> Duration {
        let permille = 850 + u32::try_from(self.jitter.below(101)).unwrap_or(0);
        lifetime.saturating_mul(permille) / 1000
    }

    fn fail_authentication(&mut self, now: Timestamp, key: LinkKey, error: SaslError) {
        self.fail_link(now, key, DisconnectReason::AuthenticationFailed(error), true);
    }

    /// Every broker would answer this login in the same way: who waits for any of them is told.
    pub(super) fn fail_all_waiting(
        &mut self,
        now: Timestamp,
        key: LinkKey,
        reason: &DisconnectReason,
    ) {
        for pending in std::mem::take(&mut self.waiting) {
            let error = self.security_error(key, reason);
            self.fail_pending(now, pending, error);
        }
    }

    pub(super) fn security_error(&self, key: LinkKey, reason: &DisconnectReason) -> RequestError {
        let address = self.address(key.node).unwrap_or_else(|| Arc::from("a broker"));
        RequestError::Security { address, reason: reason.clone() }
    }
}
