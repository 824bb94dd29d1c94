//! A job with a sum by key, on the development broker, and the answers of a plain loop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_engine::api::{StreamExecutionEnvironment, fold};
use millstream_engine::kafka::{ClientConfig, KafkaSink, KafkaSource};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::window::TumblingEventTimeWindows;
use millstream_engine::{Job, JobHandle};
use millstream_tests::LocalBroker;
use millstream_tests::wait::wait_until;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub(crate) const PARTITIONS: i32 = 2;
pub(crate) const HOUR_MS: i64 = 3_600_000;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Event {
    pub(crate) key: String,
    pub(crate) amount: i64,
    pub(crate) at: i64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) total: i64,
}

/// The same with another type of one field.
pub(crate) mod changed {
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
    pub(crate) struct Sum {
        pub(crate) count: u64,
        pub(crate) total: i32,
    }
}

/// A row of the output.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) count: u64,
    pub(crate) total: i64,
}

/// What the program looks like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Program {
    /// Running sums by key.
    Sums,
    /// Sums, and beside them counts by hour from a source of their own.
    SumsAndHours,
    /// Counts by hour alone.
    Hours,
    /// Sums whose state has another type.
    ChangedSums,
}

/// A broker with topics, and a folder for states and savepoints.
pub(crate) struct Stage {
    pub(crate) broker: LocalBroker,
    pub(crate) folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let broker = LocalBroker::start();
        for topic in ["in", "out", "hours"] {
            broker.create_topic(topic, PARTITIONS);
        }
        Self { broker, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes events, each key to a partition of its own.
    pub(crate) fn write(&self, events: &[Event]) {
        for partition in 0..PARTITIONS {
            let of_partition = events.iter().filter(|event| partition_of(event) == partition);
            let values: Vec<_> =
                of_partition.map(|event| serde_json::to_vec(event).unwrap()).collect();
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            self.broker.write("in", partition, &values);
        }
    }

    /// The job under its usual name.
    pub(crate) fn job(&self, program: Program, parallelism: usize, state: &str) -> Job {
        self.job_named("sums", program, parallelism, &self.path(state))
    }

    pub(crate) fn job_named(
        &self,
        name: &str,
        program: Program,
        parallelism: usize,
        state: &Path,
    ) -> Job {
        let kafka = ClientConfig::new(self.broker.address());
        let env = StreamExecutionEnvironment::new(name)
            .parallelism(parallelism)
            .checkpoint_interval(Duration::from_millis(20));
        let source = KafkaSource::new(kafka.clone()).topics(["in"]);
        let watermarks = || {
            WatermarkStrategy::for_bounded_out_of_orderness(Duration::from_secs(1))
                .with_timestamp_assigner(|event: &Event, _| event.at)
                .without_idleness()
        };
        let out = KafkaSink::new(kafka.clone()).topic("out");
        if matches!(program, Program::Sums | Program::SumsAndHours) {
            env.from_source(source.clone().json::<Event>(), watermarks())
                .uid("events")
                .key_by(|event| event.key.clone())
                .aggregate(fold(Sum::default(), |sum: &mut Sum, event: Event| {
                    sum.count += 1;
                    sum.total += event.amount;
                }))
                .uid("sums")
                .map(|sum| Row { key: sum.key, count: sum.value.count, total: sum.value.total })
                .sink_to(out.clone().json_with_key(|row: &Row| row.key.clone()))
                .uid("out");
        }
        if program == Program::ChangedSums {
            env.from_source(source.clone().json::<Event>(), watermarks())
                .uid("events")
                .key_by(|event| event.key.clone())
                .aggregate(fold(changed::Sum::default(), |sum: &mut changed::Sum, event: Event| {
                    sum.count += 1;
                    sum.total += i32::try_from(event.amount).unwrap();
                }))
                .uid("sums")
                .map(|sum| Row {
                    key: sum.key,
                    count: sum.value.count,
                    total: i64::from(sum.value.total),
                })
                .sink_to(out.json_with_key(|row: &Row| row.key.clone()))
                .uid("out");
        }
        if matches!(program, Program::Hours | Program::SumsAndHours) {
            env.from_source(source.json::<Event>(), watermarks())
                .uid("events-by-hour")
                .key_by(|event| event.key.clone())
                .window(TumblingEventTimeWindows::of(Duration::from_hours(1)))
                .aggregate(fold(Sum::default(), |sum: &mut Sum, event: Event| {
                    sum.count += 1;
                    sum.total += event.amount;
                }))
                .uid("hours")
                .map(|hour| Row {
                    key: format!("{}@{}", hour.key, hour.window.start / HOUR_MS),
                    count: hour.value.count,
                    total: hour.value.total,
                })
                .sink_to(
                    KafkaSink::new(kafka).topic("hours").json_with_key(|row: &Row| row.key.clone()),
                )
                .uid("hours-out");
        }
        Job::new(env, state).unwrap()
    }

    pub(crate) fn output(&self, topic: &str) -> Vec<Row> {
        let records = self.broker.read(topic, PARTITIONS);
        records.iter().map(|r| serde_json::from_str(r.value.as_ref().unwrap()).unwrap()).collect()
    }

    /// Waits until the sums hold a row for each event.
    pub(crate) fn wait_for_rows(&self, rows: usize) {
        wait_until(&format!("{rows} rows are committed"), LIMIT, || {
            self.output("out").len() >= rows
        });
    }

    /// Every event has given one row, with the sum of its key up to it.
    pub(crate) fn assert_exactly_once(&self, events: &[Event]) {
        let mut found = self.output("out");
        found.sort();
        let mut expected = rows_of(events);
        expected.sort();
        assert_eq!(found, expected);
    }
}

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Asks the job to end, and waits for it.
pub(crate) fn stop(job: JobHandle) {
    job.stop();
    job.wait().unwrap();
}

pub(crate) fn partition_of(event: &Event) -> i32 {
    i32::from(event.key.as_bytes()[0] % 2)
}

/// Events number `from` to before `to`; ten keys, one event a minute.
pub(crate) fn events(from: u32, to: u32) -> Vec<Event> {
    let event = |n: u32| Event {
        key: ((b'a' + u8::try_from(n % 10).unwrap()) as char).to_string(),
        amount: i64::from(n % 7) - 2,
        at: i64::from(n) * 60_000,
    };
    (from..to).map(event).collect()
}

/// The rows of a plain loop.
pub(crate) fn rows_of(events: &[Event]) -> Vec<Row> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    let row = |event: &'_ Event| {
        let sum = sums.entry(&events.iter().find(|e| e.key == event.key).unwrap().key).or_default();
        sum.count += 1;
        sum.total += event.amount;
        Row { key: event.key.clone(), count: sum.count, total: sum.total }
    };
    events.iter().map(row).collect()
}

/// The last sum of each key.
pub(crate) fn sums_of<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeMap<String, Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for event in events {
        let sum = sums.entry(event.key.clone()).or_default();
        sum.count += 1;
        sum.total += event.amount;
    }
    sums
}
