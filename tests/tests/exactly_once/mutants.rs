//! Wrong variants of the commit protocol. Each scenario places a crash in the window that a rule of the protocol closes: the
//! protocol as it is passes, the variant without the rule must be noticed.

use std::time::Duration;

use millstream_testcontainers::{FaultRule, JavaClient, KafkaCluster, api_key, real_kafka_or_skip};
use millstream_tests::flights::{Expected, Feed, FlightsCommand, OutputRecord, Query, input_lines};
use millstream_tests::wait::wait_until;

use crate::stage::{BOUNDED_LIMIT, Stage};

const INPUTS: usize = 20_000;
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_ledger_that_is_read_before_the_fence_is_noticed() {
    if !real_kafka_or_skip("mutant ReadBeforeFence") {
        return;
    }
    assert_eq!(late_end_txn(None), Ok(()));
    assert!(late_end_txn(Some("ReadBeforeFence")).is_err(), "the mutant was not noticed");
}

#[test]
fn state_that_is_applied_before_the_commit_is_noticed() {
    if !real_kafka_or_skip("mutant ApplyBeforeCommit") {
        return;
    }
    assert_eq!(crash_at("DeltaWritten", None), Ok(()));
    let noticed = crash_at("DeltaWritten", Some("ApplyBeforeCommit"));
    assert!(noticed.is_err(), "the mutant was not noticed");
}

#[test]
fn a_ledger_record_outside_the_transaction_is_noticed() {
    if !real_kafka_or_skip("mutant LedgerOutsideTransaction") {
        return;
    }
    assert_eq!(crash_at("Voted", None), Ok(()));
    let noticed = crash_at("Voted", Some("LedgerOutsideTransaction"));
    assert!(noticed.is_err(), "the mutant was not noticed");
}

/// The process dies while its EndTxn is on the way; the next one starts, and only then the EndTxn arrives.
fn late_end_txn(mutant: Option<&str>) -> Result<(), String> {
    let stage = Stage::new(KafkaCluster::builder().fault_proxy(), Query::Q1);
    let lines: Vec<String> = input_lines().into_iter().take(INPUTS).collect();
    let expected = Expected::totals_of(&lines);
    Feed::all(&stage.cluster.bootstrap_servers(), &stage.input, lines);
    let proxy = stage.cluster.proxy(0).expect("a proxy");
    let command = with_mutant(stage.command(), mutant);

    // The first EndTxn is the owner record's; the one after it commits the first output.
    let first_commit =
        proxy.add_rule(FaultRule::requests(api_key::END_TXN).skip(1).times(1).hold());
    let first = command.start(false);
    assert!(first_commit.blocking_wait_for(1, LIMIT), "no EndTxn was sent:\n{}", first.output());
    first.kill();

    let fence = proxy.add_rule(FaultRule::requests(api_key::INIT_PRODUCER_ID).times(1).hold());
    let second = command.start(false);
    assert!(fence.blocking_wait_for(1, LIMIT), "no InitProducerId was sent:\n{}", second.output());
    first_commit.release();
    let java = JavaClient::start().expect("the Java client");
    let deadline = std::time::Instant::now() + LIMIT;
    let committed = || {
        let listed = java.list_transactions(&stage.cluster.direct_bootstrap_servers());
        listed.is_ok_and(|list| list.iter().any(|found| found.state == "CompleteCommit"))
    };
    while !committed() {
        assert!(std::time::Instant::now() < deadline, "the held EndTxn did not commit");
    }
    fence.release();
    let mut second = second;
    if second.has_ended() {
        return Err(second.output());
    }
    finish(&stage, &command, second, &expected)
}

/// The process dies at a named step of its first checkpoint; the next one, without a mutant, goes on.
fn crash_at(step: &str, mutant: Option<&str>) -> Result<(), String> {
    let stage = Stage::new(KafkaCluster::builder(), Query::Q1);
    let lines: Vec<String> = input_lines().into_iter().take(INPUTS).collect();
    let expected = Expected::totals_of(&lines);
    Feed::all(&stage.cluster.bootstrap_servers(), &stage.input, lines);
    let command = with_mutant(stage.command(), mutant).environment("MILLSTREAM_CRASH_AT", step);
    let mut first = command.start(false);
    assert_ne!(first.exit_code(LIMIT), 0, "the job did not crash:\n{}", first.output());

    let command = stage.command();
    let second = command.start(false);
    finish(&stage, &command, second, &expected)
}

/// Lets the job read everything and checks the output.
fn finish(
    stage: &Stage,
    command: &FlightsCommand,
    mut job: millstream_tests::flights::FlightsJob,
    expected: &Expected,
) -> Result<(), String> {
    wait_until("the job runs or has ended", LIMIT, || {
        job.has_ended() || job.output().contains("running from checkpoint")
    });
    job.signal(millstream_testcontainers::Signal::Term);
    if job.exit_code(LIMIT) != 0 {
        return Err(job.output());
    }
    let mut bounded = command.start(true);
    if bounded.exit_code(BOUNDED_LIMIT) != 0 {
        return Err(bounded.output());
    }
    let output: Vec<OutputRecord> = stage.read_output();
    expected.check(&output, INPUTS)
}

fn with_mutant(command: FlightsCommand, mutant: Option<&str>) -> FlightsCommand {
    match mutant {
        Some(name) => command.environment("MILLSTREAM_MUTANT", name),
        None => command,
    }
}
