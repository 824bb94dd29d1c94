//! `millstream group …`.

use clap::{Args, Subcommand};

use super::{spelt_as_one_of, topic_name};
use crate::cluster::ClusterArguments;
use crate::position::Position;

/// Consumer groups.
#[derive(Clone, Debug, Args)]
pub(crate) struct GroupArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List groups
    List(GroupListArguments),
    /// Show members, offsets and how far behind they are
    Describe(GroupDescribeArguments),
    /// Move the offsets of a group that has no members
    ResetOffsets(ResetOffsetsArguments),
    /// Delete groups without members, with their offsets
    Delete(GroupDeleteArguments),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct GroupListArguments {
    /// Only those in this state, as Stable or Empty. Repeatable
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    pub(crate) states: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct GroupDescribeArguments {
    /// Groups
    #[arg(required = true, value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ResetOffsetsArguments {
    /// Group
    pub(crate) group: String,

    #[command(flatten)]
    pub(crate) scope: ResetScope,

    #[command(flatten)]
    pub(crate) target: ResetTo,

    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Which partitions.
#[derive(Clone, Debug, Args)]
#[group(id = "scope", required = true, multiple = true)]
pub(crate) struct ResetScope {
    /// A topic, all its partitions or only some of them. Repeatable
    #[arg(long = "topic", value_name = "TOPIC[:P,P,…]", value_parser = TopicPartitions::parse)]
    pub(crate) topics: Vec<TopicPartitions>,

    /// Every partition that the group has committed an offset of
    #[arg(long, conflicts_with = "topics")]
    pub(crate) all_topics: bool,
}

/// Whereto.
#[derive(Clone, Debug, Args)]
#[group(id = "target", required = true, multiple = false)]
pub(crate) struct ResetTo {
    /// beginning, end, an offset, a time as 2026-01-31T12:00:00Z, or a time ago as 15m
    #[arg(long, value_name = "POSITION", value_parser = target)]
    pub(crate) to: Option<Position>,

    /// So many records further than committed, or back if negative
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) shift_by: Option<i64>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct GroupDeleteArguments {
    /// Groups
    #[arg(required = true, value_name = "GROUP")]
    pub(crate) groups: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// A topic, and some of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicPartitions {
    pub(crate) topic: String,
    /// `None` for all.
    pub(crate) partitions: Option<Vec<i32>>,
}

impl TopicPartitions {
    fn parse(text: &str) -> Result<Self, String> {
        let Some((topic, list)) = text.split_once(':') else {
            return Ok(Self { topic: topic_name(text)?, partitions: None });
        };
        let partitions: Result<Vec<i32>, _> = list.split(',').map(str::parse::<i32>).collect();
        match partitions {
            Ok(partitions) if partitions.iter().all(|partition| *partition >= 0) => {
                Ok(Self { topic: topic_name(topic)?, partitions: Some(partitions) })
            }
            _ => Err("after the colon there have to be partitions with commas between".to_owned()),
        }
    }
}

/// Those of all kinds of groups, as the brokers spell them.
const STATES: [&str; 8] = [
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
];

fn state(text: &str) -> Result<String, String> {
    spelt_as_one_of(&STATES, text)
}

fn target(text: &str) -> Result<Position, String> {
    match text.parse()? {
        Position::BeforeEnd(_) => Err("end-N is no place to commit; use --shift-by".to_owned()),
        position => Ok(position),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_a_topic_are_told_apart() {
        let some = TopicPartitions::parse("out:0,3");
        let expected = TopicPartitions { topic: "out".to_owned(), partitions: Some(vec![0, 3]) };
        assert_eq!(some, Ok(expected));
        let all = TopicPartitions { topic: "out".to_owned(), partitions: None };
        assert_eq!(TopicPartitions::parse("out"), Ok(all));
        for wrong in ["", "out:", "out:a", "out:-1", "out:1,", ":1"] {
            assert!(TopicPartitions::parse(wrong).is_err(), "{wrong}");
        }
    }
}
