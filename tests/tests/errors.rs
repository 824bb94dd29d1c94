//! What a user gets to see when something is wrong: cause, place, next step, an exit code that is not 0, within 15 seconds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millstream_dev_broker::{FaultAction, FaultRule, Occurrence};
use millstream_engine::checkpoint::savepoint_of_directory;
use millstream_protocol::{ApiKey, ErrorCode};
use millstream_testcontainers::Signal;
use millstream_tests::LocalBroker;
use millstream_tests::flights::{FlightsCommand, FlightsJob, PARTITIONS, Query, input_lines};
use millstream_tests::wait::wait_until;

const LIMIT: Duration = Duration::from_secs(15);

/// A broker with the topics of q1 and some input.
struct Stage {
    broker: LocalBroker,
    state: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let broker = LocalBroker::start();
        broker.create_topic("flights", PARTITIONS);
        broker.create_topic("out", PARTITIONS);
        let lines = input_lines();
        let values: Vec<&[u8]> = lines.iter().take(1000).map(|line| line.as_bytes()).collect();
        broker.write("flights", 0, &values);
        Self { broker, state: tempfile::tempdir().expect("a folder") }
    }

    fn command(&self) -> FlightsCommand {
        FlightsCommand::new(Query::Q1, &self.broker.address(), "flights", "out", self.state.path())
    }
}

/// Starts the job and expects it to fail with `code` and to say all of `words`.
fn assert_refused(command: &FlightsCommand, code: i32, words: &[&str]) {
    let mut job = command.start(false);
    assert_said(&mut job, code, words);
}

fn assert_said(job: &mut FlightsJob, code: i32, words: &[&str]) {
    let found = job.exit_code(LIMIT);
    let said = job.output();
    assert_eq!(found, code, "exit code; the job said:\n{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing in:\n{said}");
    }
}

fn wait_for(condition: impl FnMut() -> bool, what: &str) {
    wait_until(what, Duration::from_secs(60), condition);
}

#[test]
fn no_broker_at_the_address() {
    // A port that was free a moment ago, and a name that does not exist.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = port.expect("a free port").to_string();
    let state = tempfile::tempdir().expect("a folder");
    let command = FlightsCommand::new(Query::Q1, &address, "flights", "out", state.path());
    assert_refused(&command, 69, &[&address, "refused"]);
    let command =
        FlightsCommand::new(Query::Q1, "no-such-host.invalid:9092", "flights", "out", state.path());
    assert_refused(&command, 69, &["no-such-host.invalid"]);
}

/// Answers every connection with `answer` as soon as it hears something.
fn server_that_says(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut heard = [0; 64];
            if stream.read(&mut heard).is_ok() {
                let _ = stream.write_all(answer);
            }
        }
    });
    address
}

#[test]
fn the_port_speaks_http_or_tls() {
    let state = tempfile::tempdir().expect("a folder");
    let http = server_that_says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let command = FlightsCommand::new(Query::Q1, &http, "flights", "out", state.path());
    assert_refused(&command, 69, &[&http, "HTTP"]);
    // A fatal alert: unexpected message.
    let tls = server_that_says(&[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x0a]);
    let command = FlightsCommand::new(Query::Q1, &tls, "flights", "out", state.path());
    assert_refused(&command, 69, &[&tls, "TLS"]);
}

#[test]
fn the_input_topic_is_missing() {
    let stage = Stage::new();
    let command = FlightsCommand::new(
        Query::Q1,
        &stage.broker.address(),
        "flihgts",
        "out",
        stage.state.path(),
    );
    assert_refused(&command, 69, &["flihgts", "does not exist", "create it"]);
}

/// It would be without effect: sources read committed records whatever it says.
#[test]
fn a_job_can_not_be_told_to_read_uncommitted_records() {
    let stage = Stage::new();
    let command = stage.command().property("isolation.level=read_uncommitted");
    assert_refused(&command, 78, &["isolation.level", "read_uncommitted", "committed records"]);
    assert!(!stage.state.path().join("META").exists(), "nothing was begun");
    stage.command().property("isolation.level=read_committed").run_bounded(LIMIT);
}

