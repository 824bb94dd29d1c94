//! Brokers and networks that fail while a transaction is being committed.

use std::time::{Duration, Instant};

use millstream_protocol_client::TransactionFilter;
use millstream_testcontainers::{FaultRule, KafkaCluster, api_key, real_kafka_or_skip};
use millstream_tests::flights::{Query, SteadyFeed};
use millstream_tests::wait::{wait_until, wait_until_ok};

use crate::stage::{BOUNDED_LIMIT, Stage, setting, wait_until_it_runs};

const LIMIT: Duration = Duration::from_secs(120);

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The coordinator of the job's transactions.
    Coordinator,
    /// The leader of its ledger.
    LedgerLeader,
}

#[test]
fn leader_and_coordinator_are_killed_during_a_commit_with_transaction_version_2() {
    killed_during_commits(2);
}

#[test]
#[ignore = "the other half of the matrix"]
fn leader_and_coordinator_are_killed_during_a_commit_with_transaction_version_0() {
    killed_during_commits(0);
}

fn killed_during_commits(level: u16) {
    let name = format!("brokers killed during a commit TV{level}");
    if !real_kafka_or_skip(&name) {
        return;
    }
    let builder = KafkaCluster::builder().brokers(3).transaction_version(level).fault_proxy();
    let stage = Stage::new(builder, Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
    let mut job = stage.command().start(false);
    wait_until_it_runs(&mut job);
    for kill in 0..setting("MILLSTREAM_BROKER_KILLS", 2) {
        let victim = if kill % 2 == 0 { Victim::Coordinator } else { Victim::LedgerLeader };
        // The answer to EndTxn is lost in every other pair: the commit is decided, and the job can not know.
        let answered = kill % 4 >= 2;
        let broker = find(&stage, victim);
        let coordinator = find(&stage, Victim::Coordinator);
        let rule = match answered {
            true => FaultRule::responses(api_key::END_TXN),
            false => FaultRule::requests(api_key::END_TXN),
        };
        let proxy = stage.cluster.proxy(coordinator).expect("a proxy");
        let end_txn = proxy.add_rule(rule.times(1).hold());
        assert!(end_txn.blocking_wait_for(1, LIMIT), "no EndTxn:\n{}", job.output());
        stage.cluster.kill_broker(broker).expect("a killed broker");
        end_txn.release();
        stage.cluster.start_broker(broker).expect("the broker again");
        wait_until_all_replicas_are_in_sync(&stage);
        let written = feed.written();
        wait_until("more input", LIMIT, || feed.written() > written + 100);
        assert!(!job.has_ended(), "{victim:?}, answer lost: {answered}:\n{}", job.output());
        println!("{name}: {victim:?} {broker} killed, answer lost: {answered}");
    }
    let lines = feed.stop();
    job.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    assert_eq!(stage.check_totals(&lines), Ok(()), "{name}");
    stage.assert_nothing_open();
}

/// Index of the broker.
fn find(stage: &Stage, victim: Victim) -> usize {
    let (runtime, client) = stage.client();
    let mut found = None;
    wait_until("the broker is known", LIMIT, || {
        let node = runtime.block_on(async {
            match victim {
                Victim::Coordinator => {
                    let listed = client.list_transactions(&TransactionFilter::default()).await;
                    let id = stage.transactional_id();
                    let listed = listed.unwrap_or_default();
                    listed.into_iter().find(|it| it.transactional_id == id).map(|it| it.coordinator)
                }
                Victim::LedgerLeader => {
                    let ledger = millstream_engine::ledger_topic("flights-q1");
                    let described = client.describe_topic(&ledger).await.ok().flatten();
                    described.and_then(|it| it.partitions.first().map(|first| first.leader))
                }
            }
        });
        found = node.and_then(|node| usize::try_from(node - 1).ok());
        found.is_some()
    });
    found.expect("found")
}

fn wait_until_all_replicas_are_in_sync(stage: &Stage) {
    let (runtime, client) = stage.client();
    let ledger = millstream_engine::ledger_topic("flights-q1");
    wait_until("all replicas are in sync", LIMIT, || {
        [&ledger, &stage.input, &stage.output].into_iter().all(|topic| {
            let described = runtime.block_on(client.describe_topic(topic)).ok().flatten();
            described.is_some_and(|it| {
                it.partitions.iter().all(|partition| {
                    partition.leader >= 0
                        && partition.in_sync_replicas.len() == partition.replicas.len()
                })
            })
        })
    });
}

#[test]
#[ignore = "takes a minute"]
fn thirty_seconds_without_a_network_cost_a_replay_and_nothing_else() {
    if !real_kafka_or_skip("a network partition") {
        return;
    }
    for level in [2, 0] {
        let builder = KafkaCluster::builder()
            .transaction_version(level)
            .property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
            .fault_proxy();
        let stage = Stage::new(builder, Query::Q1);
        let bootstrap = stage.cluster.direct_bootstrap_servers();
        let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
        let mut job = stage.command().property("transaction.timeout.ms=10000").start(false);
        wait_until_it_runs(&mut job);
        let written = feed.written();
        wait_until("more input", LIMIT, || feed.written() > written + 300);
        let proxy = stage.cluster.proxy(0).expect("a proxy");
        proxy.start_blackhole();
        let end = Instant::now() + Duration::from_secs(30);
        // How long it lasts is what the test is about.
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        proxy.end_blackhole();
        // Everything that was written meanwhile is read and committed, with a replay if a transaction was open at the cut.
        let written = feed.written();
        let (runtime, client) = stage.client();
        wait_until_ok("the output", LIMIT, || {
            let done = job.has_ended() || stage.count_output(&runtime, &client) >= written;
            if done { Ok(()) } else { Err(job.output()) }
        });
        assert!(!job.has_ended(), "TV{level}:\n{}", job.output());
        let replays = job.output().matches("running from checkpoint").count() - 1;
        println!("TV{level}: {replays} replays after 30 s without a network");
        let lines = feed.stop();
        job.stop();
        stage.command().run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check_totals(&lines), Ok(()), "TV{level}");
        stage.assert_nothing_open();
    }
}
