//! One cluster for all tests, with an authorizer that lets everyone in and without the check that keeps transactions from
//! hanging.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millstream_protocol::records::Compression;
use millstream_protocol::{ErrorCode, IsolationLevel, TopicPartition};
use millstream_protocol_client::{ClientConfig, ClientError, KafkaClient, NewTopic, OffsetSpec};
use millstream_testcontainers::{JavaRecord, KafkaCluster, real_kafka_or_skip};
use millstream_tests::records::send;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// A machine may be busy with more than this test.
const LIMIT: Duration = Duration::from_secs(300);

/// The cluster; `None` (and the test is counted as skipped) where it can not run.
pub(crate) fn kafka(test_name: &str) -> Option<&'static KafkaCluster> {
    static CLUSTER: OnceLock<KafkaCluster> = OnceLock::new();
    let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    real_kafka_or_skip(test_name).then(|| {
        CLUSTER.get_or_init(|| {
            KafkaCluster::builder()
                .property("authorizer.class.name", authorizer)
                .property("super.users", "User:ANONYMOUS")
                .property("allow.everyone.if.no.acl.found", "true")
                .property("transaction.partition.verification.enable", "false")
                .start()
                .unwrap()
        })
    })
}

/// Runs a test with a client of the cluster, within a time limit.
pub(crate) fn run<F: Future<Output = ()>>(
    cluster: &KafkaCluster,
    test: impl FnOnce(KafkaClient) -> F,
) {
    let config = ClientConfig::new(cluster.bootstrap_servers());
    let within = async {
        let client = KafkaClient::connect(config).await.unwrap();
        tokio::time::timeout(LIMIT, test(client)).await.expect("the test ends in time");
    };
    Runtime::new().unwrap().block_on(within);
}

/// A name that no other test uses.
pub(crate) fn unique(prefix: &str) -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

/// A topic that no other test uses.
pub(crate) async fn new_topic(
    client: &KafkaClient,
    partitions: i32,
    configs: &[(&str, &str)],
) -> String {
    let name = unique("admin");
    let configs = configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let topic = NewTopic { configs: configs.collect(), ..NewTopic::new(&name, partitions, 1) };
    assert!(client.create_topic(topic).await.unwrap());
    // A leader that answers has taken its partition over: requests made by hand need not be repeated.
    let ends: Vec<_> = (0..partitions).map(|p| (partition(&name, p), OffsetSpec::Latest)).collect();
    client.list_offsets(&ends, IsolationLevel::ReadUncommitted).await.unwrap();
    name
}

/// Writes so many records to partition 0, with these timestamps.
pub(crate) async fn write(client: &KafkaClient, topic: &str, timestamps: &[i64]) {
    let records: Vec<_> = timestamps
        .iter()
        .map(|timestamp| JavaRecord {
            partition: Some(0),
            timestamp: Some(*timestamp),
            value: Some(b"value".to_vec()),
            ..JavaRecord::default()
        })
        .collect();
    send(&client.producer(None), topic, Compression::None, &records, 1).await;
}

pub(crate) fn partition(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// Looks until `found` gives something.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The broker's code in an error that is one.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(result: &Result<T, ClientError>) -> ErrorCode {
    match result {
        Err(ClientError::Broker { code, .. }) => *code,
        other => panic!("no answer of a broker: {other:?}"),
    }
}

/// The one item of a result.
#[track_caller]
pub(crate) fn only<K: std::fmt::Debug, V: std::fmt::Debug>(results: BTreeMap<K, V>) -> V {
    assert_eq!(results.len(), 1, "{results:?}");
    results.into_values().next().unwrap()
}
