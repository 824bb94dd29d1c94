//! `topic alter`.

use std::collections::BTreeMap;

use millstream_protocol_client::{ConfigChange, ConfigResource, KafkaClient};
use serde::Serialize;

use super::existing;
use crate::args::topic::{TopicAlterArguments, TopicChange};
use crate::command::CommandError;
use crate::exit_code;
use crate::output::{self, OutputFormat, count};

#[derive(Serialize)]
struct Row<'a> {
    topic: &'a str,
    /// Partitions there are, or would be.
    partitions: usize,
    /// Properties that were changed, or would be.
    configs: usize,
    /// False for a dry run.
    applied: bool,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TopicAlterArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let topic = arguments.topic.as_str();
    let described = existing(client, topic, &format!("alter topic '{topic}'")).await?;
    let now = described.partitions.len();
    let wanted = arguments.change.partitions.map(usize::try_from).transpose()?;
    if let Some(wanted) = wanted.filter(|wanted| *wanted <= now) {
        let text = format!(
            "topic '{topic}' has {}; {wanted} would not be more, and Kafka can not take any away",
            count(now, "partition")
        );
        return Err(CommandError::says(exit_code::UNAVAILABLE, text));
    }
    let changes = changes(&arguments.change);
    let row = Row {
        topic,
        partitions: wanted.unwrap_or(now),
        configs: changes.len(),
        applied: !arguments.dry_run,
    };
    // Properties first: they are checked as a whole, and new partitions can not be taken back.
    if !changes.is_empty() {
        let changes = BTreeMap::from([(ConfigResource::Topic(topic.to_owned()), changes)]);
        let results = client.alter_configs(&changes, arguments.dry_run).await;
        results.into_values().collect::<Result<(), _>>()?;
    }
    if let Some(total) = arguments.change.partitions.filter(|_| !arguments.dry_run) {
        client.create_partitions(topic, total).await?;
    }
    if output == OutputFormat::Json {
        return Ok(output::print_json([row])?);
    }
    let verb = if arguments.dry_run { "would be altered" } else { "altered" };
    let mut parts = Vec::new();
    if wanted.is_some() {
        parts.push(format!("{now} -> {}", count(row.partitions, "partition")));
    }
    if row.configs > 0 {
        parts.push(count(row.configs, "property"));
    }
    Ok(output::print(format!("{topic}: {verb}, {}\n", parts.join(", ")).as_bytes())?)
}

fn changes(change: &TopicChange) -> Vec<ConfigChange> {
    let pairs = |pairs: &[(String, String)], of: fn(String, String) -> ConfigChange| {
        pairs.iter().map(|(name, value)| of(name.clone(), value.clone())).collect::<Vec<_>>()
    };
    let mut changes = pairs(&change.configs, |name, value| ConfigChange::Set { name, value });
    changes
        .extend(pairs(&change.append_configs, |name, value| ConfigChange::Append { name, value }));
    changes.extend(pairs(&change.subtract_configs, |name, value| ConfigChange::Subtract {
        name,
        value,
    }));
    let deleted = change.delete_configs.iter();
    changes.extend(deleted.map(|name| ConfigChange::Delete { name: name.clone() }));
    changes
}
