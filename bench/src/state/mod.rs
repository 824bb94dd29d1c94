//! `state`: what checkpoints of keyed state cost, without any broker: the engine's worker and the steps that the coordinator
//! takes with its state directory, on a real disk.

mod job;
mod run;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::BenchError;
use crate::targets::{Bound, Spread, Targets, warn_if_loaded};
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
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
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
    warn_if_loaded(&mut out)?;
    writeln!(
        out,
        "keys of 16 B, values of {} B, {} dirty keys a checkpoint\n",
        arguments.value_bytes, arguments.dirty_keys
    )?;
    let mut run = Run::start(folder.path(), arguments.value_bytes)?;
    let mut times = Vec::new();
    let mut targets = Targets::default();
    for total in &arguments.total_keys {
        let fill = run.fill(*total, arguments.dirty_keys)?;
        writeln!(out, "{total} keys (filled in {:.1} s)", fill.as_secs_f64())?;
        let mut quiet: Vec<Checkpoint> = Vec::new();
        let mut busy: Vec<Checkpoint> = Vec::new();
        for _ in 0..arguments.rounds.max(1) {
            run.change(arguments.dirty_keys)?;
            run.settle();
            quiet.push(run.checkpoint(0)?);
            // The stall is a matter of what has changed; of the larger states only the time is compared.
            if times.is_empty() {
                run.change(arguments.dirty_keys)?;
                run.settle();
                busy.push(run.checkpoint(u64::MAX)?);
            }
        }
        if !busy.is_empty() {
            stall(&mut out, &mut targets, &busy)?;
        }
        let cpu = Spread::of(quiet.iter().map(Checkpoint::cpu_us_per_key));
        targets.judge(
            &mut out,
            "CPU of a checkpoint with fsync, us/key",
            cpu,
            Bound::AtMost,
            CPU_US_MAX,
        )?;
        let part = |part: fn(&Checkpoint) -> Duration| {
            let values = quiet.iter().map(|it| part(it).as_secs_f64() * 1e6 / it.keys as f64);
            Spread::of(values).median
        };
        writeln!(
            out,
            "    (encode on the worker {:.3}, sort {:.3}, delta file {:.3}; later, off the path: apply {:.3} us/key)",
            part(|it| it.encode_cpu),
            part(|it| it.sort_cpu),
            part(|it| it.write_cpu),
            part(|it| it.apply_cpu),
        )?;
        let written = Spread::of(quiet.iter().map(|it| it.written_per_byte(arguments.value_bytes)));
        let what = "bytes written per dirty byte (delta, ingestion)";
        targets.judge(&mut out, what, written, Bound::AtMost, WRITTEN_MAX)?;
        let all = Spread::of(quiet.iter().map(|it| it.all_per_byte(arguments.value_bytes))).median;
        writeln!(out, "    (with compaction, as the kernel counts: {all:.2})")?;
        let wall = Spread::of(quiet.iter().map(|it| it.wall.as_secs_f64() * 1e3));
        writeln!(out, "    checkpoint from barrier to durable delta: {} ms\n", wall.text(0))?;
        out.flush()?;
        times.push((wall, cpu));
    }
    if let ([first, ..], [.., last]) = (times.as_slice(), times.as_slice())
        && times.len() > 1
    {
        let ratio = |first: Spread, last: Spread| Spread {
            low: last.low / first.high,
            median: last.median / first.median,
            high: last.high / first.low,
        };
        for (what, ratio) in [
            ("checkpoint time, largest state to smallest", ratio(first.0, last.0)),
            ("checkpoint CPU, largest state to smallest", ratio(first.1, last.1)),
        ] {
            targets.judge(&mut out, what, ratio, Bound::AtMost, SIZES_RATIO_MAX)?;
        }
    }
    if arguments.recovery {
        let recovery = Spread::of([run.restart()?.as_secs_f64()]);
        let limit = RECOVERY_MAX.as_secs_f64();
        targets.judge(&mut out, "start to the first record, s", recovery, Bound::AtMost, limit)?;
    }
    targets.check(arguments.check)
}

fn stall(
    out: &mut impl Write,
    targets: &mut Targets,
    busy: &[Checkpoint],
) -> Result<(), BenchError> {
    let of = |part: fn(&Checkpoint) -> Duration| {
        Spread::of(busy.iter().map(|it| part(it).as_secs_f64() * 1e3))
    };
    let clock = of(|it| it.stall);
    let what = "stall at the barrier, ms of the clock";
    targets.judge(out, what, clock, Bound::AtMost, STALL_MS_MAX)?;
    let what = "stall at the barrier, ms of processor time";
    targets.judge(out, what, of(|it| it.stall_cpu), Bound::AtMost, STALL_MS_MAX)?;
    let unit = of(|it| it.unit).median;
    writeln!(out, "    (on average {unit:.2} ms of the clock between two units of input)")?;
    Ok(())
}
