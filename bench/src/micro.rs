//! `micro`: the hot paths of `protocol/` alone, without any broker: nanoseconds per record, and instructions where valgrind is.

use std::hint::black_box;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use millstream_protocol::IsolationLevel;
use millstream_protocol::producer::partition_for_key;
use millstream_protocol::records::{
    Appended, BatchBuilder, Compression, DecodeLimits, Decompressor, SealedBatch, VisibleBatches,
};

use crate::BenchError;
use crate::clients::Values;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct MicroArguments {
    /// Only benchmarks whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Bytes of a batch before compression
    #[arg(long, default_value_t = 65_536)]
    batch_size: usize,
    /// Count instructions too, which takes valgrind and a minute
    #[arg(long)]
    instructions: bool,
    /// Just call it so often and print nothing
    #[arg(long, hide = true)]
    calls: Option<u64>,
}

/// One benchmark: a name, and what it does to so many records at once.
struct Kernel {
    name: String,
    records: u64,
    call: Box<dyn FnMut() -> Result<(), BenchError>>,
}

pub(crate) fn run(arguments: &MicroArguments) -> Result<(), BenchError> {
    let mut kernels = kernels(arguments)?;
    kernels.retain(|kernel| kernel.name.contains(&arguments.only));
    if let Some(calls) = arguments.calls {
        for kernel in &mut kernels {
            for _ in 0..calls {
                (kernel.call)()?;
            }
        }
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<20} {:>26} {:>24}",
        "benchmark", "ns a record (min..max)", "instructions a record"
    )?;
    for kernel in &mut kernels {
        let samples = samples(kernel)?;
        let [low, .., high] = samples.as_slice() else { continue };
        let median = samples.get(samples.len() / 2).unwrap_or(low);
        let time = format!("{median:.1} ({low:.1}..{high:.1})");
        let instructions = match arguments.instructions {
            true => format!("{:.1}", instructions(kernel, arguments)?),
            false => "-".to_owned(),
        };
        writeln!(out, "{:<20} {time:>26} {instructions:>24}", kernel.name)?;
    }
    Ok(())
}

/// Nanoseconds per record, sorted.
fn samples(kernel: &mut Kernel) -> Result<Vec<f64>, BenchError> {
    const SAMPLES: usize = 21;
    const NANOSECONDS: u128 = 10_000_000;
    let mut calls = 1_u32;
    let mut samples = Vec::new();
    while samples.len() < SAMPLES {
        let began = Instant::now();
        for _ in 0..calls {
            (kernel.call)()?;
        }
        let took = began.elapsed().as_nanos();
        if took < NANOSECONDS {
            calls = calls.saturating_mul(2);
        } else {
            samples.push(took as f64 / (f64::from(calls) * kernel.records as f64));
        }
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

/// Instructions per record, as callgrind counts them: the same every time, whatever else the machine does.
fn instructions(kernel: &Kernel, arguments: &MicroArguments) -> Result<f64, BenchError> {
    let count = |calls: u64| -> Result<f64, BenchError> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe()?)
            .args(["micro", "--only", &kernel.name, "--calls", &calls.to_string()])
            .args(["--value-size", &arguments.value_size.to_string()])
            .args(["--batch-size", &arguments.batch_size.to_string()])
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let collected = said.lines().find_map(|line| line.split_once("Collected :"));
        let (_, number) = collected.ok_or_else(|| format!("valgrind said: {said}"))?;
        Ok(number.trim().parse()?)
    };
    // What is needed once, and what is made up on the first calls, drops out.
    Ok((count(30)? - count(10)?) / (20 * kernel.records) as f64)
}

fn kernels(arguments: &MicroArguments) -> Result<Vec<Kernel>, BenchError> {
    let mut kernels = Vec::new();
    let mut add = |name: String, records: u64, call: Box<dyn FnMut() -> Result<(), BenchError>>| {
        kernels.push(Kernel { name, records, call });
    };
    for compression in Compression::ALL {
        let values = Values::new(arguments.value_size);
        let mut builder = BatchBuilder::new(compression, arguments.batch_size);
        let batch = fill(&mut builder, &values)?;
        let records = u64::from(batch.record_count().unsigned_abs());
        let mut kept = None;
        add(
            format!("write-{compression}"),
            records,
            Box::new(move || {
                kept.take().into_iter().for_each(|batch| builder.recycle(batch));
                kept = Some(black_box(fill(&mut builder, &values)?));
                Ok(())
            }),
        );
        let bytes = batch.into_bytes();
        let mut decompressor = Some(Decompressor::new());
        add(
            format!("read-{compression}"),
            records,
            Box::new(move || {
                let (isolation, limits) = (IsolationLevel::ReadCommitted, DecodeLimits::default());
                let bytes = black_box(bytes.clone());
                let mut batches = VisibleBatches::new(bytes, 0, Vec::new(), isolation, limits)
                    .with_decompressor(decompressor.take().unwrap_or_default());
                for batch in batches.by_ref() {
                    for record in batch?.records.iter().flatten() {
                        black_box(record?.value);
                    }
                }
                decompressor = Some(batches.into_decompressor());
                Ok(())
            }),
        );
    }
    let values = Values::new(arguments.value_size);
    add(
        "partition-of-key".to_owned(),
        1000,
        Box::new(move || {
            for n in 0..1000 {
                let key = values.at(n).get(..16).unwrap_or_default();
                black_box(partition_for_key(black_box(key), 12));
            }
            Ok(())
        }),
    );
    Ok(kernels)
}

/// One full batch.
fn fill(builder: &mut BatchBuilder, values: &Values) -> Result<SealedBatch, BenchError> {
    for n in 0.. {
        if builder.append(1_700_000_000_000, None, Some(values.at(n)), &[])? == Appended::Full {
            break;
        }
    }
    Ok(builder.build()?.ok_or("a batch without records")?)
}
