//! `demo --crash N`: the job runs as a child process and is killed with SIGKILL while input remains.

use std::fmt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::feed::Fed;
use super::job::{Place, Report};
use super::progress::Progress;
use crate::command::CommandError;
use crate::exit_code;

/// The shortest time over which the input is paced, and how much longer it takes for each kill.
const PACE_MIN: Duration = Duration::from_secs(10);
const PACE_PER_KILL: Duration = Duration::from_secs(2);

/// A child that does not run by then is broken.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// A child that was asked to stop, or that has only the rest to read, moves on within that time until it has ended.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// One kill and the way back.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    /// Checkpoint from which the job went on; 0 if none had been committed yet.
    pub(crate) resumed_from: u64,
    /// From SIGKILL until the next process ran.
    pub(crate) took: Duration,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resumed_from {
            0 => write!(f, "from the beginning")?,
            checkpoint => write!(f, "from checkpoint {checkpoint}")?,
        }
        write!(f, " in {} ms", self.took.as_millis())
    }
}

/// The job's process ended when or as it should not; what it had to say is on standard error.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the job's process ended with {status}")]
pub(crate) struct ChildEnded {
    status: ExitStatus,
}

impl ChildEnded {
    /// The child's own, if it has one that says what failed.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.status.code().map(u8::try_from) {
            Some(Ok(code @ 1..)) => code,
            _ => exit_code::FAILED,
        }
    }
}

/// How long the input is spread for `kills` kills.
pub(crate) fn pace(kills: u32) -> Duration {
    PACE_MIN.max(PACE_PER_KILL * kills)
}

/// Moments of the kills after the start, one at random in each of `kills` equal parts of the middle of `over`.
pub(crate) fn moments(kills: u32, over: Duration, seed: u64) -> Vec<Duration> {
    let (from, until) = (over.mul_f64(0.08), over.mul_f64(0.92));
    let part = (until - from) / kills.max(1);
    let mut state = seed;
    (0..kills).map(|index| from + part * index + part.mul_f64(next_unit(&mut state))).collect()
}

/// A number in 0..1 from the SplitMix64 sequence of `state`.
fn next_unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// Runs the job at `place` in child processes, killing it at `moments`; returns once the last one has read everything.
pub(crate) async fn run(
    place: &Place<'_>,
    moments: &[Duration],
    total: usize,
    fed: &Fed,
    progress: &mut Progress,
) -> Result<Vec<Recovery>, CommandError> {
    let started = Instant::now();
    let mut recoveries = Vec::new();
    let mut job = JobProcess::spawn(place)?;
    job.until_running(progress).await?;
    for (index, moment) in moments.iter().enumerate() {
        job.watch_until(started + *moment, progress).await?;
        let left = total.saturating_sub(fed.load(Ordering::Relaxed));
        let killed = Instant::now();
        job.kill().await?;
        job = JobProcess::spawn(place)?;
        let resumed_from = job.until_running(progress).await?.resumed_from;
        let took = killed.elapsed();
        let recovery = Recovery { resumed_from, took };
        progress.line(&format!(
            "kill {} of {} with {left} events still to come; restarted {recovery}",
            index + 1,
            moments.len(),
        ));
        recoveries.push(recovery);
    }
    while fed.load(Ordering::Relaxed) < total {
        job.watch_until(Instant::now() + Duration::from_millis(50), progress).await?;
    }
    job.stop(progress).await?;
    let rest = Place { bounded: true, ..place.clone() };
    JobProcess::spawn(&rest)?.until_end(progress).await?;
    Ok(recoveries)
}

/// A duration as an argument.
fn micros(duration: Duration) -> String {
    format!("{}us", duration.as_micros())
}

/// A running child.
struct JobProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl JobProcess {
    fn spawn(place: &Place<'_>) -> Result<Self, CommandError> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("demo-job")
            .args(["--bootstrap-server", place.bootstrap_server])
            .args(["--input-topic", place.input_topic])
            .args(["--output-topic", place.output_topic])
            .arg("--state-dir")
            .arg(place.state_dir)
            .args(["--job", place.job])
            .args(["--parallelism", &place.parallelism.to_string()])
            .args(["--checkpoint-interval", &micros(place.checkpoint_interval)])
            .args(["--out-of-orderness", &micros(place.out_of_orderness)]);
        if place.bounded {
            command.arg("--bounded");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // A group of its own: Ctrl-C is for us, and we end the child.
        let mut child = command.process_group(0).spawn()?;
        let stdout = child.stdout.take().ok_or("the job's standard output is not connected")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines() })
    }

    async fn next_report(&mut self) -> Result<Option<Report>, CommandError> {
        match self.lines.next_line().await? {
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
            None => Ok(None),
        }
    }

    async fn until_running(&mut self, progress: &mut Progress) -> Result<Report, CommandError> {
        let deadline = tokio::time::Instant::now() + START_PATIENCE;
        loop {
            match tokio::time::timeout_at(deadline, self.next_report()).await {
                Ok(Ok(Some(report))) if report.running => {
                    progress.show(&report);
                    return Ok(report);
                }
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return Err(self.ended().await),
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err("the job did not start within a minute".into()),
            }
        }
    }

    async fn watch_until(
        &mut self,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<(), CommandError> {
        while let Ok(report) = tokio::time::timeout_at(deadline.into(), self.next_report()).await {
            match report? {
                Some(report) => progress.show(&report),
                None => return Err(self.ended().await),
            }
        }
        Ok(())
    }

    async fn kill(mut self) -> Result<(), CommandError> {
        self.signal(Signal::KILL)?;
        self.child.wait().await?;
        Ok(())
    }

    async fn stop(self, progress: &mut Progress) -> Result<(), CommandError> {
        self.signal(Signal::TERM)?;
        self.until_end(progress).await
    }

    async fn until_end(mut self, progress: &mut Progress) -> Result<(), CommandError> {
        let mut last = Report::default();
        let mut deadline = tokio::time::Instant::now() + END_PATIENCE;
        loop {
            match tokio::time::timeout_at(deadline, self.next_report()).await {
                Ok(Ok(Some(report))) => {
                    progress.show(&report);
                    if report != last {
                        last = report;
                        deadline = tokio::time::Instant::now() + END_PATIENCE;
                    }
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err("the job neither moved on nor ended for a minute".into()),
            }
        }
        let status = self.child.wait().await?;
        if status.success() { Ok(()) } else { Err(ChildEnded { status }.into()) }
    }

    fn signal(&self, signal: Signal) -> Result<(), CommandError> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(pid.ok_or("the job has already ended")?, signal)?;
        Ok(())
    }

    async fn ended(&mut self) -> CommandError {
        match self.child.wait().await {
            Ok(status) => ChildEnded { status }.into(),
            Err(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kill_has_its_own_part_of_the_time_and_falls_while_input_remains() {
        let over = Duration::from_secs(10);
        for seed in 0..1000 {
            let moments = moments(5, over, seed);
            assert_eq!(moments.len(), 5);
            assert!(moments.is_sorted());
            assert!(moments.iter().all(|at| *at >= over.mul_f64(0.08) && *at < over.mul_f64(0.92)));
        }
        assert_ne!(moments(5, over, 1), moments(5, over, 2));
    }
}
