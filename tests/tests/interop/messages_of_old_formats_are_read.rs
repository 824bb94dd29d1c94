//! A log that was written before Kafka 0.11 and never rewritten, on a broker of today (KIP-724).

use std::fs;
use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use millstream_protocol::IsolationLevel;
use millstream_testcontainers::{
    Availability, Cluster, Isolation, KafkaCluster, availability, real_kafka_or_skip, skip,
};
use millstream_tests::records::consume_all;

use crate::fixtures::{java, our_client, runtime};

/// One message as it lies on disk: format 0 or 1.
fn message(offset: i64, magic: u8, codec: u8, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![magic, codec];
    if magic == 1 {
        body.extend((1_400_000_000_000 + offset).to_be_bytes());
    }
    for part in [key, value] {
        body.extend(part.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
        body.extend(part.unwrap_or_default());
    }
    let mut crc = Crc::new();
    crc.update(&body);
    let size = body.len() as i32 + 4;
    [&offset.to_be_bytes()[..], &size.to_be_bytes(), &crc.sum().to_be_bytes(), &body].concat()
}

fn gzip(offset: i64, magic: u8, set: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&set.concat()).unwrap();
    message(offset, magic, 1, None, Some(&encoder.finish().unwrap()))
}

#[test]
fn messages_of_old_formats_are_read_as_java_reads_them() {
    let test_name = "messages_of_old_formats_are_read_as_java_reads_them";
    if !real_kafka_or_skip(test_name) {
        return;
    }
    if *availability() != Availability::Jars {
        return skip(test_name, "the broker's files are inside a container");
    }
    let Some(java) = java(test_name) else { return };
    let cluster = KafkaCluster::builder().start().unwrap();
    cluster.create_topic("old", 1, &[]).unwrap();
    cluster.stop_broker(0).unwrap();
    let log = [
        message(0, 0, 0, Some(b"key"), Some(b"format 0")),
        message(1, 0, 0, None, None),
        gzip(
            4,
            0,
            &[2, 3, 4]
                .map(|offset| message(offset, 0, 0, Some(b"k"), Some(b"in a set of format 0"))),
        ),
        message(5, 1, 0, Some(b""), Some(b"format 1")),
        // Offsets count from the set's first; one was compacted away.
        gzip(
            9,
            1,
            &[0, 1, 3].map(|offset| message(offset, 1, 0, None, Some(b"in a set of format 1"))),
        ),
    ];
    let data = cluster.log_dir().join("node-1/data");
    let partition = data.join("old-0");
    for entry in fs::read_dir(&partition).unwrap() {
        let path = entry.unwrap().path();
        // What the broker knew of the empty log is wrong now.
        if path.extension().is_some_and(|kind| kind != "metadata")
            || path.ends_with("leader-epoch-checkpoint")
        {
            fs::remove_file(path).unwrap();
        }
    }
    fs::write(partition.join("00000000000000000000.log"), log.concat()).unwrap();
    // Without the mark of an orderly end, the broker looks at what is there.
    fs::remove_file(data.join(".kafka_cleanshutdown")).unwrap();
    cluster.start_broker(0).unwrap();

    let cluster = Cluster::Kafka(cluster);
    let javas =
        java.consume(&cluster.bootstrap_servers(), "old", Isolation::ReadCommitted).unwrap();
    let offsets: Vec<_> = javas.iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7, 9], "what was put there");
    let ours = runtime().block_on(async {
        let client = our_client(&cluster).await;
        consume_all(&client, "old", IsolationLevel::ReadCommitted).await
    });
    assert_eq!(ours, javas);
}
