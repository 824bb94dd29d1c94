//! Sticky assignment of members that subscribe to different topics: place what has no owner, then move what helps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Assignments, MemberSubscription, PartitionCounts, partitions_of};

pub(super) fn assign(
    partitions: &PartitionCounts,
    members: &[MemberSubscription],
    kept: Assignments,
) -> Assignments {
    let mut assignments = kept;
    let mut subscribers: BTreeMap<&Arc<str>, Vec<&Arc<str>>> = BTreeMap::new();
    for member in members {
        for topic in &member.topics {
            subscribers.entry(topic).or_default().push(&member.member_id);
        }
    }
    // Topics with few takers first: the others can make up for the difference.
    let mut topics: Vec<_> = partitions
        .iter()
        .filter_map(|(topic, count)| Some((subscribers.get(topic)?, topic, *count)))
        .collect();
    topics.sort_by_key(|(takers, topic, _)| (takers.len(), Arc::clone(topic)));

    let owned: BTreeSet<_> = assignments.values().flatten().cloned().collect();
    for (takers, topic, count) in &topics {
        for partition in partitions_of(topic, *count).filter(|tp| !owned.contains(tp)) {
            if let Some(taker) = least_loaded(takers, &assignments) {
                assignments.entry(taker).or_default().insert(partition);
            }
        }
    }
    // Each move makes the sum of the squares of the loads smaller, so this ends.
    let mut moved = true;
    while moved {
        moved = false;
        for (takers, topic, _) in &topics {
            moved |= level(topic, takers, &mut assignments);
        }
    }
    assignments
}

/// Moves partitions of a topic from members with many to members with fewer, as long as that brings them closer.
fn level(topic: &Arc<str>, takers: &[&Arc<str>], assignments: &mut Assignments) -> bool {
    let mut moved = false;
    loop {
        let Some(to) = least_loaded(takers, assignments) else { return moved };
        let load = |member: &Arc<str>| assignments.get(member).map_or(0, BTreeSet::len);
        let has = |member: &Arc<str>| {
            let owned = assignments.get(member)?;
            owned.iter().rev().find(|tp| tp.topic == *topic).cloned()
        };
        let from = takers
            .iter()
            .filter_map(|member| Some((load(member), *member, has(member)?)))
            .max_by_key(|(load, ..)| *load);
        let Some((most, from, partition)) = from else { return moved };
        if most < load(&to) + 2 {
            return moved;
        }
        if let Some(owned) = assignments.get_mut(from) {
            owned.remove(&partition);
        }
        assignments.entry(to).or_default().insert(partition);
        moved = true;
    }
}

fn least_loaded(takers: &[&Arc<str>], assignments: &Assignments) -> Option<Arc<str>> {
    let load = |member: &Arc<str>| assignments.get(member).map_or(0, BTreeSet::len);
    takers
        .iter()
        .min_by_key(|member| (load(member), Arc::clone(member)))
        .map(|member| Arc::clone(member))
}
