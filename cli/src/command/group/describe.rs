//! `group describe`.

use std::collections::BTreeMap;

use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{GroupDescription, GroupMemberDescription, KafkaClient};
use serde::Serialize;

use crate::args::group::GroupDescribeArguments;
use crate::command::{CommandError, Failures};
use crate::output::{self, Column, OutputFormat, Table, count};

#[derive(Serialize)]
struct Group {
    group: String,
    r#type: String,
    state: String,
    protocol_type: String,
    /// Empty without members.
    assignor: String,
    /// Null for classic groups, which do not tell.
    epoch: Option<i32>,
    members: Vec<Member>,
    partitions: Vec<Partition>,
    /// Sum over the partitions where it is known.
    lag: u64,
}

#[derive(Serialize)]
struct Member {
    member: String,
    instance: Option<String>,
    client_id: String,
    host: String,
    epoch: Option<i32>,
    partitions: Vec<MemberPartition>,
}

#[derive(Serialize)]
struct MemberPartition {
    topic: String,
    partition: i32,
}

#[derive(Serialize)]
struct Partition {
    topic: String,
    partition: i32,
    /// The next offset to read; null if nothing is committed.
    committed: Option<i64>,
    /// The first offset that still exists; null if the partition does not exist any more.
    start: Option<i64>,
    /// The last stable offset (read_committed), else the high watermark.
    end: Option<i64>,
    /// Null if it can not be known, which is something else than 0.
    lag: Option<u64>,
    /// The member that owns it.
    member: Option<String>,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &GroupDescribeArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let names: Vec<_> = arguments.groups.iter().map(String::as_str).collect();
    let mut described = client.describe_groups(&names).await?;
    let mut failures = Failures::default();
    let mut groups = Vec::new();
    for name in names {
        match described.remove(name) {
            Some(Ok(description)) => groups.push(with_lag(client, description).await?),
            Some(Err(error)) => failures.push(error),
            // Named twice.
            None => {}
        }
    }
    match output {
        OutputFormat::Json => output::print_json(&groups)?,
        OutputFormat::Text => {
            let texts: Vec<_> = groups.iter().map(text).collect();
            output::print(texts.join("\n").as_bytes())?;
        }
    }
    failures.into_result()
}

async fn with_lag(
    client: &KafkaClient,
    description: GroupDescription,
) -> Result<Group, CommandError> {
    // What waits behind an open transaction is to be read as well.
    let isolation = IsolationLevel::ReadUncommitted;
    let lags = client.group_lag(&description.group_id, isolation).await?;
    let mut owners: BTreeMap<TopicPartition, String> = BTreeMap::new();
    for member in &description.members {
        let owned = member.assignment.iter();
        owners.extend(owned.map(|tp| (tp.clone(), member.member_id.clone())));
    }
    let partitions: Vec<_> = lags
        .into_iter()
        .map(|(tp, lag)| Partition {
            topic: tp.topic.to_string(),
            partition: tp.partition,
            committed: lag.committed,
            start: lag.start,
            end: lag.end,
            lag: lag.offsets_behind(),
            member: owners.get(&tp).cloned(),
        })
        .collect();
    Ok(Group {
        group: description.group_id,
        r#type: description.group_type.to_string(),
        state: description.state,
        protocol_type: description.protocol_type,
        assignor: description.assignor,
        epoch: description.group_epoch,
        members: description.members.into_iter().map(member).collect(),
        lag: partitions.iter().filter_map(|p| p.lag).sum(),
        partitions,
    })
}

fn member(member: GroupMemberDescription) -> Member {
    let partitions = member.assignment.into_iter();
    Member {
        member: member.member_id,
        instance: member.instance_id,
        client_id: member.client_id,
        host: member.client_host,
        epoch: member.member_epoch,
        partitions: partitions
            .map(|tp| MemberPartition { topic: tp.topic.to_string(), partition: tp.partition })
            .collect(),
    }
}

fn text(group: &Group) -> String {
    let mut text = format!("group {}, {}, {}", group.group, group.r#type, group.state);
    if !group.assignor.is_empty() {
        text.push_str(&format!(", assignor {}", group.assignor));
    }
    if let Some(epoch) = group.epoch {
        text.push_str(&format!(", epoch {epoch}"));
    }
    let members = count(group.members.len(), "member");
    text.push_str(&format!(", {members}, {} behind\n", group.lag));
    if !group.partitions.is_empty() {
        let mut table = Table::new(&[
            Column::Left("TOPIC"),
            Column::Right("PARTITION"),
            Column::Right("COMMITTED"),
            Column::Right("END"),
            Column::Right("BEHIND"),
            Column::Left("MEMBER"),
        ]);
        let known = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        for p in &group.partitions {
            table.row([
                p.topic.clone(),
                p.partition.to_string(),
                known(p.committed.map(|offset| offset.to_string())),
                known(p.end.map(|offset| offset.to_string())),
                known(p.lag.map(|lag| lag.to_string())),
                known(p.member.clone()),
            ]);
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    if !group.members.is_empty() {
        let mut table = Table::new(&[
            Column::Left("MEMBER"),
            Column::Left("CLIENT"),
            Column::Left("HOST"),
            Column::Right("PARTITIONS"),
        ]);
        for member in &group.members {
            let id = match &member.instance {
                Some(instance) => format!("{} (static: {instance})", member.member),
                None => member.member.clone(),
            };
            let owned = member.partitions.len().to_string();
            table.row([id, member.client_id.clone(), member.host.clone(), owned]);
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}
