//! What can go wrong in a call: what happened, where, and what to do about it.

use std::time::Duration;

use millstream_protocol::network::{AddressFailure, RequestError, offered_versions};
use millstream_protocol::{ApiKey, ErrorCode};
use thiserror::Error;

use crate::ConfigError;

/// Why a call failed. The text names the operation, what happened there, and the way out where there is one. What to do
/// about it is [`recovery`](Self::recovery).
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// The configuration can not be used. Found before anything is sent.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// Not one broker could be reached in time, or every address speaks something else than Kafka.
    #[error(
        "no Kafka broker can be reached (given up to {}): {}; check bootstrap.servers, and that the brokers' advertised.listeners can be reached from here",
        seconds(*.after), list(.failures)
    )]
    NoBrokerReachable {
        /// Every address tried, with the last reason.
        failures: Vec<AddressFailure>,
        /// The time that was allowed for it, not the time it took; what can not be a broker is given up at once.
        after: Duration,
    },
    /// TLS or SASL stands in the way: a certificate or credentials are not accepted, here or at the broker. Trying again does
    /// not help.
    #[error("{operation}: {}", list(.failures))]
    Security {
        /// What was to be done.
        operation: String,
        /// Every address tried, with what TLS or SASL failed on there.
        failures: Vec<AddressFailure>,
    },
    /// The call did not succeed within `default.api.timeout.ms`. If a try had no answer, it may have had its effect.
    #[error("{operation}: no success within {} (default.api.timeout.ms); last: {last}", seconds(*.after))]
    TimedOut {
        /// What was to be done.
        operation: String,
        /// How long it was tried.
        after: Duration,
        /// What the last try met.
        last: String,
    },
    /// A broker refused, and would refuse again unless the code is [retriable](ErrorCode::is_retriable).
    #[error("{operation}: the broker answered {code}{}{}", detail(.message), hint(*.code))]
    Broker {
        /// What was to be done.
        operation: String,
        /// The broker's error.
        code: ErrorCode,
        /// The broker's explanation, if it gave one.
        message: Option<String>,
    },
    /// The topic, or the partition of it, does not exist. Where it may just have been created it was asked for several times
    /// first, because it is not known everywhere at once.
    #[error(
        "{operation}: topic '{topic}' does not exist on this cluster; create it, or check the name (it is case-sensitive)"
    )]
    UnknownTopic {
        /// What was to be done.
        operation: String,
        /// The topic.
        topic: String,
    },
    /// The group has members, which would not notice that their offsets are changed and commit over them.
    #[error(
        "{operation}: group '{group}' has {members} member{} ({state}); stop {} first",
        if *members == 1 { "" } else { "s" },
        if *members == 1 { "it" } else { "them" }
    )]
    GroupNotEmpty {
        /// What was to be done.
        operation: String,
        /// The group.
        group: String,
        /// Its state, as the coordinator names it.
        state: String,
        /// How many members it has.
        members: usize,
    },
    /// The brokers are too old for the call, or lack the API (KIP-35).
    #[error(
        "{operation}: the broker {}, needed is {ours_min} to {ours_max}; a newer version of Kafka has it",
        offered_versions(*api, *theirs_min, *theirs_max)
    )]
    Unsupported {
        /// What was to be done.
        operation: String,
        /// The API.
        api: ApiKey,
        /// Lowest version the call can use.
        ours_min: i16,
        /// Highest version the call can use.
        ours_max: i16,
        /// Lowest version of the broker; 0 if it lacks the API.
        theirs_min: i16,
        /// Highest version of the broker; -1 if it lacks the API.
        theirs_max: i16,
    },
    /// The request can not be written, or its answer can not be read. Whether a broker has acted on it is said by
    /// [`RequestError::outcome_unknown`].
    #[error("{operation}: {source}")]
    Request {
        /// What was to be done.
        operation: String,
        /// What happened to the request.
        source: RequestError,
    },
    /// The client was closed, or its runtime ended.
    #[error("{operation}: the client is closed")]
    Closed {
        /// What was to be done.
        operation: String,
    },
}

