//! `topic list`.

use millstream_protocol_client::{KafkaClient, TopicDescription};
use serde::Serialize;

use crate::args::topic::TopicListArguments;
use crate::command::CommandError;
use crate::output::{self, Column, OutputFormat, Table};

#[derive(Serialize)]
struct Row<'a> {
    topic: &'a str,
    partitions: usize,
    /// Copies of each partition; of the one with the most, if they differ.
    replicas: usize,
    internal: bool,
    /// Partitions with copies that are not complete.
    under_replicated: usize,
    /// Partitions that can be neither read nor written.
    leaderless: usize,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TopicListArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let mut topics = client.list_topics().await?;
    topics.retain(|topic| arguments.internal || !topic.is_internal);
    let rows = topics.iter().map(row);
    if output == OutputFormat::Json {
        return Ok(output::print_json(rows)?);
    }
    let mut table = Table::new(&[
        Column::Left("TOPIC"),
        Column::Right("PARTITIONS"),
        Column::Right("REPLICAS"),
        Column::Left("STATE"),
    ]);
    for row in rows {
        let state = match (row.leaderless, row.under_replicated) {
            (0, 0) => "ok".to_owned(),
            (0, n) => format!("{n} under-replicated"),
            (n, _) => format!("{n} without leader"),
        };
        let (partitions, replicas) = (row.partitions.to_string(), row.replicas.to_string());
        table.row([row.topic.to_owned(), partitions, replicas, state]);
    }
    Ok(output::print(table.text().as_bytes())?)
}

fn row(topic: &TopicDescription) -> Row<'_> {
    let partitions = &topic.partitions;
    let behind = partitions.iter().filter(|p| p.in_sync_replicas.len() < p.replicas.len());
    Row {
        topic: &topic.name,
        partitions: partitions.len(),
        replicas: partitions.iter().map(|p| p.replicas.len()).max().unwrap_or(0),
        internal: topic.is_internal,
        under_replicated: behind.count(),
        leaderless: partitions.iter().filter(|p| p.leader < 0).count(),
    }
}
