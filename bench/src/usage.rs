//! What this process has used so far, as the kernel counts it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::BenchError;

/// CPU time and memory of one process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// User and system time of all threads, also those that have ended, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Largest resident set, in bytes.
    pub(crate) peak_rss_bytes: u64,
}

impl Usage {
    /// Of this process, now.
    pub(crate) fn now() -> Result<Self, BenchError> {
        let cpu_seconds = cpu_seconds_of("self")?;
        let status = std::fs::read_to_string("/proc/self/status")?;
        let peak_kib: u64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
            .unwrap_or(0);
        Ok(Self { cpu_seconds, peak_rss_bytes: peak_kib * 1024 })
    }
}

/// User and system time of all threads of a process that runs, by its id, also of those that have ended, in seconds.
pub(crate) fn cpu_seconds_of(process: &str) -> Result<f64, BenchError> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the command in parentheses and may hold spaces; user and system ticks are the 14th and 15th.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap_or(0))
        .sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What one measured job says of itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// Records read.
    pub(crate) records: u64,
    /// Records written.
    pub(crate) records_out: u64,
    /// From connecting to the end.
    pub(crate) wall: Duration,
    /// Of the whole process, start-up included.
    pub(crate) usage: Usage,
}

impl Measurement {
    /// CPU-seconds per million records.
    pub(crate) fn cpu_per_million(&self) -> f64 {
        self.usage.cpu_seconds * 1e6 / self.records.max(1) as f64
    }

    /// Million records per second of wall time.
    pub(crate) fn million_per_second(&self) -> f64 {
        self.records as f64 / 1e6 / self.wall.as_secs_f64().max(1e-9)
    }
}
