//! Kafka's error codes.
//!
//! A code is a number on the wire and stays one here: brokers newer than us send codes we have no name for, and those
//! must pass through unharmed. What to *do* about a code depends on the API and version that carried it (a fenced
//! producer is fatal from the coordinator and abortable from a leader), so this type answers only what holds
//! everywhere.

use std::fmt;

/// A Kafka error code as sent; [`ErrorCode::NONE`] is success. Names and numbers are those of Kafka's own table of errors, up
/// to code 133.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i16);

macro_rules! error_codes {
    ($($name:ident = $code:literal,)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("Kafka's `", stringify!($name), "`, code ", stringify!($code), ".")]
                pub const $name: Self = Self($code);
            )*

            /// Kafka's name of the code, or `None` for a code newer than this crate.
            #[must_use]
            pub const fn known_name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Every code this crate has a name for, ascending.
            pub const ALL: &'static [Self] = &[$(Self($code)),*];
        }
    };
}

error_codes! {
    UNKNOWN_SERVER_ERROR = -1,
    NONE = 0,
    OFFSET_OUT_OF_RANGE = 1,
    CORRUPT_MESSAGE = 2,
    UNKNOWN_TOPIC_OR_PARTITION = 3,
    INVALID_FETCH_SIZE = 4,
    LEADER_NOT_AVAILABLE = 5,
    NOT_LEADER_OR_FOLLOWER = 6,
    REQUEST_TIMED_OUT = 7,
    BROKER_NOT_AVAILABLE = 8,
    REPLICA_NOT_AVAILABLE = 9,
    MESSAGE_TOO_LARGE = 10,
    STALE_CONTROLLER_EPOCH = 11,
    OFFSET_METADATA_TOO_LARGE = 12,
    NETWORK_EXCEPTION = 13,
    COORDINATOR_LOAD_IN_PROGRESS = 14,
    COORDINATOR_NOT_AVAILABLE = 15,
    NOT_COORDINATOR = 16,
    INVALID_TOPIC_EXCEPTION = 17,
    RECORD_LIST_TOO_LARGE = 18,
    NOT_ENOUGH_REPLICAS = 19,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20,
    INVALID_REQUIRED_ACKS = 21,
    ILLEGAL_GENERATION = 22,
    INCONSISTENT_GROUP_PROTOCOL = 23,
    INVALID_GROUP_ID = 24,
    UNKNOWN_MEMBER_ID = 25,
    INVALID_SESSION_TIMEOUT = 26,
    REBALANCE_IN_PROGRESS = 27,
    INVALID_COMMIT_OFFSET_SIZE = 28,
    TOPIC_AUTHORIZATION_FAILED = 29,
    GROUP_AUTHORIZATION_FAILED = 30,
    CLUSTER_AUTHORIZATION_FAILED = 31,
    INVALID_TIMESTAMP = 32,
    UNSUPPORTED_SASL_MECHANISM = 33,
    ILLEGAL_SASL_STATE = 34,
    UNSUPPORTED_VERSION = 35,
    TOPIC_ALREADY_EXISTS = 36,
    INVALID_PARTITIONS = 37,
    INVALID_REPLICATION_FACTOR = 38,
    INVALID_REPLICA_ASSIGNMENT = 39,
    INVALID_CONFIG = 40,
    NOT_CONTROLLER = 41,
    INVALID_REQUEST = 42,
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43,
    POLICY_VIOLATION = 44,
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45,
    DUPLICATE_SEQUENCE_NUMBER = 46,
    INVALID_PRODUCER_EPOCH = 47,
    INVALID_TXN_STATE = 48,
    INVALID_PRODUCER_ID_MAPPING = 49,
    INVALID_TRANSACTION_TIMEOUT = 50,
    CONCURRENT_TRANSACTIONS = 51,
    TRANSACTION_COORDINATOR_FENCED = 52,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53,
    SECURITY_DISABLED = 54,
    OPERATION_NOT_ATTEMPTED = 55,
    KAFKA_STORAGE_ERROR = 56,
    LOG_DIR_NOT_FOUND = 57,
    SASL_AUTHENTICATION_FAILED = 58,
    UNKNOWN_PRODUCER_ID = 59,
    REASSIGNMENT_IN_PROGRESS = 60,
    DELEGATION_TOKEN_AUTH_DISABLED = 61,
    DELEGATION_TOKEN_NOT_FOUND = 62,
    DELEGATION_TOKEN_OWNER_MISMATCH = 63,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65,
    DELEGATION_TOKEN_EXPIRED = 66,
    INVALID_PRINCIPAL_TYPE = 67,
    NON_EMPTY_GROUP = 68,
    GROUP_ID_NOT_FOUND = 69,
    FETCH_SESSION_ID_NOT_FOUND = 70,
    INVALID_FETCH_SESSION_EPOCH = 71,
    LISTENER_NOT_FOUND = 72,
    TOPIC_DELETION_DISABLED = 73,
    FENCED_LEADER_EPOCH = 74,
    UNKNOWN_LEADER_EPOCH = 75,
    UNSUPPORTED_COMPRESSION_TYPE = 76,
    STALE_BROKER_EPOCH = 77,
    OFFSET_NOT_AVAILABLE = 78,
    MEMBER_ID_REQUIRED = 79,
    PREFERRED_LEADER_NOT_AVAILABLE = 80,
    GROUP_MAX_SIZE_REACHED = 81,
    FENCED_INSTANCE_ID = 82,
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83,
    ELECTION_NOT_NEEDED = 84,
    NO_REASSIGNMENT_IN_PROGRESS = 85,
    GROUP_SUBSCRIBED_TO_TOPIC = 86,
    INVALID_RECORD = 87,
    UNSTABLE_OFFSET_COMMIT = 88,
    THROTTLING_QUOTA_EXCEEDED = 89,
    PRODUCER_FENCED = 90,
    RESOURCE_NOT_FOUND = 91,
    DUPLICATE_RESOURCE = 92,
    UNACCEPTABLE_CREDENTIAL = 93,
    INCONSISTENT_VOTER_SET = 94,
    INVALID_UPDATE_VERSION = 95,
    FEATURE_UPDATE_FAILED = 96,
    PRINCIPAL_DESERIALIZATION_FAILURE = 97,
    SNAPSHOT_NOT_FOUND = 98,
    POSITION_OUT_OF_RANGE = 99,
    UNKNOWN_TOPIC_ID = 100,
    DUPLICATE_BROKER_REGISTRATION = 101,
    BROKER_ID_NOT_REGISTERED = 102,
    INCONSISTENT_TOPIC_ID = 103,
    INCONSISTENT_CLUSTER_ID = 104,
    TRANSACTIONAL_ID_NOT_FOUND = 105,
    FETCH_SESSION_TOPIC_ID_ERROR = 106,
    INELIGIBLE_REPLICA = 107,
    NEW_LEADER_ELECTED = 108,
    OFFSET_MOVED_TO_TIERED_STORAGE = 109,
    FENCED_MEMBER_EPOCH = 110,
    UNRELEASED_INSTANCE_ID = 111,
    UNSUPPORTED_ASSIGNOR = 112,
    STALE_MEMBER_EPOCH = 113,
    MISMATCHED_ENDPOINT_TYPE = 114,
    UNSUPPORTED_ENDPOINT_TYPE = 115,
    UNKNOWN_CONTROLLER_ID = 116,
    UNKNOWN_SUBSCRIPTION_ID = 117,
    TELEMETRY_TOO_LARGE = 118,
    INVALID_REGISTRATION = 119,
    TRANSACTION_ABORTABLE = 120,
    INVALID_RECORD_STATE = 121,
    SHARE_SESSION_NOT_FOUND = 122,
    INVALID_SHARE_SESSION_EPOCH = 123,
    FENCED_STATE_EPOCH = 124,
    INVALID_VOTER_KEY = 125,
    DUPLICATE_VOTER = 126,
    VOTER_NOT_FOUND = 127,
    INVALID_REGULAR_EXPRESSION = 128,
    REBOOTSTRAP_REQUIRED = 129,
    STREAMS_INVALID_TOPOLOGY = 130,
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131,
    STREAMS_TOPOLOGY_FENCED = 132,
    SHARE_SESSION_LIMIT_REACHED = 133,
}

