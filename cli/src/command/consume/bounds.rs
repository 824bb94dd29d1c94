//! From where to where each partition is read.

use std::collections::BTreeMap;

use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{KafkaClient, ListedOffset, OffsetSpec};

use crate::args::records::ConsumeArguments;
use crate::command::CommandError;
use crate::command::topic::existing;
use crate::exit_code;
use crate::output::{count, note};
use crate::position::Position;

/// A partition's part that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) start: i64,
    /// Not this offset any more; `None` to go on and on.
    pub(super) end: Option<i64>,
}

/// What a broker says of a partition.
#[derive(Clone, Copy, Debug)]
struct Listed {
    earliest: i64,
    latest: i64,
}

pub(super) async fn of(
    client: &KafkaClient,
    arguments: &ConsumeArguments,
) -> Result<BTreeMap<TopicPartition, Bounds>, CommandError> {
    if arguments.follow && matches!(arguments.to, Some(to) if !matches!(to, Position::Offset(_))) {
        let text = "--follow goes on without end; with --to it can only end before an offset";
        return Err(CommandError::says(exit_code::USAGE, text));
    }
    let partitions = partitions(client, arguments).await?;
    let list = |spec: OffsetSpec| {
        let asked: Vec<_> = partitions.iter().map(|tp| (tp.clone(), spec)).collect();
        async move { client.list_offsets(&asked, client.config().isolation_level).await }
    };
    let earliest = list(OffsetSpec::Earliest).await?;
    let to_the_end = !arguments.follow && matches!(arguments.to, None | Some(Position::End));
    let written = if to_the_end { written(client, &partitions).await? } else { BTreeMap::new() };
    let latest = list(OffsetSpec::Latest).await?;
    note_what_waits(&written, &latest);
    let mut bounds = BTreeMap::new();
    for (tp, latest) in &latest {
        let Some(earliest) = earliest.get(tp) else { continue };
        let listed = Listed { earliest: earliest.offset, latest: latest.offset };
        bounds.insert(tp.clone(), (listed, None, None));
    }
    if let Position::Time(ms) = arguments.from {
        for (tp, found) in list(OffsetSpec::Timestamp(ms)).await? {
            bounds.entry(tp).and_modify(|(_, from, _)| *from = Some(found.offset));
        }
    }
    if let Some(Position::Time(ms)) = arguments.to {
        for (tp, found) in list(OffsetSpec::Timestamp(ms)).await? {
            bounds.entry(tp).and_modify(|(_, _, to)| *to = Some(found.offset));
        }
    }
    let bounds = bounds.into_iter().map(|(tp, (listed, from, to))| {
        let start = start(&tp, arguments.from, listed, from);
        let end = end(arguments.to, arguments.follow, listed, to);
        (tp, Bounds { start, end })
    });
    Ok(bounds.collect())
}

/// Where the logs end, open transactions included. Asked before what can be seen: whatever is missing then does wait.
async fn written(
    client: &KafkaClient,
    partitions: &[TopicPartition],
) -> Result<BTreeMap<TopicPartition, ListedOffset>, CommandError> {
    if client.config().isolation_level == IsolationLevel::ReadUncommitted {
        return Ok(BTreeMap::new());
    }
    let asked: Vec<_> = partitions.iter().map(|tp| (tp.clone(), OffsetSpec::Latest)).collect();
    Ok(client.list_offsets(&asked, IsolationLevel::ReadUncommitted).await?)
}

/// Readers of committed records see nothing behind the first open transaction. That must not look like the end of a topic.
fn note_what_waits(
    written: &BTreeMap<TopicPartition, ListedOffset>,
    visible: &BTreeMap<TopicPartition, ListedOffset>,
) {
    for (tp, end) in written {
        if let Some(visible) = visible.get(tp)
            && visible.offset < end.offset
        {
            note(&format!(
                "{tp} is read up to offset {} of {}: what follows waits for the end of an open transaction; `millstream txn \
                 list --state Ongoing` shows those, `--isolation-level read_uncommitted` reads on",
                visible.offset, end.offset
            ));
        }
    }
}

