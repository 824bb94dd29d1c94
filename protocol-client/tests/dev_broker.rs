//! The client against the dev broker, with its scripted faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig, FaultAction, FaultRule, Occurrence};
use millstream_protocol::records::{
    BatchBuilder, Compression, DecodeLimits, SealedBatch, VisibleBatches,
};
use millstream_protocol::{ApiKey, ErrorCode, IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    AclFilter, ClientConfig, ClientError, CommittedOffset, ConfigResource, FetchEvent, FetchStart,
    KafkaClient, NewTopic, OffsetSpec, PartitionConsumer, ProduceError, TransactionFilter,
};

const COMMIT_LIMIT: Duration = Duration::from_secs(20);

async fn cluster(transaction_version: i16) -> (DevBroker, KafkaClient) {
    let config = DevBrokerConfig { transaction_version, ..DevBrokerConfig::default() };
    let broker = DevBroker::start(config).unwrap();
    let client = soon(KafkaClient::connect(ClientConfig::new(broker.address()))).await.unwrap();
    (broker, client)
}

/// A deadline for what must come.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time")
}

async fn topic(client: &KafkaClient, name: &str, partitions: i32) -> Vec<TopicPartition> {
    let new = NewTopic {
        name: name.to_owned(),
        partitions,
        replication_factor: 1,
        configs: BTreeMap::new(),
    };
    assert!(soon(client.create_topic(new)).await.unwrap());
    (0..partitions).map(|index| TopicPartition::new(name, index)).collect()
}

fn batch(values: &[&str]) -> SealedBatch {
    let mut builder = BatchBuilder::new(Compression::Lz4, 1 << 20);
    for value in values {
        builder.append(1_700_000_000_000, None, Some(value.as_bytes()), &[]).unwrap();
    }
    builder.build().unwrap().unwrap()
}

fn consumer(
    client: &KafkaClient,
    partitions: &[TopicPartition],
    isolation: IsolationLevel,
) -> PartitionConsumer {
    let starts = partitions.iter().map(|topic_partition| FetchStart {
        topic_partition: topic_partition.clone(),
        offset: 0,
        leader_epoch: -1,
    });
    client.partition_consumer(starts.collect(), isolation, Arc::new(|| {}))
}

/// Reads until `count` values have come, which must be all there are.
async fn values(consumer: &mut PartitionConsumer, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    while values.len() < count {
        match soon(consumer.next()).await.expect("open") {
            FetchEvent::Records(fetched) => {
                let batches = VisibleBatches::new(
                    fetched.records,
                    fetched.fetch_offset,
                    fetched.aborted_transactions,
                    fetched.isolation_level,
                    DecodeLimits::default(),
                );
                for batch in batches {
                    let Some(records) = batch.unwrap().records else { continue };
                    values.extend(records.iter().map(|record| {
                        String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap()
                    }));
                }
            }
            FetchEvent::Progress { .. } => {}
            FetchEvent::Failed { error, .. } => panic!("{error}"),
        }
    }
    values
}

