//! Why a connection could not be made or ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::TlsProblem;
use crate::sasl::SaslError;

/// Why a connection could not be made, or ended. Its text fits after "localhost:9092: ".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// The host answered that nothing listens on the port.
    #[error("connection refused: nothing listens on this port")]
    Refused,
    /// The host name has no address.
    #[error("the host name can not be resolved ({detail})")]
    Unresolved {
        /// What the resolver said.
        detail: String,
    },
    /// No TCP connection within `socket.connection.setup.timeout.ms`.
    #[error("no connection within {after:?}: a firewall may drop the packets, or the host is down")]
    ConnectTimedOut {
        /// How long it was tried.
        after: Duration,
    },
    /// The peer took the connection and then said nothing.
    #[error(
        "the connection was accepted, but nothing answered within {after:?}: not a Kafka listener, or an overloaded broker"
    )]
    Silent {
        /// How long it was waited for.
        after: Duration,
    },
    /// An answer on an established connection did not come in time, so the connection was given up.
    #[error("{api} was not answered within {after:?}")]
    RequestTimedOut {
        /// The request that was waited for.
        api: crate::messages::ApiKey,
        /// How long it was waited for.
        after: Duration,
    },
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer closed the connection before it had said what it speaks: what TLS and SASL listeners do with plain clients.
    #[error(
        "the peer closed the connection on the first request: it may be a TLS or SASL listener (security.protocol), or not Kafka"
    )]
    ClosedInHandshake,
    /// The peer speaks HTTP.
    #[error("the peer speaks HTTP, not Kafka: wrong port")]
    Http,
    /// The peer speaks TLS.
    #[error("the peer speaks TLS and this client plain text: wrong port or security.protocol")]
    Tls,
    /// The peer closed the connection on the first request after ApiVersions: what SASL listeners do with clients that do not
    /// authenticate.
    #[error(
        "the peer closed the connection on the first request after ApiVersions: a SASL listener does so with a client that does not authenticate (security.protocol, sasl.mechanism)"
    )]
    ClosedOnFirstRequest,
    /// TLS was configured and did not come about.
    #[error("{0}")]
    TlsFailed(TlsProblem),
    /// The broker and this client do not trust each other.
    #[error("authentication failed: {0}")]
    AuthenticationFailed(SaslError),
    /// The peer closed the connection during authentication.
    #[error("the peer closed the connection during SASL authentication")]
    ClosedInAuthentication,
    /// What the authentication needs (a token, a file) could not be had.
    #[error("no credentials to authenticate with: {detail}")]
    LoginFailed {
        /// What was tried and what happened. Holds no secret.
        detail: String,
        /// True if trying again may help: a token endpoint that does not answer.
        retriable: bool,
    },
    /// The bytes received are not Kafka's.
    #[error("the peer does not speak Kafka's protocol ({detail})")]
    Protocol {
        /// What was wrong.
        detail: String,
    },
    /// The broker refused the version negotiation.
    #[error("the broker refused ApiVersions with {code}")]
    HandshakeRefused {
        /// The broker's error.
        code: crate::ErrorCode,
    },
    /// Another error of the operating system.
    #[error("{detail}")]
    Io {
        /// The system's text.
        detail: String,
    },
    /// We closed it: the client is closing, the connection was idle, or its broker left the cluster.
    #[error("closed by this client")]
    Local,
}

impl DisconnectReason {
    /// True if trying again can not help: what listens there is not a Kafka listener for plain text.
    #[must_use]
    pub fn is_definitive(&self) -> bool {
        matches!(self, Self::Http | Self::Tls | Self::Protocol { .. }) || self.is_security()
    }

    /// True if the configured security stands in the way, here or at the broker: with the same configuration every further
    /// attempt fails as well, and too many may lock the account. Told to callers at once, never retried until a time limit.
    #[must_use]
    pub fn is_security(&self) -> bool {
        match self {
            Self::TlsFailed(problem) => problem.is_definitive(),
            Self::AuthenticationFailed(_) | Self::LoginFailed { retriable: false, .. } => true,
            _ => false,
        }
    }

    /// True if it is about who this client is, which is the same for every broker.
    #[must_use]
    pub fn is_authentication(&self) -> bool {
        matches!(self, Self::AuthenticationFailed(_) | Self::LoginFailed { retriable: false, .. })
    }
}

/// An address that was tried, and why it did not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressFailure {
    /// `host:port` as configured or as the broker advertises it.
    pub address: Arc<str>,
    /// The last failure.
    pub reason: DisconnectReason,
    /// How often it was tried.
    pub attempts: u32,
}

impl fmt::Display for AddressFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.address, self.reason)?;
        if self.attempts > 1 {
            write!(f, " (tried {} times)", self.attempts)?;
        }
        Ok(())
    }
}
