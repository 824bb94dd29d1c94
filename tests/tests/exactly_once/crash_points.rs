//! The process dies at each named step of the commit protocol, on real brokers, and the next one goes on.

use std::time::{Duration, Instant};

use millstream_engine::crash_points;
use millstream_testcontainers::{ConsumeEnd, KafkaCluster, Signal, real_kafka_or_skip};
use millstream_tests::copy_folder;
use millstream_tests::flights::{
    Expected, FlightsCommand, FlightsJob, OutputRecord, PARTITIONS, Query, SteadyFeed,
};
use millstream_tests::wait::wait_until;

use crate::stage::{BOUNDED_LIMIT, Stage, setting, wait_until_it_runs};

/// A job reaches any step within that time.
const LIMIT: Duration = Duration::from_secs(60);

/// A process that aborts, as the shell counts it.
const ABORTED: i32 = 134;

/// Steps of a job that has nothing yet, in an order in which each still finds nothing.
const FIRST_START: [&str; 8] = [
    "Locked",
    "LedgerOpened",
    "MetaCreate",
    "MetaSync",
    "MetaRename",
    "FirstMeta",
    "OwnerVoted",
    "OwnerCommitted",
];

/// Steps of a rollback in a process that lives on, and which passage of each is in it.
const ROLLBACK: [(&str, u32); 9] = [
    ("RollbackBegun", 1),
    ("Discarded", 1),
    ("Fenced", 2),
    ("Resolved", 2),
    ("Decided", 2),
    ("Quarantined", 2),
    ("Replayed", 2),
    ("Repaired", 2),
    ("RolledBack", 1),
];

/// Steps of a start, which a second process goes through when it takes over.
const TAKEOVER: [&str; 9] = [
    "Locked",
    "Looked",
    "Fenced",
    "Resolved",
    "Decided",
    "Repaired",
    "OwnerVoted",
    "OwnerCommitted",
    "Owned",
];

#[test]
fn every_crash_point_loses_and_doubles_nothing_with_transaction_version_2() {
    crash_everywhere(2);
}

#[test]
fn every_crash_point_loses_and_doubles_nothing_with_transaction_version_0() {
    crash_everywhere(0);
}

fn crash_everywhere(transaction_version: u16) {
    let name = format!("crash points TV{transaction_version}");
    if !real_kafka_or_skip(&name) {
        return;
    }
    let rounds = setting("MILLSTREAM_CRASH_ROUNDS", 1);
    let brokers = usize::try_from(setting("MILLSTREAM_BROKERS", 1)).expect("few brokers");
    let builder = KafkaCluster::builder().brokers(brokers).transaction_version(transaction_version);
    let stage = Stage::new(builder, Query::Q1);
    let begun = Instant::now();
    let mut crashes = 0;
    for round in 0..rounds {
        crashes += crash_round(&stage, round);
    }
    stage.assert_nothing_open();
    println!("{name}, {brokers} brokers: {crashes} crashes in {:?}", begun.elapsed());
}

