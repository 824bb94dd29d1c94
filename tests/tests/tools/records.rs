//! `produce` and `consume`: what goes in comes out, and only that.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_testcontainers::{Availability, Isolation, JavaClient, availability};
use serde_json::{Value, json};

use crate::fixtures::{Cluster, kafka, wait_for};
use crate::tool::{binary, rows};

fn base64(bytes: &[u8]) -> Value {
    json!({"encoding": "base64", "data": STANDARD.encode(bytes)})
}

/// Records of every shape, as objects.
fn objects() -> Vec<Value> {
    vec![
        json!({"partition": 0, "timestamp": 1_000, "key": "k", "value": "grüße 😀\n\t\"", "headers": []}),
        json!({"partition": 1, "timestamp": 2_000, "key": null, "value": null, "headers": [["a", "1"], ["a", null], ["b", ""]]}),
        json!({"partition": 0, "timestamp": 3_000, "key": "", "value": "", "headers": []}),
        json!({"partition": 1, "timestamp": 4_000, "key": base64(b"\xff\xfe"), "value": base64(&[0, 159, 146, 150]), "headers": [["bin", base64(b"\x80")]]}),
        json!({"partition": 0, "timestamp": 5_000, "key": "big", "value": "x".repeat(200_000), "headers": []}),
    ]
}

fn lines(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("{object}\n")).collect()
}

/// Objects without place, sorted by it.
fn without_place(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(|row| (row["partition"].as_i64(), row["offset"].as_i64()));
    for row in &mut rows {
        row.as_object_mut().unwrap().retain(|name, _| name != "topic" && name != "offset");
    }
    rows
}

fn values(cluster: &Cluster, line: &str) -> Vec<String> {
    cluster.tool(&format!("consume {line}")).ok().lines().map(str::to_owned).collect()
}

#[test]
fn objects_come_back_as_they_were() {
    let Some(cluster) = kafka("objects_come_back_as_they_were") else { return };
    let (first, second) = (cluster.new_topic(2), cluster.new_topic(2));
    let produce =
        |topic: &str| cluster.tool(&format!("produce {topic} --format json --keep-partitions"));
    let compressed = produce(&first).arg("-X").arg("compression.type=lz4").input(lines(&objects()));
    let written = compressed.rows();
    assert_eq!(written.len(), 5);
    assert_eq!(written[4], json!({"topic": first, "partition": 0, "offset": 2}));
    let read = cluster.tool(&format!("consume {first}")).json().ok();
    let mut expected = objects();
    expected.sort_by_key(|row| row["partition"].as_i64());
    assert_eq!(without_place(rows(&read)), expected);
    // What consume prints, produce takes.
    produce(&second).input(read).ok();
    let copied = cluster.tool(&format!("consume {second}")).rows();
    assert_eq!(without_place(copied), expected);
    if *availability() == Availability::Jars {
        let java = JavaClient::start().unwrap();
        let servers = cluster.kafka.bootstrap_servers();
        let theirs = |topic: &str| java.consume(&servers, topic, Isolation::ReadCommitted).unwrap();
        assert_eq!(theirs(&first), theirs(&second));
        assert_eq!(theirs(&first)[4].value.as_deref(), Some(&[0, 159, 146, 150][..]));
    }
}