#[tokio::test]
async fn administration() {
    let (broker, client) = cluster(2).await;
    assert_eq!((client.broker_count(), client.transaction_version()), (1, 2));
    assert_eq!(soon(client.describe_topic("t")).await.unwrap(), None);
    let mut new = NewTopic {
        name: "t".to_owned(),
        partitions: 3,
        replication_factor: 1,
        configs: [("cleanup.policy".to_owned(), "compact".to_owned())].into(),
    };
    assert!(soon(client.create_topic(new.clone())).await.unwrap());
    assert!(!soon(client.create_topic(new.clone())).await.unwrap());
    let described = soon(client.describe_topic("t")).await.unwrap().unwrap();
    assert_eq!(soon(client.describe_topic_once("t")).await.unwrap().as_ref(), Some(&described));
    assert_eq!(described.partitions.len(), 3);
    assert!(described.partitions.iter().all(|partition| partition.leader >= 0));
    let resource = ConfigResource::Topic("t".to_owned());
    let configs = soon(client.describe_configs(resource, &["cleanup.policy"])).await.unwrap();
    assert_eq!(configs["cleanup.policy"], "compact");
    let partitions = [TopicPartition::new("t", 0), TopicPartition::new("t", 1)];
    let latest = [(partitions[0].clone(), OffsetSpec::Latest)];
    let offsets = soon(client.list_offsets(&latest, IsolationLevel::ReadCommitted)).await.unwrap();
    assert_eq!(offsets[&partitions[0]].offset, 0);
    let commits = [(partitions[0].clone(), 5, -1)];
    soon(client.commit_offsets("g", &commits)).await.unwrap();
    let fetched = soon(client.fetch_offsets("g", &partitions, true)).await.unwrap();
    assert_eq!(fetched.into_values().collect::<Vec<_>>(), [Some(5), None]);
    soon(client.delete_topic("t")).await.unwrap();
    assert_eq!(soon(client.describe_topic("t")).await.unwrap(), None);
    let error = soon(client.delete_topic("t")).await.unwrap_err();
    assert!(matches!(error, ClientError::UnknownTopic { .. }), "{error}");
    new.name = "not a name".to_owned();
    let error = soon(client.create_topic(new)).await.unwrap_err();
    assert!(error.to_string().contains("INVALID_TOPIC_EXCEPTION"), "{error}");
    client.close().await;
    let error = soon(client.describe_topic("t")).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");
    broker.stop().await;
}

/// The dev broker has neither DescribeCluster, as brokers before 2.8, nor other calls that are newer than it.
#[tokio::test]
async fn older_brokers_describe_the_cluster_by_metadata_and_other_calls_name_what_is_missing() {
    let (broker, client) = cluster(2).await;
    let described = soon(client.describe_cluster()).await.unwrap();
    let address = broker.address().to_string();
    let brokers: Vec<_> =
        described.brokers.iter().map(|b| format!("{}:{}", b.host, b.port)).collect();
    assert_eq!(brokers, [address]);
    assert_eq!(described.controller, Some(described.brokers[0].id));
    assert!(!described.cluster_id.is_empty());
    assert_eq!(described.finalized_features[0].name, "transaction.version");
    assert_eq!(described.finalized_features[0].max_level, 2);
    topic(&client, "t", 1).await;
    let before = [(TopicPartition::new("t", 0), Some(0))].into();
    let errors = [
        soon(client.create_partitions("t", 2)).await.unwrap_err(),
        soon(client.delete_records(&before)).await.unwrap_err(),
        soon(client.describe_producers(&[TopicPartition::new("t", 0)])).await.unwrap_err(),
        soon(client.list_acls(&AclFilter::default())).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, ClientError::Unsupported { theirs_max: -1, .. }), "{error}");
    }
    broker.stop().await;
}

/// Answers that are lost or say "later" are asked for again; what is refused comes back with its name.
#[tokio::test]
async fn administration_calls_are_tried_again_where_that_may_help() {
    let (broker, client) = cluster(2).await;
    let topic = topic(&client, "t", 1).await;
    let producer = client.producer(Some("id"));
    soon(producer.init_transactions()).await.unwrap();
    soon(client.commit_offsets("g", &[(topic[0].clone(), 7, 3)])).await.unwrap();
    let faults = [
        (ApiKey::ListTransactions, 1, FaultAction::DropAfter),
        (ApiKey::ListTransactions, 2, FaultAction::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)),
        (ApiKey::DescribeTransactions, 1, FaultAction::Error(ErrorCode::NOT_COORDINATOR)),
        (ApiKey::OffsetFetch, 1, FaultAction::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE)),
        (ApiKey::DescribeConfigs, 1, FaultAction::DropBefore),
    ];
    for (api_key, nth, action) in faults {
        broker.add_fault(FaultRule::new(api_key, Occurrence::Nth(nth), action));
    }
    let listed = soon(client.list_transactions(&TransactionFilter::default())).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].transactional_id.as_str(), listed[0].state.as_str()), ("id", "Empty"));
    let described = soon(client.describe_transactions(&["id", "other"])).await;
    assert_eq!(described["id"].as_ref().unwrap().state, "Empty");
    let other = described["other"].as_ref().unwrap_err();
    let code = ErrorCode::TRANSACTIONAL_ID_NOT_FOUND;
    assert!(matches!(other, ClientError::Broker { code: c, .. } if *c == code), "{other}");
    let committed = soon(client.fetch_all_offsets("g", true)).await.unwrap();
    let expected = CommittedOffset { offset: 7, leader_epoch: 3, metadata: String::new() };
    assert_eq!(committed, [(topic[0].clone(), expected)].into());
    let resource = ConfigResource::Topic("t".to_owned());
    let entries = soon(client.describe_config_entries(&resource, &[])).await.unwrap();
    assert!(entries.iter().any(|entry| entry.name == "cleanup.policy"), "{entries:?}");
    broker.stop().await;
}

