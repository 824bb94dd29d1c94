//! Processes that die while they write a savepoint, and while they restore one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millstream_engine::checkpoint::{
    ControlAnswer, ControlClient, ControlError, RealDisk, SavepointTrigger, delete_savepoint,
};
use millstream_engine::{restore_crash_points, savepoint_crash_points};
use millstream_testcontainers::{
    ConsumeEnd, GuardedCommand, GuardedProcess, KafkaCluster, Signal, real_kafka_or_skip,
};
use millstream_tests::keyed_state::{Event, events, expected};
use millstream_tests::wait::wait_until;
use millstream_tests::{LocalBroker, Topics, setting};

use crate::contents::open;

const LIMIT: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 2;
const KEYS: usize = 7;

/// A console consumer that hears nothing for so long has read everything.
const IDLE: Duration = Duration::from_secs(8);

/// A process that aborts, as the shell counts it.
const ABORTED: i32 = 134;

/// Events that each process reads.
const PART: usize = 40;

/// Parts that a process has which dies in a savepoint at each step, and the one of the end.
fn parts_of_savepoints() -> usize {
    2 * savepoint_crash_points().len() + 1
}

/// Steps of a restore, and of the start that follows.
fn restore_steps() -> Vec<&'static str> {
    let mut steps = restore_crash_points();
    steps.extend(["LedgerOpened", "MetaCreate", "MetaSync", "MetaRename", "MetaSyncDir"]);
    steps.extend(["Looked", "Fenced", "Repaired", "OwnerVoted", "OwnerCommitted", "Owned"]);
    steps
}

/// The job with every kind of state, as a process.
struct Stage {
    folder: tempfile::TempDir,
    topics: Topics,
    address: String,
    job: String,
    input: String,
    output: String,
    // Behind its client, so that it ends after it.
    _broker: Option<LocalBroker>,
    all: Vec<Event>,
    written: usize,
}

impl Stage {
    /// On a development broker of its own.
    fn new(parts: usize) -> Self {
        let broker = LocalBroker::start();
        let stage = Self::on(&broker.address(), "", parts);
        for topic in [&stage.input, &stage.output] {
            broker.create_topic(topic, PARTITIONS);
        }
        Self { _broker: Some(broker), ..stage }
    }

    /// On a cluster that others use as well, under other names.
    fn on_kafka(cluster: &KafkaCluster, name: &str, parts: usize) -> Self {
        let stage = Self::on(&cluster.bootstrap_servers(), &format!("-{name}"), parts);
        for topic in [&stage.input, &stage.output] {
            let partitions = PARTITIONS.unsigned_abs();
            cluster.create_topic(topic, partitions, &["retention.ms=-1"]).unwrap();
        }
        stage
    }

    fn on(address: &str, suffix: &str, parts: usize) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            topics: Topics::connect(address),
            address: address.to_owned(),
            job: format!("keyed-state{suffix}"),
            input: format!("events{suffix}"),
            output: format!("lines{suffix}"),
            _broker: None,
            all: events(parts * PART, PARTITIONS.unsigned_abs() as usize, KEYS),
            written: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name.replace(':', "-"))
    }

    fn start(&self, state: &Path, options: &[String], crash_at: Option<&str>) -> Process {
        self.start_with(state, options, crash_at.map(|step| ("MILLSTREAM_CRASH_AT", step)))
    }

    fn start_with(
        &self,
        state: &Path,
        options: &[String],
        environment: Option<(&str, &str)>,
    ) -> Process {
        let log = self.path("log");
        let _ = std::fs::remove_file(&log);
        let mut command = GuardedCommand::new(env!("CARGO_BIN_EXE_keyed_state_job"))
            .args([&self.address, &self.input, &self.output])
            .arg(state)
            .arg(format!("job={}", self.job))
            .args(options)
            .stderr(&log);
        if let Some((name, value)) = environment {
            command = command.env(name, value);
        }
        Process { process: command.spawn().unwrap(), log }
    }

    /// Writes the next part of the events.
    fn write_part(&mut self) {
        let part = &self.all[self.written..self.written + PART];
        let record = |event: &Event| (event.partition(), serde_json::to_vec(event).unwrap());
        let records: Vec<_> = part.iter().map(record).collect();
        self.topics.write(&self.input, &records);
        self.written += PART;
    }

    fn lines(&self) -> Vec<String> {
        let records = self.topics.read(&self.output, PARTITIONS).into_iter();
        records.map(|it| line(it.value)).collect()
    }

    /// Waits until all that was written has given its lines.
    fn wait_for_lines(&self, process: &mut Process) {
        wait_until("all events have given their lines, or the process has ended", LIMIT, || {
            process.has_ended()
                || self.lines().iter().filter(|line| line.contains(" element ")).count()
                    == self.written
        });
        assert!(!process.has_ended(), "{}", process.said());
    }

    fn assert_exactly_once(&self) {
        self.assert_lines(self.lines());
    }

    /// The same, as Kafka's own consumer reads it.
    fn assert_exactly_once_on(&self, cluster: &KafkaCluster) {
        let records = cluster.console_consume(&self.output, ConsumeEnd::Idle(IDLE)).unwrap();
        self.assert_lines(records.into_iter().map(|it| line(it.value)).collect());
    }

    fn assert_lines(&self, mut lines: Vec<String>) {
        lines.sort();
        assert_eq!(lines, expected(&self.all[..self.written]), "{}", self.job);
    }
}