pub(super) async fn partitions(
    client: &KafkaClient,
    arguments: &ConsumeArguments,
) -> Result<Vec<TopicPartition>, CommandError> {
    let name = arguments.topic.as_str();
    let topic = existing(client, name, &format!("read topic '{name}'")).await?;
    let found: Vec<i32> = topic.partitions.iter().map(|p| p.partition).collect();
    if let Some(missing) = arguments.partitions.iter().find(|p| !found.contains(p)) {
        let text = format!(
            "topic '{name}' has {}, there is no partition {missing}",
            count(found.len(), "partition")
        );
        return Err(CommandError::says(exit_code::UNAVAILABLE, text));
    }
    let wanted = |p: &i32| arguments.partitions.is_empty() || arguments.partitions.contains(p);
    Ok(found.into_iter().filter(wanted).map(|p| TopicPartition::new(name, p)).collect())
}

fn start(tp: &TopicPartition, from: Position, listed: Listed, at_time: Option<i64>) -> i64 {
    let Listed { earliest, latest } = listed;
    match from {
        Position::Beginning => earliest,
        Position::End => latest,
        Position::BeforeEnd(records) => latest.saturating_sub(records).max(earliest),
        Position::Time(_) => at_time.filter(|offset| *offset >= 0).unwrap_or(latest),
        Position::Offset(offset) if offset < earliest => {
            note(&format!("{tp} begins at offset {earliest}: what was before is deleted"));
            earliest
        }
        Position::Offset(offset) => {
            if offset > latest {
                note(&format!("{tp} ends at offset {latest}: nothing is at {offset} yet"));
            }
            offset
        }
    }
}

fn end(to: Option<Position>, follow: bool, listed: Listed, at_time: Option<i64>) -> Option<i64> {
    let Listed { earliest, latest } = listed;
    match to {
        None if follow => None,
        None | Some(Position::End) => Some(latest),
        Some(Position::Offset(offset)) if follow => Some(offset),
        Some(Position::Offset(offset)) => Some(offset.min(latest)),
        Some(Position::Beginning) => Some(earliest),
        Some(Position::BeforeEnd(records)) => Some(latest.saturating_sub(records)),
        Some(Position::Time(_)) => {
            Some(at_time.filter(|offset| *offset >= 0).map_or(latest, |offset| offset.min(latest)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: Listed = Listed { earliest: 10, latest: 20 };

    #[test]
    fn reading_begins_where_something_is() {
        let tp = TopicPartition::new("out", 0);
        let from = |position, at_time| start(&tp, position, LISTED, at_time);
        assert_eq!(from(Position::Beginning, None), 10);
        assert_eq!(from(Position::End, None), 20);
        assert_eq!(from(Position::BeforeEnd(3), None), 17);
        assert_eq!(from(Position::BeforeEnd(30), None), 10);
        assert_eq!(from(Position::Offset(12), None), 12);
        assert_eq!(from(Position::Offset(2), None), 10);
        assert_eq!(from(Position::Offset(99), None), 99, "nothing is read, or waited for");
        assert_eq!(from(Position::Time(5), Some(15)), 15);
        assert_eq!(from(Position::Time(5), Some(-1)), 20, "nothing is as young");
    }

    #[test]
    fn reading_ends_where_the_topic_does_unless_it_goes_on() {
        let to = |position, follow, at_time| end(position, follow, LISTED, at_time);
        assert_eq!(to(None, false, None), Some(20));
        assert_eq!(to(None, true, None), None);
        assert_eq!(to(Some(Position::End), false, None), Some(20));
        assert_eq!(to(Some(Position::Offset(15)), false, None), Some(15));
        assert_eq!(to(Some(Position::Offset(25)), false, None), Some(20));
        assert_eq!(to(Some(Position::Offset(25)), true, None), Some(25));
        assert_eq!(to(Some(Position::BeforeEnd(1)), false, None), Some(19));
        assert_eq!(to(Some(Position::Time(5)), false, Some(15)), Some(15));
        assert_eq!(to(Some(Position::Time(5)), false, Some(-1)), Some(20));
    }
}