/// A new job dies once at each point; its output has to be the answer. Gives the number of crashes.
fn crash_round(stage: &Stage, round: u64) -> usize {
    let (input, output) = (format!("crash-in-{round}"), format!("crash-out-{round}"));
    for topic in [&input, &output] {
        let partitions = PARTITIONS.unsigned_abs();
        stage.cluster.create_topic(topic, partitions, &["retention.ms=-1"]).expect("a topic");
    }
    let state = tempfile::tempdir().expect("a state directory");
    let bootstrap = stage.cluster.bootstrap_servers();
    let mut command = FlightsCommand::new(Query::Q1, &bootstrap, &input, &output, state.path());
    command.job = Some(format!("crash-{round}"));
    let fence = Fence::new(stage, format!("crash-{round}/0"));
    let feed = SteadyFeed::start(&bootstrap, &input, 10, Duration::from_millis(20));

    let chosen = std::env::var("MILLSTREAM_CRASH_POINTS").ok();
    let is_chosen = |step: &str| {
        chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|wanted| wanted == step))
    };
    let in_rollback =
        |step: &str| ROLLBACK.iter().any(|(known, passage)| *known == step && *passage == 1);
    let later =
        crash_points().into_iter().filter(|step| *step != "FirstMeta" && !in_rollback(step));
    let starts: Vec<&str> = FIRST_START.into_iter().chain(later).filter(|s| is_chosen(s)).collect();
    let mut crashes = 0;
    for step in starts {
        let job = command.clone().environment("MILLSTREAM_CRASH_AT", step).start(false);
        expect_crash(job, step, || {});
        crashes += 1;
    }
    for (step, passage) in ROLLBACK.into_iter().filter(|(step, _)| is_chosen(step)) {
        let at = format!("{step}:{passage}");
        let mut job = command.clone().environment("MILLSTREAM_CRASH_AT", &at).start(false);
        wait_until_it_runs(&mut job);
        // A transaction that is fenced dies with the next checkpoint; between two there may be none.
        expect_crash(job, &at, || fence.fence());
        crashes += 1;
    }
    let lines = feed.stop();
    command.run_bounded(BOUNDED_LIMIT);
    let records = stage.cluster.console_consume(&output, ConsumeEnd::Idle(Duration::from_secs(8)));
    let records: Vec<OutputRecord> = records
        .expect("the console consumer")
        .into_iter()
        .map(|record| OutputRecord {
            partition: record.partition,
            offset: record.offset,
            key: record.key,
            value: record.value,
        })
        .collect();
    assert_eq!(Expected::totals_of(&lines).check(&records, lines.len()), Ok(()), "round {round}");
    crashes
}

/// Waits until the job has died at `step`, doing `meanwhile` again and again.
fn expect_crash(mut job: FlightsJob, step: &str, mut meanwhile: impl FnMut()) {
    let deadline = Instant::now() + LIMIT;
    let mut next = Instant::now();
    while !job.has_ended() {
        assert!(Instant::now() < deadline, "{step} was not reached; it said:\n{}", job.output());
        if Instant::now() >= next {
            meanwhile();
            next = Instant::now() + Duration::from_millis(500);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(job.exit_code(LIMIT), ABORTED, "{step}; it said:\n{}", job.output());
}

/// Another producer that takes the job's transactional id and does nothing with it.
struct Fence {
    runtime: tokio::runtime::Runtime,
    client: millstream_engine::kafka::KafkaClient,
    transactional_id: String,
}

impl Fence {
    fn new(stage: &Stage, transactional_id: String) -> Self {
        let (runtime, client) = stage.client();
        Self { runtime, client, transactional_id }
    }

    fn fence(&self) {
        let producer = self.client.producer(Some(&self.transactional_id));
        // It may meet the job's own request; then the next try fences.
        let _ = self.runtime.block_on(producer.init_transactions());
    }
}

#[test]
fn a_second_process_that_dies_while_it_takes_over_leaves_a_job_that_goes_on() {
    if !real_kafka_or_skip("crashes during a takeover") {
        return;
    }
    for level in [2, 0] {
        let stage = Stage::new(KafkaCluster::builder().transaction_version(level), Query::Q1);
        let bootstrap = stage.cluster.bootstrap_servers();
        let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
        let mut first = stage.command().start(false);
        for step in TAKEOVER {
            if first.has_ended() {
                first = stage.command().start(false);
            }
            wait_until_it_runs(&mut first);
            first.signal(Signal::Stop);
            let copy = tempfile::tempdir().expect("a folder");
            copy_folder(stage.state.path(), copy.path());
            let second = stage.command().state_dir(copy.path());
            expect_crash(second.environment("MILLSTREAM_CRASH_AT", step).start(false), step, || {});
            first.signal(Signal::Cont);
            if matches!(step, "OwnerCommitted" | "Owned") {
                assert_eq!(first.exit_code(LIMIT), 76, "{step} TV{level}:\n{}", first.output());
            } else {
                // It goes on: what it had frozen with is committed, or rolled back and replayed.
                let written = feed.written();
                wait_until("more input", LIMIT, || feed.written() > written + 100);
                assert!(!first.has_ended(), "{step} TV{level}:\n{}", first.output());
            }
        }
        let lines = feed.stop();
        if !first.has_ended() {
            first.stop();
        }
        stage.command().run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check_totals(&lines), Ok(()), "TV{level}");
        stage.assert_nothing_open();
    }
}
