//! The sticky assignors: members keep what they have as far as balance allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Assignments, MemberSubscription, PartitionCounts, empty, partitions_of, sticky_balance,
};
use crate::TopicPartition;

pub(super) fn assign(partitions: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
    let kept = kept(partitions, members);
    let mut subscriptions = members.iter().map(|member| &member.topics);
    let first = subscriptions.next();
    if first.is_some_and(|first| subscriptions.all(|topics| topics == first)) {
        alike(partitions, members, kept)
    } else {
        sticky_balance::assign(partitions, members, kept)
    }
}

/// What each member may go on having: partitions that exist, of topics it subscribes to, that nobody claims with a newer
/// generation. Where two claim with the same one, neither has it: one of them missed that it lost it.
fn kept(partitions: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
    let mut claims: BTreeMap<&TopicPartition, (i32, Option<&Arc<str>>)> = BTreeMap::new();
    for member in members {
        for tp in &member.owned {
            let exists = partitions.get(&tp.topic).is_some_and(|count| tp.partition < *count);
            if !exists || !member.topics.contains(&tp.topic) {
                continue;
            }
            let claim = (member.generation, Some(&member.member_id));
            claims
                .entry(tp)
                .and_modify(|(generation, owner)| {
                    if member.generation > *generation {
                        (*generation, *owner) = claim;
                    } else if member.generation == *generation {
                        *owner = None;
                    }
                })
                .or_insert(claim);
        }
    }
    let mut kept = empty(members);
    for (tp, (_, owner)) in claims {
        if let Some(owner) = owner {
            kept.entry(Arc::clone(owner)).or_default().insert(tp.clone());
        }
    }
    kept
}

/// All members subscribe to the same topics: everyone gets the floor or the ceiling of the mean.
fn alike(
    partitions: &PartitionCounts,
    members: &[MemberSubscription],
    kept: Assignments,
) -> Assignments {
    let topics = members.first().map(|member| member.topics.clone()).unwrap_or_default();
    let all: BTreeSet<TopicPartition> = partitions
        .iter()
        .filter(|(topic, _)| topics.contains(*topic))
        .flat_map(|(topic, count)| partitions_of(topic, *count))
        .collect();
    let Some(count) = std::num::NonZeroUsize::new(members.len()) else { return empty(members) };
    let (floor, mut with_one_more) = (all.len() / count, all.len() % count);
    // Those who have most keep the extra ones, so that fewest move.
    let mut order: Vec<_> = kept.into_iter().collect();
    order.sort_by_key(|(_, owned)| std::cmp::Reverse(owned.len()));
    let mut assignments = Assignments::new();
    let mut open = Vec::new();
    for (member, owned) in order {
        let mut share = floor;
        if owned.len() > floor && with_one_more > 0 {
            with_one_more -= 1;
            share += 1;
        }
        let taken: BTreeSet<_> = owned.into_iter().take(share).collect();
        if taken.len() < share {
            open.push((taken.len(), Arc::clone(&member)));
        } else if share == floor {
            open.push((floor, Arc::clone(&member)));
        }
        assignments.insert(member, taken);
    }
    let owned: BTreeSet<_> = assignments.values().flatten().cloned().collect();
    // The emptiest first, in Java's order of member ids.
    let mut queue: BTreeSet<(usize, Arc<str>)> = open.into_iter().collect();
    for partition in all.difference(&owned) {
        // There are as many places as partitions: floor each, and one more for the remainder.
        let Some((load, member)) = queue.pop_first() else { break };
        assignments.entry(Arc::clone(&member)).or_default().insert(partition.clone());
        if load < floor {
            queue.insert((load + 1, member));
        }
    }
    assignments
}

/// Takes from each member what another still has. It will be given in the round that the other's letting go starts.
pub(super) fn withhold_transfers(assignments: &mut Assignments, members: &[MemberSubscription]) {
    for (member, assigned) in assignments {
        assigned.retain(|tp| {
            let has = |other: &&MemberSubscription| other.owned.contains(tp);
            let mut owners = members.iter().filter(has).map(|owner| &owner.member_id);
            owners.all(|owner| owner == member)
        });
    }
}
