//! Read, process, write: output and offsets in one transaction (KIP-447), on real Kafka.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_protocol::records::Compression;
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    ClientConfig, ConsumerEvent, ConsumerGroupMetadata, GroupConsumer, KafkaClient, NewTopic,
    OffsetAndMetadata, ProduceError, Producer,
};
use millstream_testcontainers::{JavaRecord, KafkaCluster, real_kafka_or_skip};
use millstream_tests::records::{consume_all, send, settled};
use tokio::runtime::Runtime;

const LIMIT: Duration = Duration::from_secs(60);

fn record(value: usize) -> JavaRecord {
    JavaRecord {
        partition: Some(0),
        timestamp: Some(1_357_017_420_000),
        value: Some(value.to_string().into_bytes()),
        ..JavaRecord::default()
    }
}

async fn client(kafka: &KafkaCluster, protocol: &str) -> KafkaClient {
    let properties = [
        "group.id=billing".to_owned(),
        "auto.offset.reset=earliest".to_owned(),
        "enable.auto.commit=false".to_owned(),
        format!("group.protocol={protocol}"),
    ];
    let config = ClientConfig::new(kafka.bootstrap_servers()).with(properties).unwrap();
    KafkaClient::connect(config).await.unwrap()
}

/// Values and next offset of the next records, which must come.
async fn read(
    consumer: &mut GroupConsumer,
) -> (Vec<JavaRecord>, BTreeMap<TopicPartition, OffsetAndMetadata>) {
    loop {
        let event = tokio::time::timeout(LIMIT, consumer.next()).await.expect("an event in time");
        let ConsumerEvent::Records(fetched) = event.unwrap() else { continue };
        let (tp, next) = (fetched.topic_partition.clone(), fetched.next_offset);
        let epoch = fetched.leader_epoch;
        let mut records = Vec::new();
        for batch in fetched.visible_batches(Default::default()) {
            let Some(block) = batch.unwrap().records else { continue };
            for view in block.iter() {
                let value = view.unwrap().value.map(<[u8]>::to_vec);
                records.push(JavaRecord { value, ..record(0) });
            }
        }
        return (records, BTreeMap::from([(tp, OffsetAndMetadata::new(next, epoch))]));
    }
}

async fn initialize(producer: &Producer) {
    while let Err(error) = producer.init_transactions().await {
        assert!(matches!(error, ProduceError::ConcurrentTransactions { .. }), "{error}");
    }
}

/// Copies what the next fetch brings, in one transaction.
async fn copy(
    consumer: &mut GroupConsumer,
    producer: &Producer,
    group: Option<ConsumerGroupMetadata>,
    tag: u64,
) -> Result<usize, ProduceError> {
    let (records, offsets) = read(consumer).await;
    if producer.needs_bump() {
        producer.bump_epoch().await?;
    }
    producer.begin_transaction(tag)?;
    send(producer, "out", Compression::None, &records, tag).await;
    let group = group.unwrap_or_else(|| consumer.group_metadata());
    let sent = producer.send_offsets_to_transaction(&group, offsets).await;
    if let Err(error) = sent {
        producer.abort_transaction().await?;
        return Err(error);
    }
    producer.commit_transaction(LIMIT).await?;
    Ok(records.len())
}

async fn output_and_offsets_are_one(kafka: &KafkaCluster, protocol: &str) {
    let client = client(kafka, protocol).await;
    for topic in ["in", "out"] {
        client.create_topic(NewTopic::new(topic, 1, 1)).await.unwrap();
    }
    let input: Vec<_> = (0..100).map(record).collect();
    send(&client.producer(None), "in", Compression::None, &input[..50], 0).await;
    let producer = client.producer(Some("copier"));
    initialize(&producer).await;
    let mut consumer = client.group_consumer().unwrap();
    consumer.subscribe(["in"]);
    let mut copied = 0;
    while copied < 50 {
        copied +=
            copy(&mut consumer, &producer, None, 1 + u64::try_from(copied).unwrap()).await.unwrap();
    }
    // As a member that the group does not have any more: refused, and nothing of it counts.
    send(&client.producer(None), "in", Compression::None, &input[50..], 0).await;
    let stale = ConsumerGroupMetadata { generation_id: 0, ..consumer.group_metadata() };
    let refused = copy(&mut consumer, &producer, Some(stale), 1000).await.unwrap_err();
    assert!(matches!(refused, ProduceError::Abortable { .. }), "{refused}");
    let partitions = consumer.assignment();
    consumer.close().await.unwrap();
    // The next member begins where the last committed transaction ended.
    let mut consumer = client.group_consumer().unwrap();
    let committed = consumer.committed(&partitions).await.unwrap();
    assert_eq!(committed.values().map(|c| c.offset).collect::<Vec<_>>(), [50]);
    consumer.subscribe(["in"]);
    while copied < 100 {
        copied += copy(&mut consumer, &producer, None, 2000 + u64::try_from(copied).unwrap())
            .await
            .unwrap();
    }
    let committed = consumer.committed(&partitions).await.unwrap();
    assert_eq!(committed.values().map(|c| c.offset).collect::<Vec<_>>(), [100]);
    settled(&client, "out").await;
    let output = consume_all(&client, "out", IsolationLevel::ReadCommitted).await;
    let values: Vec<_> = output.into_iter().map(|record| record.value).collect();
    let expected: Vec<_> = input.into_iter().map(|record| record.value).collect();
    assert_eq!(values, expected);
    consumer.close().await.unwrap();
    client.close().await;
}

#[test]
fn output_and_offsets_of_a_group_are_committed_as_one() {
    let name = "output_and_offsets_of_a_group_are_committed_as_one";
    if !real_kafka_or_skip(name) {
        return;
    }
    for (level, protocol) in [(2, "classic"), (0, "classic"), (2, "consumer")] {
        let kafka = KafkaCluster::builder().transaction_version(level).start().unwrap();
        Runtime::new().unwrap().block_on(output_and_offsets_are_one(&kafka, protocol));
    }
}
