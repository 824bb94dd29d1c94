//! Permissions (access control lists), read only.

use std::fmt;

use millstream_protocol::messages::kp::DescribeAclsRequest;
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, Request, Response};

use super::ask::Answer;
use super::text;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// One that this client has no name for, by Kafka's number.
            Other(i8),
        }

        impl $name {
            fn of_code(code: i8) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            fn code(self) -> i8 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Other(code) => code,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)*
                    Self::Other(code) => write!(f, "UNKNOWN({code})"),
                }
            }
        }
    };
}

codes! {
    /// What a permission is about (`ResourceType` of DescribeAcls 1 to 3, KIP-140).
    AclResourceType {
        /// A topic.
        Topic = 2 "TOPIC",
        /// A consumer group.
        Group = 3 "GROUP",
        /// The cluster; its name is `kafka-cluster`.
        Cluster = 4 "CLUSTER",
        /// A transactional id.
        TransactionalId = 5 "TRANSACTIONAL_ID",
        /// A delegation token (KIP-48).
        DelegationToken = 6 "DELEGATION_TOKEN",
        /// A user, whose delegation tokens are meant (KIP-373).
        User = 7 "USER",
    }
}

codes! {
    /// How the name of a permission's resource is meant (KIP-290).
    AclPatternType {
        /// The resource of this name; `*` is every name.
        Literal = 3 "LITERAL",
        /// Every resource whose name starts so.
        Prefixed = 4 "PREFIXED",
    }
}

codes! {
    /// What a permission allows or denies.
    AclOperation {
        /// Everything.
        All = 2 "ALL",
        /// Fetch from a topic; join and commit for a group.
        Read = 3 "READ",
        /// Produce to a topic; use a transactional id.
        Write = 4 "WRITE",
        /// Create topics, of one name or of any.
        Create = 5 "CREATE",
        /// Delete a topic, records of it, or a group.
        Delete = 6 "DELETE",
        /// Change, as the number of partitions or other users' permissions.
        Alter = 7 "ALTER",
        /// See that it exists, and what it is like.
        Describe = 8 "DESCRIBE",
        /// What brokers do among themselves.
        ClusterAction = 9 "CLUSTER_ACTION",
        /// Read the configuration.
        DescribeConfigs = 10 "DESCRIBE_CONFIGS",
        /// Change the configuration.
        AlterConfigs = 11 "ALTER_CONFIGS",
        /// Produce idempotently, asked for by brokers before 2.8 (KIP-679).
        IdempotentWrite = 12 "IDEMPOTENT_WRITE",
        /// Create delegation tokens for others (KIP-373).
        CreateTokens = 13 "CREATE_TOKENS",
        /// Describe delegation tokens of others.
        DescribeTokens = 14 "DESCRIBE_TOKENS",
        /// Transactions without a time limit (KIP-939).
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
}

codes! {
    /// Whether a permission allows or denies. What is denied by one is not allowed by another.
    AclPermission {
        /// Denies.
        Deny = 2 "DENY",
        /// Allows.
        Allow = 3 "ALLOW",
    }
}

/// Which permissions are listed. The default is all; what is `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclFilter {
    /// About resources of this type.
    pub resource_type: Option<AclResourceType>,
    /// About exactly this name, as it was given when the permission was made.
    pub resource_name: Option<String>,
    /// Whose name is meant so.
    pub pattern_type: Option<AclPatternType>,
    /// Of this principal, as `User:alice`.
    pub principal: Option<String>,
    /// From this host, as it was given when the permission was made; `*` finds those for every host.
    pub host: Option<String>,
    /// Of this operation.
    pub operation: Option<AclOperation>,
    /// That allow, or that deny.
    pub permission: Option<AclPermission>,
}

/// A permission (KIP-11).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    /// The type of the resource that it is about.
    pub resource_type: AclResourceType,
    /// The resource's name, or what its name starts with.
    pub resource_name: String,
    /// Which of the two the name is (KIP-290).
    pub pattern_type: AclPatternType,
    /// Whom it is for, as `User:alice`; `User:*` is everyone.
    pub principal: String,
    /// Where from, an address; `*` is anywhere.
    pub host: String,
    /// What is allowed or denied.
    pub operation: AclOperation,
    /// Whether it is allowed or denied.
    pub permission: AclPermission,
}

impl KafkaClient {
    /// The permissions that match, sorted: DescribeAcls 1 to 3 (KIP-140), asked of any broker.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] with SECURITY_DISABLED if the brokers have no authorizer, with
    /// CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on the cluster; else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn list_acls(&self, filter: &AclFilter) -> Result<Vec<Acl>, ClientError> {
        let mut attempts = self.attempts("list ACLs");
        let question = |_: &Attempts| {
            let request = DescribeAclsRequest::default()
                .with_resource_type_filter(filter.resource_type.map_or(ANY, AclResourceType::code))
                .with_resource_name_filter(filter.resource_name.as_deref().map(text))
                .with_pattern_type_filter(filter.pattern_type.map_or(ANY, AclPatternType::code))
                .with_principal_filter(filter.principal.as_deref().map(text))
                .with_host_filter(filter.host.as_deref().map(text))
                .with_operation(filter.operation.map_or(ANY, AclOperation::code))
                .with_permission_type(filter.permission.map_or(ANY, AclPermission::code));
            Ask::new(Destination::AnyBroker, Request::DescribeAcls(request))
        };
        let mut acls = self
            .ask(&mut attempts, question, |attempts, response| {
                let Response::DescribeAcls(response) = response else { return Answer::left_out() };
                let code = ErrorCode(response.error_code);
                if code.is_error() {
                    return Answer::of_code(attempts, code, response.error_message.as_deref());
                }
                let mut acls = Vec::new();
                for resource in &response.resources {
                    acls.extend(resource.acls.iter().map(|acl| Acl {
                        resource_type: AclResourceType::of_code(resource.resource_type),
                        resource_name: resource.resource_name.to_string(),
                        pattern_type: AclPatternType::of_code(resource.pattern_type),
                        principal: acl.principal.to_string(),
                        host: acl.host.to_string(),
                        operation: AclOperation::of_code(acl.operation),
                        permission: AclPermission::of_code(acl.permission_type),
                    }));
                }
                Answer::Done(acls)
            })
            .await?;
        acls.sort();
        Ok(acls)
    }
}

/// Matches everything, in each of a filter's numbers.
const ANY: i8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_kafkas_and_unknown_ones_pass_through() {
        for code in i8::MIN..=i8::MAX {
            assert_eq!(AclResourceType::of_code(code).code(), code);
            assert_eq!(AclOperation::of_code(code).code(), code);
            assert_eq!(AclPatternType::of_code(code).code(), code);
            assert_eq!(AclPermission::of_code(code).code(), code);
        }
        assert_eq!(AclOperation::of_code(15).to_string(), "TWO_PHASE_COMMIT");
        assert_eq!(AclOperation::of_code(99).to_string(), "UNKNOWN(99)");
        assert_eq!(AclPermission::Deny.code(), 2);
    }
}
