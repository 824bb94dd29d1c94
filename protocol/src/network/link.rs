//! One connection to one broker for one class of requests, and what waits for it.

use std::collections::VecDeque;
use std::time::Duration;

use super::broker_versions::BrokerVersions;
use super::coordinators::CoordinatorKey;
use super::{ConnectionClass, ConnectionId, Destination, DisconnectReason, RequestToken};
use crate::messages::kp::FindCoordinatorRequest;
use crate::messages::{ApiKey, Request, StrBytes};
use crate::sasl::SaslExchange;
use crate::{NodeId, Timestamp};

/// Which broker, which class, and which of several connections of that class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LinkKey {
    pub(super) node: NodeId,
    pub(super) class: ConnectionClass,
    pub(super) lane: u32,
}

/// A connection's state and its queue. Requests leave the queue in order.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) state: LinkState,
    pub(super) queue: VecDeque<Pending>,
    /// Failed attempts in a row.
    pub(super) failures: u32,
    /// The ApiVersions version to begin with.
    pub(super) handshake_version: i16,
}

#[derive(Debug)]
pub(super) enum LinkState {
    /// Not connected; an attempt is allowed from `retry_at` on.
    Idle { retry_at: Timestamp },
    /// Resolving and connecting.
    Connecting { connection: ConnectionId, since: Timestamp, deadline: Timestamp },
    /// Connected, ApiVersions asked in `version`.
    Handshaking {
        connection: ConnectionId,
        since: Timestamp,
        deadline: Timestamp,
        version: i16,
        correlation_id: i32,
    },
    /// Versions are known; SASL goes on, for the first time or again. Requests wait.
    Authenticating(Box<AuthenticatingLink>),
    /// Requests flow.
    Ready(ReadyLink),
}

/// A connection that proves who we are.
#[derive(Debug)]
pub(super) struct AuthenticatingLink {
    pub(super) connection: ConnectionId,
    pub(super) versions: BrokerVersions,
    pub(super) next_correlation_id: i32,
    pub(super) since: Timestamp,
    pub(super) deadline: Timestamp,
    /// `None` until the driver has a login.
    pub(super) exchange: Option<SaslExchange>,
    /// What is asked: correlation id, API and version.
    pub(super) asked: Option<(i32, ApiKey, i16)>,
}

impl AuthenticatingLink {
    /// What it waits for, if it waits in vain.
    pub(super) fn silence(&self, now: Timestamp) -> DisconnectReason {
        let after = now.since(self.since);
        if self.exchange.is_some() || self.asked.is_some() {
            return DisconnectReason::Silent { after };
        }
        let detail = format!("none within {after:?}: the token endpoint may not answer");
        DisconnectReason::LoginFailed { detail, retriable: true }
    }
}

/// A usable connection.
#[derive(Debug)]
pub(super) struct ReadyLink {
    pub(super) connection: ConnectionId,
    pub(super) versions: BrokerVersions,
    pub(super) next_correlation_id: i32,
    /// Sent and not answered, in the order the answers will come.
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) last_used: Timestamp,
    /// False until the first answer: a listener may still close the connection for want of authentication.
    pub(super) proven: bool,
    /// From then on nothing is sent before authenticating again (KIP-368).
    pub(super) renew_at: Option<Timestamp>,
}

/// A request that is not sent yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) purpose: Purpose,
    pub(super) destination: Destination,
    pub(super) class: ConnectionClass,
    pub(super) lane: u32,
    pub(super) max_version: Option<i16>,
    pub(super) timeout: Duration,
    pub(super) deadline: Timestamp,
}

/// For whom a request is made.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A caller of [`send`](super::NetworkClient::send).
    Caller { token: RequestToken, request: Request },
    /// Our own metadata refresh.
    Metadata { request: Request },
    /// Our own search for a coordinator. Its shape depends on the version, so it is written late.
    Coordinator { key: CoordinatorKey },
}

/// A request that awaits its answer.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) correlation_id: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) asker: Asker,
    pub(super) destination: Destination,
    pub(super) timeout: Duration,
    pub(super) deadline: Timestamp,
}

/// Who awaits an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Caller(RequestToken),
    Metadata,
    Coordinator(CoordinatorKey),
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            state: LinkState::Idle { retry_at: Timestamp::ZERO },
            queue: VecDeque::new(),
            failures: 0,
            handshake_version: HANDSHAKE_VERSION,
        }
    }

    pub(super) fn connection(&self) -> Option<ConnectionId> {
        match &self.state {
            LinkState::Idle { .. } => None,
            LinkState::Connecting { connection, .. }
            | LinkState::Handshaking { connection, .. } => Some(*connection),
            LinkState::Authenticating(link) => Some(link.connection),
            LinkState::Ready(ready) => Some(ready.connection),
        }
    }

    /// Requests sent or waiting here; the measure of load.
    pub(super) fn load(&self) -> usize {
        let in_flight = match &self.state {
            LinkState::Ready(ready) => ready.in_flight.len(),
            _ => 0,
        };
        in_flight + self.queue.len()
    }
}

impl Purpose {
    pub(super) fn api_key(&self) -> ApiKey {
        match self {
            Self::Caller { request, .. } => request.api_key(),
            Self::Metadata { .. } => ApiKey::Metadata,
            Self::Coordinator { .. } => ApiKey::FindCoordinator,
        }
    }

    pub(super) fn asker(&self) -> Asker {
        match self {
            Self::Caller { token, .. } => Asker::Caller(*token),
            Self::Metadata { .. } => Asker::Metadata,
            Self::Coordinator { key } => Asker::Coordinator(key.clone()),
        }
    }

    /// The request as `version` spells it.
    pub(super) fn into_request(self, version: i16) -> Request {
        match self {
            Self::Caller { request, .. } | Self::Metadata { request } => request,
            Self::Coordinator { key } => {
                let text = StrBytes::from_string(key.key.to_string());
                let request = FindCoordinatorRequest::default().with_key_type(key.kind.code());
                // KIP-699: from version 4 on keys are asked for in batches.
                Request::FindCoordinator(if version >= 4 {
                    request.with_coordinator_keys(vec![text])
                } else {
                    request.with_key(text)
                })
            }
        }
    }
}

/// The ApiVersions version that a fresh connection begins with.
pub(super) const HANDSHAKE_VERSION: i16 = 4;
