//! Fetch sessions (KIP-227), and what ends them.

use std::sync::Arc;

use millstream_protocol::records::Compression;
use millstream_protocol::{ErrorCode, IsolationLevel};
use millstream_protocol_client::{
    FetchError, FetchEvent, FetchStart, KafkaClient, PartitionConsumer,
};
use millstream_testcontainers::{FaultRule, JavaRecord, api_key};
use millstream_tests::records::{consume_all, send};

use crate::clusters::{Arena, matched, partition, unique};

fn record(number: usize) -> JavaRecord {
    JavaRecord {
        partition: Some(0),
        value: Some(number.to_string().into_bytes()),
        ..JavaRecord::default()
    }
}

fn reader(client: &KafkaClient, topic: &str) -> PartitionConsumer {
    let start = |index| FetchStart {
        topic_partition: partition(topic, index),
        offset: 0,
        leader_epoch: -1,
    };
    let starts = vec![start(0), start(1)];
    client.partition_consumer(starts, IsolationLevel::ReadCommitted, Arc::new(|| {}))
}

/// The next `count` values.
async fn values(reader: &mut PartitionConsumer, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    while values.len() < count {
        match reader.next().await.expect("the client is open") {
            FetchEvent::Records(fetched) => {
                for batch in fetched.visible_batches(Default::default()) {
                    let Some(block) = batch.unwrap().records else { continue };
                    for view in block.iter() {
                        let value = view.unwrap().value.unwrap().to_vec();
                        values.push(String::from_utf8(value).unwrap());
                    }
                }
            }
            FetchEvent::Progress { .. } => {}
            FetchEvent::Failed { topic_partition, error } => panic!("{topic_partition}: {error}"),
        }
    }
    values
}

/// The broker answers a request of the session with `code`, once: nothing is lost and nothing comes twice.
async fn broken_session(arena: &'static Arena, code: ErrorCode) {
    let id = unique("sessions");
    let client = arena.client(&id, &["fetch.max.wait.ms=100"]).await;
    let topic = arena.topic(&client, 2, &[]).await;
    let producer = client.producer(None);
    let mut reader = reader(&client, &topic);
    send(&producer, &topic, Compression::None, &[record(0)], 0).await;
    assert_eq!(values(&mut reader, 1).await, ["0"]);

    // A flexible header, then throttle time, code, session, no topics.
    let mut body = vec![0];
    body.extend(0_i32.to_be_bytes());
    body.extend(code.0.to_be_bytes());
    body.extend([0, 0, 0, 0, 1, 0]);
    assert!(arena.versions(&id, api_key::FETCH).iter().all(|version| *version >= 12));
    let rule = FaultRule::responses(api_key::FETCH).of_client(&id).times(1).replace(body);
    let rules = arena.rule(&rule);
    let mut sent = 1;
    while matched(&rules) == 0 {
        send(&producer, &topic, Compression::None, &[record(sent)], 0).await;
        sent += 1;
    }
    send(&producer, &topic, Compression::None, &[record(sent)], 0).await;
    let expected: Vec<_> = (1..=sent).map(|number| number.to_string()).collect();
    assert_eq!(values(&mut reader, sent).await, expected);
}

/// The broker has given the session's place to another one.
pub(crate) async fn sessions_evicted_session(arena: &'static Arena) {
    broken_session(arena, ErrorCode::FETCH_SESSION_ID_NOT_FOUND).await;
}

pub(crate) async fn sessions_invalid_session_epoch(arena: &'static Arena) {
    broken_session(arena, ErrorCode::INVALID_FETCH_SESSION_EPOCH).await;
}

/// Positions of a topic mean nothing in another topic of the same name.
pub(crate) async fn sessions_topic_recreate(arena: &'static Arena) {
    // No metadata come in time to tell: the broker itself must miss the topic that is asked for.
    let id = unique("sessions");
    let client = arena.client(&id, &["fetch.max.wait.ms=100"]).await;
    let topic = arena.topic(&client, 2, &[]).await;
    let producer = client.producer(None);
    let mut reader = reader(&client, &topic);
    send(&producer, &topic, Compression::None, &[record(0)], 0).await;
    assert_eq!(values(&mut reader, 1).await, ["0"]);
    let other = arena.client(&unique("sessions"), &[]).await;
    other.delete_topic(&topic).await.unwrap();
    // Gone for the controller, not yet for every broker.
    let replicas = i16::try_from(arena.cluster.proxies().count()).unwrap();
    let anew = millstream_protocol_client::NewTopic::new(&topic, 2, replicas);
    crate::clusters::eventually("the topic can be made anew", || async {
        other.create_topic(anew.clone()).await.is_ok_and(|made| made).then_some(())
    })
    .await;
    // Its log does not end before the position.
    let records: Vec<_> = (10..13).map(record).collect();
    send(&other.producer(None), &topic, Compression::None, &records, 0).await;
    let error = loop {
        match reader.next().await.expect("the client is open") {
            FetchEvent::Failed { error, .. } => break error,
            FetchEvent::Records(fetched) => panic!("records of another topic: {fetched:?}"),
            FetchEvent::Progress { .. } => {}
        }
    };
    assert!(matches!(error, FetchError::TopicRecreated { .. }), "{error}");
    assert_eq!(arena.versions(&id, api_key::FETCH).iter().max(), Some(&13));
}

/// A client above its quota gets full answers without anything in them until its time has come.
pub(crate) async fn sessions_throttle_empty_full_response(arena: &'static Arena) {
    let Some(kafka) = arena.kafka() else { return };
    let id = unique("throttled");
    let servers = kafka.tool_bootstrap_servers();
    let args = ["--bootstrap-server", &servers, "--alter", "--add-config", QUOTA];
    let args = [&args[..], &["--entity-type", "clients", "--entity-name", &id]].concat();
    kafka.run_tool("kafka.admin.ConfigCommand", &args).unwrap();

    let free = arena.client(&unique("sessions"), &[]).await;
    let topic = arena.topic(&free, 1, &[]).await;
    let records: Vec<_> =
        (0..100).map(|n| JavaRecord { value: Some(vec![b'v'; 2_000]), ..record(n) }).collect();
    send(&free.producer(None), &topic, Compression::None, &records, 0).await;
    let throttled = arena.client(&id, &["max.partition.fetch.bytes=20000"]).await;
    let started = tokio::time::Instant::now();
    let read = consume_all(&throttled, &topic, IsolationLevel::ReadCommitted).await;
    assert_eq!(read.len(), records.len());
    let took = started.elapsed();
    assert!(took.as_millis() > 400, "160 kB within {took:?}: no throttling");
}

/// Bytes per second, over ten of them.
const QUOTA: &str = "consumer_byte_rate=15000";