#[tokio::test]
async fn committed_records_are_read_and_aborted_ones_are_not() {
    for transaction_version in [0, 1, 2] {
        let (broker, client) = cluster(transaction_version).await;
        let partitions = topic(&client, "t", 2).await;
        let producer = client.producer(Some("id"));
        soon(producer.init_transactions()).await.unwrap();
        producer.begin_transaction(1).unwrap();
        producer.send_batch(partitions[0].clone(), batch(&["a", "b"]), 1);
        producer.send_batch(partitions[1].clone(), batch(&["c"]), 1);
        let offsets = soon(producer.flush(1)).await.unwrap();
        assert_eq!(offsets[&partitions[0]], 1);
        assert_eq!(soon(client.list_open_transactions("i")).await.unwrap(), ["id"]);
        soon(producer.commit_transaction(COMMIT_LIMIT)).await.unwrap();
        for (tag, value, commit) in [(2, "aborted", false), (3, "d", true)] {
            if producer.needs_bump() {
                soon(producer.bump_epoch()).await.unwrap();
            }
            producer.begin_transaction(tag).unwrap();
            producer.send_batch(partitions[0].clone(), batch(&[value]), tag);
            soon(producer.flush(tag)).await.unwrap();
            if commit {
                soon(producer.commit_transaction(COMMIT_LIMIT)).await.unwrap();
            } else {
                soon(producer.abort_transaction()).await.unwrap();
            }
        }
        let mut reader = consumer(&client, &partitions[..1], IsolationLevel::ReadCommitted);
        assert_eq!(values(&mut reader, 3).await, ["a", "b", "d"], "version {transaction_version}");
        let mut reader = consumer(&client, &partitions[..1], IsolationLevel::ReadUncommitted);
        assert_eq!(values(&mut reader, 4).await, ["a", "b", "aborted", "d"]);
        client.close().await;
        broker.stop().await;
    }
}

