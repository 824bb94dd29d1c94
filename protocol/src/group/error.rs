//! Why a member can not go on.

use std::sync::Arc;

use thiserror::Error;

use crate::ErrorCode;
use crate::network::RequestError;
use crate::wire::{EncodeError, ReadError};

/// Why a member can not go on. It owns nothing any more. The text fits after "member of group 'orders': ".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// Another member joined with the same `group.instance.id` (FENCED_INSTANCE_ID, KIP-345).
    #[error(
        "another member uses group.instance.id '{instance_id}'{}; each running member needs its own",
        if *.still_active { " and has not left" } else { " and has taken over" }
    )]
    FencedInstanceId {
        /// The instance id.
        instance_id: Arc<str>,
        /// KIP-848: the other one was there first (UNRELEASED_INSTANCE_ID).
        still_active: bool,
    },
    /// The group has members with other assignors, or other kinds of members (INCONSISTENT_GROUP_PROTOCOL).
    #[error(
        "the group's members do not share a partition.assignment.strategy with this one, or are no consumers ({code})"
    )]
    InconsistentProtocol {
        /// The broker's code.
        code: ErrorCode,
    },
    /// The broker refused, and would refuse again.
    #[error("the broker answered {code}{}{}", .message.as_ref().map(|m| format!(" ({m})")).unwrap_or_default(), hint(*.code))]
    Broker {
        /// The code.
        code: ErrorCode,
        /// The broker's explanation, if it gave one.
        message: Option<Arc<str>>,
    },
    /// The leader's assignment can not be read. A part of it is never taken for the whole.
    #[error("the assignment from the group's leader can not be read")]
    MalformedAssignment(#[source] ReadError),
    /// As leader: what another member wrote can not be read.
    #[error("the subscription of member '{member_id}' can not be read")]
    MalformedSubscription {
        /// The other member.
        member_id: Arc<str>,
        /// What is wrong.
        #[source]
        source: ReadError,
    },
    /// A name is longer than the wire can carry: 32,767 bytes.
    #[error("a name is too long for the protocol")]
    Encode(#[from] EncodeError),
    /// A request can not be made, or its answer can not be read.
    #[error(transparent)]
    Request(RequestError),
}

fn hint(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::GROUP_AUTHORIZATION_FAILED => "; the user needs READ on the group (kafka-acls)",
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => "; the user needs READ on the topic (kafka-acls)",
        ErrorCode::INVALID_SESSION_TIMEOUT => {
            "; session.timeout.ms must lie between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
        }
        ErrorCode::GROUP_MAX_SIZE_REACHED => "; the broker limits members by group.max.size",
        ErrorCode::UNSUPPORTED_ASSIGNOR => {
            "; group.remote.assignor must be one of the broker's group.consumer.assignors"
        }
        ErrorCode::UNSUPPORTED_VERSION => {
            "; the broker does not have the new group protocol: use group.protocol=classic"
        }
        _ => "",
    }
}
