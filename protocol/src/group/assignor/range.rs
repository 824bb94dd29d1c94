//! `range`: per topic, each member a run of consecutive partitions, the first ones one more.

use super::{Assignments, MemberSubscription, PartitionCounts, empty, in_order, partitions_of};

pub(super) fn assign(partitions: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
    let mut assignments = empty(members);
    let ordered = in_order(members);
    for (topic, count) in partitions {
        let subscribed: Vec<_> =
            ordered.iter().filter(|member| member.topics.contains(topic)).collect();
        let Some(members) = std::num::NonZeroUsize::new(subscribed.len()) else { continue };
        let count = usize::try_from(*count).unwrap_or(0);
        let (each, more) = (count / members, count % members);
        let mut rest = partitions_of(topic, i32::try_from(count).unwrap_or(i32::MAX));
        for (index, member) in subscribed.into_iter().enumerate() {
            let share = each + usize::from(index < more);
            let taken = rest.by_ref().take(share);
            assignments.entry(member.member_id.clone()).or_default().extend(taken);
        }
    }
    assignments
}
