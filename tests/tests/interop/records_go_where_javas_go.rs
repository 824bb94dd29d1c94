//! Our producer of single records beside Java's: the same keys in the same partitions, the same records for the reader.

use std::collections::BTreeMap;

use millstream_protocol_client::{ClientConfig, KafkaClient, ProducerRecord};
use millstream_testcontainers::{Cluster, Isolation, JavaClient, JavaRecord, ProduceOptions};
use millstream_tests::random::Random;

use crate::fixtures::{dev_broker, java, real_kafka, runtime};

const PARTITIONS: u32 = 7;
const KEYS: usize = 100_000;

/// Keys of every length up to 40 bytes.
fn keys(random: &mut Random) -> Vec<Vec<u8>> {
    (0..KEYS).map(|index| random.bytes(index % 41)).collect()
}

fn records_go_where_javas_go(name: &str, java: &JavaClient, cluster: &Cluster) {
    let servers = cluster.bootstrap_servers();
    let (ours, javas) = (format!("ours-{name}"), format!("javas-{name}"));
    for topic in [&ours, &javas] {
        java.create_topic(&servers, topic, PARTITIONS, &BTreeMap::new()).unwrap();
    }
    let keys = keys(&mut Random::from_environment(name));
    let records: Vec<JavaRecord> = keys
        .iter()
        .map(|key| JavaRecord {
            timestamp: Some(1_357_017_420_000),
            key: Some(key.clone()),
            ..JavaRecord::default()
        })
        .collect();
    let of_java = java.produce(&servers, &javas, &records, &ProduceOptions::default()).unwrap();
    let of_us: Vec<(i32, i64)> = runtime().block_on(async {
        let client = KafkaClient::connect(ClientConfig::new(&servers)).await.unwrap();
        let producer = client.record_producer(None);
        let mut deliveries = Vec::new();
        for key in &keys {
            let record = ProducerRecord {
                topic: &ours,
                timestamp: Some(1_357_017_420_000),
                key: Some(key),
                ..ProducerRecord::default()
            };
            deliveries.push(producer.send(&record).await.unwrap());
        }
        producer.flush().await.unwrap();
        let mut places = Vec::new();
        for delivery in deliveries {
            let written = delivery.wait().await.unwrap();
            places.push((written.topic_partition.partition, written.offset.unwrap()));
        }
        client.close().await;
        places
    });
    assert_eq!(of_us.len(), of_java.len());
    let differ = of_us.iter().zip(&of_java).position(|(ours, javas)| ours != javas);
    assert_eq!(differ, None, "the first key with another partition or offset");

    let read = |topic: &str| {
        let records = java.consume(&servers, topic, Isolation::ReadCommitted).unwrap();
        assert_eq!(records.len(), KEYS);
        records
    };
    assert_eq!(read(&ours), read(&javas));
}

#[test]
fn records_go_where_javas_go_on_the_dev_broker() {
    let name = "records_go_where_javas_go_on_the_dev_broker";
    if let Some(java) = java(name) {
        records_go_where_javas_go("dev", java, dev_broker());
    }
}

#[test]
fn records_go_where_javas_go_on_real_kafka() {
    let name = "records_go_where_javas_go_on_real_kafka";
    if let (Some(java), Some(cluster)) = (java(name), real_kafka(name)) {
        records_go_where_javas_go("real", java, cluster);
    }
}
