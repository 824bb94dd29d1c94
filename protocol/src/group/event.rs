//! What a member tells its driver.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::GroupError;
use crate::TopicPartition;

/// What happened to a member's partitions. The events of one member come in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// The member owns these in addition.
    Assigned(BTreeSet<TopicPartition>),
    /// The member is to let go of these. They are its own until
    /// [`acknowledge_revoked`](super::GroupMember::acknowledge_revoked): time to commit.
    Revoked(BTreeSet<TopicPartition>),
    /// The member owned these and does not any more; others may own them already. A revocation that was not
    /// acknowledged is void.
    Lost(BTreeSet<TopicPartition>),
    /// The member has left, as it was told to.
    Left,
    /// The member can not go on. Nothing follows.
    Failed(GroupError),
}

/// As whom a member commits (KIP-447: also what a transaction's offsets carry).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberIdentity {
    /// The member id; empty if it is no member.
    pub member_id: Arc<str>,
    /// Generation of the classic protocol, member epoch of KIP-848; -1 if it is no member.
    pub generation_or_epoch: i32,
    /// Of a static member.
    pub group_instance_id: Option<Arc<str>>,
}

/// What a member must know of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// How many partitions it has.
    pub partitions: i32,
    /// Its id; all zero before Kafka 2.8.
    pub topic_id: [u8; 16],
}
