//! `topic describe`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    ConfigEntry, ConfigResource, ConfigSource, KafkaClient, ListedOffset, OffsetSpec,
    TopicDescription,
};
use serde::Serialize;

use super::existing;
use crate::args::topic::TopicDescribeArguments;
use crate::command::{CommandError, Failures};
use crate::output::{self, Column, OutputFormat, Table};

#[derive(Serialize)]
struct Topic {
    topic: String,
    /// As Kafka's tools write it; null from brokers before 2.8.
    topic_id: Option<String>,
    internal: bool,
    partitions: Vec<Partition>,
    configs: Vec<Config>,
}

#[derive(Serialize)]
struct Partition {
    partition: i32,
    /// Null during an election.
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    in_sync_replicas: Vec<i32>,
    /// The first offset that still exists; null without a leader.
    start_offset: Option<i64>,
    /// The high watermark; null without a leader.
    end_offset: Option<i64>,
}

#[derive(Serialize)]
struct Config {
    name: String,
    /// Null for secrets, which brokers do not tell.
    value: Option<String>,
    /// `topic`, `broker`, `all_brokers`, `file`, `default` or `other`.
    source: &'static str,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TopicDescribeArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let mut failures = Failures::default();
    let mut described = Vec::new();
    for topic in &arguments.topics {
        match describe(client, topic, arguments.all_configs).await {
            Ok(topic) => described.push(topic),
            Err(error) => failures.push(error),
        }
    }
    match output {
        OutputFormat::Json => output::print_json(&described)?,
        OutputFormat::Text => {
            let texts: Vec<_> = described.iter().map(text).collect();
            output::print(texts.join("\n").as_bytes())?;
        }
    }
    failures.into_result()
}

async fn describe(
    client: &KafkaClient,
    name: &str,
    all_configs: bool,
) -> Result<Topic, CommandError> {
    let topic = existing(client, name, &format!("describe topic '{name}'")).await?;
    let starts = offsets(client, &topic, OffsetSpec::Earliest).await?;
    let ends = offsets(client, &topic, OffsetSpec::Latest).await?;
    let resource = ConfigResource::Topic(name.to_owned());
    let mut configs = client.describe_config_entries(&resource, &[]).await?;
    configs.retain(|config| all_configs || config.source == ConfigSource::Topic);
    let partitions = topic.partitions.iter().map(|p| {
        let tp = TopicPartition::new(name, p.partition);
        let offset = |of: &BTreeMap<_, ListedOffset>| of.get(&tp).map(|listed| listed.offset);
        Partition {
            partition: p.partition,
            leader: Some(p.leader).filter(|leader| *leader >= 0),
            leader_epoch: p.leader_epoch,
            replicas: p.replicas.clone(),
            in_sync_replicas: p.in_sync_replicas.clone(),
            start_offset: offset(&starts),
            end_offset: offset(&ends),
        }
    });
    let has_id = topic.topic_id != [0; 16];
    Ok(Topic {
        topic: name.to_owned(),
        topic_id: has_id.then(|| URL_SAFE_NO_PAD.encode(topic.topic_id)),
        internal: topic.is_internal,
        partitions: partitions.collect(),
        configs: configs.into_iter().map(config).collect(),
    })
}

/// Only of partitions with a leader: nobody would answer for the others.
async fn offsets(
    client: &KafkaClient,
    topic: &TopicDescription,
    spec: OffsetSpec,
) -> Result<BTreeMap<TopicPartition, ListedOffset>, CommandError> {
    let led = topic.partitions.iter().filter(|p| p.leader >= 0);
    let asked: Vec<_> =
        led.map(|p| (TopicPartition::new(topic.name.as_ref(), p.partition), spec)).collect();
    Ok(client.list_offsets(&asked, IsolationLevel::ReadUncommitted).await?)
}

fn config(entry: ConfigEntry) -> Config {
    let source = match entry.source {
        ConfigSource::Topic => "topic",
        ConfigSource::Broker => "broker",
        ConfigSource::AllBrokers => "all_brokers",
        ConfigSource::File => "file",
        ConfigSource::Default => "default",
        _ => "other",
    };
    Config { name: entry.name, value: entry.value, source }
}

fn text(topic: &Topic) -> String {
    let mut text = format!("topic {}", topic.topic);
    if let Some(id) = &topic.topic_id {
        text.push_str(&format!(", id {id}"));
    }
    if topic.internal {
        text.push_str(", internal");
    }
    text.push_str("\n\n");
    let mut table = Table::new(&[
        Column::Right("PARTITION"),
        Column::Right("LEADER"),
        Column::Right("EPOCH"),
        Column::Left("REPLICAS"),
        Column::Left("IN SYNC"),
        Column::Right("START"),
        Column::Right("END"),
    ]);
    let list = |nodes: &[i32]| nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    let known = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    for p in &topic.partitions {
        table.row([
            p.partition.to_string(),
            p.leader.map_or("none".to_owned(), |leader| leader.to_string()),
            p.leader_epoch.to_string(),
            list(&p.replicas),
            list(&p.in_sync_replicas),
            known(p.start_offset),
            known(p.end_offset),
        ]);
    }
    text.push_str(&table.text());
    if topic.configs.is_empty() {
        return text;
    }
    let mut table =
        Table::new(&[Column::Left("PROPERTY"), Column::Left("VALUE"), Column::Left("SET BY")]);
    for config in &topic.configs {
        let value = config.value.clone().unwrap_or_else(|| "(secret)".to_owned());
        table.row([config.name.clone(), value, config.source.replace('_', " ")]);
    }
    text.push('\n');
    text.push_str(&table.text());
    text
}
