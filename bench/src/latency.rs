//! `latency`: from the producer's call to a reader of committed records, at a steady rate, and what the engine's process uses
//! meanwhile.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use millstream_engine::kafka::{ClientConfig, KafkaClient, NewTopic};

use crate::BenchError;
use crate::broker::Broker;
use crate::steady::{
    Feed, Guarantee, JobProcess, PARTITIONS, Phases, Reader, Records, Seen, Shape,
    SteadyJobArguments, begin,
};
use crate::targets::{Bound, Spread, Targets};

/// How to measure.
#[derive(Debug, Args)]
pub(crate) struct LatencyArguments {
    /// Times between commits
    #[arg(long, default_values = ["100ms", "10ms"], value_delimiter = ',', value_parser = humantime::parse_duration)]
    intervals: Vec<Duration>,
    /// Records a second
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// How long a run is measured, after five seconds that are not; a run before all others is not counted
    #[arg(long, default_value = "12s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Runs with each interval, in turn
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Workers of the job
    #[arg(long, default_value_t = 2)]
    parallelism: usize,
    /// Measure at once: without a run before, that does not count, for the broker's compilers
    #[arg(long)]
    cold: bool,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

/// Start-up, backlog and the broker's compilers have calmed down by then.
const WARM_UP: Duration = Duration::from_secs(5);

/// How long anything may take that should take moments.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one run gave; times in milliseconds.
#[derive(Debug)]
struct Run {
    interval: Duration,
    /// Sorted.
    latencies: Vec<f64>,
    /// The longest time between two receipts.
    gap: f64,
    /// Cores that the engine's process was busy on.
    cores: f64,
    broker_cores: f64,
    phases: Phases,
}

impl Run {
    fn percentile(&self, of_thousand: usize) -> f64 {
        let at = (self.latencies.len() * of_thousand / 1000).min(self.latencies.len().max(1) - 1);
        self.latencies.get(at).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn run(arguments: &LatencyArguments) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    let (runtime, broker) = begin(&mut out)?;
    writeln!(
        out,
        "{} records of 100 B a second, {PARTITIONS} partitions, {} workers, {}; times in ms",
        arguments.rate,
        arguments.parallelism,
        broker.name()
    )?;
    writeln!(
        out,
        "{:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>13} {:>13}",
        "commits", "p50", "p90", "p99", "p99.9", "max", "gap", "engine cores", "broker cores"
    )?;
    if !arguments.cold {
        let interval = arguments.intervals.first().copied().unwrap_or(Duration::from_millis(100));
        runtime.block_on(one(arguments, &broker, interval, u32::MAX))?;
    }
    let mut runs = Vec::new();
    for number in 0..arguments.runs.max(1) {
        for interval in &arguments.intervals {
            let run = runtime.block_on(one(arguments, &broker, *interval, number))?;
            writeln!(
                out,
                "{:>8} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>13.3} {:>13.3}",
                humantime::format_duration(run.interval).to_string(),
                run.percentile(500),
                run.percentile(900),
                run.percentile(990),
                run.percentile(999),
                run.percentile(1000),
                run.gap,
                run.cores,
                run.broker_cores,
            )?;
            writeln!(out, "         of which checkpoints: {}", run.phases)?;
            out.flush()?;
            runs.push(run);
        }
    }
    let mut targets = Targets::default();
    for (interval_ms, what, limit, figure) in figures() {
        let of_interval =
            runs.iter().filter(|run| run.interval == Duration::from_millis(interval_ms));
        let values: Vec<f64> = of_interval.map(figure).collect();
        if !values.is_empty() {
            let what = format!("{what} with a commit each {interval_ms} ms");
            targets.judge(&mut out, &what, Spread::of(values), Bound::AtMost, limit)?;
        }
    }
    targets.check(arguments.check)
}

type Figure = fn(&Run) -> f64;

/// Interval, name, limit and figure of each target.
fn figures() -> [(u64, &'static str, f64, Figure); 4] {
    [
        (100, "p50, ms,", 57.0, |run| run.percentile(500)),
        (100, "p99, ms,", 110.0, |run| run.percentile(990)),
        (100, "cores of the engine", 0.06, |run| run.cores),
        (10, "p99, ms,", 35.0, |run| run.percentile(990)),
    ]
}

async fn one(
    arguments: &LatencyArguments,
    broker: &Broker,
    interval: Duration,
    number: u32,
) -> Result<Run, BenchError> {
    let job = format!("latency-{}us-{number}", interval.as_micros());
    let (input, output) = (format!("{job}-in"), format!("{job}-out"));
    let address = broker.bootstrap_server();
    let client = KafkaClient::connect(ClientConfig::new(&address)).await?;
    for topic in [&input, &output] {
        client.create_topic(NewTopic::new(topic, PARTITIONS, 1)).await?;
    }
    client.close().await;
    let state = tempfile::tempdir_in(".")?;
    let origin = Instant::now();
    let mut reader = Reader::start(&address, &output, origin).await?;
    let process = JobProcess::start(&SteadyJobArguments {
        bootstrap_server: address.clone(),
        job,
        input_topic: input.clone(),
        output_topic: output,
        state_dir: state.path().to_owned(),
        parallelism: arguments.parallelism,
        checkpoint_interval: interval,
        shape: Shape::Copy,
        guarantee: Guarantee::ExactlyOnce,
        bounded: false,
    })?;
    let records = Records { keys: None, first: 0 };
    let feed = Feed::open(&address, &input, records, origin).await?.run(arguments.rate);
    reader.until("the first output", PATIENCE, |seen| !seen.is_empty()).await?;
    tokio::time::sleep(WARM_UP).await;
    let usage = || Ok::<_, BenchError>((process.cpu_seconds()?, broker.cpu_seconds()?));
    let (begun, before) = (origin.elapsed(), usage()?);
    tokio::time::sleep(arguments.duration).await;
    let (ended, after) = (origin.elapsed(), usage()?);
    let end = feed.stop().await?;
    reader.until("all output", PATIENCE, |seen| seen.len() as u64 >= end).await?;
    let phases = process.stop()?;
    reader.exactly_once(end)?;
    let seconds = (ended - begun).as_secs_f64();
    let (latencies, gap) = times(&reader.seen(), begun, ended);
    if (latencies.len() as f64) < 0.98 * seconds * arguments.rate as f64 {
        return Err(format!(
            "the load was not kept: {} records in {seconds:.1} s",
            latencies.len()
        )
        .into());
    }
    let broker_cores = match (before.1, after.1) {
        (Some(before), Some(after)) => (after - before) / seconds,
        _ => f64::NAN,
    };
    let cores = (after.0 - before.0) / seconds;
    Ok(Run { interval, latencies, gap, cores, broker_cores, phases })
}

/// Latencies of what was written from `begun` to `ended`, sorted, and the longest time between two receipts of it, in
/// milliseconds.
fn times(seen: &[Seen], begun: Duration, ended: Duration) -> (Vec<f64>, f64) {
    let within = seen.iter().filter(|seen| (begun..ended).contains(&seen.stamped));
    let mut latencies = Vec::new();
    let (mut gap, mut last) = (Duration::ZERO, None);
    for seen in within {
        latencies.push(seen.seen.saturating_sub(seen.stamped).as_secs_f64() * 1e3);
        gap = gap.max(last.map_or(Duration::ZERO, |last| seen.seen.saturating_sub(last)));
        last = Some(seen.seen);
    }
    latencies.sort_by(f64::total_cmp);
    (latencies, gap.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_and_after_does_not_count() {
        const MS: Duration = Duration::from_millis(1);
        let seen: Vec<Seen> = [(5, 90), (10, 60), (30, 60), (40, 64), (50, 70)]
            .iter()
            .map(|(stamped, seen)| Seen { number: 0, stamped: *stamped * MS, seen: *seen * MS })
            .collect();
        assert_eq!(times(&seen, 10 * MS, 50 * MS), (vec![24.0, 30.0, 50.0], 4.0));
    }
}
