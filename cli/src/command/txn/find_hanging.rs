//! `txn find-hanging`.

use millstream_protocol::TopicPartition;
use millstream_protocol_client::{HangingTransaction, KafkaClient, TopicDescription};
use serde::Serialize;

use crate::args::txn::FindHangingArguments;
use crate::command::CommandError;
use crate::command::topic::existing;
use crate::output::{self, Column, OutputFormat, Table, count, note, time_text};

#[derive(Serialize)]
struct Row<'a> {
    topic: &'a str,
    partition: i32,
    producer_id: i64,
    producer_epoch: i16,
    /// Readers of committed records wait before this offset.
    start_offset: i64,
    /// Milliseconds since 1970.
    last_timestamp: i64,
    /// Null if no coordinator knows the producer.
    transactional_id: Option<&'a str>,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &FindHangingArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let partitions = partitions(client, &arguments.topics).await?;
    let found = client.find_hanging_transactions(&partitions, arguments.quiet_for).await?;
    if output == OutputFormat::Json {
        return Ok(output::print_json(found.iter().map(row))?);
    }
    if found.is_empty() {
        note(&format!("no transaction hangs in {}", count(partitions.len(), "partition")));
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::Left("TOPIC"),
        Column::Right("PARTITION"),
        Column::Right("PRODUCER ID"),
        Column::Right("EPOCH"),
        Column::Right("FROM OFFSET"),
        Column::Left("LAST RECORD"),
        Column::Left("TRANSACTIONAL ID"),
    ]);
    for row in found.iter().map(row) {
        table.row([
            row.topic.to_owned(),
            row.partition.to_string(),
            row.producer_id.to_string(),
            row.producer_epoch.to_string(),
            row.start_offset.to_string(),
            time_text(row.last_timestamp),
            row.transactional_id.unwrap_or("-").to_owned(),
        ]);
    }
    output::print(table.text().as_bytes())?;
    note(
        "readers of committed records wait for these; end one with: millstream txn abort --topic TOPIC --partition N --producer-id ID",
    );
    Ok(())
}

async fn partitions(
    client: &KafkaClient,
    topics: &[String],
) -> Result<Vec<TopicPartition>, CommandError> {
    let mut described: Vec<TopicDescription> = Vec::new();
    if topics.is_empty() {
        described = client.list_topics().await?;
    }
    for topic in topics {
        described.push(existing(client, topic, "find hanging transactions").await?);
    }
    let all = described.iter().flat_map(|topic| {
        topic.partitions.iter().map(|p| TopicPartition::new(topic.name.as_ref(), p.partition))
    });
    Ok(all.collect())
}

fn row(hanging: &HangingTransaction) -> Row<'_> {
    let producer = &hanging.producer;
    Row {
        topic: &hanging.partition.topic,
        partition: hanging.partition.partition,
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        start_offset: producer.transaction_start_offset.unwrap_or(-1),
        last_timestamp: producer.last_timestamp,
        transactional_id: hanging.transactional_id.as_deref(),
    }
}
