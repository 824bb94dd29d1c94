//! Calls about the cluster rather than its records.
//!
//! Calls about several things give a result for each: one that fails does not keep the others from being done. Every call
//! is tried again where that may help, until `default.api.timeout.ms` is over; its error says what was to be done, to
//! what, and what the broker answered.
//!
//! | module | subject |
//! | --- | --- |
//! | `topics`, `partitions` | describe, create, delete topics; add partitions; delete records |
//! | `configs` | properties of topics and brokers |
//! | `cluster` | brokers, controller, features |
//! | `list_offsets` | offsets by position or time |
//! | `group_offsets`, `offset_reset` | committed offsets: read, commit, move, delete; lag |
//! | `groups` | list, describe, delete groups |
//! | `transactions`, `hanging` | list, describe transactions and producers; abort what hangs |
//! | `finish` | end what another process has prepared |
//! | `acls` | permissions |
//! | `ask`, `leaders` | how calls ask: one broker, all, leaders |

mod acls;
mod ask;
mod cluster;
mod configs;
mod finish;
mod group_offsets;
mod groups;
mod hanging;
mod leaders;
mod list_offsets;
mod offset_reset;
mod partitions;
mod topics;
mod transactions;

pub use acls::{Acl, AclFilter, AclOperation, AclPatternType, AclPermission, AclResourceType};
pub use cluster::{BrokerDescription, ClusterDescription, ClusterFeature};
pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource};
pub use group_offsets::CommittedOffset;
pub use groups::{GroupDescription, GroupMemberDescription, GroupType, ListedGroup};
pub use hanging::{AbortTransaction, HangingTransaction, ProducerState};
pub use list_offsets::{ListedOffset, OffsetSpec};
pub use offset_reset::{OffsetMove, PartitionLag, ResetTarget};
pub use topics::{NewTopic, PartitionDescription, TopicDescription};
pub use transactions::{ListedTransaction, TransactionDescription, TransactionFilter};

use millstream_protocol::messages::StrBytes;

/// Text as the messages hold it.
fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
