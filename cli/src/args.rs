//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Exactly-once stream processing on Kafka, in one static binary.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, about, long_about = None, propagate_version = true)]
pub(crate) struct Arguments {
    /// Log more to standard error: -v for info, -vv for debug (or set MILLSTREAM_LOG)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch real flight data go through Kafka exactly once, then check it
    Demo(DemoArguments),
    /// Run the development broker in the foreground
    Dev(DevArguments),
    /// Print the version and how it was built
    Version,
    /// Print a completion script for a shell
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// The demo's job as a child process, so that it can be killed
    #[command(hide = true)]
    DemoJob(DemoJobArguments),
}

/// Counts landings per airport and hour, exactly once, and proves it by reading the output back.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArguments {
    /// Kill the job with SIGKILL this many times at random moments while input remains
    #[arg(long, value_name = "TIMES", default_value_t = 0)]
    pub(crate) crash: u32,

    /// Use a real cluster instead of the development broker
    #[arg(short, long, value_name = "HOST:PORT")]
    pub(crate) bootstrap_server: Option<String>,

    /// Flight events, one JSON object a line, plain or gzip (default: the bundled month)
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// Worker threads of the job
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parallelism)]
    pub(crate) parallelism: usize,

    /// Time between checkpoints, each one Kafka transaction
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = humantime::parse_duration)]
    pub(crate) checkpoint_interval: Duration,

    /// Seed of the moments at which the job is killed (default: random, printed)
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

/// A Kafka-compatible broker in this process. Nothing is kept unless --data-dir is given.
#[derive(Clone, Debug, Args)]
pub(crate) struct DevArguments {
    /// Address to listen on; port 0 chooses a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub(crate) listen: String,

    /// Keep topics, transactions and offsets in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Level of the feature transaction.version: 2 as Kafka 4, 0 as brokers before
    #[arg(long, value_name = "LEVEL", default_value_t = 2, value_parser = clap::value_parser!(i16).range(0..=2))]
    pub(crate) transaction_version: i16,
}

/// Arguments that the demo passes to its child.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoJobArguments {
    #[arg(long)]
    pub(crate) bootstrap_server: String,
    #[arg(long)]
    pub(crate) input_topic: String,
    #[arg(long)]
    pub(crate) output_topic: String,
    #[arg(long)]
    pub(crate) state_dir: PathBuf,
    #[arg(long)]
    pub(crate) job: String,
    #[arg(long)]
    pub(crate) parallelism: usize,
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) checkpoint_interval: Duration,
    #[arg(long)]
    pub(crate) bounded: bool,
}

/// There are 256 key groups, so more workers would have nothing to do.
fn parallelism(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(workers @ 1..=256) => Ok(workers),
        _ => Err("a number from 1 to 256".to_owned()),
    }
}
