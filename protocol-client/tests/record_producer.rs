//! Records through the dev broker, with its scripted faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig, FaultAction, FaultRule, Occurrence};
use millstream_protocol::records::{DecodeLimits, VisibleBatches};
use millstream_protocol::{ApiKey, ErrorCode, IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    ClientConfig, FetchEvent, FetchStart, KafkaClient, NewTopic, ProduceError, ProducerRecord,
    RecordProducer, SendError,
};

const TOPIC: &str = "records";
const PARTITIONS: i32 = 3;

async fn cluster(broker: DevBrokerConfig, properties: &[&str]) -> (DevBroker, KafkaClient) {
    let broker = DevBroker::start(broker).unwrap();
    let config = ClientConfig::new(broker.address()).with(properties).unwrap();
    let client = soon(KafkaClient::connect(config)).await.unwrap();
    soon(client.create_topic(NewTopic::new(TOPIC, PARTITIONS, 1))).await.unwrap();
    (broker, client)
}

/// A deadline for what must come.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time")
}

/// Offset and value of every visible record, by partition.
async fn read(
    client: &KafkaClient,
    isolation: IsolationLevel,
) -> BTreeMap<i32, Vec<(i64, Vec<u8>)>> {
    let mut found: BTreeMap<i32, Vec<(i64, Vec<u8>)>> = BTreeMap::new();
    let starts = (0..PARTITIONS).map(|partition| FetchStart {
        topic_partition: TopicPartition::new(TOPIC, partition),
        offset: 0,
        leader_epoch: -1,
    });
    let mut consumer = client.partition_consumer(starts.collect(), isolation, Arc::new(|| {}));
    let mut at_end = BTreeMap::new();
    while at_end.len() < PARTITIONS as usize {
        match soon(consumer.next()).await.expect("an event") {
            FetchEvent::Records(fetched) => {
                let partition = fetched.topic_partition.partition;
                if fetched.next_offset >= fetched.high_watermark {
                    at_end.insert(partition, ());
                }
                let batches = VisibleBatches::new(
                    fetched.records,
                    fetched.fetch_offset,
                    fetched.aborted_transactions,
                    fetched.isolation_level,
                    DecodeLimits::default(),
                );
                for batch in batches {
                    let Some(block) = batch.unwrap().records else { continue };
                    for record in &block {
                        let record = record.unwrap();
                        let value = record.value.unwrap_or_default().to_vec();
                        found.entry(partition).or_default().push((record.offset, value));
                    }
                }
            }
            FetchEvent::Progress { topic_partition, position, high_watermark, .. } => {
                if position >= high_watermark {
                    at_end.insert(topic_partition.partition, ());
                }
            }
            FetchEvent::Failed { topic_partition, error } => panic!("{topic_partition}: {error}"),
        }
    }
    found
}

async fn send(producer: &RecordProducer, partition: i32, value: &str) {
    let record = ProducerRecord::to(TOPIC, value.as_bytes()).partition(partition);
    soon(producer.send(&record)).await.unwrap();
}

#[tokio::test]
async fn every_record_is_where_its_delivery_says() {
    for compression in ["none", "lz4"] {
        let properties = [format!("compression.type={compression}"), "batch.size=4096".to_owned()];
        let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
        let (_broker, client) = cluster(DevBrokerConfig::default(), &properties).await;
        let producer = client.record_producer(None);
        let mut deliveries = Vec::new();
        for number in 0..5000_u32 {
            let (key, value) = (format!("key {}", number % 77), format!("value {number}"));
            let record = ProducerRecord::to(TOPIC, value.as_bytes());
            let record = if number % 2 == 0 { record.key(key.as_bytes()) } else { record };
            deliveries.push((soon(producer.send(&record)).await.unwrap(), value));
        }
        soon(producer.flush()).await.unwrap();
        let mut expected: BTreeMap<i32, Vec<(i64, Vec<u8>)>> = BTreeMap::new();
        for (delivery, value) in deliveries {
            let written = soon(delivery.wait()).await.unwrap();
            let place = expected.entry(written.topic_partition.partition).or_default();
            place.push((written.offset.unwrap(), value.into_bytes()));
        }
        let found = read(&client, IsolationLevel::ReadCommitted).await;
        assert_eq!(found, expected, "{compression}");
        assert_eq!(found.len(), PARTITIONS as usize);
        soon(client.close()).await;
    }
}

