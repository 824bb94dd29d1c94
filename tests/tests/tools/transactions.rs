//! `txn`: open transactions are seen and ended, hanging ones are found and ended.

use millstream_protocol::TopicPartition;
use millstream_tests::raw_producer::produce_unregistered;
use serde_json::json;

use crate::fixtures::{kafka, unique, wait_for};

#[test]
fn open_transaction_is_listed_described_and_aborted() {
    let Some(cluster) = kafka("open_transaction_is_listed_described_and_aborted") else { return };
    let (topic, id) = (cluster.new_topic(1), unique("txn"));
    let mut producer = cluster.tool(&format!("produce {topic} --transactional={id}")).start();
    producer.write("1\n");
    let describe = format!("txn describe {id}");
    wait_for("the transaction is open", || {
        let said = cluster.tool(&describe).json().run();
        said.code == 0 && said.out.contains("\"Ongoing\"")
    });
    let described = cluster.tool(&describe).rows().remove(0);
    assert_eq!(described["partitions"], json!([{"topic": topic, "partition": 0}]));
    assert_eq!(described["timeout_ms"], json!(60_000));
    let listed = cluster.tool("txn list --state Ongoing").rows();
    let listed: Vec<_> = listed.iter().filter(|row| row["transactional_id"] == json!(id)).collect();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["producer_id"], described["producer_id"]);
    assert!(cluster.tool("txn list --longer-than 1h").rows().is_empty());
    // It is in good hands, however young.
    let hanging = cluster.tool(&format!("txn find-hanging --topic {topic} --quiet-for 0s")).rows();
    assert!(hanging.is_empty(), "{hanging:?}");
    let producer_id = described["producer_id"].to_string();
    let here = format!("txn abort --topic {topic} --partition 0 --producer-id");
    let not_here = cluster.tool(&format!("{here} {producer_id} --yes"));
    not_here.refused(69, &["does not hang", "coordinator"]);
    cluster.tool(&format!("{here} 987654321 --yes")).refused(69, &["knows no producer 987654321"]);

    cluster.tool(&format!("txn abort {id}")).refused(2, &["--yes"]);
    let aborted = cluster.tool(&format!("txn abort {id} --yes")).rows();
    assert_eq!(aborted[0]["aborted"], json!(true));
    // Its producer can neither commit nor go on.
    producer.write("2\n");
    let said = producer.end();
    assert_eq!(said.code, 76, "{}", said.err);
    assert!(
        said.err.contains("fenced") || said.err.contains("INVALID_PRODUCER_EPOCH"),
        "{}",
        said.err
    );
    assert_eq!(cluster.tool(&format!("consume {topic}")).ok(), "");
    cluster.tool(&format!("txn abort {id} --yes")).refused(69, &[&id, "no open transaction"]);
    cluster.tool("txn describe nobody").refused(69, &["nobody", "TRANSACTIONAL_ID_NOT_FOUND"]);
    cluster.tool("txn list --state Sleeping").refused(2, &["Sleeping", "Ongoing"]);
}

#[test]
fn hanging_transaction_is_found_and_ended() {
    let Some(cluster) = kafka("hanging_transaction_is_found_and_ended") else { return };
    let (topic, id) = (cluster.new_topic(2), unique("txn"));
    let identity = cluster.with_client(|client| {
        let id = id.clone();
        async move { client.producer(Some(&id)).init_transactions().await.unwrap() }
    });
    let hanging_in = TopicPartition::new(topic.as_str(), 1);
    produce_unregistered(&cluster.kafka.direct_bootstrap_servers(), &hanging_in, &id, identity);
    cluster.tool(&format!("produce {topic} --partition 1")).input("behind it\n").ok();
    assert_eq!(cluster.tool(&format!("consume {topic}")).ok(), "", "readers wait before it");

    let find = format!("txn find-hanging --topic {topic}");
    let found = cluster.tool(&find).rows();
    assert_eq!(found.len(), 1, "{found:?}");
    let producer_id = identity.producer_id;
    let expected = json!({"topic": topic, "partition": 1, "producer_id": producer_id,
        "producer_epoch": identity.producer_epoch, "start_offset": 0, "last_timestamp": 1000,
        "transactional_id": id});
    assert_eq!(found[0], expected);
    // Over all topics it is found too, and text says how to end it.
    let all = cluster.tool("txn find-hanging").run();
    assert!(all.out.contains(&topic) && all.err.contains("txn abort --topic"), "{all:?}");
    let abort = format!("txn abort --topic {topic} --partition 1 --producer-id {producer_id}");
    let said = cluster.tool(&abort).arg("--yes").ok();
    assert!(said.contains("can be read up to offset 3"), "{said}");
    assert!(cluster.tool(&find).rows().is_empty());
    assert_eq!(cluster.tool(&format!("consume {topic}")).ok(), "behind it\n");
}
