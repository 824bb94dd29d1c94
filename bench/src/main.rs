//! Benchmarks of Millstream against limits and peers.
//!
//! Every measured job is a process of its own, so that its CPU time holds no broker and no other job.

mod broker;
mod flights;
mod input;
mod job;
mod report;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Millstream in CPU-seconds per million records.
#[derive(Debug, Parser)]
#[command(name = "millstream-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The flights query q2 and a bare consume of the same topic, on the development broker and on real Kafka
    Flights(flights::FlightsArguments),
    /// One measured job (started by the benchmark itself)
    #[command(hide = true)]
    Job(job::JobArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Flights(arguments) => flights::run(&arguments),
        Command::Job(arguments) => job::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", millstream_engine::error_chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Any failure of a benchmark ends it.
type BenchError = Box<dyn std::error::Error + Send + Sync>;