#[test]
fn lines_become_keys_values_and_headers() {
    let Some(cluster) = kafka("lines_become_keys_values_and_headers") else { return };
    let topic = cluster.new_topic(1);
    let produce = format!("produce {topic} --key-separator \\t --null NULL -H from=test -H flag");
    let said =
        cluster.tool(&produce).input("k\tv\tw\n\n").refused(65, &["line 2 of standard input"]);
    assert!(said.err.contains("no key separator"), "{}", said.err);
    let written = cluster.tool(&produce).input("k\tv\tw\nk\tNULL\nNULL\tlast").ok();
    assert!(
        written.starts_with(&format!("{topic}: 3 records written to partition 0")),
        "{written}"
    );
    let format = "%p|%k|%v|%h|%K/%S;";
    let printed = cluster
        .tool(&format!("consume {topic} --from end-3 --null ~"))
        .arg("--format")
        .arg(format)
        .ok();
    assert_eq!(
        printed,
        "0|k|v\tw|from=test,flag=~|1/3;0|k|~|from=test,flag=~|1/-1;0|~|last|from=test,flag=~|-1/4;"
    );
    // Blank lines are empty values, and a file may be gzip.
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file.reopen().unwrap(), Default::default());
    std::io::Write::write_all(&mut gzip, b"a\n\nb\n").unwrap();
    gzip.finish().unwrap();
    let other = cluster.new_topic(1);
    let file = format!("--file={}", file.path().display());
    cluster.tool(&format!("produce {other}")).arg(file).ok();
    assert_eq!(values(cluster, &other), ["a", "", "b"]);
}

#[test]
fn reading_begins_and_ends_where_it_is_told_to() {
    let Some(cluster) = kafka("reading_begins_and_ends_where_it_is_told_to") else { return };
    let topic = cluster.new_topic(2);
    let object =
        |n: i64| json!({"partition": n % 2, "timestamp": n * 1_000, "value": n.to_string()});
    let objects: Vec<_> = (0..10).map(object).collect();
    cluster
        .tool(&format!("produce {topic} --format json --keep-partitions"))
        .input(lines(&objects))
        .ok();
    let read = |options: &str| {
        let mut values = values(cluster, &format!("{topic} {options}"));
        values.sort();
        values.join("")
    };
    assert_eq!(read(""), "0123456789");
    assert_eq!(read("--from 3"), "6789");
    assert_eq!(read("--from 3 --to 4"), "67");
    assert_eq!(read("--from end"), "");
    assert_eq!(read("--from end-1"), "89");
    assert_eq!(read("--from 99"), "");
    assert_eq!(read("--partition 1"), "13579");
    assert_eq!(read("--from @7000"), "789");
    assert_eq!(read("--from 1970-01-01T00:00:02Z --to 1970-01-01T00:00:04Z"), "23");
    assert_eq!(read("--to @99000"), "0123456789");
    assert_eq!(read("--max-messages 0"), "");
    assert_eq!(read("--max-messages 3").len(), 3);
    cluster.tool(&format!("consume {topic} --partition 7")).refused(69, &["has 2 partitions", "7"]);
    cluster.tool("consume no-such-topic").refused(69, &["no-such-topic", "does not exist"]);
    cluster.tool("produce no-such-topic").input("x\n").refused(69, &["does not exist"]);
    let nowhere = format!("produce {topic} --partition 7");
    cluster.tool(&nowhere).input("x\n").refused(69, &["has 2 partitions"]);
}

#[test]
fn transaction_is_seen_as_a_whole_or_not_at_all() {
    let Some(cluster) = kafka("transaction_is_seen_as_a_whole_or_not_at_all") else { return };
    let topic = cluster.new_topic(1);
    let produce = format!("produce {topic} --transactional");
    cluster.tool(&produce).input("1\n2\n").ok();
    assert_eq!(values(cluster, &topic), ["1", "2"]);
    // Interrupted while its input is still open.
    let mut open = cluster.tool(&produce).start_with_hangup(false);
    open.write("3\n");
    let all = format!("{topic} --isolation-level read_uncommitted");
    wait_for("the open transaction has a record", || values(cluster, &all) == ["1", "2", "3"]);
    let said = cluster.tool(&format!("consume {topic}")).run();
    assert_eq!((said.code, said.out.as_str()), (0, "1\n2\n"));
    let hint = format!("{topic}-0 is read up to offset 3 of 4: what follows waits");
    assert!(said.err.contains(&hint), "{}", said.err);
    open.hang_up();
    let said = open.wait();
    assert_eq!(said.code, 129, "{}", said.err);
    assert!(said.err.contains("the transaction is aborted"), "{}", said.err);
    // A line that is no record takes the others with it.
    let produce = format!("produce {topic} --format json --transactional=tools-{topic}");
    cluster.tool(&produce).input("{\"value\":\"4\"}\nx\n").refused(65, &["line 2", "aborted"]);
    assert_eq!(values(cluster, &topic), ["1", "2"]);
    assert_eq!(
        values(cluster, &format!("{topic} -X isolation.level=read_uncommitted"))[..3],
        ["1", "2", "3"]
    );
    cluster.tool(&produce).input("{\"value\":\"5\"}").ok();
    assert_eq!(values(cluster, &topic), ["1", "2", "5"]);
}

