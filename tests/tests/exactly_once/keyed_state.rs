//! SIGKILL at random moments for a job with every kind of keyed state and timers.

use std::path::Path;
use std::time::{Duration, Instant};

use millstream_testcontainers::{
    ConsumeEnd, GuardedCommand, GuardedProcess, KafkaCluster, Signal, real_kafka_or_skip,
};
use millstream_tests::LocalBroker;
use millstream_tests::flights::{Feed, PARTITIONS};
use millstream_tests::keyed_state::{Event, events, expected};
use millstream_tests::random::Random;

use crate::stage::setting;

const INPUT: &str = "events";
const OUTPUT: &str = "lines";
const EVENTS: usize = 24_000;
const KEYS: usize = 300;

#[test]
fn all_kinds_of_state_survive_kills_on_real_kafka() {
    let name = "keyed state on real Kafka";
    if !real_kafka_or_skip(name) {
        return;
    }
    let cluster = KafkaCluster::builder().start().expect("a Kafka cluster");
    for topic in [INPUT, OUTPUT] {
        cluster.create_topic(topic, PARTITIONS.unsigned_abs(), &[]).expect("a topic");
    }
    let events = killed_at_random(name, &cluster.bootstrap_servers());
    let end = ConsumeEnd::Idle(Duration::from_secs(8));
    let records = cluster.console_consume(OUTPUT, end).expect("the console consumer");
    assert_output(&events, records.into_iter().map(|record| record.value));
}

#[test]
fn all_kinds_of_state_survive_kills_on_the_development_broker() {
    let broker = LocalBroker::start();
    for topic in [INPUT, OUTPUT] {
        broker.create_topic(topic, PARTITIONS);
    }
    let events = killed_at_random("keyed state on the development broker", &broker.address());
    let records = broker.read(OUTPUT, PARTITIONS);
    assert_output(&events, records.into_iter().map(|record| record.value));
}

/// Feeds the job, kills it again and again, and lets it read the rest; gives what it was fed.
fn killed_at_random(name: &str, bootstrap_servers: &str) -> Vec<Event> {
    let kills = setting("MILLSTREAM_KILLS", 6);
    let feed_time = Duration::from_secs(setting("MILLSTREAM_FEED_SECONDS", 9));
    let mut random = Random::from_environment(name);
    let state = tempfile::tempdir().expect("a state folder");
    let events = events(EVENTS, usize::try_from(PARTITIONS).expect("few partitions"), KEYS);
    let line = |event: &Event| serde_json::to_string(event).expect("an event is JSON");
    let lines = events.iter().map(line).collect();
    let begun = Instant::now();
    let feed = Feed::start(bootstrap_servers, INPUT, lines, feed_time);
    let mut job = start(bootstrap_servers, state.path(), false);
    for kill in 0..kills {
        let part = feed_time / u32::try_from(kills).expect("few kills");
        let at = begun
            + part * u32::try_from(kill).expect("few kills")
            + random.time(Duration::ZERO..part);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        assert!(matches!(job.try_wait(), Ok(None)), "the job ended by itself");
        job.signal(Signal::Kill);
        assert!(matches!(job.wait(Duration::from_secs(10)), Ok(Some(_))), "it does not die");
        job = start(bootstrap_servers, state.path(), false);
    }
    feed.finish();
    job.signal(Signal::Term);
    assert!(matches!(job.wait(Duration::from_secs(20)), Ok(Some(0))), "it does not stop");
    let mut last = start(bootstrap_servers, state.path(), true);
    assert!(matches!(last.wait(Duration::from_secs(60)), Ok(Some(0))), "it does not finish");
    println!("{name}: {kills} kills in {:?}", begun.elapsed());
    events
}

fn start(bootstrap_servers: &str, state: &Path, bounded: bool) -> GuardedProcess {
    let mut args = vec![bootstrap_servers.into(), INPUT.into(), OUTPUT.into(), state.into()];
    if bounded {
        args.push(std::ffi::OsString::from("bounded"));
    }
    let program = env!("CARGO_BIN_EXE_keyed_state_job");
    GuardedCommand::new(program).args(args).spawn().expect("the job starts")
}

/// Holds the lines that were written, in any order, against those that had to be.
fn assert_output(events: &[Event], values: impl Iterator<Item = Option<String>>) {
    let line = |value: Option<String>| {
        serde_json::from_str::<String>(&value.expect("a value")).expect("a JSON string")
    };
    let mut lines: Vec<String> = values.map(line).collect();
    lines.sort_unstable();
    let expected = expected(events);
    let differs = lines.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert_eq!(differs, None, "of {} lines, {} expected", lines.len(), expected.len());
    assert_eq!(lines.len(), expected.len());
}
