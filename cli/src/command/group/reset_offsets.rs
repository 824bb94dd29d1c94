//! `group reset-offsets`.

use std::collections::BTreeMap;

use millstream_protocol::TopicPartition;
use millstream_protocol_client::{KafkaClient, OffsetMove, ResetTarget};
use serde::Serialize;

use crate::args::group::{ResetOffsetsArguments, ResetScope, ResetTo};
use crate::command::CommandError;
use crate::command::topic::existing;
use crate::output::{self, Column, OutputFormat, Table, count, note};
use crate::position::Position;
use crate::{confirm, exit_code};

#[derive(Serialize)]
struct Row<'a> {
    group: &'a str,
    topic: &'a str,
    partition: i32,
    /// Null if nothing was committed.
    from: Option<i64>,
    to: i64,
    /// False for a dry run.
    applied: bool,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &ResetOffsetsArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let group = arguments.group.as_str();
    let partitions = partitions(client, group, &arguments.scope).await?;
    let moves = client.plan_offset_reset(group, &partitions, target(&arguments.target)).await?;
    if moves.is_empty() {
        let text = format!(
            "group '{group}' has committed nothing there, so there is nothing to move; --to sets offsets where there are none"
        );
        return Err(CommandError::says(exit_code::UNAVAILABLE, text));
    }
    // The plan is there to be read before it is agreed to.
    if output == OutputFormat::Text {
        output::print(text(&moves).as_bytes())?;
    }
    if let Some(Position::Offset(wanted)) = arguments.target.to {
        for (tp, to) in moves.iter().filter(|(_, to)| to.to != wanted) {
            note(&format!("{tp} has no offset {wanted}: the nearest is {}", to.to));
        }
    }
    if arguments.dry_run {
        note(&format!("a dry run: nothing of group {group} was changed"));
    } else {
        confirm::ask(arguments.yes, &format!("move the offsets of group {group}?")).await?;
        let offsets: Vec<_> =
            moves.iter().map(|(tp, to)| (tp.clone(), to.to, to.leader_epoch)).collect();
        client.alter_group_offsets(group, &offsets).await?;
        if output == OutputFormat::Text {
            note(&format!("group {group}: {} moved", count(offsets.len(), "offset")));
        }
    }
    if output == OutputFormat::Json {
        let applied = !arguments.dry_run;
        output::print_json(moves.iter().map(|(tp, OffsetMove { from, to, .. })| Row {
            group,
            topic: &tp.topic,
            partition: tp.partition,
            from: *from,
            to: *to,
            applied,
        }))?;
    }
    Ok(())
}

async fn partitions(
    client: &KafkaClient,
    group: &str,
    scope: &ResetScope,
) -> Result<Vec<TopicPartition>, CommandError> {
    if scope.all_topics {
        return Ok(client.fetch_all_offsets(group, true).await?.into_keys().collect());
    }
    let mut partitions = Vec::new();
    for wanted in &scope.topics {
        let name = wanted.topic.as_str();
        let topic = existing(client, name, &format!("reset offsets of group '{group}'")).await?;
        let found: Vec<i32> = topic.partitions.iter().map(|p| p.partition).collect();
        let chosen = wanted.partitions.as_ref().unwrap_or(&found);
        if let Some(missing) = chosen.iter().find(|partition| !found.contains(partition)) {
            let text = format!(
                "topic '{name}' has {}, there is no partition {missing}",
                count(found.len(), "partition")
            );
            return Err(CommandError::says(exit_code::UNAVAILABLE, text));
        }
        partitions.extend(chosen.iter().map(|p| TopicPartition::new(name, *p)));
    }
    Ok(partitions)
}

/// The command line has one of the two.
fn target(to: &ResetTo) -> ResetTarget {
    match (to.to, to.shift_by) {
        (_, Some(by)) => ResetTarget::Shift(by),
        (Some(Position::Beginning), None) => ResetTarget::Earliest,
        (Some(Position::Offset(offset)), None) => ResetTarget::Offset(offset),
        (Some(Position::Time(ms)), None) => ResetTarget::Timestamp(ms),
        (Some(Position::End | Position::BeforeEnd(_)) | None, None) => ResetTarget::Latest,
    }
}

fn text(moves: &BTreeMap<TopicPartition, OffsetMove>) -> String {
    let mut table = Table::new(&[
        Column::Left("TOPIC"),
        Column::Right("PARTITION"),
        Column::Right("FROM"),
        Column::Right("TO"),
        Column::Right("CHANGE"),
    ]);
    for (tp, OffsetMove { from, to, .. }) in moves {
        table.row([
            tp.topic.to_string(),
            tp.partition.to_string(),
            from.map_or("-".to_owned(), |from| from.to_string()),
            to.to_string(),
            from.map_or("-".to_owned(), |from| format!("{:+}", to - from)),
        ]);
    }
    table.text()
}
