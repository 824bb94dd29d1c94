//! The cluster's `transaction.version` changes, between two runs and while one is at work.

use std::time::Duration;

use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
use millstream_tests::flights::{Query, SteadyFeed};
use millstream_tests::wait::wait_until;

use crate::stage::{BOUNDED_LIMIT, Stage, wait_until_it_runs};

const LIMIT: Duration = Duration::from_secs(60);

impl Stage {
    /// Changes the level of the cluster's feature, with Kafka's tool.
    fn set_transaction_version(&self, verb: &str, level: u16) {
        let bootstrap = self.cluster.tool_bootstrap_servers();
        let feature = format!("transaction.version={level}");
        let args = ["--bootstrap-server", &bootstrap, verb, "--feature", &feature];
        self.cluster
            .run_tool("org.apache.kafka.tools.FeatureCommand", &args)
            .expect("the feature's new level");
    }
}

#[test]
fn the_transaction_version_may_change_between_runs_and_within_one() {
    if !real_kafka_or_skip("changed transaction.version") {
        return;
    }
    let stage = Stage::new(KafkaCluster::builder().transaction_version(0), Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
    let more_input = || {
        let written = feed.written();
        wait_until("more input", LIMIT, || feed.written() > written + 300);
    };
    for (verb, level) in [("upgrade", 1), ("upgrade", 2), ("downgrade", 1), ("upgrade", 2)] {
        // Killed under the old level, with a transaction that is likely open, and started under the new one.
        let mut job = stage.command().start(false);
        wait_until_it_runs(&mut job);
        more_input();
        job.kill();
        stage.set_transaction_version(verb, level);
        let mut job = stage.command().start(false);
        wait_until_it_runs(&mut job);
        more_input();
        job.stop();
    }
    // Under a running job.
    let mut job = stage.command().start(false);
    wait_until_it_runs(&mut job);
    for (verb, level) in [("downgrade", 1), ("upgrade", 2)] {
        more_input();
        stage.set_transaction_version(verb, level);
        more_input();
        assert!(!job.has_ended(), "{verb} to {level}:\n{}", job.output());
    }
    job.stop();
    let lines = feed.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    assert_eq!(stage.check_totals(&lines), Ok(()));
    stage.assert_nothing_open();
}