#[test]
fn who_follows_sees_what_comes_until_interrupted() {
    let Some(cluster) = kafka("who_follows_sees_what_comes_until_interrupted") else { return };
    let topic = cluster.new_topic(1);
    let follower = cluster.tool(&format!("consume {topic} --follow")).start();
    for value in ["one", "two"] {
        cluster.tool(&format!("produce {topic}")).input(value).ok();
        wait_for("the record is printed", || follower.out().contains(value));
    }
    follower.interrupt();
    let said = follower.wait();
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "one\ntwo\n", ""));
}

#[test]
fn who_follows_sees_partitions_that_are_added() {
    let Some(cluster) = kafka("who_follows_sees_partitions_that_are_added") else { return };
    let topic = cluster.new_topic(1);
    let follow = format!("consume {topic} --follow -X metadata.max.age.ms=200");
    let follower = cluster.tool(&follow).start();
    for partition in ["0", "2", "1"] {
        cluster.tool(&format!("produce {topic} --partition {partition}")).input(partition).ok();
        wait_for("the record is printed", || follower.out().contains(partition));
        // Not before it reads: a reader that begins later would find them there.
        if partition == "0" {
            cluster.tool(&format!("topic alter {topic} --partitions 3")).ok();
        }
    }
    follower.interrupt();
    let said = follower.wait();
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "0\n2\n1\n", ""));
}

#[test]
fn options_that_would_have_no_effect_are_named() {
    let Some(cluster) = kafka("options_that_would_have_no_effect_are_named") else { return };
    let topic = cluster.new_topic(1);
    let refused = |line: String, words: &[&str]| {
        cluster.tool(&line).input("{}").refused(2, words);
    };
    let produce = format!("produce {topic}");
    refused(format!("{produce} --format json -k :"), &["--key-separator is for lines"]);
    refused(format!("{produce} --keep-partitions"), &["--keep-partitions is for JSON"]);
    refused(format!("consume {topic} --format %k --output json"), &["--format shapes text"]);
    refused("group list --state Foo".to_owned(), &["--state", "PreparingRebalance"]);
    refused("txn list --state Foo".to_owned(), &["--state", "Ongoing"]);
    cluster.tool("txn list --state ongoing").ok();
    let said = cluster.tool(&format!("consume {topic} -X group.id=g --from 7")).run();
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    for hint in ["group.id has no effect", "--group", "ends at offset 0: nothing is at 7 yet"] {
        assert!(said.err.contains(hint), "{hint:?} is missing in {}", said.err);
    }
    // With -v one sees to whom it talks.
    let said = cluster.tool(&format!("consume {topic} -vv")).run();
    assert!(said.err.contains("connecting"), "{}", said.err);
}

#[test]
fn closed_pipe_ends_reading_without_a_word() {
    let Some(cluster) = kafka("closed_pipe_ends_reading_without_a_word") else { return };
    let topic = cluster.new_topic(1);
    // More than any pipe holds.
    let many: String = (0..4_000).map(|n| format!("{n} {}\n", "x".repeat(100))).collect();
    cluster.tool(&format!("produce {topic}")).input(many).ok();
    let mut child = Command::new(binary())
        .args(["consume", &topic, "-b", &cluster.kafka.bootstrap_servers()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("0 x"), "{first}");
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}
