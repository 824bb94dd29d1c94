use proptest::prelude::*;

use super::*;

fn member(id: &str, topics: &[&str], owned: &[(&str, i32)], generation: i32) -> MemberSubscription {
    MemberSubscription {
        member_id: Arc::from(id),
        group_instance_id: None,
        topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
        owned: owned.iter().map(|(topic, p)| TopicPartition::new(*topic, *p)).collect(),
        generation,
    }
}

fn counts(topics: &[(&str, i32)]) -> PartitionCounts {
    topics.iter().map(|(topic, count)| (Arc::from(*topic), *count)).collect()
}

fn shown(assignments: &Assignments) -> Vec<String> {
    let line = |(member, partitions): (&Arc<str>, &BTreeSet<TopicPartition>)| {
        let list: Vec<_> = partitions.iter().map(ToString::to_string).collect();
        format!("{member}: {}", list.join(" "))
    };
    assignments.iter().map(line).collect()
}

#[test]
fn range_gives_runs_per_topic_and_the_first_members_one_more() {
    let members = [member("b", &["t", "u"], &[], -1), member("a", &["t", "u"], &[], -1)];
    let assigned = Assignor::Range.assign(&counts(&[("t", 3), ("u", 3)]), &members);
    assert_eq!(shown(&assigned), ["a: t-0 t-1 u-0 u-1", "b: t-2 u-2"]);
}

#[test]
fn static_members_come_first_by_their_instance_id() {
    let mut members = [member("a", &["t"], &[], -1), member("z", &["t"], &[], -1)];
    members[1].group_instance_id = Some(Arc::from("i1"));
    let assigned = Assignor::Range.assign(&counts(&[("t", 3)]), &members);
    assert_eq!(shown(&assigned), ["a: t-2", "z: t-0 t-1"]);
}

#[test]
fn roundrobin_skips_members_without_the_topic() {
    let members = [
        member("a", &["t"], &[], -1),
        member("b", &["t", "u"], &[], -1),
        member("c", &["u"], &[], -1),
    ];
    let assigned = Assignor::RoundRobin.assign(&counts(&[("t", 3), ("u", 3)]), &members);
    assert_eq!(shown(&assigned), ["a: t-0 t-2", "b: t-1 u-0 u-2", "c: u-1"]);
}

#[test]
fn topics_that_do_not_exist_and_members_without_topics_get_nothing() {
    for assignor in Assignor::ALL {
        let members = [member("a", &["t", "gone"], &[], -1), member("b", &[], &[], -1)];
        let assigned = assignor.assign(&counts(&[("t", 1)]), &members);
        assert_eq!(shown(&assigned), ["a: t-0", "b: "], "{assignor}");
        assert_eq!(assignor.assign(&counts(&[("t", 1)]), &[]), Assignments::new());
    }
}

#[test]
fn cooperative_sticky_gives_a_moved_partition_only_once_it_is_free() {
    let counts = counts(&[("t", 4)]);
    let all = [("t", 0), ("t", 1), ("t", 2), ("t", 3)];
    let mut members = [member("a", &["t"], &all, 1), member("b", &["t"], &[], -1)];
    let first = Assignor::CooperativeSticky.assign(&counts, &members);
    assert_eq!(shown(&first), ["a: t-0 t-1", "b: "]);
    members[0].owned = first["a"].clone();
    members[0].generation = 2;
    members[1].generation = 2;
    let second = Assignor::CooperativeSticky.assign(&counts, &members);
    assert_eq!(shown(&second), ["a: t-0 t-1", "b: t-2 t-3"]);
}

#[test]
fn an_older_claim_gives_way_to_a_newer_one() {
    let counts = counts(&[("t", 2)]);
    let members =
        [member("a", &["t"], &[("t", 0), ("t", 1)], 3), member("b", &["t"], &[("t", 0)], 4)];
    let assigned = Assignor::Sticky.assign(&counts, &members);
    assert_eq!(shown(&assigned), ["a: t-1", "b: t-0"]);
    // While the older one still believes in it, the partition is given to nobody.
    let assigned = Assignor::CooperativeSticky.assign(&counts, &members);
    assert_eq!(shown(&assigned), ["a: t-1", "b: "]);
}

#[test]
fn names_are_kafkas_and_javas() {
    for assignor in Assignor::ALL {
        assert_eq!(assignor.name().parse(), Ok(assignor));
    }
    let class = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
    assert_eq!(class.parse(), Ok(Assignor::CooperativeSticky));
    let error = "com.example.Mine".parse::<Assignor>().unwrap_err().to_string();
    assert_eq!(
        error,
        "'com.example.Mine' is none of range, roundrobin, sticky, cooperative-sticky"
    );
}

