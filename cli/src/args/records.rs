//! `millstream produce` and `millstream consume`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::topic_name;
use crate::cluster::ClusterArguments;
use crate::position::Position;
use crate::record::RecordFormat;

/// Writes lines into a topic. Each line is a value, or key and value, or a JSON object as consume writes them. Ends when
/// every record is acknowledged by all in-sync replicas.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProduceArguments {
    /// Topic
    #[arg(value_parser = topic_name)]
    pub(crate) topic: String,

    /// Read this file, plain or gzip, instead of standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// What a line is
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = InputFormat::Lines)]
    pub(crate) format: InputFormat,

    /// What stands between key and value; \t is a tab, \0 a zero byte. Without it a line is a value
    #[arg(short, long, value_name = "TEXT", value_parser = separator)]
    pub(crate) key_separator: Option<String>,

    /// A header of every record; without = its value is null. Repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME[=VALUE]", value_parser = header)]
    pub(crate) headers: Vec<(String, Option<String>)>,

    /// A key or value that is this text is null; a null value deletes its key in a compacted topic
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Option<String>,

    /// Write to this partition (default: by key, else spread)
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,

    /// With JSON: each record into the partition that it names
    #[arg(long, conflicts_with = "partition")]
    pub(crate) keep_partitions: bool,

    /// All records in one transaction: readers of committed records see all of them or none. An id of its own, unless one
    /// is given
    #[arg(
        long,
        value_name = "TRANSACTIONAL_ID",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub(crate) transactional: Option<String>,

    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
}

/// What a line of input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// A value, or key and value with the separator between
    Lines,
    /// An object with key, value, headers, timestamp and partition, as consume --output json writes it
    Json,
}

/// Prints records. Without --follow it ends where the topic ends when it starts.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConsumeArguments {
    /// Topic
    #[arg(value_parser = topic_name)]
    pub(crate) topic: String,

    /// Where to begin: beginning, end, end-N, an offset, a time as 2026-01-31T12:00:00Z or @MILLISECONDS, a time ago as 15m.
    /// For a group: where nothing is committed, beginning or end
    #[arg(
        long,
        value_name = "POSITION",
        default_value = "beginning",
        allow_negative_numbers = true
    )]
    pub(crate) from: Position,

    /// Where to end: before this offset or time (default: where the topic ends now)
    #[arg(long, value_name = "POSITION", conflicts_with = "group")]
    pub(crate) to: Option<Position>,

    /// Go on with records that are written later, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// End after so many records
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) max_messages: Option<u64>,

    /// Only these partitions. Repeatable
    #[arg(short, long = "partition", value_name = "N", conflicts_with = "group")]
    pub(crate) partitions: Vec<i32>,

    /// Read as a member of this group: from its committed offsets on, sharing the partitions with other members; what was
    /// printed is committed
    #[arg(short, long, value_name = "GROUP")]
    pub(crate) group: Option<String>,

    /// What to see of transactions (default: read_committed)
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) isolation_level: Option<IsolationLevelArgument>,

    /// How a record is printed: %t topic, %p partition, %o offset, %T timestamp, %d date and time, %k key, %v value,
    /// %h headers, %K and %S bytes of key and value, %% a percent sign, \n \t \0 \\ (default: %v\n). Not with JSON
    #[arg(long, value_name = "TEXT")]
    pub(crate) format: Option<RecordFormat>,

    /// What is printed for a key or value that is null
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) null: String,

    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
}

/// Kafka's names, `_` as they have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolationLevelArgument {
    /// Records of committed transactions, and those outside any
    #[value(name = "read_committed")]
    ReadCommitted,
    /// Also those of open and aborted ones
    #[value(name = "read_uncommitted")]
    ReadUncommitted,
}

fn separator(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("at least one character".to_owned());
    }
    Ok(text.replace("\\t", "\t").replace("\\0", "\0"))
}

fn header(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("write it as NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value))
}
