//! Processes that are frozen longer than their transaction lives, and processes that compete for one job.

use std::time::{Duration, Instant};

use millstream_testcontainers::{JavaClient, KafkaCluster, Signal, real_kafka_or_skip};
use millstream_tests::copy_folder;
use millstream_tests::flights::{Feed, FlightsJob, Query, input_lines};

use millstream_tests::wait::wait_until;

use crate::stage::{BOUNDED_LIMIT, Stage};

/// `transaction.timeout.ms` of the job, and how often the broker looks for expired ones.
const TIMEOUT: Duration = Duration::from_secs(3);

fn cluster() -> millstream_testcontainers::KafkaClusterBuilder {
    KafkaCluster::builder()
        .property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
}

#[test]
fn a_transaction_that_expired_while_the_process_was_frozen_is_replayed_in_process() {
    if !real_kafka_or_skip("expired transaction") {
        return;
    }
    for level in [2, 0] {
        let stage = Stage::new(cluster().transaction_version(level), Query::Q1);
        let lines = input_lines();
        let inputs = lines.len();
        let command =
            stage.command().property(&format!("transaction.timeout.ms={}", TIMEOUT.as_millis()));
        let feed = Feed::start(
            &stage.cluster.bootstrap_servers(),
            &stage.input,
            lines,
            Duration::from_secs(25),
        );
        let java = JavaClient::start().expect("the Java client");
        let mut job = command.start(false);
        // Before that the open transaction may be the owner record's, whose death recovery itself deals with.
        wait_for(|| job.output().contains("running from checkpoint"), "the job runs");
        for _ in 0..2 {
            freeze_with_open_transaction(&java, &stage, &job, &feed);
            wait_for(|| stage.transaction_state(&java) == "CompleteAbort", "the broker's abort");
            let died = job.output().matches("rolling back").count();
            job.signal(Signal::Cont);
            let deadline = Instant::now() + Duration::from_secs(60);
            while job.output().matches("rolling back").count() == died {
                assert!(
                    Instant::now() < deadline,
                    "no rollback (TV{level}); it said:\n{}",
                    job.output()
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        feed.finish();
        assert!(!job.has_ended(), "the job ended instead of replaying:\n{}", job.output());
        job.stop();
        command.run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check(inputs), Ok(()), "TV{level}");
        stage.assert_nothing_open();
    }
}

#[test]
fn a_second_process_on_a_copy_takes_over_and_the_first_is_fenced() {
    if !real_kafka_or_skip("takeover") {
        return;
    }
    for level in [2, 0] {
        let stage = Stage::new(cluster().transaction_version(level), Query::Q2);
        let lines = input_lines();
        let inputs = lines.len();
        let feed = Feed::start(
            &stage.cluster.bootstrap_servers(),
            &stage.input,
            lines,
            Duration::from_secs(10),
        );
        let mut first = stage.command().start(false);
        wait_for(|| feed.written() > inputs / 3, "a third of the input");
        first.signal(Signal::Stop);
        let copy = tempfile::tempdir().expect("a folder");
        copy_folder(stage.state.path(), copy.path());
        let second_command = stage.command().state_dir(copy.path());
        let second = second_command.start(false);
        wait_for_checkpoints(&second);
        first.signal(Signal::Cont);
        let code = first.exit_code(Duration::from_secs(30));
        assert_eq!(code, 76, "exit code of the first process (TV{level}):\n{}", first.output());
        assert!(first.output().contains("FENCED"), "{}", first.output());
        feed.finish();
        second.stop();
        second_command.run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check(inputs), Ok(()), "TV{level}");
        stage.assert_nothing_open();
    }
}

#[test]
fn a_second_start_with_an_empty_or_older_directory_stops_and_leaves_the_first_running() {
    if !real_kafka_or_skip("second start") {
        return;
    }
    let stage = Stage::new(cluster(), Query::Q1);
    let lines = input_lines();
    let inputs = lines.len();
    let feed = Feed::start(
        &stage.cluster.bootstrap_servers(),
        &stage.input,
        lines,
        Duration::from_secs(20),
    );
    let mut first = stage.command().start(false);
    wait_for(|| feed.written() > inputs / 10, "some input");
    // A stop between two checkpoints gives an older directory that is whole.
    let older = tempfile::tempdir().expect("a folder");
    first.signal(Signal::Stop);
    copy_folder(stage.state.path(), older.path());
    first.signal(Signal::Cont);
    wait_for(|| feed.written() > inputs / 3, "more input");

    let empty = tempfile::tempdir().expect("a folder");
    for (kind, folder) in [("empty", empty.path()), ("older", older.path())] {
        let mut second = stage.command().state_dir(folder).start(false);
        let code = second.exit_code(Duration::from_secs(30));
        assert_eq!(code, 73, "exit code with the {kind} directory:\n{}", second.output());
        assert!(!first.has_ended(), "the first process ended:\n{}", first.output());
    }
    feed.finish();
    first.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    assert_eq!(stage.check(inputs), Ok(()));
    stage.assert_nothing_open();
}

/// Freezes the job at a moment at which its transaction is open; between two checkpoints there may be none.
fn freeze_with_open_transaction(java: &JavaClient, stage: &Stage, job: &FlightsJob, feed: &Feed) {
    let written = feed.written();
    wait_for(|| feed.written() > written, "more input");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        job.signal(Signal::Stop);
        if stage.transaction_state(java) == "Ongoing" {
            return;
        }
        job.signal(Signal::Cont);
        assert!(
            Instant::now() < deadline,
            "no transaction was open at any moment:\n{}",
            job.output()
        );
        let written = feed.written();
        wait_for(|| feed.written() > written, "more input");
    }
}

impl Stage {
    /// The coordinator's state of the job's transactional id; empty if it does not know it.
    fn transaction_state(&self, java: &JavaClient) -> String {
        let listed = java.list_transactions(&self.cluster.bootstrap_servers());
        let id = self.transactional_id();
        let found = listed.expect("a list").into_iter().find(|found| found.transactional_id == id);
        found.map(|found| found.state).unwrap_or_default()
    }
}

/// Waits until the second process has taken the job over: it keeps running and its directory moves on.
fn wait_for_checkpoints(job: &FlightsJob) {
    wait_for(|| job.output().contains("running from checkpoint"), "the second process runs");
}

fn wait_for(condition: impl FnMut() -> bool, what: &str) {
    wait_until(what, Duration::from_secs(60), condition);
}
