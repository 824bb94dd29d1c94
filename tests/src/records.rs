//! Records through our client, in the terms of the Java client, so that the two can be compared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::records::{
    Appended, BatchBuilder, Compression, DecodeLimits, RecordView, SealedBatch, VisibleBatches,
};
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    FetchEvent, FetchStart, KafkaClient, OffsetSpec, ProduceError, Producer,
};
use millstream_testcontainers::{JavaRecord, ProducedRecord};

const BATCH_BYTES: usize = 16 * 1024;
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until no transaction is open in a topic: a commit is answered before its markers are in the log, and until they are,
/// readers of committed records do not see the end.
///
/// # Panics
///
/// If anything fails, or after a minute.
pub async fn settled(client: &KafkaClient, topic: &str) {
    let ends = async |isolation| {
        let description = client.describe_topic(topic).await.unwrap().expect("the topic exists");
        let asked = description
            .partitions
            .iter()
            .map(|partition| (TopicPartition::new(topic, partition.partition), OffsetSpec::Latest));
        let listed = client.list_offsets(&asked.collect::<Vec<_>>(), isolation).await.unwrap();
        listed.into_iter().map(|(partition, end)| (partition, end.offset)).collect::<Vec<_>>()
    };
    let settling = async {
        // The markers themselves move the end.
        while ends(IsolationLevel::ReadCommitted).await
            != ends(IsolationLevel::ReadUncommitted).await
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, settling).await.expect("no transaction stays open");
}

/// Reads every partition of a topic from its beginning to the end that it has now. Sorted by partition and offset.
///
/// # Panics
///
/// If anything fails, or after a minute.
pub async fn consume_all(
    client: &KafkaClient,
    topic: &str,
    isolation: IsolationLevel,
) -> Vec<ProducedRecord> {
    let reading = consume(client, topic, isolation);
    tokio::time::timeout(LIMIT, reading).await.expect("the end of the topic is reached in time")
}

async fn consume(
    client: &KafkaClient,
    topic: &str,
    isolation: IsolationLevel,
) -> Vec<ProducedRecord> {
    let description = client.describe_topic(topic).await.unwrap().expect("the topic exists");
    let asked = |spec: OffsetSpec| -> Vec<(TopicPartition, OffsetSpec)> {
        let partitions = description.partitions.iter();
        partitions.map(|p| (TopicPartition::new(topic, p.partition), spec)).collect()
    };
    let starts = client.list_offsets(&asked(OffsetSpec::Earliest), isolation).await.unwrap();
    let ends = client.list_offsets(&asked(OffsetSpec::Latest), isolation).await.unwrap();
    let mut left: BTreeMap<TopicPartition, i64> = ends
        .into_iter()
        .filter(|(partition, end)| starts[partition].offset < end.offset)
        .map(|(partition, end)| (partition, end.offset))
        .collect();
    let positions = left.keys().map(|topic_partition| FetchStart {
        topic_partition: topic_partition.clone(),
        offset: starts[topic_partition].offset,
        leader_epoch: -1,
    });
    let mut consumer = client.partition_consumer(positions.collect(), isolation, Arc::new(|| {}));
    let mut records = Vec::new();
    while !left.is_empty() {
        let (partition, position) = match consumer.next().await.expect("the client is open") {
            FetchEvent::Progress { topic_partition, position, .. } => (topic_partition, position),
            FetchEvent::Failed { topic_partition, error } => {
                panic!("{topic_partition}: {error}")
            }
            FetchEvent::Records(fetched) => {
                let (partition, next) = (fetched.topic_partition, fetched.next_offset);
                let end = left.get(&partition).copied().unwrap_or(i64::MIN);
                let batches = VisibleBatches::new(
                    fetched.records,
                    fetched.fetch_offset,
                    fetched.aborted_transactions,
                    fetched.isolation_level,
                    DecodeLimits::default(),
                );
                for batch in batches {
                    let Some(block) = batch.unwrap().records else { continue };
                    let views = block.iter().map(Result::unwrap);
                    let wanted = views.filter(|view| view.offset < end);
                    records.extend(wanted.map(|view| owned(partition.partition, &view)));
                }
                (partition, next)
            }
        };
        if left.get(&partition).is_some_and(|end| position >= *end) {
            left.remove(&partition);
        }
    }
    records.sort();
    records
}

fn owned(partition: i32, view: &RecordView<'_>) -> ProducedRecord {
    ProducedRecord {
        partition,
        offset: view.offset,
        timestamp: view.timestamp,
        key: view.key.map(<[u8]>::to_vec),
        value: view.value.map(<[u8]>::to_vec),
        headers: view
            .headers
            .map(|header| {
                let name = String::from_utf8(header.key.to_vec()).expect("names are UTF-8");
                (name, header.value.map(<[u8]>::to_vec))
            })
            .collect(),
    }
}

/// Sends the records to their partitions (0 if they name none) under `tag`, and waits until they are acknowledged.
///
/// # Panics
///
/// If anything fails.
pub async fn send(
    producer: &Producer,
    topic: &str,
    compression: Compression,
    records: &[JavaRecord],
    tag: u64,
) {
    let mut by_partition: BTreeMap<i32, Vec<&JavaRecord>> = BTreeMap::new();
    for record in records {
        by_partition.entry(record.partition.unwrap_or(0)).or_default().push(record);
    }
    for (partition, records) in by_partition {
        for batch in batches(compression, &records) {
            producer.send_batch(TopicPartition::new(topic, partition), batch, tag);
        }
    }
    producer.flush(tag).await.expect("the records are acknowledged");
}

fn batches(compression: Compression, records: &[&JavaRecord]) -> Vec<SealedBatch> {
    let mut builder = BatchBuilder::new(compression, BATCH_BYTES);
    let mut sealed = Vec::new();
    for record in records {
        let headers: Vec<(&[u8], Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_deref()))
            .collect();
        let append = |builder: &mut BatchBuilder| {
            let timestamp = record.timestamp.unwrap_or(0);
            builder
                .append(timestamp, record.key.as_deref(), record.value.as_deref(), &headers)
                .unwrap()
        };
        if append(&mut builder) == Appended::Full {
            sealed.extend(builder.build().unwrap());
            assert_ne!(append(&mut builder), Appended::Full, "an empty batch takes any record");
        }
    }
    sealed.extend(builder.build().unwrap());
    sealed
}

/// Opens a transaction, sends the records in it, and commits or aborts.
///
/// # Panics
///
/// If anything fails.
pub async fn send_in_transaction(
    client: &KafkaClient,
    transactional_id: &str,
    topic: &str,
    compression: Compression,
    records: &[JavaRecord],
    commit: bool,
) {
    let producer = client.producer(Some(transactional_id));
    initialize(&producer).await;
    producer.begin_transaction(1).expect("a transaction can begin");
    send(&producer, topic, compression, records, 1).await;
    let ended = match commit {
        true => producer.commit_transaction(LIMIT).await,
        false => producer.abort_transaction().await,
    };
    ended.expect("the transaction ends");
}

async fn initialize(producer: &Producer) {
    let fenced = async {
        while let Err(error) = producer.init_transactions().await {
            assert!(matches!(error, ProduceError::ConcurrentTransactions { .. }), "{error}");
        }
    };
    tokio::time::timeout(LIMIT, fenced).await.expect("the producer is initialized in time");
}
