use bytes::Bytes;
use millstream_protocol::fetch::FetchedPartition;
use millstream_protocol::{IsolationLevel, NodeId};

use super::*;

const HOLD_BACK: usize = 1000;

fn consumer() -> (PartitionConsumer, mpsc::UnboundedReceiver<Command>) {
    let (commands, received) = mpsc::unbounded_channel();
    let shared = Arc::new(ConsumerShared::new(Arc::new(|| ())));
    shared.hold_back_from(HOLD_BACK);
    (PartitionConsumer::new(1, shared, commands), received)
}

fn push(consumer: &PartitionConsumer, partition: i32, bytes: usize) {
    consumer.shared.push(FetchEvent::Records(FetchedPartition {
        topic_partition: TopicPartition::new("t", partition),
        node: NodeId(1),
        fetch_offset: 0,
        next_offset: 1,
        leader_epoch: 0,
        high_watermark: 1,
        last_stable_offset: 1,
        log_start_offset: 0,
        records: Bytes::from(vec![0; bytes]),
        aborted_transactions: Vec::new(),
        isolation_level: IsolationLevel::ReadCommitted,
    }));
}

fn told(received: &mut mpsc::UnboundedReceiver<Command>) -> usize {
    std::iter::from_fn(|| received.try_recv().ok())
        .filter(|command| matches!(command, Command::Wake))
        .count()
}

#[test]
fn the_driver_is_woken_once_for_what_may_hold_a_partition_back_and_finds_all_of_it() {
    let (mut consumer, mut received) = consumer();
    for (partition, bytes) in [(0, 100), (0, 300), (1, 99), (0, 1), (1, 700)] {
        push(&consumer, partition, bytes);
    }
    let mut wakes = Vec::new();
    while consumer.try_next().is_some() {
        wakes.push(told(&mut received));
    }
    assert_eq!(wakes, [0, 0, 0, 1, 0]);
    let mut released = Vec::new();
    assert_eq!(consumer.shared.take_released(&mut released), None);
    let of = |partition| TopicPartition::new("t", partition);
    assert_eq!(released, [(of(0), 400), (of(1), 99), (of(0), 1), (of(1), 700)]);
    released.clear();
    assert_eq!(consumer.shared.take_released(&mut released), None);
    assert_eq!(released, []);
    push(&consumer, 0, HOLD_BACK);
    assert!(consumer.try_next().is_some());
    assert_eq!(told(&mut received), 1);
}

#[test]
fn the_driver_finds_the_last_pace_once_and_is_not_woken_for_it() {
    let (consumer, mut received) = consumer();
    let now = Instant::now();
    let max_wait = Duration::from_millis(50);
    consumer.pace(now, 1, max_wait);
    consumer.pace(now, 2, max_wait);
    let take = || consumer.shared.take_released(&mut Vec::new());
    assert_eq!([take(), take()], [Some(Pace { until: now, min_bytes: 2, max_wait }), None]);
    assert!(received.try_recv().is_err());
}

/// Whatever comes in whatever portions: once a reader has taken everything, no partition can be held back by what the driver
/// has not been told.
#[test]
fn a_reader_that_has_taken_everything_holds_nothing_back() {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let (mut consumer, mut received) = consumer();
    let (mut unread, mut held_back, mut released) = (0, 0, Vec::new());
    for _ in 0..10_000 {
        let bytes = 1 + random(HOLD_BACK as u64 + 200) as usize;
        if unread < HOLD_BACK {
            push(&consumer, 0, bytes);
            unread += bytes;
        }
        for _ in 0..random(4) {
            consumer.try_next();
        }
        held_back += usize::from(unread >= HOLD_BACK);
        if told(&mut received) > 0 {
            consumer.shared.take_released(&mut released);
            unread -= released.drain(..).map(|(_, bytes)| bytes).sum::<usize>();
        }
        if consumer.shared.queue().events.is_empty() {
            assert!(unread < HOLD_BACK, "{unread} bytes are still counted as unread");
        }
    }
    assert!(held_back > 100, "it came to it {held_back} times");
}
