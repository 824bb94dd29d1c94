use proptest::prelude::*;

use super::*;

fn partitions(list: &[(&str, i32)]) -> Vec<TopicPartition> {
    list.iter().map(|(topic, partition)| TopicPartition::new(*topic, *partition)).collect()
}

/// Bytes that Java's `ConsumerProtocol.serializeSubscription` writes (kafka-clients 4.3.1) for topics a and b, owned a-0 and
/// a-2, generation 7, and cooperative-sticky's user data.
#[test]
fn a_subscription_is_written_byte_for_byte_as_javas() {
    let subscription = Subscription {
        topics: ["b", "a"].map(Arc::from).into(),
        user_data: Some(StickyUserData::encode_generation(7)),
        owned_partitions: partitions(&[("a", 2), ("a", 0)]),
        generation_id: 7,
        rack_id: None,
    };
    let bytes = subscription.encode().unwrap();
    let expected: &[u8] = &[
        0, 3, // version
        0, 0, 0, 2, 0, 1, b'a', 0, 1, b'b', // topics
        0, 0, 0, 4, 0, 0, 0, 7, // user data
        0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, // owned
        0, 0, 0, 7, // generation
        0xff, 0xff, // rack
    ];
    assert_eq!(&bytes[..], expected);
    let read = Subscription::decode(bytes).unwrap();
    assert_eq!(
        read,
        Subscription { owned_partitions: partitions(&[("a", 0), ("a", 2)]), ..subscription }
    );
}

#[test]
fn older_subscriptions_are_read_with_what_they_lack_at_its_default() {
    let topics = [0, 0, 0, 1, 0, 1, b'a', 0xff, 0xff, 0xff, 0xff];
    let owned = [0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 1, 0, 0, 0, 5];
    let read = |version: u8, rest: &[&[u8]]| {
        let bytes = [&[0, version][..], &topics, &rest.concat()].concat();
        Subscription::decode(Bytes::from(bytes)).unwrap()
    };
    let plain = Subscription {
        topics: [Arc::from("a")].into(),
        generation_id: -1,
        ..Subscription::default()
    };
    assert_eq!(read(0, &[]), plain);
    let with_owned = Subscription { owned_partitions: partitions(&[("a", 5)]), ..plain };
    assert_eq!(read(1, &[&owned]), with_owned);
    let with_generation = Subscription { generation_id: 9, ..with_owned };
    assert_eq!(read(2, &[&owned, &[0, 0, 0, 9]]), with_generation);
    let with_rack = Subscription { rack_id: Some(Arc::from("r")), ..with_generation };
    assert_eq!(read(3, &[&owned, &[0, 0, 0, 9], &[0, 1, b'r']]), with_rack);
    // Of a version to come, what is known.
    assert_eq!(read(4, &[&owned, &[0, 0, 0, 9], &[0, 1, b'r'], &[1, 2, 3]]), with_rack);
}

/// Case B015: an assignment cut after the first of three topics.
#[test]
fn a_cut_assignment_is_an_error_and_not_a_smaller_assignment() {
    let assignment =
        Assignment { partitions: partitions(&[("a", 0), ("b", 1), ("c", 2)]), user_data: None };
    let bytes = assignment.encode().unwrap();
    assert_eq!(Assignment::decode(bytes.clone()).unwrap(), assignment);
    for length in 1..bytes.len() {
        assert!(Assignment::decode(bytes.slice(..length)).is_err(), "{length} bytes");
    }
    assert_eq!(Assignment::decode(Bytes::new()).unwrap(), Assignment::default());
}

#[test]
fn lengths_that_the_bytes_can_not_hold_are_refused_before_memory_is_taken() {
    let huge = [0, 3, 0x7f, 0xff, 0xff, 0xff];
    assert!(Subscription::decode(Bytes::copy_from_slice(&huge)).is_err());
    assert!(Assignment::decode(Bytes::copy_from_slice(&huge)).is_err());
    let huge_inside = [0, 3, 0, 0, 0, 1, 0, 1, b'a', 0x7f, 0xff, 0xff, 0xff];
    assert!(Assignment::decode(Bytes::copy_from_slice(&huge_inside)).is_err());
    assert!(StickyUserData::decode(Bytes::copy_from_slice(&huge[2..])).is_err());
}

#[test]
fn sticky_user_data_is_read_with_and_without_a_generation() {
    let data = StickyUserData { previous_assignment: partitions(&[("a", 1)]), generation: 4 };
    let bytes = data.encode().unwrap();
    assert_eq!(StickyUserData::decode(bytes.clone()).unwrap(), data);
    let older = StickyUserData::decode(bytes.slice(..bytes.len() - 4)).unwrap();
    assert_eq!(older, StickyUserData { generation: -1, ..data });
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        let _ = Subscription::decode(bytes.clone());
        let _ = Assignment::decode(bytes.clone());
        let _ = StickyUserData::decode(bytes);
    }
}
