//! `topic create`.

use millstream_protocol_client::{KafkaClient, NewTopic};
use serde::Serialize;

use super::existing;
use crate::args::topic::TopicCreateArguments;
use crate::command::{CommandError, Failures};
use crate::exit_code;
use crate::output::{self, OutputFormat, count};

#[derive(Serialize)]
struct Row {
    topic: String,
    /// False if it existed already.
    created: bool,
    partitions: usize,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TopicCreateArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    if let Some(twice) = super::repeated(&arguments.topics) {
        let text = format!("topic '{twice}' is named twice; nothing was created");
        return Err(CommandError::says(exit_code::USAGE, text));
    }
    let mut failures = Failures::default();
    for topic in &arguments.topics {
        match create(client, topic, arguments).await {
            Err(error) => failures.push(error),
            Ok(row) if output == OutputFormat::Json => output::print_json([row])?,
            Ok(Row { created, partitions, .. }) => {
                let verb = if created { "created" } else { "exists already" };
                output::print(
                    format!("{topic}: {verb}, {}\n", count(partitions, "partition")).as_bytes(),
                )?;
            }
        }
    }
    failures.into_result()
}

async fn create(
    client: &KafkaClient,
    topic: &str,
    arguments: &TopicCreateArguments,
) -> Result<Row, CommandError> {
    let new = NewTopic {
        configs: arguments.configs.iter().cloned().collect(),
        // -1: the broker's default.
        ..NewTopic::new(
            topic,
            arguments.partitions.unwrap_or(-1),
            arguments.replication_factor.unwrap_or(-1),
        )
    };
    let created = client.create_topic(new).await?;
    let described = existing(client, topic, &format!("create topic '{topic}'")).await?;
    let partitions = described.partitions.len();
    if !created && !arguments.if_not_exists {
        let text = format!(
            "topic '{topic}' exists already, with {}; choose another name, or leave it as it is with --if-not-exists",
            count(partitions, "partition")
        );
        return Err(CommandError::says(exit_code::UNAVAILABLE, text));
    }
    Ok(Row { topic: topic.to_owned(), created, partitions })
}
