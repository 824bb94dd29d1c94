//! What a group coordinator's code asks for: the group column of the error table.

use std::sync::Arc;

use crate::ErrorCode;
use crate::group::GroupError;
use crate::network::RequestError;

#[derive(Debug)]
pub(super) enum Reaction {
    /// The same again after a while; the network layer looks for the coordinator.
    Retry,
    /// The same again, but not for ever.
    RetryForAWhile(GroupError),
    /// Join with what we are.
    Rejoin,
    /// Join with the member id that came with the code (KIP-394).
    TakeMemberId,
    /// Others went on without us: join as the same member.
    ResetGeneration,
    /// The coordinator does not know us: join as a new member.
    ResetMember,
    /// Nothing helps.
    Fail(GroupError),
}

/// Tries before a code that should not come is believed.
pub(super) const PATIENCE: u32 = 5;

pub(super) fn of_code(code: ErrorCode, instance_id: Option<&Arc<str>>) -> Reaction {
    match code {
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        | ErrorCode::COORDINATOR_NOT_AVAILABLE
        | ErrorCode::NOT_COORDINATOR
        | ErrorCode::REQUEST_TIMED_OUT
        | ErrorCode::NETWORK_EXCEPTION
        | ErrorCode::KAFKA_STORAGE_ERROR => Reaction::Retry,
        ErrorCode::REBALANCE_IN_PROGRESS => Reaction::Rejoin,
        ErrorCode::MEMBER_ID_REQUIRED => Reaction::TakeMemberId,
        ErrorCode::ILLEGAL_GENERATION => Reaction::ResetGeneration,
        ErrorCode::UNKNOWN_MEMBER_ID => Reaction::ResetMember,
        ErrorCode::FENCED_INSTANCE_ID => Reaction::Fail(GroupError::FencedInstanceId {
            instance_id: instance_id.cloned().unwrap_or_else(|| Arc::from("")),
            still_active: false,
        }),
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL => {
            Reaction::Fail(GroupError::InconsistentProtocol { code })
        }
        ErrorCode::GROUP_AUTHORIZATION_FAILED
        | ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
        | ErrorCode::INVALID_GROUP_ID
        | ErrorCode::INVALID_SESSION_TIMEOUT
        | ErrorCode::GROUP_MAX_SIZE_REACHED
        | ErrorCode::UNSUPPORTED_VERSION
        | ErrorCode::INVALID_REQUEST => Reaction::Fail(refusal(code)),
        code => Reaction::RetryForAWhile(refusal(code)),
    }
}

pub(super) fn of_request(error: RequestError) -> Reaction {
    match error {
        RequestError::CoordinatorRefused { code, message, .. } => {
            Reaction::Fail(GroupError::Broker { code, message })
        }
        RequestError::BootstrapFailed { .. } => Reaction::Retry,
        error if error.is_retriable() => Reaction::Retry,
        error @ RequestError::Decode(_) => Reaction::RetryForAWhile(GroupError::Request(error)),
        error => Reaction::Fail(GroupError::Request(error)),
    }
}

fn refusal(code: ErrorCode) -> GroupError {
    GroupError::Broker { code, message: None }
}
