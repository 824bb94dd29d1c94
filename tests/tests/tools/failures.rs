//! What is left behind when a tool fails, or is told to stop.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
use millstream_tests::LocalBroker;

use crate::fixtures::{kafka, unique, wait_for};
use crate::tool::{binary, tool};

#[test]
fn a_record_that_the_broker_refuses_aborts_its_transaction() {
    let Some(cluster) = kafka("a_record_that_the_broker_refuses_aborts_its_transaction") else {
        return;
    };
    let (topic, id) = (unique("tools"), unique("txn"));
    cluster.tool(&format!("topic create {topic} --config max.message.bytes=2000")).ok();
    let lines = format!("first\n{}\nlast\n", "x".repeat(5_000));
    cluster.tool(&format!("produce {topic} --transactional={id}")).input(lines).refused(
        65,
        &["record 2 to", "larger than the broker takes", "the transaction is aborted"],
    );
    let open = cluster.tool("txn list --state Ongoing").rows();
    assert!(open.iter().all(|row| row["transactional_id"] != id.as_str()), "{open:?}");
    // The id serves on.
    cluster.tool(&format!("produce {topic} --transactional={id}")).input("again\n").ok();
    assert_eq!(cluster.tool(&format!("consume {topic}")).ok(), "again\n");
}

#[test]
fn a_failure_says_what_is_written_before_it() {
    let Some(cluster) = kafka("a_failure_says_what_is_written_before_it") else { return };
    let topic = cluster.new_topic(1);
    let produce = cluster.tool(&format!("produce {topic} --key-separator :"));
    let written = format!("{topic}: 2 records written to partition 0 (offsets 0 to 1)");
    produce.input("a:1\nb:2\nc\nd:4\n").refused(65, &["line 3", &written]);
    // A field that is misspelt is not one that is missing: this would delete the key.
    let typo = r#"{"key": "a", "vlaue": "1"}"#;
    cluster
        .tool(&format!("produce {topic} --format json"))
        .input(typo)
        .refused(65, &["line 1", "vlaue"]);
    let before = r#"{"value": "1", "timestamp": -5}"#;
    cluster
        .tool(&format!("produce {topic} --format json"))
        .input(before)
        .refused(65, &["line 1", "timestamp -5 is before 1970"]);
    // Without a transaction only the record that is too large is missing, and it is named.
    let small = unique("tools");
    cluster.tool(&format!("topic create {small} --config max.message.bytes=2000")).ok();
    let said = cluster
        .tool(&format!("produce {small} -X linger.ms=0 -X batch.size=16"))
        .input(format!("first\n{}\nlater\nlast\n", "x".repeat(5_000)))
        .refused(65, &["record 2 to", "larger than the broker takes"]);
    for wrong in ["WARN", "transaction"] {
        assert!(!said.err.contains(wrong), "{}", said.err);
    }
    // What was on its way behind it is written, and told.
    let there = cluster.tool(&format!("consume {small}")).ok().lines().count();
    let noun = if there == 1 { "record" } else { "records" };
    assert!(said.err.contains(&format!("{small}: {there} {noun} written")), "{}", said.err);
    if there > 1 {
        assert!(said.err.contains(&format!("; {} record", there - 1)), "{}", said.err);
    }
    let rows = cluster
        .tool(&format!("produce {small} --output json"))
        .input(format!("first\n{}\nlater\n", "x".repeat(5_000)))
        .refused(65, &["record 2 to"]);
    let more = cluster.tool(&format!("consume {small}")).ok().lines().count() - there;
    assert_eq!(rows.out.lines().count(), more, "{}", rows.out);
}

#[test]
fn what_was_written_before_a_signal_is_told() {
    let Some(cluster) = kafka("what_was_written_before_a_signal_is_told") else { return };
    let topic = cluster.new_topic(1);
    let mut open = cluster.tool(&format!("produce {topic}")).start();
    open.write("1\n2\n");
    let read = || cluster.tool(&format!("consume {topic}")).ok();
    wait_for("both records are written", || read() == "1\n2\n");
    open.interrupt();
    let said = open.wait();
    assert_eq!(said.code, 130, "{}", said.err);
    let written = format!("{topic}: 2 records written to partition 0 (offsets 0 to 1)");
    assert!(said.err.contains(&written), "{}", said.err);
}

