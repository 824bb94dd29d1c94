//! A coordinator that is killed in each state of a transaction goes on from there.

use millstream_protocol::{ErrorCode, ProducerIdAndEpoch};
use millstream_protocol_client::{ClientConfig, KafkaClient, NewTopic};
use millstream_testcontainers::{
    Availability, FaultRule, KafkaCluster, api_key, availability, real_kafka_or_skip, skip,
};
use millstream_tests::wait::wait_until;
use tokio::runtime::Runtime;

use crate::clusters::{LIMIT, partition};
use crate::raw::RawTransaction;

/// The states, with the one that each becomes once the broker is back.
const STATES: [(&str, &str); 6] = [
    ("Empty", "Empty"),
    ("Ongoing", "Ongoing"),
    ("PrepareCommit", "CompleteCommit"),
    ("PrepareAbort", "CompleteAbort"),
    ("CompleteCommit", "CompleteCommit"),
    ("CompleteAbort", "CompleteAbort"),
];

struct Life {
    version: i16,
    state: &'static str,
    then: &'static str,
    id: String,
    owner: ProducerIdAndEpoch,
}

#[test]
fn end_txn_coordinator_killed_in_each_state() {
    let name = "end_txn_coordinator_killed_in_each_state";
    if !real_kafka_or_skip(name) {
        return;
    }
    if *availability() != Availability::Jars {
        skip(name, "markers can be held only if a JVM runs the broker");
        return;
    }
    let cluster = KafkaCluster::builder().fault_proxy().links().start().unwrap();
    let servers = cluster.bootstrap_servers();
    Runtime::new().unwrap().block_on(async {
        let client = KafkaClient::connect(ClientConfig::new(&servers)).await.unwrap();
        client.create_topic(NewTopic::new("topic", 1, 1)).await.unwrap();
    });
    let link = cluster.link(0, 0).unwrap();
    // Those with held markers come last, or they would hold up the others.
    let (prepared, others): (Vec<_>, Vec<_>) =
        STATES.into_iter().partition(|(state, _)| state.starts_with("Prepare"));
    let mut lives = bring(&servers, &others);
    let held = link.add_rule(FaultRule::requests(api_key::WRITE_TXN_MARKERS).hold());
    lives.extend(bring(&servers, &prepared));
    cluster.kill_broker(0).unwrap();
    // What it had sent is lost with its connections.
    link.cut_connections();
    drop(held);
    cluster.start_broker(0).unwrap();
    for Life { version, state, then, id, owner } in lives {
        let mut transaction = RawTransaction::new(&servers, &id);
        transaction.wait_for(then);
        // Whoever did not hear of the end asks again.
        let commit = !state.ends_with("Abort");
        let expected =
            if state == "Empty" { ErrorCode::INVALID_TXN_STATE } else { ErrorCode::NONE };
        wait_until("an answer that lasts", LIMIT, || {
            let answer = transaction.end(version, owner, commit);
            assert!(answer.is_retriable() || answer == expected, "{state}, {version}: {answer}");
            answer == expected
        });
    }
}

/// Transactions in these states, by EndTxn of either version.
fn bring(servers: &str, states: &[(&'static str, &'static str)]) -> Vec<Life> {
    let tp = partition("topic", 0);
    let mut lives = Vec::new();
    for version in [4, 5] {
        for (state, then) in states {
            let id = format!("{state}-{version}");
            let mut transaction = RawTransaction::new(servers, &id);
            let owner = transaction.init();
            if *state != "Empty" {
                transaction.add_partition(owner, &tp);
            }
            if !matches!(*state, "Empty" | "Ongoing") {
                let ended = transaction.end(version, owner, state.ends_with("Commit"));
                assert_eq!(ended, ErrorCode::NONE, "{state}");
            }
            transaction.wait_for(state);
            lives.push(Life { version, state, then, id, owner });
        }
    }
    lives
}