#[tokio::test]
async fn a_record_alone_is_sent_when_linger_is_over_without_a_flush() {
    let (_broker, client) = cluster(DevBrokerConfig::default(), &["linger.ms=1"]).await;
    let producer = client.record_producer(None);
    for offset in 0..3 {
        let record = ProducerRecord::to(TOPIC, b"alone").partition(1);
        let written = soon(soon(producer.send(&record)).await.unwrap().wait()).await.unwrap();
        assert_eq!(written.offset, Some(offset));
    }
    soon(client.close()).await;
}

#[tokio::test]
async fn a_lost_answer_and_an_error_neither_double_nor_reorder() {
    // Batches leave when they are full, however slow the machine: one of a single record can not be split. Nor can one that may
    // have been written, so this comes before answers are lost.
    let properties = ["batch.size=120", "linger.ms=10000"];
    let (broker, client) = cluster(DevBrokerConfig::default(), &properties).await;
    for (nth, action) in [
        (1, FaultAction::Error(ErrorCode::MESSAGE_TOO_LARGE)),
        (4, FaultAction::DropAfter),
        (6, FaultAction::DropBefore),
        (8, FaultAction::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER)),
    ] {
        broker.add_fault(FaultRule::new(ApiKey::Produce, Occurrence::Nth(nth), action));
    }
    let producer = client.record_producer(None);
    for number in 0..200 {
        send(&producer, number % PARTITIONS, &format!("{number:04}")).await;
    }
    soon(producer.flush()).await.unwrap();
    let found = read(&client, IsolationLevel::ReadCommitted).await;
    assert_eq!(found.values().map(Vec::len).sum::<usize>(), 200);
    for values in found.values() {
        assert!(values.is_sorted_by_key(|(_, value)| value.clone()), "{values:?}");
    }
    soon(client.close()).await;
}

#[tokio::test]
async fn only_what_was_committed_is_visible() {
    for transaction_version in [2, 0] {
        let config = DevBrokerConfig { transaction_version, ..DevBrokerConfig::default() };
        let (_broker, client) = cluster(config, &[]).await;
        let producer = client.record_producer(Some("tx"));
        let early = producer.try_send(&ProducerRecord::to(TOPIC, b"no transaction"));
        let early = early.expect_err("no transaction is open");
        assert!(matches!(early, SendError::Producer(ProduceError::InvalidState { .. })), "{early}");
        soon(producer.init_transactions()).await.unwrap();
        for (round, commit) in [(0, true), (1, false), (2, true), (3, true)] {
            soon(producer.begin_transaction()).await.unwrap();
            for partition in 0..PARTITIONS {
                send(&producer, partition, &format!("round {round}")).await;
            }
            if commit {
                soon(producer.commit_transaction()).await.unwrap();
            } else {
                soon(producer.flush()).await.unwrap();
                soon(producer.abort_transaction()).await.unwrap();
            }
        }
        let found = read(&client, IsolationLevel::ReadCommitted).await;
        for partition in 0..PARTITIONS {
            let values: Vec<_> =
                found[&partition].iter().map(|(_, value)| value.as_slice()).collect();
            assert_eq!(values, [&b"round 0"[..], b"round 2", b"round 3"]);
        }
        // Another owner fences this one.
        let other = client.record_producer(Some("tx"));
        soon(other.init_transactions()).await.unwrap();
        let begun = soon(producer.begin_transaction()).await;
        let fenced = match begun {
            Err(error) => SendError::from(error),
            Ok(()) => {
                send(&producer, 0, "of a zombie").await;
                soon(producer.commit_transaction()).await.expect_err("it is fenced")
            }
        };
        assert!(
            matches!(
                fenced,
                SendError::Producer(ProduceError::Fenced { .. } | ProduceError::Abortable { .. })
            ),
            "{fenced:?}"
        );
        let again = read(&client, IsolationLevel::ReadCommitted).await;
        assert_eq!(again.values().flatten().filter(|(_, v)| v == b"of a zombie").count(), 0);
        soon(client.close()).await;
    }
}

#[tokio::test]
async fn memory_is_bounded_and_waiting_ends_with_room() {
    let properties = ["buffer.memory=20000", "batch.size=5000", "max.block.ms=300"];
    let (broker, client) = cluster(DevBrokerConfig::default(), &properties).await;
    let producer = client.record_producer(None);
    send(&producer, 0, "first").await;
    soon(producer.flush()).await.unwrap();
    // Nothing is acknowledged for now.
    let held = FaultAction::Delay(Duration::from_millis(1500));
    broker.add_fault(FaultRule::new(ApiKey::Produce, Occurrence::First(1), held));
    let value = [b'x'; 1000];
    let record = ProducerRecord::to(TOPIC, &value).partition(0);
    let mut taken = 0;
    let full = loop {
        match producer.try_send(&record) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, SendError::Full { .. }), "{full}");
    assert!((20..40).contains(&taken), "{taken} records of 1000 bytes");
    let late = soon(producer.send(&record)).await.expect_err("no room in time");
    assert!(matches!(late, SendError::NoRoom { .. }), "{late}");
    soon(producer.flush()).await.unwrap();
    soon(producer.send(&record)).await.unwrap();
    soon(producer.flush()).await.unwrap();
    let found = read(&client, IsolationLevel::ReadCommitted).await;
    assert_eq!(found[&0].len(), taken + 2);
    soon(client.close()).await;
}

