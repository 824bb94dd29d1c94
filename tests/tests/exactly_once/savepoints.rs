//! Savepoints of a job with every kind of state and timers in both times: taken live, with stop and with drain, and gone on
//! from with another parallelism and other operators.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millstream_engine::checkpoint::{
    ControlAnswer, ControlClient, RealDisk, Savepoint, SavepointManifest, SavepointTrigger,
};
use millstream_testcontainers::{
    ConsumeEnd, GuardedCommand, GuardedProcess, KafkaCluster, Signal, real_kafka_or_skip,
};
use millstream_tests::flights::{Feed, PARTITIONS};
use millstream_tests::keyed_state::{
    BRIEF_MS, Event, KeyedStateJob, Line, LineCause, events_at, expected, expected_counts,
    expected_lines,
};
use millstream_tests::wait::wait_until;
use millstream_tests::{LocalBroker, Topics};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const TOPICS: [&str; 4] = ["events", "lines", "counts", "live-lines"];
const EVENTS: usize = 3000;
const KEYS: usize = 60;

/// A clock's timer fires so long after its element: behind the savepoint.
const CLOCK_MS: i64 = 20_000;

/// When the events before the savepoint begin, and those behind it: far enough that state has expired.
const BEFORE_MS: i64 = 1_000_000;
const BEHIND_MS: i64 = BEFORE_MS + 10 * BRIEF_MS;

/// A cluster, and what was written to it.
struct Stage {
    folder: tempfile::TempDir,
    topics: Topics,
    bootstrap_servers: String,
    all: Vec<Event>,
}