/// One microsecond is no time for any checkpoint.
#[test]
fn a_checkpoint_timeout_that_is_too_short_is_named() {
    let stage = Stage::new();
    let command = stage
        .command()
        .option("execution.checkpointing.timeout=1us")
        .option("execution.checkpointing.tolerable-failed-checkpoints=0")
        .option("restart-strategy.type=none");
    let words = ["1µs (execution.checkpointing.timeout)", "1 checkpoint failed, 0 may"];
    assert_refused(&command, 1, &words);
}

#[test]
fn the_state_directory_is_in_use() {
    let stage = Stage::new();
    let first = stage.command().start(false);
    wait_for(|| first.output().contains("running from checkpoint"), "the first job");
    assert!(!first.output().contains('\u{1b}'), "colours in a file:\n{}", first.output());
    assert_refused(&stage.command(), 73, &["in use", &stage.state.path().display().to_string()]);
    first.stop();
}

#[test]
fn the_state_directory_belongs_to_another_job() {
    let stage = Stage::new();
    stage.command().run_bounded(LIMIT);
    let mut other = stage.command();
    other.job = Some("another".to_owned());
    assert_refused(&other, 73, &["flights-q1", "another"]);
}

#[test]
fn the_ledger_topic_was_deleted() {
    let stage = Stage::new();
    let job = stage.command().start(false);
    wait_for(|| stage.broker.read("out", PARTITIONS).len() == 1000, "the output");
    job.stop();
    stage.broker.delete_topic("flights-q1.millstream-ledger");
    assert_refused(
        &stage.command(),
        73,
        &["flights-q1.millstream-ledger", "checkpoint", "restore"],
    );
    let words = ["--accept-rewind does not apply", "does not exist", "--adopt-local"];
    assert_refused(&stage.command().argument("--accept-rewind"), 73, &words);
}

#[test]
fn a_delta_file_has_a_flipped_byte() {
    let stage = Stage::new();
    // Dies after the commit and before anything but the delta file knows of it.
    let command = stage.command().environment("MILLSTREAM_CRASH_AT", "Committed");
    let mut job = command.start(false);
    assert_ne!(job.exit_code(LIMIT), 0, "{}", job.output());
    let delta = newest_delta(stage.state.path());
    let mut bytes = std::fs::read(&delta).expect("the delta file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&delta, bytes).expect("a changed file");
    let words = ["checkpoint", "is damaged or was put aside", ".quarantined", "which goes on from"];
    assert_refused(&stage.command(), 73, &words);
}

/// The state is right, the cluster is another one that has topics of the same names.
#[test]
fn a_word_on_the_wrong_cluster_changes_neither_the_state_nor_that_cluster() {
    let stage = Stage::new();
    let job = stage.command().start(false);
    wait_for(|| stage.broker.read("out", PARTITIONS).len() == 1000, "the output");
    job.stop();
    let meta = std::fs::read(stage.state.path().join("META")).expect("META");
    let other = Stage::new();
    let on_other = FlightsCommand::new(
        Query::Q1,
        &other.broker.address(),
        "flights",
        "out",
        stage.state.path(),
    );
    let made_anew = ["flights-", "deleted and made anew"];
    assert_refused(&on_other.clone().argument("--adopt-local"), 66, &made_anew);
    assert_refused(&on_other.clone().argument("--accept-rewind"), 66, &made_anew);
    assert_refused(&on_other, 73, &["flights-q1.millstream-ledger", "does not exist"]);
    // A savepoint of it is not restored there either.
    let folder = tempfile::tempdir().expect("a folder");
    let (savepoint, empty) = (folder.path().join("sp"), folder.path().join("empty"));
    savepoint_of_directory(stage.state.path(), &savepoint, 0, None).expect("a savepoint");
    let restored = on_other
        .state_dir(&empty)
        .argument("--from-savepoint")
        .argument(savepoint.to_str().expect("a name"))
        .argument("--adopt-local");
    assert_refused(&restored, 66, &made_anew);
    assert!(!empty.join("META").exists() && !empty.join("RESTORED").exists());
    assert_eq!(std::fs::read(stage.state.path().join("META")).expect("META"), meta);
    stage.command().run_bounded(LIMIT);
}

#[test]
fn the_ledger_topic_has_another_cleanup_policy() {
    let stage = Stage::new();
    stage.broker.create_topic("flights-q1.millstream-ledger", 1);
    let command =
        "millstream topic alter flights-q1.millstream-ledger --config cleanup.policy=compact";
    assert_refused(&stage.command(), 73, &["cleanup.policy=\"delete\"", command]);
    let word = stage.command().argument("--accept-rewind");
    assert_refused(&word, 73, &["--accept-rewind does not apply", command]);
}

fn newest_delta(state: &Path) -> PathBuf {
    let entries = std::fs::read_dir(state.join("deltas")).expect("the folder of delta files");
    let files = entries.map(|entry| entry.expect("an entry").path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "delta"))
        .max()
        .expect("a delta file")
}