/// A line from the value of a record.
fn line(value: Option<String>) -> String {
    serde_json::from_str(&value.unwrap()).unwrap()
}

struct Process {
    process: GuardedProcess,
    log: PathBuf,
}

impl Process {
    fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn assert_exit_code(&mut self, code: i32, what: &str) {
        let found = self.process.wait(LIMIT).unwrap();
        assert_eq!(found, Some(code), "{what}: {}", self.said());
    }
}

/// Asks as soon as somebody serves, and waits for what becomes of it.
fn ask(
    state: &Path,
    trigger: SavepointTrigger,
    target: &Path,
) -> Result<ControlAnswer, ControlError> {
    let mut request = None;
    wait_until("the process serves requests", LIMIT, || {
        request = ControlClient::ask(state, trigger, target).ok();
        request.is_some()
    });
    let request = request.unwrap();
    let mut answer = None;
    wait_until("there is an answer", LIMIT, || {
        answer = request.poll().transpose();
        answer.is_some()
    });
    answer.unwrap()
}

#[test]
fn a_process_that_dies_while_it_writes_a_savepoint_leaves_a_whole_one_or_none() {
    let mut stage = Stage::new(parts_of_savepoints());
    die_in_savepoints(&mut stage);
    stage.assert_exactly_once();
}

#[test]
fn a_restore_that_dies_is_repeated_by_the_same_command() {
    let mut stage = Stage::new(restore_steps().len() + 1);
    die_in_restores(&mut stage);
    stage.assert_exactly_once();
}

#[test]
fn savepoints_and_restores_that_die_cost_nothing_with_transaction_version_2() {
    die_on_real_kafka(2);
}

#[test]
fn savepoints_and_restores_that_die_cost_nothing_with_transaction_version_0() {
    die_on_real_kafka(0);
}

/// `MILLSTREAM_CRASH_ROUNDS` jobs that die at every step, on `MILLSTREAM_BROKERS` brokers: one and one in the short form.
fn die_on_real_kafka(transaction_version: u16) {
    let name = format!("crash points of savepoints TV{transaction_version}");
    if !real_kafka_or_skip(&name) {
        return;
    }
    let rounds = setting("MILLSTREAM_CRASH_ROUNDS", 1);
    let brokers = usize::try_from(setting("MILLSTREAM_BROKERS", 1)).unwrap();
    let builder = KafkaCluster::builder().brokers(brokers).transaction_version(transaction_version);
    let cluster = builder.start().unwrap();
    let (begun, mut crashes) = (Instant::now(), [0; 2]);
    for round in 0..rounds {
        let mut stage = Stage::on_kafka(&cluster, &format!("s{round}"), parts_of_savepoints());
        crashes[0] += die_in_savepoints(&mut stage);
        stage.assert_exactly_once_on(&cluster);
        let parts = restore_steps().len() + 1;
        let mut stage = Stage::on_kafka(&cluster, &format!("r{round}"), parts);
        crashes[1] += die_in_restores(&mut stage);
        stage.assert_exactly_once_on(&cluster);
    }
    let listed = cluster.list_transactions().unwrap();
    assert!(listed.iter().all(|transaction| !transaction.is_open()), "{listed:?}");
    let [savepoints, restores] = crashes;
    println!(
        "{name}, {brokers} brokers: {savepoints} crashes in savepoints and {restores} in restores in {:?}",
        begun.elapsed()
    );
}

