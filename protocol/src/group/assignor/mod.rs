//! Who gets which partition: computed by the group's leader, from what every member wrote.
//!
//! `range` and `roundrobin` give exactly what Java's give. The sticky ones give as balanced an assignment and move as few
//! partitions; which of several equal choices they make may differ, because Java's depends on the order of a hash table.

mod range;
mod round_robin;
mod sticky;
mod sticky_balance;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;

use super::consumer_protocol::{StickyUserData, Subscription};
use crate::TopicPartition;
use crate::wire::{EncodeError, ReadError};

/// An assignor of Kafka's consumers (`partition.assignment.strategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assignor {
    /// Per topic, consecutive partitions to each member. Moves many partitions when a member comes or goes.
    Range,
    /// All partitions of all topics in turn.
    RoundRobin,
    /// Balanced, and what a member has it keeps if it can. Every member stops for the rebalance.
    Sticky,
    /// As sticky, and members go on reading what they keep (KIP-429).
    CooperativeSticky,
}

/// Whether members stop for a rebalance (KIP-429).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebalanceProtocol {
    /// Everything is given up before each rebalance.
    Eager,
    /// Only what moves is given up, in a second rebalance.
    Cooperative,
}

/// What an assignor knows of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSubscription {
    /// The broker's id of the member.
    pub member_id: Arc<str>,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<Arc<str>>,
    /// Topics to be assigned from.
    pub topics: BTreeSet<Arc<str>>,
    /// What it had at its last word, as its assignor tells it.
    pub owned: BTreeSet<TopicPartition>,
    /// In which generation it got that; -1 if unknown.
    pub generation: i32,
}

/// Each member's partitions.
pub type Assignments = BTreeMap<Arc<str>, BTreeSet<TopicPartition>>;

/// How many partitions each topic has. Topics that do not exist are absent.
pub type PartitionCounts = BTreeMap<Arc<str>, i32>;

impl Assignor {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Range, Self::RoundRobin, Self::Sticky, Self::CooperativeSticky];

    /// Kafka's name, which members agree by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The protocols that it supports, the best last.
    #[must_use]
    pub const fn rebalance_protocol(self) -> RebalanceProtocol {
        match self {
            Self::CooperativeSticky => RebalanceProtocol::Cooperative,
            Self::Range | Self::RoundRobin | Self::Sticky => RebalanceProtocol::Eager,
        }
    }

    /// What a member of this assignor writes into JoinGroup: what it owns and since which generation (-1 for none), and
    /// its `last` assignment with its generation, which it may have given up already.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a name is longer than the wire can carry.
    pub fn subscription(
        self,
        topics: &BTreeSet<Arc<str>>,
        owned: &BTreeSet<TopicPartition>,
        generation: i32,
        last: (&BTreeSet<TopicPartition>, i32),
    ) -> Result<Bytes, EncodeError> {
        let user_data = match self {
            Self::Range | Self::RoundRobin => None,
            // Java writes no data before its first assignment.
            Self::Sticky if last.1 < 0 => None,
            Self::Sticky => {
                let (previous, generation) = last;
                let previous_assignment = previous.iter().cloned().collect();
                Some(StickyUserData { previous_assignment, generation }.encode()?)
            }
            Self::CooperativeSticky => Some(StickyUserData::encode_generation(generation)),
        };
        let owned_partitions = owned.iter().cloned().collect();
        Subscription {
            topics: topics.clone(),
            user_data,
            owned_partitions,
            generation_id: generation,
            rack_id: None,
        }
        .encode()
    }

    /// Reads what a member wrote for this assignor.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the subscription can not be read. User data that can not be read are as good as none: another
    /// client's assignor of the same name may write its own.
    pub fn member(
        self,
        member_id: Arc<str>,
        group_instance_id: Option<Arc<str>>,
        metadata: Bytes,
    ) -> Result<MemberSubscription, ReadError> {
        let subscription = Subscription::decode(metadata)?;
        let mut owned: BTreeSet<_> = subscription.owned_partitions.into_iter().collect();
        let mut generation = subscription.generation_id;
        match (self, subscription.user_data) {
            (Self::CooperativeSticky, Some(data)) if generation < 0 => {
                generation = StickyUserData::decode_generation(data).unwrap_or(-1);
            }
            (Self::Sticky, Some(data)) => {
                if let Ok(data) = StickyUserData::decode(data) {
                    owned = data.previous_assignment.into_iter().collect();
                    generation = data.generation;
                }
            }
            _ => {}
        }
        let topics = subscription.topics;
        Ok(MemberSubscription { member_id, group_instance_id, topics, owned, generation })
    }

    /// Gives every partition of every topic that a member subscribes to one owner. With
    /// [`CooperativeSticky`](Self::CooperativeSticky), partitions that change hands are left out: they are given to their
    /// new owner in the next round, once the old one has let go.
    #[must_use]
    pub fn assign(
        self,
        partitions: &PartitionCounts,
        members: &[MemberSubscription],
    ) -> Assignments {
        let mut assignments = match self {
            Self::Range => range::assign(partitions, members),
            Self::RoundRobin => round_robin::assign(partitions, members),
            Self::Sticky | Self::CooperativeSticky => sticky::assign(partitions, members),
        };
        if self == Self::CooperativeSticky {
            sticky::withhold_transfers(&mut assignments, members);
        }
        assignments
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not the name of an assignor that we have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of range, roundrobin, sticky, cooperative-sticky")]
pub struct UnknownAssignor(pub String);

impl FromStr for Assignor {
    type Err = UnknownAssignor;

    /// Takes Kafka's names, and those of Java's classes as they stand in properties.
    fn from_str(text: &str) -> Result<Self, UnknownAssignor> {
        let name = text.trim();
        let class = name.strip_prefix("org.apache.kafka.clients.consumer.").unwrap_or(name);
        match class {
            "range" | "RangeAssignor" => Ok(Self::Range),
            "roundrobin" | "RoundRobinAssignor" => Ok(Self::RoundRobin),
            "sticky" | "StickyAssignor" => Ok(Self::Sticky),
            "cooperative-sticky" | "CooperativeStickyAssignor" => Ok(Self::CooperativeSticky),
            _ => Err(UnknownAssignor(name.to_owned())),
        }
    }
}

/// Members in Java's order: static ones first, by instance id, the others by member id.
fn in_order(members: &[MemberSubscription]) -> Vec<&MemberSubscription> {
    let mut ordered: Vec<_> = members.iter().collect();
    ordered.sort_by(|a, b| {
        let key = |member: &MemberSubscription| {
            (member.group_instance_id.is_none(), member.group_instance_id.clone())
        };
        key(a).cmp(&key(b)).then_with(|| a.member_id.cmp(&b.member_id))
    });
    ordered
}

/// A place for each member, also those that get nothing.
fn empty(members: &[MemberSubscription]) -> Assignments {
    members.iter().map(|member| (Arc::clone(&member.member_id), BTreeSet::new())).collect()
}

fn partitions_of(topic: &Arc<str>, count: i32) -> impl Iterator<Item = TopicPartition> + '_ {
    (0..count.max(0)).map(move |partition| TopicPartition { topic: Arc::clone(topic), partition })
}

#[cfg(test)]
mod tests;
