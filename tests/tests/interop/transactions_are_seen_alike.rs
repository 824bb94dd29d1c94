//! Committed, aborted and open transactions of either client, as both see them.

use millstream_dev_broker::DevBrokerConfig;
use millstream_protocol::IsolationLevel;
use millstream_protocol::records::Compression;
use millstream_testcontainers::{
    Cluster, DevCluster, Isolation, JavaClient, JavaRecord, KafkaCluster, ProduceOptions,
    ProducedRecord, TransactionEnd,
};
use millstream_tests::records::{consume_all, send_in_transaction, settled};

use crate::fixtures::{java, new_topic, our_client, runtime};

fn record(value: &str) -> JavaRecord {
    JavaRecord {
        partition: Some(0),
        timestamp: Some(1_357_017_420_000),
        value: Some(value.into()),
        ..JavaRecord::default()
    }
}

fn values(records: &[ProducedRecord]) -> Vec<&str> {
    records.iter().map(|record| str::from_utf8(record.value.as_ref().unwrap()).unwrap()).collect()
}

/// Both clients read the topic; what they see must be the same, and is returned.
fn seen(java: &JavaClient, cluster: &Cluster, topic: &str, committed: bool) -> Vec<ProducedRecord> {
    let (ours, javas) = match committed {
        true => (IsolationLevel::ReadCommitted, Isolation::ReadCommitted),
        false => (IsolationLevel::ReadUncommitted, Isolation::ReadUncommitted),
    };
    let javas = java.consume(&cluster.bootstrap_servers(), topic, javas).unwrap();
    let ours = runtime().block_on(async {
        let client = our_client(cluster).await;
        consume_all(&client, topic, ours).await
    });
    assert_eq!(ours, javas, "committed {committed}, on {cluster}");
    javas
}

fn transactions_are_seen_alike(java: &JavaClient, cluster: &Cluster) {
    let servers = cluster.bootstrap_servers();
    let topic = new_topic(java, cluster);
    let javas = |value: &str, id: &str, end: TransactionEnd| {
        // The one that is left open must not expire however slow the machine is.
        let patient = ("transaction.timeout.ms".to_owned(), "600000".to_owned());
        let options = ProduceOptions {
            transaction: Some((id.to_owned(), end)),
            properties: [patient].into(),
            ..ProduceOptions::default()
        };
        java.produce(&servers, &topic, &[record(value)], &options).unwrap();
    };
    let ours = |value: &str, commit: bool| {
        runtime().block_on(async {
            let client = our_client(cluster).await;
            let records = [record(value)];
            send_in_transaction(&client, "ours", &topic, Compression::Lz4, &records, commit).await;
        });
    };
    let settled =
        || runtime().block_on(async { settled(&our_client(cluster).await, &topic).await });
    javas("java commits", "javas", TransactionEnd::Commit);
    ours("we abort", false);
    javas("java aborts", "javas", TransactionEnd::Abort);
    // The same id again and again: each time a new owner that fences the one before.
    ours("we commit", true);
    ours("we commit again", true);
    settled();
    let all = ["java commits", "we abort", "java aborts", "we commit", "we commit again"];
    assert_eq!(values(&seen(java, cluster, &topic, false)), all);
    let committed = ["java commits", "we commit", "we commit again"];
    assert_eq!(values(&seen(java, cluster, &topic, true)), committed);

    // What is behind an open transaction is not visible, committed or not, until it ends.
    javas("java leaves open", "left-open", TransactionEnd::Open);
    ours("we commit behind it", true);
    assert_eq!(values(&seen(java, cluster, &topic, true)), committed);
    let open: Vec<_> = java
        .list_transactions(&servers)
        .unwrap()
        .into_iter()
        .filter(|transaction| transaction.state == "Ongoing")
        .map(|transaction| transaction.transactional_id)
        .collect();
    assert_eq!(open, ["left-open"]);
    javas("java goes on", "left-open", TransactionEnd::Commit);
    settled();
    let committed =
        [&committed[..], &["java leaves open", "we commit behind it", "java goes on"]].concat();
    assert_eq!(values(&seen(java, cluster, &topic, true)), committed);
}

#[test]
fn transactions_are_seen_alike_on_the_dev_broker() {
    let Some(java) = java("transactions_are_seen_alike_on_the_dev_broker") else { return };
    for level in [2, 0] {
        let config = DevBrokerConfig { transaction_version: level, ..DevBrokerConfig::default() };
        let cluster = Cluster::Dev(DevCluster::start(config).unwrap());
        transactions_are_seen_alike(java, &cluster);
    }
}

#[test]
fn transactions_are_seen_alike_on_real_kafka() {
    let name = "transactions_are_seen_alike_on_real_kafka";
    let Some(java) = java(name) else { return };
    for level in [2, 0] {
        let kafka = KafkaCluster::builder().transaction_version(level).start().unwrap();
        transactions_are_seen_alike(java, &Cluster::Kafka(kafka));
    }
}
