//! `millstream-simulate`: runs histories from seeds, and says what is wrong with them.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use millstream_simulation::batch::{Summary, run_seeds};
use millstream_simulation::coverage::{scaled, seldom};
use millstream_simulation::plan::Plan;
use millstream_simulation::run::run;
use millstream_simulation::shrink::shrink;

/// Runs simulated histories of a Millstream job: the shipped client, coordinator, workers and state against a cluster that fails,
/// in one thread, under simulated time. The same seed is the same history.
#[derive(Debug, Parser)]
#[command(name = "millstream-simulate", version)]
struct Arguments {
    /// One seed.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// A range of seeds, the end not included.
    #[arg(long, value_name = "A..B", value_parser = range, default_value = "0..1000")]
    seeds: std::ops::Range<u64>,
    /// Threads; each runs a history of its own.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print what happened, line by line (with --seed).
    #[arg(long, requires = "seed")]
    history: bool,
    /// Print how often each named place, decision and fault came to pass; at the end, rows of the decision table and crash points
    /// that come less than 1,000 times in a million histories.
    #[arg(long)]
    report: bool,
    /// Fail unless each row of the decision table and each crash point came to pass so many times.
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    require_coverage: Option<u64>,
    /// Do not look for a shorter plan that fails.
    #[arg(long)]
    no_shrink: bool,
    /// Leave out a rule of the product, to see an oracle notice.
    #[arg(long)]
    mutant: Vec<String>,
    /// Stop after so many failing seeds.
    #[arg(long, default_value_t = 1)]
    failures: usize,
}

/// Times in a million histories; what comes less often than that is reported.
const COMES_PER_MILLION: u64 = 1_000;

/// Runs that shrinking may take.
const SHRINK_RUNS_MAX: usize = 300;

fn range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("a range is written A..B")?;
    let number =
        |text: &str| text.replace('_', "").parse::<u64>().map_err(|error| error.to_string());
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A process that dies in the middle of its code unwinds without a panic; real panics are told by their oracle.
    let mut out = io::stdout().lock();
    let outcome = match arguments.seed {
        Some(seed) => one(&arguments, seed, &mut out),
        None => many(&arguments, &mut out),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            let _ = writeln!(io::stderr(), "error: {text}");
            ExitCode::from(2)
        }
    }
}

fn planned(arguments: &Arguments, seed: u64) -> Plan {
    let mut plan = Plan::of(seed);
    plan.mutants.extend(arguments.mutant.iter().cloned());
    plan
}

/// Whether the seed is all right.
fn one(arguments: &Arguments, seed: u64, out: &mut impl Write) -> Result<bool, String> {
    let told = |error: io::Error| error.to_string();
    let plan = planned(arguments, seed);
    let report = run(&plan, arguments.history)?;
    writeln!(out, "{plan}").map_err(told)?;
    if arguments.history {
        write!(out, "{}", report.history).map_err(told)?;
    }
    if arguments.report {
        for (what, times) in &report.coverage {
            writeln!(out, "{times:>9} {what}").map_err(told)?;
        }
    }
    match report.violation {
        None => {
            writeln!(out, "seed {seed} is all right, after {:?} of simulated time", report.took)
                .map_err(told)?;
            Ok(true)
        }
        Some(violation) => {
            writeln!(out, "seed {seed} fails: {violation}").map_err(told)?;
            if !arguments.no_shrink {
                shrunk(&plan, violation.oracle, out)?;
            }
            Ok(false)
        }
    }
}

fn shrunk(
    plan: &Plan,
    oracle: millstream_simulation::oracle::Oracle,
    out: &mut impl Write,
) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let (least, runs) = shrink(plan, oracle, SHRINK_RUNS_MAX);
    let report = run(&least, true)?;
    writeln!(out, "\nthe least plan found that fails ({runs} runs):\n{least}\n").map_err(told)?;
    write!(out, "{}", report.history).map_err(told)
}

fn many(arguments: &Arguments, out: &mut impl Write) -> Result<bool, String> {
    let told = |error: io::Error| error.to_string();
    let change = |plan: &mut Plan| plan.mutants.extend(arguments.mutant.iter().cloned());
    let Summary { histories, failures, coverage, simulated, took } =
        run_seeds(arguments.seeds.clone(), arguments.jobs, arguments.failures, change)?;
    if arguments.report {
        for (what, times) in &coverage {
            writeln!(out, "{times:>9} {what}").map_err(told)?;
        }
    }
    writeln!(
        out,
        "{histories} histories of {:?} simulated time each in {took:.1?}, {} failed",
        simulated.checked_div(u32::try_from(histories.max(1)).unwrap_or(1)).unwrap_or_default(),
        failures.len()
    )
    .map_err(told)?;
    for (seed, violation) in &failures {
        writeln!(out, "seed {seed} fails: {violation}").map_err(told)?;
    }
    if arguments.report {
        let rare = seldom(&coverage, scaled(COMES_PER_MILLION, histories));
        writeln!(
            out,
            "{} rows and crash points came less than {COMES_PER_MILLION} times per million histories",
            rare.len()
        )
        .map_err(told)?;
        for (name, times) in rare {
            writeln!(out, "{times:>9} {name}").map_err(told)?;
        }
    }
    let mut covered = true;
    if let Some(least) = arguments.require_coverage {
        for (name, times) in seldom(&coverage, least) {
            covered = false;
            writeln!(out, "came {times} times, {least} are required: {name}").map_err(told)?;
        }
    }
    if let (Some((seed, violation)), false) = (failures.first(), arguments.no_shrink) {
        shrunk(&planned(arguments, *seed), violation.oracle, out)?;
    }
    Ok(failures.is_empty() && covered)
}
