//! `state`: what checkpoints of keyed state cost, without any broker: the engine's worker and the steps that the coordinator
//! takes with its state directory, on a real disk.

mod job;
mod run;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::BenchError;
use run::{Checkpoint, Run};

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct StateArguments {
    /// Keys that change between two barriers
    #[arg(long, default_value_t = 1_000_000)]
    dirty_keys: u64,
    /// Keys that there are; several numbers are measured one after the other and compared
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000])]
    total_keys: Vec<u64>,
    /// Bytes of an encoded value; a key has 16
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Checkpoints measured of each kind
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the state lies meanwhile; on the disk that is to be measured
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Also start again from the state of the last size, and measure the time to the first record
    #[arg(long)]
    recovery: bool,
}

const STALL_MS_MAX: f64 = 5.0;
const CPU_US_MAX: f64 = 0.6;
const WRITTEN_MAX: f64 = 2.5;
const SIZES_RATIO_MAX: f64 = 1.3;
const RECOVERY_MAX: Duration = Duration::from_secs(3);

pub(crate) fn run(arguments: &StateArguments) -> Result<(), BenchError> {
    let folder = match &arguments.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir_in(".")?,
    };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "keys of 16 B, values of {} B, {} dirty keys a checkpoint\n",
        arguments.value_bytes, arguments.dirty_keys
    )?;
    let mut run = Run::start(folder.path(), arguments.value_bytes)?;
    let mut times = Vec::new();
    for total in &arguments.total_keys {
        let fill = run.fill(*total, arguments.dirty_keys)?;
        writeln!(out, "{total} keys (filled in {:.1} s)", fill.as_secs_f64())?;
        let mut quiet: Vec<Checkpoint> = Vec::new();
        let mut busy: Vec<Checkpoint> = Vec::new();
        for _ in 0..arguments.rounds.max(1) {
            run.change(arguments.dirty_keys)?;
            quiet.push(run.checkpoint(0)?);
            run.change(arguments.dirty_keys)?;
            busy.push(run.checkpoint(u64::MAX)?);
        }
        let stall = median(busy.iter().map(|it| it.stall.as_secs_f64() * 1e3));
        let worst = busy.iter().map(|it| it.stall.as_secs_f64() * 1e3).fold(0.0, f64::max);
        target(&mut out, "stall at the barrier, ms", stall, STALL_MS_MAX)?;
        writeln!(
            out,
            "    (the longest of all {worst:.2}; on average {:.2} between two units of input)",
            median(busy.iter().map(|it| it.unit.as_secs_f64() * 1e3))
        )?;
        let cpu = median(quiet.iter().map(Checkpoint::cpu_us_per_key));
        target(&mut out, "CPU of a checkpoint with fsync, us/key", cpu, CPU_US_MAX)?;
        let part = |part: fn(&Checkpoint) -> Duration| {
            median(quiet.iter().map(|it| part(it).as_secs_f64() * 1e6 / it.keys as f64))
        };
        writeln!(
            out,
            "    (encode on the worker {:.3}, sort {:.3}, delta file {:.3}; later, off the path: apply {:.3} us/key)",
            part(|it| it.encode_cpu),
            part(|it| it.sort_cpu),
            part(|it| it.write_cpu),
            part(|it| it.apply_cpu),
        )?;
        let written = median(quiet.iter().map(|it| it.written_per_byte(arguments.value_bytes)));
        target(&mut out, "bytes written per dirty byte (delta, ingestion)", written, WRITTEN_MAX)?;
        let all = median(quiet.iter().map(|it| it.all_per_byte(arguments.value_bytes)));
        writeln!(out, "    (with compaction, as the kernel counts: {all:.2})")?;
        let wall = median(quiet.iter().map(|it| it.wall.as_secs_f64() * 1e3));
        writeln!(out, "    checkpoint from barrier to durable delta: {wall:.0} ms\n")?;
        times.push(wall);
    }
    if let ([first, ..], [.., last]) = (times.as_slice(), times.as_slice())
        && times.len() > 1
    {
        target(
            &mut out,
            "checkpoint time, largest state to smallest",
            last / first,
            SIZES_RATIO_MAX,
        )?;
    }
    if arguments.recovery {
        let recovery = run.restart()?;
        let limit = RECOVERY_MAX.as_secs_f64();
        target(&mut out, "start to the first record, s", recovery.as_secs_f64(), limit)?;
    }
    Ok(())
}

fn target(out: &mut impl Write, what: &str, value: f64, limit: f64) -> Result<(), BenchError> {
    let verdict = if value <= limit { "met" } else { "MISSED" };
    writeln!(out, "  {what:<50} {value:>9.3}  target {limit:>6.2}  {verdict}")?;
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
