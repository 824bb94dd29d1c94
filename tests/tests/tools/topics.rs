//! `topic`: what it does, the brokers know; what it refuses, it explains.

use serde_json::json;

use crate::fixtures::{kafka, unique};

#[test]
fn topic_is_created_described_altered_and_deleted() {
    let Some(cluster) = kafka("topic_is_created_described_altered_and_deleted") else { return };
    let topic = unique("tools");
    let create = format!("topic create {topic} --partitions 2 --config cleanup.policy=compact");
    let created = cluster.tool(&create).rows();
    assert_eq!(created, [json!({"topic": topic, "created": true, "partitions": 2})]);
    cluster.tool(&create).refused(69, &[&topic, "exists already, with 2 partitions"]);
    let again = cluster.tool(&create).arg("--if-not-exists").ok();
    assert_eq!(again, format!("{topic}: exists already, 2 partitions\n"));

    let listed = cluster.tool("topic list").rows();
    let listed: Vec<_> = listed.iter().filter(|row| row["topic"] == json!(topic)).collect();
    let expected = json!({"topic": topic, "partitions": 2, "replicas": 1, "internal": false,
        "under_replicated": 0, "leaderless": 0});
    assert_eq!(listed, [&expected]);

    cluster
        .tool(&format!("produce {topic} --partition 1 --key-separator :"))
        .input("a:1\nb:2\n")
        .ok();
    let described = cluster.tool(&format!("topic describe {topic}")).rows();
    let [described] = &described[..] else { panic!("{described:?}") };
    assert_eq!(described["topic_id"].as_str().map(str::len), Some(22));
    let ends: Vec<_> = described["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["partition"].clone(), p["start_offset"].clone(), p["end_offset"].clone()))
        .collect();
    assert_eq!(ends, [(json!(0), json!(0), json!(0)), (json!(1), json!(0), json!(2))]);
    assert_eq!(
        described["configs"],
        json!([{"name": "cleanup.policy", "value": "compact", "source": "topic"}])
    );
    let all = cluster.tool(&format!("topic describe {topic} --all-configs")).ok();
    assert!(all.contains("retention.ms") && all.contains("default"), "{all}");

    let alter = "--partitions 3 --config retention.ms=1000 --append-config cleanup.policy=delete";
    let alter = format!("topic alter {topic} {alter}");
    let dry = cluster.tool(&alter).arg("--dry-run").ok();
    assert_eq!(dry, format!("{topic}: would be altered, 2 -> 3 partitions, 2 properties\n"));
    cluster.tool(&alter).ok();
    let text = cluster.tool(&format!("topic describe {topic}")).ok();
    for part in ["PARTITION  LEADER", "retention.ms", "1000", "compact,delete", "SET BY"] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert_eq!(
        text.lines().filter(|line| line.trim_start().starts_with("2 ")).count(),
        1,
        "{text}"
    );
    cluster.tool(&format!("topic alter {topic} --delete-config retention.ms")).ok();
    let text = cluster.tool(&format!("topic describe {topic}")).ok();
    assert!(!text.contains("retention.ms"), "{text}");

    let delete = format!("topic delete {topic}");
    cluster.tool(&delete).refused(2, &["--yes", "nothing was done"]);
    let deleted = cluster.tool(&delete).arg("--yes").rows();
    assert_eq!(deleted, [json!({"topic": topic, "deleted": true})]);
    cluster.tool(&format!("topic describe {topic}")).refused(69, &[&topic, "does not exist"]);
}

#[test]
fn what_the_brokers_refuse_is_explained() {
    let Some(cluster) = kafka("what_the_brokers_refuse_is_explained") else { return };
    let topic = cluster.new_topic(1);
    let fewer = format!("topic alter {topic} --partitions 1");
    cluster.tool(&fewer).refused(69, &[&topic, "has 1 partition;"]);
    let wrong = format!("topic alter {topic} --config retention.ms=soon");
    cluster.tool(&wrong).refused(69, &[&topic, "INVALID_CONFIG", "soon"]);
    let copies = format!("topic create {} --replication-factor 3", unique("tools"));
    cluster.tool(&copies).refused(69, &["INVALID_REPLICATION_FACTOR", "as many brokers"]);
    // One wrong name, and nothing is deleted.
    let delete = format!("topic delete {topic} no-such-topic --yes");
    cluster.tool(&delete).refused(69, &["no-such-topic", "does not exist"]);
    // All that are wrong are told at once.
    let several = format!("topic delete no-such-topic {topic} nor-this-one --yes");
    cluster.tool(&several).refused(69, &["no-such-topic", "nor-this-one"]);
    for verb in ["topic create fresh fresh", "topic delete fresh fresh --yes"] {
        cluster.tool(verb).refused(2, &["'fresh' is named twice"]);
    }
    cluster.tool("topic describe fresh").refused(69, &["does not exist"]);
    // Of several, those that can be told are.
    let said = cluster
        .tool(&format!("topic describe {topic} no-such-topic"))
        .refused(69, &["no-such-topic"]);
    assert!(said.out.starts_with(&format!("topic {topic}, id ")), "{}", said.out);
}