/// B073: a reader of committed records waits in the broker while a transaction is open, is not answered again and again, and
/// hears of the commit long before its waiting time is over.
#[tokio::test]
async fn a_long_poll_ends_soon_after_the_commit() {
    let broker = DevBroker::start(DevBrokerConfig::default()).unwrap();
    let mut config = ClientConfig::new(broker.address());
    config.fetch_max_wait = Duration::from_secs(50);
    config.fetch_min_bytes = 20;
    let client = soon(KafkaClient::connect(config)).await.unwrap();
    let partitions = topic(&client, "t", 1).await;
    let mut reader = consumer(&client, &partitions, IsolationLevel::ReadCommitted);
    let producer = client.producer(Some("id"));
    soon(producer.init_transactions()).await.unwrap();
    producer.begin_transaction(1).unwrap();
    for _ in 0..20 {
        producer.send_batch(partitions[0].clone(), batch(&["open", "still open"]), 1);
        soon(producer.flush(1)).await.unwrap();
    }
    let begun = tokio::time::Instant::now();
    soon(producer.commit_transaction(COMMIT_LIMIT)).await.unwrap();
    let mut progress = 0;
    loop {
        match soon(reader.next()).await.expect("open") {
            FetchEvent::Records(_) => break,
            FetchEvent::Progress { .. } => progress += 1,
            FetchEvent::Failed { error, .. } => panic!("{error}"),
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    assert!(progress <= 2, "{progress} answers without anything");
    client.close().await;
    broker.stop().await;
}

/// B112: neither what is buffered nor what is under way.
#[tokio::test]
async fn records_of_a_partition_that_was_taken_away_are_not_handed_out() {
    let (broker, client) = cluster(2).await;
    let partitions = topic(&client, "t", 2).await;
    let producer = client.producer(None);
    let mut reader = consumer(&client, &partitions, IsolationLevel::ReadCommitted);
    for partition in &partitions {
        producer.send_batch(partition.clone(), batch(&["x"]), 0);
    }
    soon(producer.flush(0)).await.unwrap();
    let kept = loop {
        if let FetchEvent::Records(fetched) = soon(reader.next()).await.expect("open") {
            break fetched.topic_partition;
        }
    };
    let taken = partitions.iter().find(|partition| **partition != kept).unwrap();
    reader.unassign(taken);
    for partition in &partitions {
        producer.send_batch(partition.clone(), batch(&["y"]), 1);
    }
    soon(producer.flush(1)).await.unwrap();
    loop {
        let event = soon(reader.next()).await.expect("open");
        assert_eq!(event.topic_partition(), &kept, "{event:?}");
        if matches!(event, FetchEvent::Records(_)) {
            break;
        }
    }
    client.close().await;
    broker.stop().await;
}

#[tokio::test]
async fn a_second_producer_of_the_same_id_fences_the_first() {
    let (broker, client) = cluster(2).await;
    let partitions = topic(&client, "t", 1).await;
    let first = client.producer(Some("id"));
    soon(first.init_transactions()).await.unwrap();
    first.begin_transaction(1).unwrap();
    first.send_batch(partitions[0].clone(), batch(&["zombie"]), 1);
    soon(first.flush(1)).await.unwrap();
    let second = client.producer(Some("id"));
    let met = soon(second.init_transactions()).await;
    assert!(matches!(met, Err(ProduceError::ConcurrentTransactions { .. })), "{met:?}");
    soon(async {
        while let Err(error) = second.init_transactions().await {
            assert!(matches!(error, ProduceError::ConcurrentTransactions { .. }), "{error}");
            tokio::task::yield_now().await;
        }
    })
    .await;
    let error = soon(first.commit_transaction(COMMIT_LIMIT)).await.unwrap_err();
    assert!(matches!(error, ProduceError::Fenced { .. }), "{error}");
    second.begin_transaction(1).unwrap();
    second.send_batch(partitions[0].clone(), batch(&["x"]), 1);
    soon(second.commit_transaction(COMMIT_LIMIT)).await.unwrap();
    let mut reader = consumer(&client, &partitions, IsolationLevel::ReadCommitted);
    assert_eq!(values(&mut reader, 1).await, ["x"]);
    broker.stop().await;
}

#[tokio::test]
async fn lost_answers_and_retriable_errors_change_nothing_in_the_result() {
    let (broker, client) = cluster(2).await;
    for api in [
        ApiKey::Produce,
        ApiKey::EndTxn,
        ApiKey::Fetch,
        ApiKey::InitProducerId,
        ApiKey::CreateTopics,
        ApiKey::ListOffsets,
        ApiKey::Metadata,
        ApiKey::FindCoordinator,
    ] {
        broker.add_fault(FaultRule::new(api, Occurrence::Nth(1), FaultAction::DropAfter));
        broker.add_fault(FaultRule::new(api, Occurrence::Nth(2), FaultAction::DropBefore));
    }
    for (api, code) in [
        (ApiKey::Produce, ErrorCode::NOT_LEADER_OR_FOLLOWER),
        (ApiKey::EndTxn, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        (ApiKey::EndTxn, ErrorCode::NOT_COORDINATOR),
        (ApiKey::ListOffsets, ErrorCode::NOT_LEADER_OR_FOLLOWER),
        (ApiKey::Fetch, ErrorCode::NOT_LEADER_OR_FOLLOWER),
    ] {
        broker.add_fault(FaultRule::new(api, Occurrence::Nth(3), FaultAction::Error(code)));
    }
    let partitions = topic(&client, "t", 1).await;
    let producer = client.producer(Some("id"));
    soon(async {
        while let Err(error) = producer.init_transactions().await {
            assert!(matches!(error, ProduceError::ConcurrentTransactions { .. }), "{error}");
        }
    })
    .await;
    let mut expected = Vec::new();
    for tag in 1..=10 {
        producer.begin_transaction(tag).unwrap();
        for n in 0..5 {
            let value = format!("{tag}-{n}");
            producer.send_batch(partitions[0].clone(), batch(&[&value]), tag);
            expected.push(value);
        }
        soon(producer.flush(tag)).await.unwrap();
        soon(producer.commit_transaction(COMMIT_LIMIT)).await.unwrap();
    }
    let mut reader = consumer(&client, &partitions, IsolationLevel::ReadCommitted);
    assert_eq!(values(&mut reader, expected.len()).await, expected);
    let latest = [(partitions[0].clone(), OffsetSpec::Latest)];
    let offsets = soon(client.list_offsets(&latest, IsolationLevel::ReadCommitted)).await.unwrap();
    // 50 records and 10 commit markers.
    assert_eq!(offsets[&partitions[0]].offset, 60);
    broker.stop().await;
}

#[tokio::test]
async fn an_idempotent_producer_needs_no_transaction() {
    let (broker, client) = cluster(2).await;
    let partitions = topic(&client, "t", 3).await;
    let producer = client.producer(None);
    for partition in &partitions {
        producer.send_batch(partition.clone(), batch(&["x", "y"]), 0);
    }
    let offsets = soon(producer.flush(0)).await.unwrap();
    assert_eq!(offsets.values().copied().collect::<Vec<_>>(), [1, 1, 1]);
    broker.stop().await;
}

#[tokio::test]
async fn a_worker_without_a_runtime_is_woken_and_reads() {
    let (broker, client) = cluster(2).await;
    let partitions = topic(&client, "t", 1).await;
    let producer = client.producer(None);
    producer.send_batch(partitions[0].clone(), batch(&["x"]), 0);
    soon(producer.flush(0)).await.unwrap();
    let worker = std::thread::spawn({
        let (client, partitions) = (client.clone(), partitions.clone());
        move || {
            let wakes = Arc::new(AtomicUsize::new(0));
            let (me, counter) = (std::thread::current(), Arc::clone(&wakes));
            let notify = Arc::new(move || {
                counter.fetch_add(1, Ordering::Relaxed);
                me.unpark();
            });
            let start =
                FetchStart { topic_partition: partitions[0].clone(), offset: 0, leader_epoch: -1 };
            let mut consumer =
                client.partition_consumer(vec![start], IsolationLevel::ReadCommitted, notify);
            let event = loop {
                match consumer.try_next() {
                    Some(event) => break event,
                    None => std::thread::park_timeout(Duration::from_secs(60)),
                }
            };
            (event, wakes.load(Ordering::Relaxed))
        }
    });
    let (event, wakes) =
        soon(tokio::task::spawn_blocking(move || worker.join().unwrap())).await.unwrap();
    assert!(matches!(event, FetchEvent::Records(_)), "{event:?}");
    assert!(wakes > 0);
    broker.stop().await;
}

#[tokio::test]
async fn consumers_and_producers_end_with_the_client() {
    let (broker, client) = cluster(2).await;
    let partitions = topic(&client, "t", 1).await;
    let mut reader = consumer(&client, &partitions, IsolationLevel::ReadCommitted);
    let producer = client.producer(Some("id"));
    soon(producer.init_transactions()).await.unwrap();
    client.close().await;
    soon(async { while reader.next().await.is_some() {} }).await;
    assert!(reader.is_closed());
    assert!(matches!(soon(producer.init_transactions()).await, Err(ProduceError::Fatal { .. })));
    broker.stop().await;
}

#[tokio::test]
async fn an_advertised_address_that_does_not_resolve_is_named() {
    let config = DevBrokerConfig {
        advertised: Some("broker.invalid:29092".to_owned()),
        ..DevBrokerConfig::default()
    };
    let broker = DevBroker::start(config).unwrap();
    let mut config = ClientConfig::new(broker.address());
    config.default_api_timeout = Duration::from_secs(3);
    let error = soon(KafkaClient::connect(config)).await.unwrap_err();
    assert!(matches!(error, ClientError::NoBrokerReachable { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("broker.invalid:29092") && text.contains("advertised.listeners"),
        "{text}"
    );
    broker.stop().await;
}
