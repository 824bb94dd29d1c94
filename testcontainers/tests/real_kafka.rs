//! The launcher against real Apache Kafka: what other tests rely on.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use millstream_testcontainers::{
    Codec, ConsoleRecord, ConsumeEnd, FaultRule, Isolation, JavaClient, JavaRecord, KafkaCluster,
    ProduceOptions, TransactionEnd, api_key, real_kafka_or_skip,
};

const LIMIT: Duration = Duration::from_secs(60);

fn java() -> &'static JavaClient {
    static JAVA: OnceLock<JavaClient> = OnceLock::new();
    JAVA.get_or_init(|| JavaClient::start().unwrap())
}

fn record(key: &str, value: &str) -> JavaRecord {
    JavaRecord {
        partition: Some(0),
        timestamp: Some(1_357_017_420_000),
        key: Some(key.into()),
        value: Some(value.into()),
        headers: vec![("h".to_owned(), Some(vec![0, 255])), ("h".to_owned(), None)],
    }
}

fn transactional(id: &str, end: TransactionEnd) -> ProduceOptions {
    ProduceOptions { transaction: Some((id.to_owned(), end)), ..ProduceOptions::default() }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn single_broker_serves_java_client_and_tools_and_leaves_nothing_behind() {
    if !real_kafka_or_skip("single_broker_serves_java_client_and_tools_and_leaves_nothing_behind") {
        return;
    }
    let cluster = KafkaCluster::builder().transaction_version(0).start().unwrap();
    let servers = cluster.bootstrap_servers();
    cluster.create_topic("flights", 2, &["cleanup.policy=compact"]).unwrap();

    let committed = record("a", "1");
    let tombstone = JavaRecord { value: None, partition: Some(1), ..record("b", "") };
    let options =
        ProduceOptions { codec: Codec::Zstd, ..transactional("t/0", TransactionEnd::Commit) };
    let offsets = java()
        .produce(&servers, "flights", &[committed.clone(), tombstone.clone()], &options)
        .unwrap();
    assert_eq!(offsets, [(0, 0), (1, 0)]);
    java()
        .produce(
            &servers,
            "flights",
            &[record("x", "2")],
            &transactional("t/1", TransactionEnd::Abort),
        )
        .unwrap();
    java()
        .produce(
            &servers,
            "flights",
            &[record("y", "3")],
            &transactional("t/2", TransactionEnd::Open),
        )
        .unwrap();

    let read = java().consume(&servers, "flights", Isolation::ReadCommitted).unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!((&read[0].key, &read[0].value), (&committed.key, &committed.value));
    assert_eq!(read[0].headers, committed.headers);
    assert_eq!(read[0].timestamp, 1_357_017_420_000);
    assert_eq!((&read[1].key, &read[1].value), (&tombstone.key, &None));
    assert_eq!(java().consume(&servers, "flights", Isolation::ReadUncommitted).unwrap().len(), 4);

    let mut printed = cluster.console_consume("flights", ConsumeEnd::Records(2, LIMIT)).unwrap();
    printed.sort();
    let console = |partition, key: &str, value: Option<&str>| ConsoleRecord {
        partition,
        offset: 0,
        key: Some(key.to_owned()),
        value: value.map(str::to_owned),
    };
    assert_eq!(printed, [console(0, "a", Some("1")), console(1, "b", None)]);

    let listed = cluster.list_transactions().unwrap();
    let open: Vec<_> =
        listed.iter().filter(|t| t.is_open()).map(|t| t.transactional_id.as_str()).collect();
    assert_eq!((listed.len(), open), (3, vec!["t/2"]));
    let states: BTreeMap<_, _> = java()
        .list_transactions(&servers)
        .unwrap()
        .into_iter()
        .map(|t| (t.transactional_id, t.state))
        .collect();
    assert_eq!(states["t/0"], "CompleteCommit");
    assert_eq!(states["t/2"], "Ongoing");
    java().delete_topic(&servers, "flights").unwrap();
    wait_until("the topic is gone", || {
        java().consume(&servers, "flights", Isolation::ReadCommitted).is_err()
    });

    let process = cluster.process_id(0).unwrap();
    let folder = cluster.log_dir().to_path_buf();
    assert!(folder.join("node-1/kafka.log").is_file());
    drop(cluster);
    assert!(!PathBuf::from(format!("/proc/{process}")).exists());
    assert!(!folder.exists());
}

#[test]
fn killed_and_frozen_brokers_of_three_come_back_with_their_data() {
    if !real_kafka_or_skip("killed_and_frozen_brokers_of_three_come_back_with_their_data") {
        return;
    }
    let cluster = KafkaCluster::builder().brokers(3).start().unwrap();
    let servers = cluster.bootstrap_servers();
    java().create_topic(&servers, "flights", 1, &BTreeMap::new()).unwrap();
    let produce = |value: &str| {
        java()
            .produce(&servers, "flights", &[record("k", value)], &ProduceOptions::default())
            .unwrap()
    };
    produce("before");
    cluster.kill_broker(0).unwrap();
    produce("one is dead");
    cluster.start_broker(0).unwrap();
    cluster.pause_broker(1).unwrap();
    let state =
        fs::read_to_string(format!("/proc/{}/status", cluster.process_id(1).unwrap())).unwrap();
    assert!(state.contains("State:\tT"), "{state}");
    cluster.resume_broker(1).unwrap();
    cluster.stop_broker(2).unwrap();
    cluster.start_broker(2).unwrap();
    produce("after");
    let values: Vec<_> = java()
        .consume(&servers, "flights", Isolation::ReadCommitted)
        .unwrap()
        .into_iter()
        .map(|record| String::from_utf8(record.value.unwrap()).unwrap())
        .collect();
    assert_eq!(values, ["before", "one is dead", "after"]);
}

#[test]
fn clients_go_through_the_proxy_and_tools_around_it() {
    if !real_kafka_or_skip("clients_go_through_the_proxy_and_tools_around_it") {
        return;
    }
    let cluster = KafkaCluster::builder().fault_proxy().start().unwrap();
    let servers = cluster.bootstrap_servers();
    cluster.create_topic("flights", 1, &[]).unwrap();
    let proxy = cluster.proxy(0).unwrap();
    assert_eq!(proxy.connection_count(), 0);

    // The answer to the commit is lost once; the Java client asks again.
    let lost = proxy.add_rule(FaultRule::requests(api_key::END_TXN).times(1).cut_after());
    java()
        .produce(
            &servers,
            "flights",
            &[record("a", "1")],
            &transactional("t", TransactionEnd::Commit),
        )
        .unwrap();
    assert_eq!(lost.matched(), 1);
    assert!(proxy.request_count(api_key::END_TXN) >= 2);
    assert_eq!(java().consume(&servers, "flights", Isolation::ReadCommitted).unwrap().len(), 1);

    // A commit that is held leaves the transaction open, as the way around the proxy tells.
    let held = proxy.add_rule(FaultRule::requests(api_key::END_TXN).hold());
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| {
            java().produce(
                &servers,
                "flights",
                &[record("b", "2")],
                &transactional("u", TransactionEnd::Commit),
            )
        });
        assert!(held.blocking_wait_for(1, LIMIT));
        let is_open = || cluster.list_transactions().unwrap().iter().any(|t| t.is_open());
        assert!(is_open());
        held.release();
        commit.join().unwrap().unwrap();
        wait_until("the transaction is complete", || !is_open());
    });
}
