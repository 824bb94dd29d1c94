//! `millstream txn …`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{spelt_as_one_of, topic_name};
use crate::cluster::ClusterArguments;

/// Transactions.
#[derive(Clone, Debug, Args)]
pub(crate) struct TxnArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    #[command(subcommand)]
    pub(crate) command: TxnCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TxnCommand {
    /// List transactional ids with the state of their last transaction
    List(TxnListArguments),
    /// Show producer, age and partitions of transactions
    Describe(TxnDescribeArguments),
    /// Abort an open transaction, or one that hangs in a partition
    Abort(TxnAbortArguments),
    /// Find transactions that no coordinator will end and that readers of committed records wait for
    FindHanging(FindHangingArguments),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TxnListArguments {
    /// Only those in this state, as Ongoing. Repeatable
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    pub(crate) states: Vec<String>,

    /// Only those that are open for longer than this (Kafka from 3.8)
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) longer_than: Option<Duration>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TxnDescribeArguments {
    /// Transactional ids
    #[arg(required = true, value_name = "TRANSACTIONAL_ID")]
    pub(crate) transactional_ids: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TxnAbortArguments {
    /// Whose open transaction is aborted, in all its partitions. Its producer is fenced: if it still runs, it fails
    #[arg(value_name = "TRANSACTIONAL_ID", required_unless_present = "topic")]
    pub(crate) transactional_id: Option<String>,

    /// Where a transaction hangs
    #[arg(
        long,
        value_parser = topic_name,
        requires = "partition",
        requires = "producer_id",
        conflicts_with = "transactional_id"
    )]
    pub(crate) topic: Option<String>,

    /// Where a transaction hangs
    #[arg(long, value_name = "N", requires = "topic")]
    pub(crate) partition: Option<i32>,

    /// Whose it is, as find-hanging tells
    #[arg(long, value_name = "ID", requires = "topic")]
    pub(crate) producer_id: Option<i64>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct FindHangingArguments {
    /// Only in this topic. Repeatable (default: all)
    #[arg(long = "topic", value_name = "TOPIC", value_parser = topic_name)]
    pub(crate) topics: Vec<String>,

    /// Only those without a new record for this long; shorter than the brokers' transaction.max.timeout.ms, one that has
    /// just begun may be taken for one that hangs
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "15m",
        value_parser = humantime::parse_duration
    )]
    pub(crate) quiet_for: Duration,
}

/// As the brokers spell them.
const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

fn state(text: &str) -> Result<String, String> {
    spelt_as_one_of(&STATES, text)
}