#[test]
fn a_record_is_not_json() {
    let stage = Stage::new();
    stage.broker.write("flights", 2, &[br#"{"flight":"UA1","carrier":"UA","origin":}"#]);
    assert_refused(&stage.command(), 65, &["flights-2", "offset 0", "column 41"]);
}

#[test]
fn the_transaction_timeout_is_above_the_brokers_maximum() {
    let stage = Stage::new();
    let command = stage.command().property("transaction.timeout.ms=86400000");
    assert_refused(&command, 78, &["transaction.timeout.ms", "transaction.max.timeout.ms"]);
}

#[test]
fn an_unknown_property_is_refused_with_the_nearest_match() {
    let stage = Stage::new();
    let command = stage.command().property("transaction.timeout.sm=1000");
    assert_refused(&command, 78, &["transaction.timeout.sm", "transaction.timeout.ms"]);
}

#[test]
fn a_signal_ends_the_job_with_no_transaction_left_open() {
    let stage = Stage::new();
    let job = stage.command().start(false);
    wait_for(|| stage.broker.read("out", PARTITIONS).len() == 1000, "the output");
    job.stop();
    assert_eq!(stage.broker.open_transactions(), Vec::<String>::new());
}

/// B053: a job has one transactional id, whatever its parallelism, and each start fences it; so no transaction of a run that
/// ended at once blocks the readers of its output.
#[test]
fn a_second_signal_ends_the_job_at_once_and_the_next_start_makes_it_good() {
    let stage = Stage::new();
    let mut job = stage.command().start(false);
    wait_for(|| stage.broker.read("out", PARTITIONS).len() == 1000, "the output");
    // No commit is answered any more: the last checkpoint of the first signal can not end.
    let held = FaultAction::Delay(Duration::from_secs(60));
    stage.broker.add_fault(FaultRule::new(ApiKey::EndTxn, Occurrence::Every, held));
    let lines = input_lines();
    stage.broker.write("flights", 1, &[lines[1000].as_bytes()]);
    let code = end_by_two_signals(&mut job);
    assert!([130, 143].contains(&code), "{code}: {}", job.output());

    stage.broker.clear_faults();
    stage.command().run_bounded(LIMIT);
    assert_eq!(stage.broker.read("out", PARTITIONS).len(), 1001);
    assert_eq!(stage.broker.open_transactions(), Vec::<String>::new());
}

#[test]
fn a_second_signal_aborts_the_transaction_that_is_open() {
    let stage = Stage::new();
    let mut command = stage.command();
    // The sink sends what it has, the next checkpoint is far away.
    command.checkpoint_interval = Duration::from_secs(15);
    let mut job = command.start(false);
    wait_for(|| !stage.broker.open_transactions().is_empty(), "an open transaction");
    // The last checkpoint can not end: its record is not acknowledged.
    let held = FaultAction::Error(ErrorCode::NOT_ENOUGH_REPLICAS);
    stage.broker.add_fault(FaultRule::new(ApiKey::Produce, Occurrence::Every, held));
    end_by_two_signals(&mut job);
    wait_for(|| stage.broker.open_transactions().is_empty(), "the abort");
    stage.broker.clear_faults();
    assert_eq!(stage.broker.read("out", PARTITIONS).len(), 0, "nothing was committed");
    stage.command().run_bounded(LIMIT);
    assert_eq!(stage.broker.read("out", PARTITIONS).len(), 1000);
}

/// The first signal, then others until the job is gone, soon after.
fn end_by_two_signals(job: &mut FlightsJob) -> i32 {
    job.signal(Signal::Term);
    wait_for(|| job.output().contains("stopping"), "the job heard the signal");
    let begun = Instant::now();
    // One right behind the first counts as the same.
    wait_for(
        || {
            job.signal(Signal::Int);
            job.has_ended()
        },
        "the second signal",
    );
    assert!(begun.elapsed() < Duration::from_secs(3), "it took {:?}", begun.elapsed());
    job.exit_code(LIMIT)
}

#[test]
fn a_stopped_job_is_gone_in_time_although_its_broker_is() {
    let mut stage = Stage::new();
    let mut job = stage.command().start(false);
    wait_for(|| stage.broker.read("out", PARTITIONS).len() == 1000, "the output");
    let lines = input_lines();
    stage.broker.write("flights", 1, &[lines[1000].as_bytes()]);
    stage.broker.stop();
    job.signal(Signal::Term);
    let begun = Instant::now();
    assert_ne!(job.exit_code(LIMIT), 0, "{}", job.output());
    assert!(begun.elapsed() < Duration::from_secs(11), "it took {:?}", begun.elapsed());
}

#[test]
fn a_job_that_is_stopped_while_it_looks_for_a_broker_ends_at_once() {
    let stage = Stage::new();
    let mut command = stage.command();
    command.bootstrap_server = "127.0.0.1:1".to_owned();
    let mut job = command.start(false);
    // It ends by itself only after seconds; the signal comes as soon as it listens.
    wait_for(
        || {
            job.signal(Signal::Term);
            job.has_ended()
        },
        "the end",
    );
}

/// B096.
#[test]
fn a_topic_that_was_made_anew_is_not_read_from_the_old_offsets() {
    let stage = Stage::new();
    let job = stage.command().start(false);
    wait_for(|| stage.broker.read("out", PARTITIONS).len() == 1000, "the output");
    job.stop();
    stage.broker.delete_topic("flights");
    stage.broker.create_topic("flights", PARTITIONS);
    let lines = input_lines();
    let values: Vec<&[u8]> = lines.iter().take(1200).map(|line| line.as_bytes()).collect();
    stage.broker.write("flights", 0, &values);
    assert_refused(&stage.command(), 66, &["flights-0", "made anew", "empty state directory"]);
}

#[test]
fn a_state_of_another_topic_is_named() {
    let stage = Stage::new();
    let job = stage.command().start(false);
    wait_for(|| stage.broker.read("out", PARTITIONS).len() == 1000, "the output");
    job.stop();
    stage.broker.create_topic("others", PARTITIONS);
    let mut command = stage.command();
    command.input_topic = "others".to_owned();
    assert_refused(&command, 78, &["is of topic \"flights\"", "the job reads others"]);
}

#[test]
fn a_job_that_would_read_its_own_output_is_refused() {
    let stage = Stage::new();
    let mut command = stage.command();
    command.output_topic = "flights".to_owned();
    assert_refused(&command, 78, &["reads and writes topic \"flights\""]);
}
