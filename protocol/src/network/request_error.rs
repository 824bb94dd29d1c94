//! Why a request has no answer.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::{AddressFailure, Destination, DisconnectReason};
use crate::ErrorCode;
use crate::messages::ApiKey;
use crate::wire::{EncodeError, WireError};

/// Why a request has no answer. `sent` says whether the broker may have acted on it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The connection was lost, or could not be made.
    #[error("no answer from {destination}: {reason}")]
    Disconnected {
        /// Whom the request was for.
        destination: Destination,
        /// Why.
        reason: DisconnectReason,
        /// True if bytes of the request may have reached the broker: its outcome is unknown.
        sent: bool,
    },
    /// The request's time was up.
    #[error("no answer from {destination} within {after:?}")]
    TimedOut {
        /// Whom the request was for.
        destination: Destination,
        /// The time it had.
        after: Duration,
        /// True if the request was sent: its outcome is unknown.
        sent: bool,
    },
    /// No broker could be reached at all, within the request's time or because every address speaks something else.
    #[error("no broker can be reached: {}", list(.failures))]
    BootstrapFailed {
        /// Every address tried, with the last reason.
        failures: Vec<AddressFailure>,
        /// The time it had, not the time it took.
        after: Duration,
    },
    /// TLS or SASL stands in the way. The request was not sent, and the next one would not be either.
    #[error("{address}: {reason}")]
    Security {
        /// The broker's address.
        address: Arc<str>,
        /// What TLS or SASL failed on.
        reason: DisconnectReason,
    },
    /// The broker does not speak a version that we speak, or that the request needs (KIP-35). It was not sent.
    #[error(
        "the broker {}, this request needs {ours_min} to {ours_max}",
        offered_versions(*api, *theirs_min, *theirs_max)
    )]
    UnsupportedByBroker {
        /// The API.
        api: ApiKey,
        /// Lowest version that the request can be sent in.
        ours_min: i16,
        /// Highest version that the request can be sent in.
        ours_max: i16,
        /// Lowest version of the broker; 0 with `theirs_max` -1 if it does not have the API.
        theirs_min: i16,
        /// Highest version of the broker; -1 if it does not have the API.
        theirs_max: i16,
    },
    /// The coordinator can not be found, and asking again would not help.
    #[error("{destination} can not be found: {code}{}", message.as_ref().map(|m| format!(": {m}")).unwrap_or_default())]
    CoordinatorRefused {
        /// Whose coordinator.
        destination: Destination,
        /// The broker's answer.
        code: ErrorCode,
        /// The broker's explanation, if it gave one.
        message: Option<Arc<str>>,
    },
    /// The metadata do not know this broker (any more).
    #[error("{destination} is not part of the cluster")]
    UnknownNode {
        /// Whom the request was for.
        destination: Destination,
    },
    /// The request can not be written in the negotiated version: a field is set that it does not have.
    #[error("the request can not be written")]
    Encode(#[from] EncodeError),
    /// The answer can not be read. The broker has acted on the request.
    #[error("the answer can not be read")]
    Decode(#[from] WireError),
    /// The client was closed. Requests under way may have been carried out.
    #[error("the client is closed")]
    Closed,
}

impl RequestError {
    /// True if the broker may have acted on the request. If false, it has not.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Disconnected { sent, .. } | Self::TimedOut { sent, .. } => *sent,
            Self::Decode(_) | Self::Closed => true,
            Self::BootstrapFailed { .. }
            | Self::Security { .. }
            | Self::UnsupportedByBroker { .. }
            | Self::CoordinatorRefused { .. }
            | Self::UnknownNode { .. }
            | Self::Encode(_) => false,
        }
    }

    /// True if the same request may succeed later: nothing about it was refused. Not for
    /// [`BootstrapFailed`](Self::BootstrapFailed), which has been tried for all the time it had.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Disconnected { .. } | Self::TimedOut { .. } | Self::UnknownNode { .. })
    }
}

/// What a broker offers of an API, as the rest of a sentence about it.
#[must_use]
pub fn offered_versions(api: ApiKey, min: i16, max: i16) -> String {
    if max < min {
        format!("does not have {api}")
    } else {
        format!("supports versions {min} to {max} of {api}")
    }
}

fn list(failures: &[AddressFailure]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
