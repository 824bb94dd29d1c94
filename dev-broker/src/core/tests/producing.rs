//! Produce: what is taken, what is refused, and with which code.

use millstream_protocol::messages::ProducePartitionResponse;
use millstream_protocol::{ErrorCode, ProducerIdAndEpoch};

use super::TestCluster;
use super::scripted_client::{Write, patched};
use crate::core::ClusterConfig;

fn codes(answers: &[ProducePartitionResponse]) -> Vec<(ErrorCode, i64)> {
    answers.iter().map(|answer| (answer.error_code, answer.base_offset)).collect()
}

#[test]
fn offsets_grow_by_the_records_of_each_batch() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 2);
    let answers = [
        test.produce(9, &Write::plain(0, &["a", "b"])),
        test.produce(9, &Write::plain(0, &["c"])),
        test.produce(9, &Write::plain(1, &["d"])),
        test.produce(9, &Write::plain(2, &["e"])),
    ];
    assert_eq!(
        codes(&answers),
        [
            (ErrorCode::NONE, 0),
            (ErrorCode::NONE, 2),
            (ErrorCode::NONE, 0),
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1),
        ]
    );
}

#[test]
fn sequences_are_checked_per_producer_and_the_last_five_batches_are_recognised() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 1);
    let identity = test.init(5, None, ProducerIdAndEpoch::NONE).expect("an identity");
    let write = |sequence, identity| Write::plain(0, &["x"]).idempotent(identity, sequence);
    let mut answers = Vec::new();
    for sequence in 0..6 {
        answers.push(test.produce(9, &write(sequence, identity)));
    }
    // Batch 1 is within the window, batch 0 is not any more, 7 leaves a gap.
    answers.push(test.produce(9, &write(1, identity)));
    answers.push(test.produce(9, &write(0, identity)));
    answers.push(test.produce(9, &write(7, identity)));
    let newer = ProducerIdAndEpoch { producer_epoch: 1, ..identity };
    answers.push(test.produce(9, &write(6, newer)));
    answers.push(test.produce(9, &write(0, newer)));
    answers.push(test.produce(9, &write(6, identity)));
    let expected = [
        (ErrorCode::NONE, 0),
        (ErrorCode::NONE, 1),
        (ErrorCode::NONE, 2),
        (ErrorCode::NONE, 3),
        (ErrorCode::NONE, 4),
        (ErrorCode::NONE, 5),
        (ErrorCode::NONE, 1),
        (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (ErrorCode::NONE, 6),
        (ErrorCode::INVALID_PRODUCER_EPOCH, -1),
    ];
    assert_eq!(codes(&answers), expected);
}

#[test]
fn sequences_wrap_to_zero() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 1);
    let identity = test.init(5, None, ProducerIdAndEpoch::NONE).expect("an identity");
    let write = |sequence| Write::plain(0, &["x"]).idempotent(identity, sequence);
    let answers = [
        test.produce(9, &write(i32::MAX - 1)),
        test.produce(9, &write(i32::MAX)),
        test.produce(9, &write(0)),
        test.produce(9, &write(1)),
    ];
    let expected: Vec<_> = (0..4).map(|offset| (ErrorCode::NONE, offset)).collect();
    assert_eq!(codes(&answers), expected);
}

#[test]
fn an_unknown_producer_must_begin_at_zero_from_version_12_on() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 1);
    let identity = test.init(5, None, ProducerIdAndEpoch::NONE).expect("an identity");
    let write = Write::plain(0, &["x"]).idempotent(identity, 3);
    assert_eq!(test.produce(12, &write).error_code, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(test.produce(11, &write).error_code, ErrorCode::NONE);
}

#[test]
fn malformed_batches_are_refused() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 1);
    let write = Write::plain(0, &["a", "b"]);
    let good = write.batch();
    let two: bytes::Bytes = [&good[..], &good[..]].concat().into();
    let mut damaged = good.to_vec();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let cases = [
        (two, ErrorCode::INVALID_RECORD),
        (damaged.into(), ErrorCode::CORRUPT_MESSAGE),
        (good.slice(..40), ErrorCode::CORRUPT_MESSAGE),
        (bytes::Bytes::new(), ErrorCode::CORRUPT_MESSAGE),
        // Base offset 1, magic 1, control bit, last offset delta 2, record count 3.
        (patched(&good, 7, &[1]), ErrorCode::INVALID_RECORD),
        (patched(&good, 16, &[1]), ErrorCode::INVALID_RECORD),
        (patched(&good, 22, &[0x20]), ErrorCode::INVALID_RECORD),
        (patched(&good, 26, &[2]), ErrorCode::INVALID_RECORD),
        (patched(&good, 60, &[3]), ErrorCode::INVALID_RECORD),
        // An unknown codec.
        (patched(&good, 22, &[5]), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        (good.clone(), ErrorCode::NONE),
    ];
    for (index, (records, expected)) in cases.into_iter().enumerate() {
        let millstream_protocol::Response::Produce(response) =
            test.call(9, write.request_with(records))
        else {
            panic!("wrong answer")
        };
        assert_eq!(response.topics[0].partitions[0].error_code, expected, "case {index}");
    }
}

#[test]
fn topic_settings_bound_what_is_taken() {
    let mut test = TestCluster::new(ClusterConfig::default());
    let created = [
        test.create_topic("t", 1, &[("max.message.bytes", "100")]),
        test.create_topic("compact", 1, &[("cleanup.policy", "compact")]),
        test.create_topic("stamped", 1, &[("message.timestamp.type", "LogAppendTime")]),
        test.create_topic("late", 1, &[("message.timestamp.before.max.ms", "1000")]),
        test.create_topic("alone", 1, &[("min.insync.replicas", "2")]),
        test.create_topic("bad", 1, &[("cleanup.policy", "shred")]),
        test.create_topic("bad", 1, &[("no.such.thing", "1")]),
        test.create_topic("bad", 0, &[]),
        test.create_topic("t", 1, &[]),
        test.create_topic("a/b", 1, &[]),
    ];
    assert_eq!(
        created,
        [
            ErrorCode::NONE,
            ErrorCode::NONE,
            ErrorCode::NONE,
            ErrorCode::NONE,
            ErrorCode::NONE,
            ErrorCode::INVALID_CONFIG,
            ErrorCode::INVALID_CONFIG,
            ErrorCode::INVALID_PARTITIONS,
            ErrorCode::TOPIC_ALREADY_EXISTS,
            ErrorCode::INVALID_TOPIC_EXCEPTION,
        ]
    );
    test.advance(std::time::Duration::from_secs(5));
    let on =
        |topic| Write { topic, ..Write::plain(0, &["0123456789012345678901234567890123456789"]) };
    let answers = [
        test.produce(9, &on("t")),
        test.produce(9, &on("compact")),
        test.produce(9, &on("stamped")),
        test.produce(9, &on("late")),
        test.produce(9, &on("alone")),
    ];
    let seen: Vec<_> = answers
        .iter()
        .map(|answer| (answer.error_code, answer.log_append_time_ms, answer.record_errors.len()))
        .collect();
    assert_eq!(
        seen,
        [
            (ErrorCode::MESSAGE_TOO_LARGE, -1, 0),
            (ErrorCode::NONE, -1, 0),
            (ErrorCode::NONE, test.wall_clock_ms(), 0),
            (ErrorCode::INVALID_TIMESTAMP, -1, 1),
            (ErrorCode::NOT_ENOUGH_REPLICAS, -1, 0),
        ]
    );
}
