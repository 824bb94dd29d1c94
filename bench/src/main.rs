//! Benchmarks of Millstream against limits and peers.
//!
//! Every measured job is a process of its own, so that its CPU time holds no broker and no other job.

mod broker;
mod clients;
mod flights;
mod input;
mod job;
mod latency;
mod micro;
mod report;
mod restart;
mod state;
mod steady;
mod targets;
mod throughput;
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
    /// Our client against others, in CPU time, throughput and memory, on real Kafka
    Clients(clients::ClientsArguments),
    /// The codecs of records alone, in nanoseconds and instructions
    Micro(micro::MicroArguments),
    /// Checkpoints of keyed state: stall, CPU time, bytes, recovery
    State(state::StateArguments),
    /// End to end at a steady rate on real Kafka: latency of committed output, processor time of the engine
    Latency(latency::LatencyArguments),
    /// SIGKILL and immediate restart with a large state, on real Kafka: time to the first new committed output
    Restart(restart::RestartArguments),
    /// Exactly once against at least once on the same job, on real Kafka
    Throughput(throughput::ThroughputArguments),
    /// One measured job (started by the benchmark itself)
    #[command(hide = true)]
    Job(job::JobArguments),
    /// One job under a steady load (started by the benchmark itself)
    #[command(hide = true)]
    SteadyJob(steady::SteadyJobArguments),
    /// One run of our client (started by the benchmark itself)
    #[command(hide = true)]
    Client(clients::ClientArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Flights(arguments) => flights::run(&arguments),
        Command::Clients(arguments) => clients::run(&arguments),
        Command::Micro(arguments) => micro::run(&arguments),
        Command::State(arguments) => state::run(&arguments),
        Command::Latency(arguments) => latency::run(&arguments),
        Command::Restart(arguments) => restart::run(&arguments),
        Command::Throughput(arguments) => throughput::run(&arguments),
        Command::SteadyJob(arguments) => steady::run_job(&arguments),
        Command::Job(arguments) => job::run(&arguments),
        Command::Client(arguments) => clients::run_client(&arguments),
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
