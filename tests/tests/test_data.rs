//! The files in `testdata/`: the answers are those of plain loops, and the bundled month is the beginning of the year.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use serde::Deserialize;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

/// Which part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The whole year: 327,346 departures.
    Year,
    /// The first month.
    January,
}

/// What the queries need of an event.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct Flight {
    /// Carrier's code, the key of q1.
    carrier: String,
    /// Airport of departure, the key of q2.
    origin: String,
    /// Miles.
    distance: i64,
    /// Minutes, negative if early.
    dep_delay: i64,
    /// Minutes, negative if early.
    arr_delay: i64,
    /// Milliseconds since 1970.
    departed_ms: i64,
    /// Milliseconds since 1970: the event time of q2.
    landed_ms: i64,
}

/// Totals of one carrier: flights, miles, worst arrival delay.
type Totals = BTreeMap<String, (i64, i64, i64)>;

/// Landings of one hour and origin: number, sum of arrival delays, largest departure delay.
type Windows = BTreeMap<(i64, String), (i64, i64, i64)>;

/// The file of a part: gzip, JSON lines.
fn file(part: Part) -> PathBuf {
    folder().join(match part {
        Part::Year => "flights.jsonl.gz",
        Part::January => "january.jsonl.gz",
    })
}

/// The lines of a part in order, without line ends.
fn lines(part: Part) -> Vec<String> {
    let mut text = String::new();
    let file = File::open(file(part)).expect("the flights are in testdata/");
    GzDecoder::new(file).read_to_string(&mut text).expect("the flights are gzipped text");
    text.lines().map(str::to_owned).collect()
}

/// The events of a part in order.
fn events(part: Part) -> Vec<Flight> {
    lines(part).iter().map(|line| serde_json::from_str(line).expect("a flight in JSON")).collect()
}

/// q1 at the end of the events, by a plain loop.
fn totals<'a>(events: impl IntoIterator<Item = &'a Flight>) -> Totals {
    let mut totals = Totals::new();
    for flight in events {
        let (flights, miles, worst) =
            totals.entry(flight.carrier.clone()).or_insert((0, 0, i64::MIN));
        *flights += 1;
        *miles += flight.distance;
        *worst = flight.arr_delay.max(*worst);
    }
    totals
}

/// q2 after the end of the events, by a plain loop.
fn windows<'a>(events: impl IntoIterator<Item = &'a Flight>) -> Windows {
    let mut windows = Windows::new();
    for flight in events {
        let start = flight.landed_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let (landings, sum, largest) =
            windows.entry((start, flight.origin.clone())).or_insert((0, 0, i64::MIN));
        *landings += 1;
        *sum += flight.arr_delay;
        *largest = flight.dep_delay.max(*largest);
    }
    windows
}

/// q1 of the whole year, from its file.
fn expected_totals() -> Totals {
    csv("q1_totals_by_carrier.csv", "carrier,flights,miles,worst_arr_delay")
        .into_iter()
        .map(|row| (row[0].clone(), (number(&row[1]), number(&row[2]), number(&row[3]))))
        .collect()
}

/// q2 of the whole year, from its file.
fn expected_windows() -> Windows {
    csv("q2_tumble_1h_by_origin.csv", "window_start,origin,landings,sum_arr_delay,max_dep_delay")
        .into_iter()
        .map(|row| {
            let key = (number(&row[0]), row[1].clone());
            (key, (number(&row[2]), number(&row[3]), number(&row[4])))
        })
        .collect()
}

fn csv(name: &str, header: &str) -> Vec<Vec<String>> {
    let file = folder().join("expected").join(name);
    let text = fs::read_to_string(&file).expect("the answers are in testdata/");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(header), "header of {}", file.display());
    let columns = header.split(',').count();
    lines
        .map(|line| {
            let row: Vec<String> = line.split(',').map(str::to_owned).collect();
            assert_eq!(row.len(), columns, "columns of {line}");
            row
        })
        .collect()
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testdata/flights")
}

#[test]
fn plain_loops_give_the_answers_of_the_files() {
    let events = events(Part::Year);
    assert_eq!(events.len(), 327_346);
    assert_eq!(totals(&events), expected_totals());
    assert_eq!(windows(&events), expected_windows());
}

#[test]
fn january_is_the_beginning_of_the_year() {
    let january = lines(Part::January);
    let year = lines(Part::Year);
    assert_eq!(january.len(), 26_390);
    assert_eq!(january, year[..january.len()]);
    // 2013-02-01T00:00Z
    assert!(events(Part::January).iter().all(|flight| flight.departed_ms < 1_359_676_800_000));
}