impl ErrorCode {
    /// Kafka's name of the code; `UNKNOWN_ERROR_CODE` for one newer than this crate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.known_name() {
            Some(name) => name,
            None => "UNKNOWN_ERROR_CODE",
        }
    }

    /// Whether this is an error at all.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 != 0
    }

    /// `Ok` for [`ErrorCode::NONE`], the code otherwise.
    ///
    /// # Errors
    ///
    /// The code itself, if it is not `NONE`.
    pub const fn into_result(self) -> Result<(), Self> {
        if self.is_error() { Err(self) } else { Ok(()) }
    }

    /// Whether the same request may succeed later without the caller changing anything: Java's
    /// `RetriableException` and below. An unknown code is not retriable.
    #[must_use]
    pub const fn is_retriable(self) -> bool {
        self.is_invalid_metadata()
            || self.is_coordinator_moved()
            || matches!(
                self,
                Self::CORRUPT_MESSAGE
                    | Self::REQUEST_TIMED_OUT
                    | Self::COORDINATOR_LOAD_IN_PROGRESS
                    | Self::NOT_ENOUGH_REPLICAS
                    | Self::NOT_ENOUGH_REPLICAS_AFTER_APPEND
                    | Self::NOT_CONTROLLER
                    | Self::CONCURRENT_TRANSACTIONS
                    | Self::FETCH_SESSION_ID_NOT_FOUND
                    | Self::INVALID_FETCH_SESSION_EPOCH
                    | Self::UNKNOWN_LEADER_EPOCH
                    | Self::OFFSET_NOT_AVAILABLE
                    | Self::UNSTABLE_OFFSET_COMMIT
                    | Self::THROTTLING_QUOTA_EXCEEDED
                    | Self::FETCH_SESSION_TOPIC_ID_ERROR
                    | Self::SHARE_SESSION_NOT_FOUND
                    | Self::INVALID_SHARE_SESSION_EPOCH
                    | Self::SHARE_SESSION_LIMIT_REACHED
            )
    }

    /// Whether our view of topics and leaders is stale: Java's `InvalidMetadataException` and below. Refresh the
    /// metadata, then retry.
    #[must_use]
    pub const fn is_invalid_metadata(self) -> bool {
        matches!(
            self,
            Self::UNKNOWN_TOPIC_OR_PARTITION
                | Self::LEADER_NOT_AVAILABLE
                | Self::NOT_LEADER_OR_FOLLOWER
                | Self::BROKER_NOT_AVAILABLE
                | Self::REPLICA_NOT_AVAILABLE
                | Self::NETWORK_EXCEPTION
                | Self::KAFKA_STORAGE_ERROR
                | Self::LISTENER_NOT_FOUND
                | Self::FENCED_LEADER_EPOCH
                | Self::PREFERRED_LEADER_NOT_AVAILABLE
                | Self::ELIGIBLE_LEADERS_NOT_AVAILABLE
                | Self::ELECTION_NOT_NEEDED
                | Self::UNKNOWN_TOPIC_ID
                | Self::INCONSISTENT_TOPIC_ID
        )
    }

    /// Whether the coordinator must be looked up again before a retry.
    #[must_use]
    pub const fn is_coordinator_moved(self) -> bool {
        matches!(self, Self::COORDINATOR_NOT_AVAILABLE | Self::NOT_COORDINATOR)
    }

    /// Whether the caller lacks a permission; no retry helps.
    #[must_use]
    pub const fn is_authorization_failed(self) -> bool {
        matches!(
            self,
            Self::TOPIC_AUTHORIZATION_FAILED
                | Self::GROUP_AUTHORIZATION_FAILED
                | Self::CLUSTER_AUTHORIZATION_FAILED
                | Self::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                | Self::DELEGATION_TOKEN_AUTHORIZATION_FAILED
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> Self {
        Self(code)
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> Self {
        code.0
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn codes_show_name_and_number() {
        assert_eq!(ErrorCode::NOT_LEADER_OR_FOLLOWER.to_string(), "NOT_LEADER_OR_FOLLOWER (6)");
        assert_eq!(ErrorCode::UNKNOWN_SERVER_ERROR.to_string(), "UNKNOWN_SERVER_ERROR (-1)");
        assert_eq!(format!("{:?}", ErrorCode(4711)), "UNKNOWN_ERROR_CODE (4711)");
    }

    #[test]
    fn names_and_retriability_agree_with_kafka_protocol() {
        use kafka_protocol::error::ResponseError;

        // Two known disagreements: Java 4.x retries CONCURRENT_TRANSACTIONS, and code 8 is treated as stale metadata.
        let ours_alone = [ErrorCode::CONCURRENT_TRANSACTIONS, ErrorCode::BROKER_NOT_AVAILABLE];
        for &code in ErrorCode::ALL {
            let Some(theirs) = ResponseError::try_from_code(code.0) else { continue };
            assert_eq!(
                code.name().replace('_', "").to_lowercase(),
                format!("{theirs:?}").to_lowercase()
            );
            if !ours_alone.contains(&code) {
                assert_eq!(code.is_retriable(), theirs.is_retriable(), "{code}");
            }
        }
    }
}