/// Members of up to four topics with random subscriptions (all alike if `alike`), and partition counts.
fn groups(alike: bool) -> impl Strategy<Value = (PartitionCounts, Vec<MemberSubscription>)> {
    let topics = proptest::collection::vec(0..9_i32, 1..4);
    let members = proptest::collection::vec(proptest::bits::u8::between(0, 4), 1..7);
    (topics, members).prop_map(move |(topics, members)| {
        let name = |index: usize| format!("t{index}");
        let counts =
            topics.iter().enumerate().map(|(i, count)| (Arc::from(name(i)), *count)).collect();
        let members = members.into_iter().enumerate().map(|(index, bits)| {
            let bits = if alike { 0b1111 } else { bits };
            let subscribed: Vec<String> =
                (0..4).filter(|topic| bits & 1 << topic != 0).map(name).collect();
            let subscribed: Vec<&str> = subscribed.iter().map(String::as_str).collect();
            member(&format!("m{index}"), &subscribed, &[], -1)
        });
        (counts, members.collect())
    })
}

/// Every partition with a subscriber has one owner, who subscribes to it; the others have none.
fn check_complete(
    counts: &PartitionCounts,
    members: &[MemberSubscription],
    assignments: &Assignments,
) -> Result<(), TestCaseError> {
    let mut owners: BTreeMap<&TopicPartition, &str> = BTreeMap::new();
    for member in members {
        for tp in &assignments[&member.member_id] {
            prop_assert!(member.topics.contains(&tp.topic));
            prop_assert_eq!(owners.insert(tp, &member.member_id), None, "{} twice", tp);
        }
    }
    let wanted = counts
        .iter()
        .filter(|(topic, _)| members.iter().any(|member| member.topics.contains(*topic)))
        .map(|(_, count)| usize::try_from(*count).unwrap());
    prop_assert_eq!(owners.len(), wanted.sum::<usize>());
    Ok(())
}

/// Nobody could be given a partition of somebody with two more.
fn check_balanced(
    members: &[MemberSubscription],
    assignments: &Assignments,
) -> Result<(), TestCaseError> {
    for taker in members {
        let has = assignments[&taker.member_id].len();
        for giver in members {
            let movable =
                assignments[&giver.member_id].iter().filter(|tp| taker.topics.contains(&tp.topic));
            let movable = movable.count();
            prop_assert!(movable == 0 || assignments[&giver.member_id].len() < has + 2);
        }
    }
    Ok(())
}

fn settle(members: &mut [MemberSubscription], assignments: &Assignments, generation: i32) {
    for member in members {
        member.owned = assignments[&member.member_id].clone();
        member.generation = generation;
    }
}

proptest! {
    #[test]
    fn every_assignor_gives_each_partition_one_owner(
        (counts, members) in any::<bool>().prop_flat_map(groups),
    ) {
        for assignor in Assignor::ALL {
            check_complete(&counts, &members, &assignor.assign(&counts, &members))?;
        }
        check_balanced(&members, &Assignor::Sticky.assign(&counts, &members))?;
    }

    #[test]
    fn sticky_moves_nothing_when_nothing_changes(
        (counts, mut members) in any::<bool>().prop_flat_map(groups),
    ) {
        let first = Assignor::Sticky.assign(&counts, &members);
        settle(&mut members, &first, 1);
        prop_assert_eq!(Assignor::Sticky.assign(&counts, &members), first);
    }

    #[test]
    fn sticky_moves_only_what_balance_needs_when_members_come_and_go(
        (counts, mut members) in groups(true),
        leaves in any::<prop::sample::Index>(),
    ) {
        let first = Assignor::Sticky.assign(&counts, &members);
        settle(&mut members, &first, 1);
        let gone = members.swap_remove(leaves.index(members.len()));
        prop_assume!(!members.is_empty());
        let second = Assignor::Sticky.assign(&counts, &members);
        check_complete(&counts, &members, &second)?;
        check_balanced(&members, &second)?;
        // Only what the leaver had is given anew.
        let lost = members.iter().flat_map(|m| first[&m.member_id].difference(&second[&m.member_id]));
        prop_assert_eq!(lost.count(), 0);
        settle(&mut members, &second, 2);
        let topics: Vec<&str> = gone.topics.iter().map(|topic| &**topic).collect();
        members.push(member("new", &topics, &[], -1));
        let third = Assignor::Sticky.assign(&counts, &members);
        check_balanced(&members, &third)?;
        let moved: usize = members
            .iter()
            .filter(|m| &*m.member_id != "new")
            .map(|m| second[&m.member_id].difference(&third[&m.member_id]).count())
            .sum();
        prop_assert_eq!(moved, third["new"].len());
    }

    #[test]
    fn cooperative_sticky_comes_to_rest_balanced_and_never_gives_what_another_has(
        (counts, mut members) in any::<bool>().prop_flat_map(groups),
        comes in any::<bool>(),
    ) {
        let first = Assignor::Sticky.assign(&counts, &members);
        settle(&mut members, &first, 1);
        if comes {
            members.push(member("new", &["t0", "t1", "t2"], &[], -1));
        } else if members.len() > 1 {
            members.pop();
        }
        for round in 2..5 {
            let assigned = Assignor::CooperativeSticky.assign(&counts, &members);
            for (id, partitions) in &assigned {
                for other in members.iter().filter(|other| other.member_id != *id) {
                    prop_assert!(partitions.is_disjoint(&other.owned));
                }
            }
            settle(&mut members, &assigned, round);
        }
        let last = Assignor::CooperativeSticky.assign(&counts, &members);
        check_complete(&counts, &members, &last)?;
        check_balanced(&members, &last)?;
    }
}
