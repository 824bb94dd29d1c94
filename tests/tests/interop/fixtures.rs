//! Clusters, clients and records of these tests.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_dev_broker::DevBrokerConfig;
use millstream_protocol_client::{ClientConfig, KafkaClient};
use millstream_testcontainers::{
    Availability, Cluster, DevCluster, JavaClient, JavaRecord, KafkaCluster, availability,
    real_kafka_or_skip, skip,
};
use millstream_tests::random::Random;
use tokio::runtime::Runtime;

/// The Java client for all tests; `None` (and the test is counted as skipped) without a JVM.
pub(crate) fn java(test_name: &str) -> Option<&'static JavaClient> {
    static JAVA: OnceLock<JavaClient> = OnceLock::new();
    if *availability() != Availability::Jars {
        skip(test_name, "no JVM for Kafka's Java client");
        return None;
    }
    Some(JAVA.get_or_init(|| JavaClient::start().unwrap()))
}

/// The dev broker for all tests.
pub(crate) fn dev_broker() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::Dev(DevCluster::start(DevBrokerConfig::default()).unwrap()))
}

/// Real Kafka for all tests; `None` (and the test is counted as skipped) where it can not run.
pub(crate) fn real_kafka(test_name: &str) -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    real_kafka_or_skip(test_name)
        .then(|| CLUSTER.get_or_init(|| Cluster::Kafka(KafkaCluster::builder().start().unwrap())))
}

/// A topic of two partitions that no other test uses.
pub(crate) fn new_topic(java: &JavaClient, cluster: &Cluster) -> String {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    let topic = format!("interop-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
    java.create_topic(&cluster.bootstrap_servers(), &topic, 2, &BTreeMap::new()).unwrap();
    topic
}

pub(crate) fn runtime() -> Runtime {
    Runtime::new().unwrap()
}

pub(crate) async fn our_client(cluster: &Cluster) -> KafkaClient {
    KafkaClient::connect(ClientConfig::new(cluster.bootstrap_servers())).await.unwrap()
}

/// Records of every shape: null and empty keys and values, headers with repeated names and null values, large values; then many
/// random ones. Both partitions, times of their own.
pub(crate) fn records(random: &mut Random) -> Vec<JavaRecord> {
    let header = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    let plain = JavaRecord {
        partition: Some(0),
        timestamp: Some(1_357_017_420_000),
        key: Some(b"key".to_vec()),
        value: Some(b"value".to_vec()),
        headers: Vec::new(),
    };
    let mut records = vec![
        plain.clone(),
        JavaRecord { key: None, ..plain.clone() },
        JavaRecord { value: None, ..plain.clone() },
        JavaRecord { key: None, value: None, ..plain.clone() },
        JavaRecord { key: Some(vec![]), value: Some(vec![]), timestamp: Some(0), ..plain.clone() },
        JavaRecord {
            headers: vec![
                header("twice", Some(b"1")),
                header("other", None),
                header("twice", Some(b"2")),
                header("twice", None),
                header("", Some(b"")),
                header("Flüge ✈", Some(&[0, 255, 128])),
            ],
            ..plain.clone()
        },
        JavaRecord { value: Some(random.bytes(200_000)), ..plain.clone() },
        JavaRecord { value: Some(vec![b'a'; 300_000]), partition: Some(1), ..plain.clone() },
    ];
    for index in 0..2_000 {
        let mut bytes = |up_to: u64| {
            let length = random.number(0..up_to) as usize;
            (random.number(0..10) > 0).then(|| random.bytes(length))
        };
        records.push(JavaRecord {
            partition: Some(index % 2),
            timestamp: Some(1_357_017_420_000 + i64::from(index % 7) * 60_000),
            key: bytes(20),
            value: bytes(300),
            headers: (0..index % 4).map(|n| (format!("h{}", n % 2), bytes(10))).collect(),
        });
    }
    records
}
