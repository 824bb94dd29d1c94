//! State of a real job with every kind of state and timers in both times, as version 0.1 wrote it: every later version goes on
//! from it, or refuses it by name. `checkpoint/tests/state_directory/fixtures.rs` opens the files beside this.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_engine::checkpoint::{Inspection, RealDisk, savepoint_of_directory};
use millstream_testcontainers::{GuardedCommand, Signal};
use millstream_tests::copy_folder;
use millstream_tests::keyed_state::{Event, KeyedStateJob, LineCause, events_at, expected_lines};
use millstream_tests::wait::wait_until;
use millstream_tests::{LocalBroker, Topics};

use crate::contents::open;

const PARTITIONS: i32 = 2;
const KEYS: usize = 5;
const EVENTS: usize = 300;
const FROM_MS: i64 = 1_000_000;
const LIMIT: Duration = Duration::from_secs(60);

/// A timer in processing time that no run of this test sees: 2100.
const CLOCK: i64 = 4_102_444_800_000;

pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

/// The events that the fixture's job has read.
fn read_events() -> Vec<Event> {
    let mut events = events_at(0..EVENTS, PARTITIONS.unsigned_abs() as usize, KEYS, FROM_MS);
    if let Some(last) = events.last_mut() {
        last.clock = Some(CLOCK);
    }
    events
}

fn write(topics: &Topics, events: &[Event]) {
    let record = |event: &Event| (event.partition(), serde_json::to_vec(event).unwrap());
    topics.write("events", &events.iter().map(record).collect::<Vec<_>>());
}

fn lines(topics: &Topics) -> Vec<String> {
    let records = topics.read("lines", PARTITIONS).into_iter();
    records.map(|it| serde_json::from_str(it.value.as_ref().unwrap()).unwrap()).collect()
}

fn broker() -> (LocalBroker, Topics) {
    let broker = LocalBroker::start();
    for topic in ["events", "lines"] {
        broker.create_topic(topic, PARTITIONS);
    }
    let topics = Topics::connect(&broker.address());
    (broker, topics)
}

#[test]
fn a_job_goes_on_from_the_state_that_version_0_1_kept() {
    let (broker, topics) = broker();
    let folder = tempfile::tempdir().unwrap();
    let mut job = KeyedStateJob::new(&broker.address(), "events", "lines");
    // The fixture's topics are gone: its state goes on under another name, from another source.
    job.name = "keyed-state-again".to_owned();
    job.source_uid = "other-events".to_owned();
    let job = job.job(&folder.path().join("state")).unwrap();
    let job = job.from_savepoint(testdata("savepoint-v2")).allow_non_restored_state();
    let job = job.start().unwrap();
    let all = [
        read_events(),
        events_at(
            EVENTS..2 * EVENTS,
            PARTITIONS.unsigned_abs() as usize,
            KEYS,
            FROM_MS + i64::try_from(EVENTS).unwrap(),
        ),
    ]
    .concat();
    write(&topics, &all[EVENTS..]);
    wait_until("all is read", LIMIT, || job.monitor().snapshot().records_in == EVENTS as u64);
    let drained = job.stop_with_savepoint(folder.path().join("drained"), true).unwrap();
    job.wait().unwrap();
    let saved = open(&testdata("savepoint-v2")).manifest().clone();
    let watermark = saved.watermarks.iter().find(|(uid, _)| uid == "all-kinds").unwrap().1;
    let expected: Vec<String> = expected_lines(&all)
        .into_iter()
        .filter(|line| match line.cause {
            LineCause::Element(index) => index >= EVENTS,
            LineCause::EventTime(at) => at > watermark,
            LineCause::ProcessingTime(_) => false,
        })
        .map(|line| line.text)
        .collect();
    assert!(expected.len() > EVENTS + KEYS);
    let mut found = lines(&topics);
    found.sort();
    assert_eq!(found, expected);
    let timers = drained.states.iter().find(|it| &*it.state.state_name == "timers/processing-time");
    assert_eq!(timers.unwrap().entries, 1, "the timer of 2100 waits");
}

/// Writes `state-v2` and `savepoint-v2`; run it once for each new format version, under new names, and keep what it wrote.
#[test]
#[ignore = "it writes testdata/"]
fn write_the_fixtures() {
    let (broker, topics) = broker();
    let folder = tempfile::tempdir().unwrap();
    let (state, copy) = (folder.path().join("state"), folder.path().join("copy"));
    let mut process = GuardedCommand::new(env!("CARGO_BIN_EXE_keyed_state_job"))
        .args([broker.address().as_str(), "events", "lines"])
        .arg(&state)
        .spawn()
        .unwrap();
    let events = read_events();
    for part in events.chunks(60) {
        let before = lines(&topics).len();
        write(&topics, part);
        wait_until("the part is committed", LIMIT, || {
            let lines = lines(&topics);
            let elements = lines.iter().filter(|line| line.contains(" element ")).count();
            elements % 60 == 0 && lines.len() >= before + 60
        });
    }
    process.signal(Signal::Kill);
    process.wait(LIMIT).unwrap();
    fs::remove_file(state.join("LOCK")).unwrap();
    fs::remove_dir_all(state.join("control")).unwrap();
    // fjall makes its journal 64 MiB long at once; what is behind the last byte written says nothing.
    for entry in fs::read_dir(state.join("store")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "jnl") {
            let bytes = fs::read(&path).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            fs::write(&path, &bytes[..used]).unwrap();
        }
    }
    for target in [&testdata("state-v2"), &copy] {
        copy_folder(&state, target);
    }
    // Nothing was under way when the process died, so what it wrote last is committed.
    let newest = Inspection::of(&RealDisk, &copy).unwrap().deltas.into_iter().map(|it| it.at).max();
    savepoint_of_directory(&copy, &testdata("savepoint-v2"), 0, newest).unwrap();
}
