//! `docs/stateful.md` and its program: what the page shows is in `examples/stateful.rs`, and that does what the page says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use millstream_engine::checkpoint::{JobStatus, SavepointTrigger};
use millstream_tests::example;
use millstream_tests::wait::wait_until;
use serde::Deserialize;

use crate::contents::open;
use crate::job::{LIMIT, PARTITIONS, Stage};

const DAY_MS: i64 = 24 * 3_600_000;
const ORIGINS: [&str; 5] = ["EWR", "JFK", "LGA", "BOS", "ORD"];

#[test]
fn the_code_of_the_guide_is_that_of_its_example() {
    let lines = |text: &'static str| text.lines().map(str::trim).collect::<Vec<_>>();
    let program = lines(include_str!("../../../examples/stateful.rs"));
    let guide = include_str!("../../../docs/stateful.md");
    let blocks: Vec<_> = guide.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 7, "the guide shows code");
    for block in blocks {
        let shown = lines(block.split("```").next().unwrap());
        let found = program.windows(shown.len()).any(|window| window == shown);
        assert!(found, "examples/stateful.rs does not have these lines:\n{}", shown.join("\n"));
    }
}

/// The example as a process. It ends with its standard input, so it can not outlive its test.
struct Console {
    child: Child,
    lines: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Console {
    fn start(stage: &Stage, state: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(example("stateful"))
            .args(["--bootstrap-server", &stage.broker.address()])
            .args(["--input-topic", "flights", "--output-topic", "reports", "--state-dir"])
            .arg(stage.path(state))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, answers) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, lines, answers: BufReader::new(answers) }
    }

    /// The next line of what it says.
    fn next(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.lines.as_mut().unwrap(), "{line}").unwrap();
        self.next()
    }

    fn expect_end(mut self) {
        let mut status = None;
        wait_until("the example ends", LIMIT, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        drop(self.lines.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
struct Report {
    origin: String,
    day: Option<i64>,
    departures: usize,
    by_carrier: Vec<(String, u64)>,
    worst_delay: i64,
    mean_delay: i64,
}

/// A departure: airport, time, carrier, delay.
type Departure = (usize, i64, String, i64);

/// Three departures from each airport on each of the days.
fn departures(days: std::ops::Range<i64>) -> Vec<Departure> {
    let mut all = Vec::new();
    for day in days {
        for hour in [2, 9, 21] {
            for origin in 0..ORIGINS.len() {
                let number = day * 31 + hour * 7 + i64::try_from(origin).unwrap();
                let at = day * DAY_MS + hour * 3_600_000;
                all.push((origin, at, format!("C{}", number % 3), number % 50 - 10));
            }
        }
    }
    all
}

fn write(stage: &Stage, departures: &[Departure]) {
    for partition in 0..PARTITIONS {
        let of_partition =
            departures.iter().filter(|(origin, ..)| partition_of(*origin) == partition);
        let values: Vec<_> = of_partition
            .map(|(origin, at, carrier, delay)| {
                format!(
                    r#"{{"origin":"{}","carrier":"{carrier}","dep_delay":{delay},"departed_ms":{at}}}"#,
                    ORIGINS[*origin]
                )
            })
            .collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        stage.broker.write("flights", partition, &values);
    }
}

fn partition_of(origin: usize) -> i32 {
    i32::try_from(origin).unwrap() % PARTITIONS
}

fn reports(stage: &Stage) -> Vec<Report> {
    let records = stage.broker.read("reports", PARTITIONS).into_iter();
    records.map(|it| serde_json::from_str(&it.value.unwrap()).unwrap()).collect()
}

fn days(stage: &Stage) -> Vec<Report> {
    let mut days: Vec<_> = reports(stage).into_iter().filter(|it| it.day.is_some()).collect();
    days.sort();
    days
}

/// The reports of all days, by a plain loop.
fn expected(departures: &[Departure]) -> Vec<Report> {
    let mut days = Vec::new();
    for (index, origin) in ORIGINS.iter().enumerate() {
        let mut by_day: BTreeMap<i64, Vec<&Departure>> = BTreeMap::new();
        for departure in departures.iter().filter(|(origin, ..)| *origin == index) {
            by_day.entry(departure.1 / DAY_MS).or_default().push(departure);
        }
        let (mut by_carrier, mut delays) = (BTreeMap::new(), Vec::new());
        for (day, departures) in by_day {
            for (_, _, carrier, delay) in &departures {
                *by_carrier.entry(carrier.clone()).or_insert(0) += 1;
                delays.push(*delay);
            }
            days.push(Report {
                origin: (*origin).to_owned(),
                day: Some(day),
                departures: departures.len(),
                by_carrier: by_carrier.clone().into_iter().collect(),
                worst_delay: delays.iter().max().copied().unwrap(),
                mean_delay: delays.iter().sum::<i64>() / i64::try_from(delays.len()).unwrap(),
            });
        }
    }
    days.sort();
    days
}

#[test]
fn the_example_keeps_its_state_over_savepoints_and_another_parallelism() {
    let stage = Stage::new();
    for topic in ["flights", "reports"] {
        stage.broker.create_topic(topic, PARTITIONS);
    }
    let path = |name: &str| stage.path(name).to_str().unwrap().to_owned();
    let mut first = Console::start(&stage, "state", &["--quiet", "100ms"]);
    let mut all = departures(0..6);
    write(&stage, &all);
    wait_until("five days are over", LIMIT, || days(&stage).len() == 5 * ORIGINS.len());
    wait_until("every airport is quiet", LIMIT, || {
        let quiet = reports(&stage).into_iter().filter(|it| it.day.is_none());
        let quiet: std::collections::BTreeSet<_> = quiet.map(|it| it.origin).collect();
        quiet.len() == ORIGINS.len()
    });

    let live = first.ask(&format!("savepoint {}", path("live")));
    let manifest = open(&stage.path("live")).manifest().clone();
    assert_eq!(manifest.trigger, SavepointTrigger::Live);
    let (checkpoint, entries) = (manifest.at.checkpoint, manifest.entries());
    let words =
        format!("{} holds checkpoint {checkpoint}, entries of state: {entries}", path("live"));
    assert_eq!(live.trim(), words);
    let again = first.ask(&format!("savepoint {}", path("live")));
    assert!(again.starts_with("error: "), "{again}");
    let mut said = first.ask("checkpoints");
    assert!(said.starts_with("checkpoint ") && said.contains(" committed after "), "{said}");
    while said.starts_with("checkpoint ") {
        said = first.next();
    }
    assert!(said.starts_with("the longest took ") && !said.contains("took 0ns"), "{said}");
    first.ask(&format!("stop {}", path("stopped")));
    first.expect_end();

    let from = path("stopped");
    let other = ["--parallelism", "3", "--from-savepoint", &from];
    let mut second = Console::start(&stage, "state-2", &other);
    let mut later = departures(6..8);
    // Event time goes beyond the last whole day in every partition.
    later.extend((0..2).map(|origin| (origin, 8 * DAY_MS + 2 * 3_600_000, "C9".to_owned(), 77)));
    write(&stage, &later);
    all.extend(later);
    wait_until("eight days are over", LIMIT, || days(&stage).len() == 8 * ORIGINS.len());
    second.ask(&format!("drain {}", path("drained")));
    second.expect_end();
    let manifest = open(&stage.path("drained")).manifest().clone();
    assert_eq!(manifest.status, JobStatus::Finished);
    assert_eq!(days(&stage), expected(&all));

    // Where its lines end the job is stopped, with nothing to do any more but to say so.
    let mut third = Console::start(&stage, "state-3", &["--from-savepoint", &path("drained")]);
    assert!(third.ask("help").contains("drain FOLDER"));
    drop(third.lines.take());
    third.expect_end();
}
