//! `millstream topic …`.

use clap::{Args, Subcommand};

use super::topic_name;
use crate::cluster::ClusterArguments;

/// Topics.
#[derive(Clone, Debug, Args)]
pub(crate) struct TopicArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    #[command(subcommand)]
    pub(crate) command: TopicCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// List topics
    List(TopicListArguments),
    /// Show partitions, replicas, offsets and properties
    Describe(TopicDescribeArguments),
    /// Create topics
    Create(TopicCreateArguments),
    /// Add partitions, change properties
    Alter(TopicAlterArguments),
    /// Delete topics with all their records
    Delete(TopicDeleteArguments),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TopicListArguments {
    /// Also those that Kafka keeps its own state in
    #[arg(long)]
    pub(crate) internal: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TopicDescribeArguments {
    /// Topics
    #[arg(required = true, value_name = "TOPIC", value_parser = topic_name)]
    pub(crate) topics: Vec<String>,

    /// Every property, not only those that are set on the topic
    #[arg(long)]
    pub(crate) all_configs: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TopicCreateArguments {
    /// Topics
    #[arg(required = true, value_name = "TOPIC", value_parser = topic_name)]
    pub(crate) topics: Vec<String>,

    /// Partitions of each (default: the broker's)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Option<i32>,

    /// Copies of each partition (default: the broker's)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(1..))]
    pub(crate) replication_factor: Option<i16>,

    /// A property of the topics, as cleanup.policy=compact. Repeatable
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) configs: Vec<(String, String)>,

    /// Leave topics that exist already as they are
    #[arg(long)]
    pub(crate) if_not_exists: bool,
}

#[derive(Clone, Debug, Args)]
#[group(id = "change", required = true, multiple = true)]
pub(crate) struct TopicChange {
    /// Partitions there are to be; only more than now. Keys are spread anew from then on
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Option<i32>,

    /// Set a property. Repeatable
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) configs: Vec<(String, String)>,

    /// Take a property back to the broker's default. Repeatable
    #[arg(long = "delete-config", value_name = "KEY")]
    pub(crate) delete_configs: Vec<String>,

    /// Add to a property that is a list, as cleanup.policy=delete. Repeatable
    #[arg(long = "append-config", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) append_configs: Vec<(String, String)>,

    /// Take from a property that is a list. Repeatable
    #[arg(long = "subtract-config", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) subtract_configs: Vec<(String, String)>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TopicAlterArguments {
    /// Topic
    #[arg(value_parser = topic_name)]
    pub(crate) topic: String,

    #[command(flatten)]
    pub(crate) change: TopicChange,

    /// Have the broker check the properties, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TopicDeleteArguments {
    /// Topics
    #[arg(required = true, value_name = "TOPIC", value_parser = topic_name)]
    pub(crate) topics: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// `KEY=VALUE`; the value may hold further equals signs.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}
