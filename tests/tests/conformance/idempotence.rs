//! Every record once, in order, whatever becomes of the answers.

use millstream_protocol::messages::kp::InitProducerIdRequest;
use millstream_protocol::records::Compression;
use millstream_protocol::{ErrorCode, IsolationLevel, ProducerIdAndEpoch, Request, Response};
use millstream_protocol_client::ProducerRecord;
use millstream_testcontainers::{FaultRule, JavaRecord, api_key};
use millstream_tests::records::{consume_all, send};
use millstream_tests::wire::WireClient;

use crate::clusters::{Arena, matched, partition, unique};
use crate::raw;

/// Small batches, and soon another try of what is not answered.
const PIPELINED: [&str; 4] =
    ["batch.size=200", "linger.ms=0", "request.timeout.ms=1500", "retry.backoff.ms=20"];

/// Writes 600 records in small batches, up to five requests in flight, while `rule` acts on them.
async fn pipelined(arena: &'static Arena, rule: impl Fn(&str) -> FaultRule) {
    let id = unique("idempotence");
    let client = arena.client(&id, &PIPELINED).await;
    let topic = arena.topic(&client, 2, &[]).await;
    let rules = arena.rule(&rule(&id));
    let producer = client.record_producer(None);
    let mut deliveries = Vec::new();
    for number in 0..600_i32 {
        let value = (number / 2).to_string();
        let record = ProducerRecord::to(&topic, value.as_bytes()).partition(number % 2);
        deliveries.push(producer.send(&record).await.unwrap());
    }
    producer.flush().await.unwrap();
    assert!(matched(&rules) > 0, "the rule has not acted");
    drop(rules);
    let mut acknowledged = Vec::new();
    for delivery in deliveries {
        let written = delivery.wait().await.unwrap();
        acknowledged.push((written.topic_partition.partition, written.offset));
    }
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    let read: Vec<_> = read
        .iter()
        .map(|record| (record.partition, record.offset, record.value.clone().unwrap()))
        .collect();
    let expected: Vec<_> = (0..2)
        .flat_map(|partition| {
            (0..300_i64).map(move |number| (partition, number, number.to_string().into_bytes()))
        })
        .collect();
    assert_eq!(read, expected);
    for ((partition, offset), number) in acknowledged.into_iter().zip(0..) {
        // A broker that had a batch already may not say where.
        assert!(offset.is_none_or(|offset| offset == number / 2), "{partition}: {offset:?}");
    }
}

pub(crate) async fn idempotence_dropped_responses(arena: &'static Arena) {
    pipelined(arena, |id| {
        FaultRule::requests(api_key::PRODUCE).of_client(id).skip(3).times(4).cut_after()
    })
    .await;
}

/// An answer that nobody asked for costs the connection, not a record.
pub(crate) async fn idempotence_duplicated_responses(arena: &'static Arena) {
    pipelined(arena, |id| {
        FaultRule::responses(api_key::PRODUCE).of_client(id).skip(3).times(4).twice()
    })
    .await;
}

pub(crate) async fn idempotence_reordered_responses(arena: &'static Arena) {
    pipelined(arena, |id| {
        FaultRule::responses(api_key::PRODUCE).of_client(id).skip(3).times(2).behind_next()
    })
    .await;
}

/// After the largest sequence number comes 0.
pub(crate) async fn idempotence_sequence_wrap(arena: &'static Arena) {
    let client = arena.client(&unique("idempotence"), &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    let tp = partition(&topic, 0);
    let servers = arena.servers();
    let mut broker = WireClient::connect(servers.split(',').next().unwrap());
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1);
    let identity = loop {
        let answer = broker.ask(Request::InitProducerId(request.clone()), 4);
        let Response::InitProducerId(answer) = answer else { panic!("{answer:?}") };
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => {
                break ProducerIdAndEpoch {
                    producer_id: answer.producer_id.0,
                    producer_epoch: answer.producer_epoch,
                };
            }
            code => assert!(code.is_retriable(), "{code}"),
        }
    };
    let mut sequence = i32::MAX - 1;
    for (records, next) in [(3, 1), (2, 3)] {
        let mut batch = raw::batch(records);
        batch.stamp(identity, sequence, false);
        assert_eq!(raw::produce(arena, &tp, batch), ErrorCode::NONE, "from {sequence}");
        sequence = millstream_protocol::records::increment_sequence(
            sequence,
            i32::try_from(records).unwrap(),
        );
        assert_eq!(sequence, next);
    }
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    assert_eq!(read.len(), 5);
}

/// Somebody wrote as this producer: its sequences do not fit any more, and start anew under the next epoch (KIP-360).
pub(crate) async fn idempotence_epoch_bump(arena: &'static Arena) {
    let client = arena.client(&unique("idempotence"), &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    let tp = partition(&topic, 0);
    let producer = client.producer(None);
    let record = |value: &str| JavaRecord {
        partition: Some(0),
        value: Some(value.as_bytes().to_vec()),
        ..JavaRecord::default()
    };
    send(&producer, &topic, Compression::None, &[record("ours 1")], 0).await;
    let before = producer.identity().unwrap();
    let mut foreign = raw::batch(5);
    foreign.stamp(before, 1, false);
    assert_eq!(raw::produce(arena, &tp, foreign), ErrorCode::NONE);

    for value in ["ours 2", "ours 3"] {
        send(&producer, &topic, Compression::None, &[record(value)], 0).await;
    }
    let after = producer.identity().unwrap();
    let next = ProducerIdAndEpoch { producer_epoch: before.producer_epoch + 1, ..before };
    assert_eq!(after, next);
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    let values: Vec<_> =
        read.iter().map(|r| str::from_utf8(r.value.as_ref().unwrap()).unwrap()).collect();
    let foreign = ["raw"; 5];
    assert_eq!(values, [&["ours 1"], &foreign[..], &["ours 2", "ours 3"]].concat());
}

/// A batch that the topic does not take is halved, and halved again; only a single record can be too large.
pub(crate) async fn idempotence_message_too_large_split(arena: &'static Arena) {
    let client = arena.client(&unique("idempotence"), &["batch.size=60000", "linger.ms=200"]).await;
    let topic = arena.topic(&client, 1, &[("max.message.bytes", "4000")]).await;
    let producer = client.record_producer(None);
    let mut deliveries = Vec::new();
    for number in 0..100_u8 {
        let value = [number; 300];
        let record = ProducerRecord::to(&topic, &value).partition(0);
        deliveries.push(producer.send(&record).await.unwrap());
    }
    producer.flush().await.unwrap();
    for (delivery, number) in deliveries.into_iter().zip(0..) {
        assert_eq!(delivery.wait().await.unwrap().offset, Some(number));
    }
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    let first: Vec<_> = read.iter().map(|record| record.value.as_ref().unwrap()[0]).collect();
    assert_eq!(first, (0..100).collect::<Vec<_>>());
    let too_large = ProducerRecord::to(&topic, &[0; 5_000]).partition(0);
    let refused = producer.send(&too_large).await.unwrap();
    assert!(producer.flush().await.is_err());
    assert!(refused.wait().await.is_err());
}