/// A process dies at each step of a live savepoint and of one with stop. Gives the number of crashes.
fn die_in_savepoints(stage: &mut Stage) -> usize {
    let steps = savepoint_crash_points();
    let state = stage.path("state");
    let (mut whole, mut none) = (0, 0);
    for trigger in [SavepointTrigger::Live, SavepointTrigger::Stop] {
        for step in &steps {
            let mut process = stage.start(&state, &[], Some(step));
            stage.write_part();
            stage.wait_for_lines(&mut process);
            let target = stage.path(&format!("{}-{step}", trigger.name()));
            let ended = ask(&state, trigger, &target).unwrap_err();
            assert!(matches!(ended, ControlError::Ended { .. }), "{step}: {ended}");
            process.assert_exit_code(ABORTED, step);
            let is_whole = matches!(*step, "SavepointSyncDir:2" | "SavepointWritten");
            assert_eq!(target.exists(), is_whole, "{step}");
            if is_whole {
                open(&target).verify().unwrap();
                whole += 1;
            } else {
                none += 1;
            }
        }
    }
    assert_eq!((whole, none), (4, 2 * steps.len() - 4));
    // What is left of those that were not finished is named as such, and goes with the tool's word.
    let unfinished: Vec<_> = std::fs::read_dir(stage.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".partial"))
        .collect();
    assert!(unfinished.len() >= 8, "{unfinished:?}");
    for path in unfinished {
        delete_savepoint(&RealDisk, &path).unwrap();
    }
    // The job has lost and doubled nothing, and takes savepoints.
    let mut process = stage.start(&state, &[], None);
    stage.write_part();
    stage.wait_for_lines(&mut process);
    let target = stage.path("last");
    let taken = ask(&state, SavepointTrigger::Drain, &target).unwrap();
    assert!(matches!(taken, ControlAnswer::Taken(_)), "{taken:?}");
    process.assert_exit_code(0, "the last one");
    whole + none
}

/// Each restore dies at another step, and the same command goes on from there. Gives the number of crashes.
fn die_in_restores(stage: &mut Stage) -> usize {
    let steps = restore_steps();
    let mut state = stage.path("state");
    let mut process = stage.start(&state, &[], None);
    for (number, step) in steps.iter().enumerate() {
        stage.write_part();
        stage.wait_for_lines(&mut process);
        let target = stage.path(&format!("sp-{step}"));
        let taken = ask(&state, SavepointTrigger::Stop, &target).unwrap();
        assert!(matches!(taken, ControlAnswer::Taken(_)), "{step}: {taken:?}");
        process.assert_exit_code(0, step);

        state = stage.path(&format!("restored-{step}"));
        let options =
            [format!("from={}", target.display()), format!("parallelism={}", number % 3 + 1)];
        let mut dies = stage.start(&state, &options, Some(step));
        dies.assert_exit_code(ABORTED, step);
        process = stage.start(&state, &options, None);
    }
    stage.write_part();
    stage.wait_for_lines(&mut process);
    let target = stage.path("last");
    let taken = ask(&state, SavepointTrigger::Drain, &target).unwrap();
    assert!(matches!(taken, ControlAnswer::Taken(_)), "{taken:?}");
    process.assert_exit_code(0, "the last one");
    steps.len()
}

