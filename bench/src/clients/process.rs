//! One client, run once, as the kernel counts it.

use std::io::Read;
use std::process::{Command, Stdio};

use wait4::Wait4;

use super::values::Outcome;
use crate::BenchError;

/// What one run took.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    /// User and system time of the whole process, start-up included.
    pub(crate) cpu_seconds: f64,
    /// Largest resident set, in bytes. Not below ours at the time of the start: the kernel counts from the fork on.
    pub(crate) peak_rss_bytes: u64,
}

/// Runs a client to its end.
pub(crate) fn run(mut command: Command) -> Result<Run, BenchError> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut text = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut text)?;
    }
    let ended = child.wait4()?;
    if !ended.status.success() {
        return Err(format!("{command:?} ended with {}", ended.status).into());
    }
    let line = text.lines().last().unwrap_or_default();
    Ok(Run {
        outcome: serde_json::from_str(line)
            .map_err(|error| format!("{command:?} printed '{line}': {error}"))?,
        cpu_seconds: (ended.rusage.utime + ended.rusage.stime).as_secs_f64(),
        peak_rss_bytes: ended.rusage.maxrss,
    })
}
