//! The same with librdkafka, through `kcat`.

use std::process::Stdio;
use std::time::Duration;

use millstream_protocol::IsolationLevel;
use millstream_protocol::producer::partition_for_key;
use millstream_testcontainers::{Cluster, Codec, JavaClient, JavaRecord, ProducedRecord, skip};
use millstream_tests::random::Random;
use millstream_tests::records::{consume_all, send, send_in_transaction, settled};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::fixtures::{dev_broker, java, new_topic, our_client, real_kafka, records, runtime};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs `kcat` with `input`; gives what it printed.
async fn kcat(cluster: &Cluster, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("kcat")
        .args(["-q", "-b", &cluster.bootstrap_servers()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let fed = async {
        stdin.write_all(input).await.unwrap();
        drop(stdin);
    };
    let run = async { tokio::join!(fed, child.wait_with_output()).1.unwrap() };
    let output = tokio::time::timeout(LIMIT, run).await.expect("kcat ends in time");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kcat {args:?}: {errors}");
    output.stdout
}

/// What kcat can be asked to print: lengths first, for keys and values are any bytes; names and values of headers are text
/// here, without the characters that stand between them.
const FORMAT: &str = "%p %o %T %K %S\n%k%s%h\n";

fn parse(mut output: &[u8]) -> Vec<ProducedRecord> {
    let mut records = Vec::new();
    let line = |rest: &mut &[u8]| {
        let end = rest.iter().position(|byte| *byte == b'\n').expect("a line ends");
        let line = String::from_utf8(rest[..end].to_vec()).unwrap();
        *rest = &rest[end + 1..];
        line
    };
    while !output.is_empty() {
        let numbers = line(&mut output);
        let numbers: Vec<i64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
        let [partition, offset, timestamp, key, value] = numbers[..] else { panic!("{numbers:?}") };
        let mut bytes = |length: i64| {
            let (taken, rest) = output.split_at(usize::try_from(length).ok()?);
            output = rest;
            Some(taken.to_vec())
        };
        let (key, value) = (bytes(key), bytes(value));
        let headers = line(&mut output);
        let headers = headers.split(',').filter(|header| !header.is_empty()).map(|header| {
            let (name, value) = header.split_once('=').unwrap();
            (name.to_owned(), (value != "NULL").then(|| value.as_bytes().to_vec()))
        });
        let headers = headers.collect();
        let partition = i32::try_from(partition).unwrap();
        records.push(ProducedRecord { partition, offset, timestamp, key, value, headers });
    }
    records.sort();
    records
}

/// Records of every shape whose headers kcat can print.
fn printable(random: &mut Random) -> Vec<JavaRecord> {
    let mut records = records(random);
    for (_, value) in records.iter_mut().flat_map(|record| &mut record.headers) {
        if let Some(value) = value {
            *value = value.iter().map(|byte| b'a' + byte % 26).collect();
        }
    }
    records
}

fn compression(codec: Codec) -> millstream_protocol::records::Compression {
    codec.name().parse().unwrap()
}

async fn kcat_reads(cluster: &Cluster, topic: &str) -> Vec<ProducedRecord> {
    // All that is there, each byte checked.
    let args = ["-C", "-t", topic, "-o", "beginning", "-e", "-f", FORMAT, "-X", "check.crcs=true"];
    parse(&kcat(cluster, &args, &[]).await)
}

async fn kcat_reads_what_we_wrote(java: &JavaClient, cluster: &Cluster, random: &mut Random) {
    let client = our_client(cluster).await;
    for codec in Codec::ALL {
        let topic = tokio::task::block_in_place(|| new_topic(java, cluster));
        let records = printable(random);
        let (plain, rest) = records.split_at(records.len() / 2);
        let (committed, aborted) = rest.split_at(rest.len() / 2);
        send(&client.producer(None), &topic, compression(codec), plain, 0).await;
        let id = format!("{topic}-writer");
        send_in_transaction(&client, &id, &topic, compression(codec), aborted, false).await;
        send_in_transaction(&client, &id, &topic, compression(codec), committed, true).await;
        settled(&client, &topic).await;
        let ours = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
        assert_eq!(ours.len(), plain.len() + committed.len());
        let theirs = kcat_reads(cluster, &topic).await;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{} on {cluster}", codec.name());
        }
        assert_eq!(ours.len(), theirs.len(), "{} on {cluster}", codec.name());
    }
}

async fn we_read_what_kcat_wrote(java: &JavaClient, cluster: &Cluster, random: &mut Random) {
    let client = our_client(cluster).await;
    for codec in Codec::ALL {
        let topic = tokio::task::block_in_place(|| new_topic(java, cluster));
        let mut expected: Vec<(Option<String>, Option<String>)> = (0..2_000)
            .map(|number| {
                let mut text = |up_to| {
                    let length = random.number(0..up_to) as usize;
                    let bytes = random.bytes(length).into_iter();
                    let text: String = bytes.map(|byte| char::from(b'a' + byte % 26)).collect();
                    // What is empty becomes null.
                    (!text.is_empty()).then_some(text)
                };
                (text(20), if number == 0 { Some("x".repeat(200_000)) } else { text(300) })
            })
            .collect();
        let input: String = expected
            .iter()
            .map(|(key, value)| {
                let (key, value) = (key.as_deref().unwrap_or(""), value.as_deref().unwrap_or(""));
                format!("{key}:{value}\n")
            })
            .collect();
        let id = format!("transactional.id={topic}");
        let args = [
            ["-P", "-t", &topic],
            ["-Z", "-K", ":"],
            ["-z", codec.name(), "-H"],
            ["twice=1", "-H", "none"],
            ["-H", "twice=2", "-X"],
            ["topic.partitioner=murmur2_random", "-X", &id],
        ];
        kcat(cluster, args.as_flattened(), input.as_bytes()).await;
        settled(&client, &topic).await;
        let ours = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
        let text = |value: &str| Some(value.as_bytes().to_vec());
        let headers = [("twice", text("1")), ("none", None), ("twice", text("2"))];
        let headers = headers.map(|(name, value)| (name.to_owned(), value));
        let mut read: Vec<(Option<String>, Option<String>)> = Vec::new();
        for record in ours {
            if let Some(key) = &record.key {
                assert_eq!(record.partition, partition_for_key(key, 2), "where Java and we put it");
            }
            assert_eq!(record.headers, headers);
            let text =
                |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
            read.push((text(record.key), text(record.value)));
        }
        read.sort();
        expected.sort();
        assert!(read == expected, "{} on {cluster}", codec.name());
        // And kcat sees it as we do.
        let ours = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
        assert!(kcat_reads(cluster, &topic).await == ours, "{} on {cluster}", codec.name());
    }
}

/// Whether there is a kcat; if not, the test is counted as skipped.
fn has_kcat(test_name: &str) -> bool {
    let found = std::process::Command::new("kcat").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !found {
        skip(test_name, "kcat is not installed (a package of most systems)");
    }
    found
}

#[test]
fn librdkafka_reads_what_we_wrote_to_real_kafka() {
    let name = "librdkafka_reads_what_we_wrote_to_real_kafka";
    let (true, Some(java), Some(kafka)) = (has_kcat(name), java(name), real_kafka(name)) else {
        return;
    };
    runtime().block_on(kcat_reads_what_we_wrote(java, kafka, &mut Random::from_environment(name)));
}

#[test]
fn we_read_what_librdkafka_wrote_to_real_kafka() {
    let name = "we_read_what_librdkafka_wrote_to_real_kafka";
    let (true, Some(java), Some(kafka)) = (has_kcat(name), java(name), real_kafka(name)) else {
        return;
    };
    runtime().block_on(we_read_what_kcat_wrote(java, kafka, &mut Random::from_environment(name)));
}

#[test]
fn librdkafka_reads_what_we_wrote_to_the_dev_broker() {
    let name = "librdkafka_reads_what_we_wrote_to_the_dev_broker";
    let (true, Some(java)) = (has_kcat(name), java(name)) else { return };
    let random = &mut Random::from_environment(name);
    runtime().block_on(kcat_reads_what_we_wrote(java, dev_broker(), random));
}

#[test]
fn we_read_what_librdkafka_wrote_to_the_dev_broker() {
    let name = "we_read_what_librdkafka_wrote_to_the_dev_broker";
    let (true, Some(java)) = (has_kcat(name), java(name)) else { return };
    let random = &mut Random::from_environment(name);
    runtime().block_on(we_read_what_kcat_wrote(java, dev_broker(), random));
}