impl Stage {
    fn new(bootstrap_servers: String) -> Self {
        let topics = Topics::connect(&bootstrap_servers);
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, topics, bootstrap_servers, all: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn job(&self) -> KeyedStateJob {
        KeyedStateJob::new(&self.bootstrap_servers, "events", "lines")
    }

    fn write(&mut self, events: Vec<Event>) {
        let record = |event: &Event| {
            (event.partition(), serde_json::to_vec(event).expect("an event is JSON"))
        };
        let records: Vec<_> = events.iter().map(record).collect();
        self.topics.write("events", &records);
        self.all.extend(events);
    }

    fn lines(&self, topic: &str) -> Vec<String> {
        let records = self.topics.read(topic, PARTITIONS).into_iter();
        records.map(|record| text(record.value)).collect()
    }

    fn wait_for_elements(&self) {
        wait_until("all events have given their lines", LIMIT, || {
            self.lines("lines").iter().filter(|line| line.contains(" element ")).count()
                == self.all.len()
        });
    }
}

/// A line from a record of the output.
fn text(value: Option<String>) -> String {
    serde_json::from_str(&value.expect("a value")).expect("a JSON string")
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    i64::try_from(now.as_millis()).expect("a date")
}

fn element(key: String, timestamp: i64, clock: Option<i64>) -> Event {
    Event { key, value: 5, timestamp, clock }
}

#[test]
fn every_kind_of_state_goes_through_savepoints_on_the_development_broker() {
    let broker = LocalBroker::start();
    for topic in TOPICS {
        broker.create_topic(topic, PARTITIONS);
    }
    let mut stage = Stage::new(broker.address());
    round_trip(&mut stage);
    assert_output(&stage, |topic| stage.lines(topic));
}

#[test]
fn every_kind_of_state_goes_through_savepoints_with_transaction_version_2() {
    on_real_kafka(2);
}

#[test]
fn every_kind_of_state_goes_through_savepoints_with_transaction_version_0() {
    on_real_kafka(0);
}

/// Goes through all savepoints on a cluster and holds the output, as Kafka's own consumer reads it, against what it has to be.
fn on_real_kafka(transaction_version: u16) {
    if !real_kafka_or_skip(&format!("savepoints TV{transaction_version}")) {
        return;
    }
    let cluster = KafkaCluster::builder().transaction_version(transaction_version).start();
    let cluster = cluster.expect("a Kafka cluster");
    for topic in TOPICS {
        cluster.create_topic(topic, PARTITIONS.unsigned_abs(), &["retention.ms=-1"]).expect("made");
    }
    let mut stage = Stage::new(cluster.bootstrap_servers());
    round_trip(&mut stage);
    assert_output(&stage, |topic| {
        let end = ConsumeEnd::Idle(Duration::from_secs(8));
        let records = cluster.console_consume(topic, end).expect("the console consumer");
        records.into_iter().map(|record| text(record.value)).collect()
    });
    let listed = cluster.list_transactions().expect("the transactions tool");
    assert!(listed.iter().all(|transaction| !transaction.is_open()), "{listed:?}");
}

/// Nothing lost and nothing doubled over all savepoints.
fn assert_output(stage: &Stage, read: impl Fn(&str) -> Vec<String>) {
    for (topic, expected) in
        [("lines", expected(&stage.all)), ("counts", expected_counts(&stage.all))]
    {
        let mut found = read(topic);
        found.sort_unstable();
        let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{topic}: {} lines, {} expected", found.len(), expected.len());
        assert_eq!(found.len(), expected.len(), "{topic}");
    }
}

fn round_trip(stage: &mut Stage) {
    let partitions = usize::try_from(PARTITIONS).expect("few partitions");
    // Live, while the job is fed.
    let job = stage.job().job(&stage.path("first")).expect("a job").start().expect("it starts");
    let before = events_at(0..EVENTS, partitions, KEYS, BEFORE_MS);
    let json = |event: &Event| serde_json::to_string(event).expect("an event is JSON");
    let lines = before.iter().map(json).collect();
    stage.all.extend(before);
    let feed = Feed::start(&stage.bootstrap_servers, "events", lines, Duration::from_secs(4));
    let monitor = job.monitor();
    wait_until("a tenth is read", LIMIT, || monitor.snapshot().records_in > EVENTS as u64 / 10);
    let live = job.savepoint(stage.path("live")).expect("a live savepoint");
    assert_eq!(live.trigger, SavepointTrigger::Live);
    feed.finish();
    stage.wait_for_elements();

    // With stop, while timers in both times wait.
    let last = BEFORE_MS + i64::try_from(EVENTS).expect("few events");
    let clock = now_ms() + CLOCK_MS;
    stage.write(vec![element("0-clock".to_owned(), last, Some(clock))]);
    stage.wait_for_elements();
    let stopped = job.stop_with_savepoint(stage.path("stopped"), false).expect("a savepoint");
    assert!(now_ms() < clock, "the machine was too slow: the clock's timer may have fired");
    job.wait().expect("it stops");
    assert_contents(&stage.path("stopped"), &stopped, clock);
    check_live(stage, &live);

    // Three workers, and an operator more.
    let mut second = stage.job();
    second.parallelism = 3;
    second.counts = Some("counts".to_owned());
    let job = second.job(&stage.path("second")).expect("a job");
    let job = job.from_savepoint(stage.path("stopped")).start().expect("it starts");
    let ticks = (0..PARTITIONS).map(|p| element(format!("{p}-tick"), BEHIND_MS, None)).collect();
    let waiting: Vec<Line> = expected_lines(&stage.all);
    stage.write(ticks);
    wait_until("the timers of before have fired", LIMIT, || {
        let found: BTreeSet<String> = stage.lines("lines").into_iter().collect();
        waiting.iter().all(|line| found.contains(&line.text))
    });
    // Event time has come there, so that what is brief has expired.
    stage.write(events_at(EVENTS..2 * EVENTS, partitions, KEYS, BEHIND_MS + 1));
    stage.wait_for_elements();
    wait_until("the new operator has caught up", LIMIT, || {
        stage.lines("counts").len() == stage.all.len()
    });
    let drained = job.stop_with_savepoint(stage.path("drained"), true).expect("a savepoint");
    assert_eq!(drained.trigger, SavepointTrigger::Drain);
    job.wait().expect("it has finished");
    let timers = drained.states.iter().find(|it| &*it.state.state_name == "timers/event-time");
    assert_eq!(timers.map(|timers| timers.entries), Some(0), "all timers have fired");
}

/// A savepoint holds entries of every state, and the independent reader finds in it what the document says.
fn assert_contents(path: &Path, manifest: &SavepointManifest, clock: i64) {
    let entries = |name: &str| {
        let mut states = manifest.states.iter();
        let found = states.find(|saved| {
            (&*saved.state.operator_uid, &*saved.state.state_name) == ("all-kinds", name)
        });
        found.unwrap_or_else(|| panic!("state {name} is missing: {manifest:?}")).entries
    };
    let keys = u64::try_from(KEYS).expect("few keys") * u64::from(PARTITIONS.unsigned_abs()) + 1;
    for of_each_key in ["count", "largest", "total", "quick", "brief"] {
        assert_eq!(entries(of_each_key), keys, "{of_each_key}");
    }
    for (name, at_least) in [("recent", keys), ("by digit", keys), ("fired", 1)] {
        assert!(entries(name) >= at_least, "{name}: {}", entries(name));
    }
    assert!(entries("timers/event-time") >= keys - 1, "{}", entries("timers/event-time"));
    assert_eq!(entries("timers/processing-time"), 1, "the clock waits");

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/savepoint_reader.py");
    let output = Command::new("python3").arg(script).arg(path).output();
    let output = output.expect("python3 is needed to hold savepoints against docs/state.md");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(read["checkpoint"], manifest.at.checkpoint.0);
    let states: BTreeMap<&str, &Vec<Value>> = read["states"]
        .as_array()
        .expect("states")
        .iter()
        .map(|state| {
            let name = state["state"].as_str().expect("a name");
            (name, state["decoded"].as_array().expect("entries of a process function"))
        })
        .collect();
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    // A string as postcard writes it: its length, and it.
    let clock_key = format!("07{}", hex("0-clock"));
    let of_clock = |name: &str| -> Vec<&Value> {
        states[name].iter().filter(|entry| entry["key"] == clock_key).collect()
    };
    let [timer] = of_clock("timers/processing-time")[..] else { panic!("{states:?}") };
    assert_eq!((&timer["time"], &timer["namespace"]), (&Value::from(clock), &Value::from("")));
    let [brief] = of_clock("brief")[..] else { panic!("{states:?}") };
    let written = BEFORE_MS + i64::try_from(EVENTS).expect("few events");
    assert_eq!(brief["expiry"], Value::from(written + BRIEF_MS));
    // 5, in zigzag.
    assert_eq!(brief["value"], "0a");
    let [count] = of_clock("count")[..] else { panic!("{states:?}") };
    assert_eq!((&count["expiry"], &count["value"]), (&Value::from(0), &Value::from("01")));
    let [digit] = of_clock("by digit")[..] else { panic!("{states:?}") };
    assert_eq!((&digit["rest"], &digit["value"]), (&Value::from("05"), &Value::from("01")));
    let [recent] = of_clock("recent")[..] else { panic!("{states:?}") };
    let rest = recent["rest"].as_str().expect("checkpoint and number of the element");
    assert_eq!((rest.len(), &recent["value"]), (32, &Value::from("0a")));
}

/// Goes on from the live savepoint under another name, and writes exactly what the savepoint had not.
fn check_live(stage: &Stage, live: &SavepointManifest) {
    let mut other = KeyedStateJob::new(&stage.bootstrap_servers, "events", "live-lines");
    other.name = "keyed-state-live".to_owned();
    other.parallelism = 1;
    other.bounded = true;
    let job = other.job(&stage.path("live-state")).expect("a job");
    let job = job.from_savepoint(stage.path("live")).start().expect("it starts");
    job.wait().expect("it reads the rest");
    let position = |partition: i32| {
        let mut positions = live.positions.iter();
        positions.find(|(_, at)| at.partition == partition).map_or(0, |(_, at)| at.offset)
    };
    let read: i64 = (0..PARTITIONS).map(position).sum();
    let watermark = live.watermarks.iter().find(|(uid, _)| uid == "all-kinds").map_or(0, |it| it.1);
    let mut offsets: BTreeMap<i32, i64> = BTreeMap::new();
    let unread: Vec<bool> = stage
        .all
        .iter()
        .map(|event| {
            let offset = offsets.entry(event.partition()).or_default();
            *offset += 1;
            *offset > position(event.partition())
        })
        .collect();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for line in stage.lines("live-lines") {
        *found.entry(line).or_default() += 1;
    }
    let (mut required, mut optional) = (0, 0);
    for line in expected_lines(&stage.all) {
        let must = match line.cause {
            LineCause::Element(index) => Some(unread[index]),
            // One that was due at the barrier may have fired before it or wait behind it.
            LineCause::EventTime(at) => (at > watermark).then_some(true),
            LineCause::ProcessingTime(_) => None,
        };
        let times = found.remove(&line.text).unwrap_or(0);
        match must {
            Some(must) => {
                assert_eq!(times, usize::from(must), "{line:?}");
                required += times;
            }
            None => {
                assert!(times <= 1, "{line:?}");
                optional += times;
            }
        }
    }
    assert_eq!(found, BTreeMap::new(), "lines that nothing makes");
    println!("live savepoint after {read} events: {required} lines behind it, {optional} more");
    assert!(read > 0 && required > KEYS, "{read} {required}");
}

#[test]
fn a_live_savepoint_is_gone_on_from_after_a_kill_on_the_development_broker() {
    let broker = LocalBroker::start();
    for topic in TOPICS {
        broker.create_topic(topic, PARTITIONS);
    }
    let mut stage = Stage::new(broker.address());
    killed_behind_savepoints(&mut stage);
    assert_lines(&stage);
}

#[test]
fn a_live_savepoint_is_gone_on_from_after_a_kill_on_real_kafka() {
    if !real_kafka_or_skip("live savepoints and kills") {
        return;
    }
    let cluster = KafkaCluster::builder().start().expect("a Kafka cluster");
    for topic in TOPICS {
        cluster.create_topic(topic, PARTITIONS.unsigned_abs(), &[]).expect("a topic");
    }
    let mut stage = Stage::new(cluster.bootstrap_servers());
    killed_behind_savepoints(&mut stage);
    assert_lines(&stage);
}

fn assert_lines(stage: &Stage) {
    let mut found = stage.lines("lines");
    found.sort_unstable();
    assert_eq!(found, expected(&stage.all));
}

/// A quiet job takes a savepoint for one who asks from outside, and is killed; the next one goes on from there, with another
/// number of workers and an empty directory.
fn killed_behind_savepoints(stage: &mut Stage) {
    const ROUNDS: usize = 4;
    const PART: usize = 200;
    let partitions = usize::try_from(PARTITIONS).expect("few partitions");
    let mut state = stage.path("state");
    let mut process = start(stage, &state, &[]);
    for round in 0..ROUNDS {
        let first = round * PART;
        let from_ms = BEFORE_MS + i64::try_from(first).expect("few events");
        stage.write(events_at(first..first + PART, partitions, KEYS, from_ms));
        stage.wait_for_elements();
        let target = stage.path(&format!("sp-{round}"));
        let request = ControlClient::ask(&state, SavepointTrigger::Live, &target);
        let request = request.expect("the job serves requests");
        let mut answer = None;
        wait_until("the savepoint is taken", LIMIT, || {
            answer = request.poll().expect("the job lives");
            answer.is_some()
        });
        let Some(ControlAnswer::Taken(taken)) = answer else { panic!("{answer:?}") };
        process.signal(Signal::Kill);
        assert!(matches!(process.wait(Duration::from_secs(10)), Ok(Some(_))), "it does not die");
        let savepoint = Savepoint::open(Arc::new(RealDisk), &target).expect("a savepoint");
        savepoint.verify().expect("a whole one");
        assert_eq!(taken.id, savepoint.manifest().id);
        state = stage.path(&format!("state-{round}"));
        let from = format!("from={}", target.display());
        process = start(stage, &state, &[from, format!("parallelism={}", round % 3 + 1)]);
    }
    let target = stage.path("last");
    let mut request = None;
    wait_until("the job serves requests", LIMIT, || {
        request = ControlClient::ask(&state, SavepointTrigger::Drain, &target).ok();
        request.is_some()
    });
    assert_eq!(process.wait(LIMIT).ok(), Some(Some(0)), "it does not finish");
    let answer = request.expect("a request").poll().expect("an answer");
    assert!(matches!(answer, Some(ControlAnswer::Taken(_))), "{answer:?}");
}

fn start(stage: &Stage, state: &Path, options: &[String]) -> GuardedProcess {
    GuardedCommand::new(env!("CARGO_BIN_EXE_keyed_state_job"))
        .args([stage.bootstrap_servers.as_str(), "events", "lines"])
        .arg(state)
        .args(options)
        .spawn()
        .expect("the job starts")
}
