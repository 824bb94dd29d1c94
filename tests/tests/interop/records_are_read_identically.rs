//! Every codec, keys, headers (repeated, null), null values, both ways.

use millstream_protocol::IsolationLevel;
use millstream_protocol::records::Compression;
use millstream_testcontainers::{
    Cluster, Codec, Isolation, JavaClient, JavaRecord, ProduceOptions, ProducedRecord,
};
use millstream_tests::random::Random;
use millstream_tests::records::{consume_all, send};

use crate::fixtures::{dev_broker, java, new_topic, our_client, real_kafka, records, runtime};

/// What a reader must see of `records`, sorted by partition, in the order they were sent.
fn expected(records: &[JavaRecord]) -> Vec<ProducedRecord> {
    let mut next = [0_i64; 2];
    let mut expected: Vec<ProducedRecord> = records
        .iter()
        .map(|record| {
            let partition = record.partition.unwrap();
            let next = &mut next[usize::try_from(partition).unwrap()];
            *next += 1;
            ProducedRecord {
                partition,
                offset: *next - 1,
                timestamp: record.timestamp.unwrap(),
                key: record.key.clone(),
                value: record.value.clone(),
                headers: record.headers.clone(),
            }
        })
        .collect();
    expected.sort();
    expected
}

/// Whole records are too long to print; the first that differs is enough.
#[track_caller]
fn assert_same(read: &[ProducedRecord], expected: &[ProducedRecord], what: &str) {
    for (read, expected) in read.iter().zip(expected) {
        assert_eq!(read, expected, "{what}");
    }
    assert_eq!(read.len(), expected.len(), "{what}");
}

fn compression(codec: Codec) -> Compression {
    codec.name().parse().unwrap()
}

fn java_writes_and_we_read(java: &JavaClient, cluster: &Cluster, random: &mut Random) {
    for codec in Codec::ALL {
        let topic = new_topic(java, cluster);
        let records = records(random);
        let options = ProduceOptions { codec, ..ProduceOptions::default() };
        java.produce(&cluster.bootstrap_servers(), &topic, &records, &options).unwrap();
        let ours = runtime().block_on(async {
            let client = our_client(cluster).await;
            consume_all(&client, &topic, IsolationLevel::ReadCommitted).await
        });
        assert_same(&ours, &expected(&records), &format!("{} on {cluster}", codec.name()));
    }
}

fn we_write_and_java_reads(java: &JavaClient, cluster: &Cluster, random: &mut Random) {
    for codec in Codec::ALL {
        let topic = new_topic(java, cluster);
        let records = records(random);
        runtime().block_on(async {
            let client = our_client(cluster).await;
            send(&client.producer(None), &topic, compression(codec), &records, 0).await;
        });
        let servers = cluster.bootstrap_servers();
        let javas = java.consume(&servers, &topic, Isolation::ReadCommitted).unwrap();
        assert_same(&javas, &expected(&records), &format!("{} on {cluster}", codec.name()));
    }
}

#[test]
fn java_records_of_every_codec_are_read_identically_from_the_dev_broker() {
    let name = "java_records_of_every_codec_are_read_identically_from_the_dev_broker";
    let Some(java) = java(name) else { return };
    java_writes_and_we_read(java, dev_broker(), &mut Random::from_environment(name));
}

#[test]
fn java_records_of_every_codec_are_read_identically_from_real_kafka() {
    let name = "java_records_of_every_codec_are_read_identically_from_real_kafka";
    let (Some(java), Some(kafka)) = (java(name), real_kafka(name)) else { return };
    java_writes_and_we_read(java, kafka, &mut Random::from_environment(name));
}

#[test]
fn our_records_of_every_codec_are_read_identically_by_java_from_the_dev_broker() {
    let name = "our_records_of_every_codec_are_read_identically_by_java_from_the_dev_broker";
    let Some(java) = java(name) else { return };
    we_write_and_java_reads(java, dev_broker(), &mut Random::from_environment(name));
}

#[test]
fn our_records_of_every_codec_are_read_identically_by_java_from_real_kafka() {
    let name = "our_records_of_every_codec_are_read_identically_by_java_from_real_kafka";
    let (Some(java), Some(kafka)) = (java(name), real_kafka(name)) else { return };
    we_write_and_java_reads(java, kafka, &mut Random::from_environment(name));
}