/// The disk has room again before the time for the stop is over, or it has not.
#[test]
fn a_stop_on_a_full_disk_waits_for_room_and_ends_by_name_without_it() {
    let mut stage = Stage::new(2);
    let state = stage.path("state");
    for (fault, code) in [("DeltaWrite:1-8:full", 0), ("DeltaWrite:1-1000000:full", 73)] {
        let fault = Some(("MILLSTREAM_DISK_FAULT", fault));
        let mut process = stage.start_with(&state, &[], fault);
        stage.write_part();
        wait_until("the job runs", LIMIT, || {
            state.join("control/SERVER").exists() && state.join("store/version").exists()
        });
        process.signal(Signal::Term);
        process.assert_exit_code(code, "stopped on a full disk");
        let said = process.said();
        if code == 0 {
            assert_eq!(said, "");
            continue;
        }
        for part in [
            "no last checkpoint within 9s of the request to stop, because the disk is full",
            "no space left for",
            "the next start goes on from there",
            "it was asked to stop",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        for part in ["no restart helps", "the job goes on"] {
            assert!(!said.contains(part), "{part}: {said}");
        }
        // Tries with pauses between them, told in a few lines.
        assert!(said.lines().count() < 16, "{said}");
        let tries = said.matches("rolled back to").count();
        let alike = said.split(" (").filter_map(|part| part.split_once(" times, last "));
        let alike = alike.map(|(number, _)| number.parse::<usize>().unwrap() - 1).sum::<usize>();
        assert!((3..=40).contains(&(tries + alike)), "{said}");
    }
    let mut process = stage.start(&state, &[], None);
    stage.wait_for_lines(&mut process);
    process.signal(Signal::Term);
    process.assert_exit_code(0, "the last one");
    let target = stage.path("last");
    let mut process = stage.start(&state, &[], None);
    let taken = ask(&state, SavepointTrigger::Drain, &target).unwrap();
    assert!(matches!(taken, ControlAnswer::Taken(_)), "{taken:?}");
    process.assert_exit_code(0, "drained");
    stage.assert_exactly_once();
}

/// A process that does not answer, because it is stopped, is not waited for without end, and does nothing later that nobody
/// waits for.
#[test]
fn a_request_that_is_given_up_is_not_served_later() {
    let mut stage = Stage::new(1);
    let state = stage.path("state");
    let mut process = stage.start(&state, &[], None);
    stage.write_part();
    stage.wait_for_lines(&mut process);
    let trigger = |target: &Path, more: &[&str]| {
        let mut command = std::process::Command::new(crate::tools::binary());
        command.args(["savepoint", "trigger", "--stop", "--state-dir"]).arg(&state).arg(target);
        command.args(more).stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let said = |child: std::process::Child| {
        let ended = child.wait_with_output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let requests = || {
        let files = std::fs::read_dir(state.join("control")).unwrap();
        files
            .filter(|file| {
                file.as_ref().unwrap().path().extension().unwrap_or_default() == "request"
            })
            .count()
    };
    process.signal(Signal::Stop);
    let target = stage.path("late");
    let (code, told) = said(trigger(&target, &["--timeout", "4s"]));
    assert_eq!(code, Some(1), "{told}");
    for part in [
        "has not begun with the savepoint",
        "--timeout",
        "Ctrl-C withdraws",
        "nothing is or will be",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let interrupted = trigger(&target, &[]);
    wait_until("there is a request", LIMIT, || requests() == 1);
    let id = interrupted.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let (code, told) = said(interrupted);
    assert_eq!(code, Some(130), "{told}");
    assert!(told.contains("the request is withdrawn"), "{told}");
    assert_eq!(requests(), 0);
    process.signal(Signal::Cont);
    // A request that stands is served as if the others had never been.
    let live = stage.path("live");
    let taken = ask(&state, SavepointTrigger::Live, &live).unwrap();
    assert!(matches!(taken, ControlAnswer::Taken(_)), "{taken:?}");
    assert!(!process.has_ended() && !target.exists(), "{}", process.said());
    let drained = stage.path("drained");
    let taken = ask(&state, SavepointTrigger::Drain, &drained).unwrap();
    assert!(matches!(taken, ControlAnswer::Taken(_)), "{taken:?}");
    process.assert_exit_code(0, "drained");
    stage.assert_exactly_once();
    assert!(!target.exists());
}