#[tokio::test]
async fn a_closed_client_leaves_nobody_waiting() {
    let (broker, client) = cluster(DevBrokerConfig::default(), &["linger.ms=0"]).await;
    let held = FaultAction::Delay(Duration::from_secs(600));
    broker.add_fault(FaultRule::new(ApiKey::Produce, Occurrence::Every, held));
    let producer = client.record_producer(None);
    let record = ProducerRecord::to(TOPIC, b"never answered").partition(0);
    let delivery = soon(producer.send(&record)).await.unwrap();
    let flushing = {
        let producer = producer.clone();
        tokio::spawn(async move { producer.flush().await })
    };
    soon(client.close()).await;
    assert!(soon(delivery.wait()).await.is_err());
    assert!(soon(flushing).await.unwrap().is_err());
}

/// Records of a batch that was still open: whoever waits for them is told when nobody will send them any more.
#[tokio::test]
async fn records_that_nobody_will_send_are_told_so() {
    let waits = ["linger.ms=60000"];
    let record = ProducerRecord::to(TOPIC, b"not sent yet").partition(0);
    // The last handle goes.
    let (_broker, client) = cluster(DevBrokerConfig::default(), &waits).await;
    let producer = client.record_producer(None);
    let delivery = soon(producer.send(&record)).await.unwrap();
    drop(producer);
    let told = soon(delivery.wait()).await;
    assert!(matches!(told, Err(ProduceError::Abortable { .. })), "{told:?}");
    // The client is closed; the producer may have a transaction or not.
    for id in [None, Some("tx")] {
        let (_broker, client) = cluster(DevBrokerConfig::default(), &waits).await;
        let producer = client.record_producer(id);
        if id.is_some() {
            soon(producer.init_transactions()).await.unwrap();
            soon(producer.begin_transaction()).await.unwrap();
        }
        let delivery = soon(producer.send(&record)).await.unwrap();
        soon(client.close()).await;
        let told = soon(delivery.wait()).await;
        assert!(matches!(told, Err(ProduceError::Fatal { .. })), "{told:?}");
        let more = soon(producer.send(&record)).await.map(|_| ());
        assert!(matches!(more, Err(SendError::Producer(ProduceError::Fatal { .. }))), "{more:?}");
        let closed = soon(producer.close()).await;
        assert!(closed.is_err(), "a record was lost: {closed:?}");
    }
}

/// What an idempotent producer has taken is no transaction's business.
#[tokio::test]
async fn verbs_of_transactions_are_refused_without_an_id_and_touch_nothing() {
    let (_broker, client) = cluster(DevBrokerConfig::default(), &["linger.ms=60000"]).await;
    let producer = client.record_producer(None);
    let record = ProducerRecord::to(TOPIC, b"kept").partition(0);
    let delivery = soon(producer.send(&record)).await.unwrap();
    let refused = [
        soon(producer.init_transactions()).await.map(|_| ()).map_err(SendError::from),
        soon(producer.begin_transaction()).await.map_err(SendError::from),
        soon(producer.commit_transaction()).await,
        producer.commit_and_begin_transaction().map(|_| ()),
        soon(producer.abort_transaction()).await,
    ];
    for verb in refused {
        assert!(
            matches!(verb, Err(SendError::Producer(ProduceError::InvalidState { .. }))),
            "{verb:?}"
        );
    }
    soon(producer.send(&record)).await.unwrap();
    soon(producer.flush()).await.unwrap();
    assert_eq!(soon(delivery.wait()).await.unwrap().offset, Some(0));
    assert_eq!(read(&client, IsolationLevel::ReadCommitted).await[&0].len(), 2);
    soon(client.close()).await;
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_an_error_in_time() {
    let (_broker, client) = cluster(DevBrokerConfig::default(), &["max.block.ms=100"]).await;
    let producer = client.record_producer(None);
    let error = soon(producer.send(&ProducerRecord::to("nowhere", b""))).await.unwrap_err();
    assert!(error.to_string().contains("topic 'nowhere' does not exist"), "{error}");
}