/// What a caller may do about an error (the classes of KIP-1050). A [`ClientError`] is of the first, the fourth or the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// The same call may succeed later.
    Retriable,
    /// The open transaction must be aborted; the producer can go on.
    Abortable,
    /// The owner of the client must act: fence, re-read state, begin anew.
    ApplicationRecoverable,
    /// The configuration, a permission or the cluster's set-up must change.
    InvalidConfiguration,
    /// Nothing helps but a new client or a fixed program.
    Fatal,
}

impl ClientError {
    /// What to do about it: [`Recovery::Retriable`] for what may pass, [`Recovery::InvalidConfiguration`] for what the caller
    /// or an operator must change, else [`Recovery::Fatal`].
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::NoBrokerReachable { .. } | Self::TimedOut { .. } => Recovery::Retriable,
            Self::Request { source, .. } if source.is_retriable() => Recovery::Retriable,
            Self::Broker { code, .. } if code.is_retriable() => Recovery::Retriable,
            Self::Config(_)
            | Self::Security { .. }
            | Self::Broker { .. }
            | Self::UnknownTopic { .. }
            | Self::GroupNotEmpty { .. }
            | Self::Unsupported { .. } => Recovery::InvalidConfiguration,
            Self::Request { .. } | Self::Closed { .. } => Recovery::Fatal,
        }
    }

    /// The error of a request that is not tried again.
    pub(crate) fn of_request(operation: &str, error: RequestError) -> Self {
        let operation = operation.to_owned();
        match error {
            RequestError::Security { address, reason } => Self::Security {
                operation,
                failures: vec![AddressFailure { address, reason, attempts: 1 }],
            },
            RequestError::BootstrapFailed { failures, .. }
                if failures.iter().all(|failure| failure.reason.is_security()) =>
            {
                Self::Security { operation, failures }
            }
            RequestError::BootstrapFailed { failures, after } => {
                Self::NoBrokerReachable { failures, after }
            }
            RequestError::UnsupportedByBroker {
                api,
                ours_min,
                ours_max,
                theirs_min,
                theirs_max,
            } => Self::Unsupported { operation, api, ours_min, ours_max, theirs_min, theirs_max },
            RequestError::CoordinatorRefused { code, message, .. } => {
                Self::Broker { operation, code, message: message.map(|text| text.to_string()) }
            }
            RequestError::Closed => Self::Closed { operation },
            source => Self::Request { operation, source },
        }
    }

    pub(crate) fn of_code(
        operation: &str,
        code: ErrorCode,
        message: Option<impl AsRef<str>>,
    ) -> Self {
        let message = message.map(|text| text.as_ref().to_owned()).filter(|text| !text.is_empty());
        Self::Broker { operation: operation.to_owned(), code, message }
    }
}

/// A duration as people say it.
fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn list(failures: &[AddressFailure]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn detail(message: &Option<String>) -> String {
    message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default()
}

fn hint(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::GROUP_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
        | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => {
            "; the user needs an ACL for it (kafka-acls)"
        }
        ErrorCode::INVALID_TOPIC_EXCEPTION => {
            "; a topic name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is not . or .."
        }
        ErrorCode::INVALID_REPLICATION_FACTOR => {
            "; there must be at least as many brokers as replicas"
        }
        ErrorCode::UNKNOWN_MEMBER_ID => {
            "; the group has members of its own: use another group.id for committing"
        }
        ErrorCode::NON_EMPTY_GROUP => "; the group has members: stop them first",
        ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC => {
            "; members of the group read the topic: stop them first"
        }
        ErrorCode::GROUP_ID_NOT_FOUND => {
            "; there is no such group: check the name (it is case-sensitive)"
        }
        ErrorCode::TRANSACTIONAL_ID_NOT_FOUND => {
            "; nobody has used this transactional id of late: check it (it is case-sensitive)"
        }
        ErrorCode::SECURITY_DISABLED => "; the brokers have no authorizer (authorizer.class.name)",
        _ => "",
    }
}
