//! `roundrobin`: all partitions of all topics in order, each to the next member that subscribes to its topic.

use super::{Assignments, MemberSubscription, PartitionCounts, empty, in_order, partitions_of};

pub(super) fn assign(partitions: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
    let mut assignments = empty(members);
    let ordered = in_order(members);
    let mut next = 0;
    for (topic, count) in partitions {
        if !ordered.iter().any(|member| member.topics.contains(topic)) {
            continue;
        }
        for partition in partitions_of(topic, *count) {
            // Ends, because somebody subscribes.
            let member = loop {
                let Some(member) = ordered.get(next) else {
                    next = 0;
                    continue;
                };
                next += 1;
                if member.topics.contains(topic) {
                    break member;
                }
            };
            assignments.entry(member.member_id.clone()).or_default().insert(partition);
        }
    }
    assignments
}
