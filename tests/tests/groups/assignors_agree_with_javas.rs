//! Java's assignors and ours, on the same members, through bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use millstream_protocol::TopicPartition;
use millstream_protocol::group::assignor::{
    Assignments, Assignor, MemberSubscription, PartitionCounts,
};
use millstream_protocol::group::consumer_protocol::{Assignment, StickyUserData, Subscription};
use millstream_testcontainers::{
    Availability, JavaAssignment, JavaClient, JavaGroupMember, availability, skip,
};
use millstream_tests::random::Random;

const ROUNDS: usize = 60;

struct Group {
    counts: PartitionCounts,
    members: Vec<JavaGroupMember>,
}

fn class(assignor: Assignor) -> String {
    let name = match assignor {
        Assignor::Range => "RangeAssignor",
        Assignor::RoundRobin => "RoundRobinAssignor",
        Assignor::Sticky => "StickyAssignor",
        Assignor::CooperativeSticky => "CooperativeStickyAssignor",
    };
    format!("org.apache.kafka.clients.consumer.{name}")
}

/// Up to three topics and six members. The sticky assignors choose freely where subscriptions differ, so `alike` there.
fn random_group(random: &mut Random, assignor: Assignor, alike: bool) -> Group {
    let topics: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).to_vec();
    let counts =
        topics.iter().map(|topic| (Arc::clone(topic), i32::try_from(random.number(1..9)).unwrap()));
    let counts: PartitionCounts = counts.collect();
    let members = (0..random.number(1..7)).map(|index| {
        let subscribed: BTreeSet<_> =
            topics.iter().filter(|_| alike || random.number(0..3) > 0).cloned().collect();
        let none = BTreeSet::new();
        let metadata = assignor.subscription(&subscribed, &none, -1, (&none, -1)).unwrap();
        JavaGroupMember {
            member_id: format!("member-{}", random.number(0..1000) * 10 + index),
            group_instance_id: (random.number(0..4) == 0).then(|| format!("instance-{index}")),
            subscription: metadata.to_vec(),
        }
    });
    Group { counts, members: members.collect() }
}

impl Group {
    fn ours(&self, assignor: Assignor) -> (Vec<MemberSubscription>, Assignments) {
        let members: Vec<_> = self
            .members
            .iter()
            .map(|member| {
                let id = Arc::from(member.member_id.as_str());
                let instance_id = member.group_instance_id.as_deref().map(Arc::from);
                let metadata = Bytes::from(member.subscription.clone());
                assignor.member(id, instance_id, metadata).unwrap()
            })
            .collect();
        let assignments = assignor.assign(&self.counts, &members);
        (members, assignments)
    }

    fn javas(
        &self,
        java: &JavaClient,
        assignor: Assignor,
        generation: i32,
    ) -> (JavaAssignment, Assignments) {
        let topics = self.counts.iter().map(|(topic, count)| (topic.to_string(), *count)).collect();
        let answer = java.assign(&class(assignor), &topics, &self.members, generation).unwrap();
        let read = answer.assignments.iter().map(|(id, bytes)| {
            let assignment = Assignment::decode(Bytes::from(bytes.clone())).unwrap();
            (Arc::from(id.as_str()), assignment.partitions.into_iter().collect())
        });
        let assignments = read.collect();
        (answer, assignments)
    }
}

fn java(name: &str) -> Option<JavaClient> {
    if *availability() != Availability::Jars {
        skip(name, "no JVM for Kafka's Java client");
        return None;
    }
    Some(JavaClient::start().unwrap())
}

#[test]
fn range_and_roundrobin_give_what_javas_give() {
    let name = "range_and_roundrobin_give_what_javas_give";
    let Some(java) = java(name) else { return };
    let mut random = Random::from_environment(name);
    for round in 0..ROUNDS {
        for assignor in [Assignor::Range, Assignor::RoundRobin] {
            let group = random_group(&mut random, assignor, round % 2 == 0);
            let ours = group.ours(assignor).1;
            let (_, javas) = group.javas(&java, assignor, 1);
            assert_eq!(ours, javas, "{assignor} {:?} {:?}", group.counts, group.members);
        }
    }
}

#[test]
fn subscriptions_are_written_as_java_writes_them() {
    let name = "subscriptions_are_written_as_java_writes_them";
    let Some(java) = java(name) else { return };
    let mut random = Random::from_environment(name);
    for generation in 1..20 {
        for assignor in Assignor::ALL {
            let group = random_group(&mut random, assignor, true);
            let (answer, assigned) = group.javas(&java, assignor, generation);
            let topics: BTreeSet<_> = group.counts.keys().cloned().collect();
            for (id, javas) in answer.subscriptions {
                let owned = &assigned[&*id];
                let last = (owned, generation);
                let ours = assignor.subscription(&topics, owned, generation, last).unwrap();
                let javas = Bytes::from(javas);
                if assignor == Assignor::Sticky {
                    // Java writes the topics of its user data in the order of a hash table.
                    let read = |bytes: &Bytes| {
                        let mut read = Subscription::decode(bytes.clone()).unwrap();
                        let data = StickyUserData::decode(read.user_data.take().unwrap()).unwrap();
                        let previous: BTreeSet<_> = data.previous_assignment.into_iter().collect();
                        (read, previous, data.generation)
                    };
                    assert_eq!(read(&ours), read(&javas));
                } else {
                    assert_eq!(ours, javas, "{assignor}, member {id} with {owned:?}");
                }
            }
        }
    }
}

/// How many partitions each member has, ascending, and how many stayed with their owner.
fn shape(members: &[MemberSubscription], assignments: &Assignments) -> (Vec<usize>, usize) {
    let mut loads: Vec<_> = assignments.values().map(BTreeSet::len).collect();
    loads.sort_unstable();
    let kept = members.iter().map(|member| {
        let assigned: &BTreeSet<TopicPartition> = &assignments[&member.member_id];
        assigned.intersection(&member.owned).count()
    });
    (loads, kept.sum())
}

#[test]
fn the_sticky_assignors_balance_as_javas_and_keep_as_much() {
    let name = "the_sticky_assignors_balance_as_javas_and_keep_as_much";
    let Some(java) = java(name) else { return };
    let mut random = Random::from_environment(name);
    for _ in 0..ROUNDS {
        for assignor in [Assignor::Sticky, Assignor::CooperativeSticky] {
            let mut group = random_group(&mut random, assignor, true);
            for generation in 1..5 {
                let (members, ours) = group.ours(assignor);
                let (answer, javas) = group.javas(&java, assignor, generation);
                let (ours, javas) = (shape(&members, &ours), shape(&members, &javas));
                let what = format!("{assignor} {:?} {members:?}", group.counts);
                assert_eq!(ours.1, javas.1, "{what}");
                // Who of several equals waits for a partition on its way is each assignor's choice.
                if assignor == Assignor::Sticky {
                    assert_eq!(ours.0, javas.0, "{what}");
                }
                // Java's members go on with what Java's leader gave; then one comes, or goes.
                let next: BTreeMap<_, _> = answer.subscriptions;
                for member in &mut group.members {
                    member.subscription = next[&member.member_id].clone();
                }
                let other = random_group(&mut random, assignor, true).members.swap_remove(0);
                if random.number(0..2) == 0 && group.members.len() > 1 {
                    group.members.pop();
                } else if !next.contains_key(&other.member_id) {
                    group.members.push(other);
                }
            }
        }
    }
}