#[test]
fn members_whose_broker_is_gone_end_and_tell_what_is_not_committed() {
    let name = "members_whose_broker_is_gone_end_and_tell_what_is_not_committed";
    if !real_kafka_or_skip(name) {
        return;
    }
    let kafka = KafkaCluster::builder().property("group.initial.rebalance.delay.ms", "0").start();
    let kafka = kafka.unwrap();
    let tool = |line: &str| tool(&kafka.bootstrap_servers(), line);
    tool("topic create t").ok();
    let lines: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    tool("produce t -X batch.size=100").input(lines).ok();
    // A request for each of thousands of batches, so that there is something left to read when the broker stops.
    let limits = "-X request.timeout.ms=2000 -X default.api.timeout.ms=3000 -X fetch.max.bytes=1 \
                  -X max.partition.fetch.bytes=1 -X auto.commit.interval.ms=600000";
    let follower = tool(&format!("consume t -g follower -f {limits}")).start();
    wait_for("the follower prints", || !follower.out().is_empty());
    let bounded = tool(&format!("consume t -g bounded {limits}")).start();
    wait_for("the other prints", || !bounded.out().is_empty());
    kafka.pause_broker(0).unwrap();
    let said = bounded.wait();
    assert_eq!(said.code, 69, "{}", said.err);
    assert!(said.err.contains("nothing came for 3 s: t-0 at offset"), "{}", said.err);
    follower.interrupt();
    let said = follower.wait();
    assert_eq!(said.code, 69, "{}", said.err);
    for words in ["leaving the group", "offsets are not committed", "will be read again"] {
        assert!(said.err.contains(words), "{words:?} is missing in {}", said.err);
    }
    kafka.resume_broker(0).unwrap();
}

#[test]
fn what_could_not_be_printed_is_not_committed() {
    let Some(cluster) = kafka("what_could_not_be_printed_is_not_committed") else { return };
    for protocol in ["classic", "consumer"] {
        let (topic, group) = (cluster.new_topic(1), unique("readers"));
        cluster.tool(&format!("produce {topic}")).input("1\n2\n").ok();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = Command::new(binary())
            .args(["consume", &topic, "--group", &group, "-b"])
            .args([&cluster.kafka.bootstrap_servers(), "-X"])
            .arg(format!("group.protocol={protocol}"))
            .stdout(full)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(ended.code(), Some(74));
        let committed = cluster.with_client(|client| {
            let group = group.clone();
            async move { client.fetch_all_offsets(&group, true).await.unwrap() }
        });
        let beyond: Vec<_> = committed.values().filter(|at| at.offset > 0).collect();
        assert!(beyond.is_empty(), "{protocol}: {beyond:?}");
    }
}

#[test]
fn a_producer_whose_broker_is_gone_ends_with_the_second_signal() {
    let broker = LocalBroker::start();
    tool(&broker.address(), "topic create t").ok();
    let mut producer = tool(&broker.address(), "produce t --output json").start();
    producer.write("1\n");
    wait_for("the first record is written", || producer.out().contains("\"offset\":0"));
    drop(broker);
    producer.write("2\n");
    producer.interrupt();
    producer.interrupt();
    let said = producer.wait();
    assert_eq!(said.code, 130, "{}", said.err);
}

#[test]
fn who_was_started_by_nohup_outlives_the_terminal() {
    let broker = LocalBroker::start();
    tool(&broker.address(), "topic create t").ok();
    let mut producer = tool(&broker.address(), "produce t --output json").start_with_hangup(true);
    producer.write("1\n");
    // Whatever it does with signals, it has done now.
    wait_for("the first record is written", || producer.out().contains("\"offset\":0"));
    producer.hang_up();
    producer.write("2\n");
    let said = producer.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out.lines().count(), 2, "{}", said.out);
}
