//! The command line.

pub(crate) mod doctor;
pub(crate) mod group;
pub(crate) mod records;
pub(crate) mod state;
pub(crate) mod topic;
pub(crate) mod txn;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use millstream_dev_broker::topic_name_is_legal;

use self::doctor::DoctorArguments;
use self::group::GroupArguments;
use self::records::{ConsumeArguments, ProduceArguments};
use self::state::{CheckpointArguments, LedgerArguments, SavepointArguments};
use self::topic::TopicArguments;
use self::txn::TxnArguments;

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
    /// List, describe, create, alter and delete topics
    Topic(TopicArguments),
    /// Write lines of a file or of standard input into a topic
    Produce(ProduceArguments),
    /// Print the records of a topic, up to its end or on and on
    Consume(ConsumeArguments),
    /// List, describe, move and delete consumer groups
    Group(GroupArguments),
    /// List, describe and abort transactions; find those that hang
    Txn(TxnArguments),
    /// List, show and verify the checkpoints in a job's state directory
    Checkpoint(CheckpointArguments),
    /// Create, list, show, verify and delete savepoints
    Savepoint(SavepointArguments),
    /// Show what a job's ledger says beside its state directory
    Ledger(LedgerArguments),
    /// Take every step to a cluster, one by one, and say what to change
    Doctor(DoctorArguments),
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
    #[arg(long, value_name = "TIMES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) crash: u32,

    /// Use a real cluster instead of the development broker; the topics made there are deleted at the end
    #[arg(short, long, value_name = "HOST:PORT")]
    pub(crate) bootstrap_server: Option<String>,

    /// Leave the topics on the real cluster (an output that is not exactly once stays in any case)
    #[arg(long, requires = "bootstrap_server")]
    pub(crate) keep_topics: bool,

    /// Flight events, one JSON object a line, plain or gzip (default: the bundled month)
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// Worker threads of the job
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parallelism)]
    pub(crate) parallelism: usize,

    /// Time between checkpoints, each one Kafka transaction: from 1ms to 20s
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = checkpoint_interval)]
    pub(crate) checkpoint_interval: Duration,

    /// Seed of the moments at which the job is killed (default: random, printed)
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

/// A Kafka-compatible broker in this process. Nothing is kept unless --data-dir is given.
#[derive(Clone, Debug, Args)]
pub(crate) struct DevArguments {
    /// Address to listen on; port 0 chooses a free one. Nobody is asked who they are: beyond loopback, everyone who can reach
    /// the machine can read, write and delete
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub(crate) listen: String,

    /// Create a topic; 4 partitions if no number is given. Repeatable
    #[arg(long, value_name = "NAME[:PARTITIONS]", value_parser = TopicArgument::parse)]
    pub(crate) topic: Vec<TopicArgument>,

    /// Load the lines of a file, plain or gzip, as values into a topic, over its partitions in turn. Repeatable. The topic is
    /// created if it is missing; one that holds records already is left as it is
    #[arg(long, value_name = "TOPIC=FILE", value_parser = LoadArgument::parse)]
    pub(crate) load: Vec<LoadArgument>,

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
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) out_of_orderness: Duration,
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

/// The demo leaves `transaction.timeout.ms` at 60 s, and three intervals have to fit into it.
const CHECKPOINT_INTERVAL_MAX: Duration = Duration::from_secs(20);

fn checkpoint_interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(interval) if interval < Duration::from_millis(1) => {
            Err("time has to pass between checkpoints, at least 1ms".to_owned())
        }
        Ok(interval) if interval > CHECKPOINT_INTERVAL_MAX => Err(
            "at most 20s: the demo's transactions expire after 60s, and three checkpoints have to fit in".to_owned(),
        ),
        Ok(interval) => Ok(interval),
        Err(error) => Err(format!("{error}; write it as in 100ms or 2s")),
    }
}

/// A topic of the development broker to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicArgument {
    pub(crate) name: String,
    /// As given; `None` leaves it to the command.
    pub(crate) partitions: Option<i32>,
}

impl TopicArgument {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, partitions) = match text.split_once(':') {
            None => (text, None),
            Some((name, number)) => match number.parse() {
                Ok(partitions @ 1..=10_000) => (name, Some(partitions)),
                _ => {
                    return Err(
                        "after the colon there has to be a number from 1 to 10000".to_owned()
                    );
                }
            },
        };
        Ok(Self { name: topic_name(name)?, partitions })
    }
}

/// A file to load into a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadArgument {
    pub(crate) topic: String,
    pub(crate) file: PathBuf,
}

impl LoadArgument {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((topic, file)) if !file.is_empty() => {
                Ok(Self { topic: topic_name(topic)?, file: file.into() })
            }
            _ => Err("write it as TOPIC=FILE".to_owned()),
        }
    }
}

pub(crate) fn topic_name(name: &str) -> Result<String, String> {
    if topic_name_is_legal(name) {
        return Ok(name.to_owned());
    }
    Err(format!("{name:?} is no name for a topic: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'"))
}

/// The one of `names` that `text` is but for upper and lower case: a misspelt one would look as if nothing were in that state.
fn spelt_as_one_of(names: &[&str], text: &str) -> Result<String, String> {
    let found = names.iter().find(|name| name.eq_ignore_ascii_case(text));
    found.map(|name| (*name).to_owned()).ok_or_else(|| format!("one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_no_job_could_keep_is_refused_with_the_reason() {
        assert_eq!(checkpoint_interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(checkpoint_interval("20s"), Ok(CHECKPOINT_INTERVAL_MAX));
        for (text, word) in
            [("0ms", "at least"), ("10h", "at most"), ("9us", "at least"), ("5", "as in")]
        {
            let said = checkpoint_interval(text).expect_err(text);
            assert!(said.contains(word), "{text}: {said}");
        }
    }

    #[test]
    fn topics_and_files_are_told_apart() {
        let topic = |name: &str, partitions| TopicArgument { name: name.to_owned(), partitions };
        assert_eq!(TopicArgument::parse("flights"), Ok(topic("flights", None)));
        assert_eq!(TopicArgument::parse("a.b_c-1:12"), Ok(topic("a.b_c-1", Some(12))));
        for wrong in ["", ":4", "a b", "..", "a:", "a:0", "a:-1", "a:10001", "a:b", "a:1:2", "a/b"]
        {
            assert!(TopicArgument::parse(wrong).is_err(), "{wrong}");
        }
        let load = LoadArgument::parse("flights=a=b.gz").expect("a topic and a file");
        assert_eq!(load, LoadArgument { topic: "flights".to_owned(), file: "a=b.gz".into() });
        for wrong in ["", "flights", "flights=", "=file", "a b=file"] {
            assert!(LoadArgument::parse(wrong).is_err(), "{wrong}");
        }
    }
}
