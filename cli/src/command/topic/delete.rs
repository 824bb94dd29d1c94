//! `topic delete`.

use millstream_protocol_client::KafkaClient;
use serde::Serialize;

use super::existing;
use crate::args::topic::TopicDeleteArguments;
use crate::command::{CommandError, Failures};
use crate::confirm;
use crate::exit_code;
use crate::output::{self, OutputFormat, count};

#[derive(Serialize)]
struct Row<'a> {
    topic: &'a str,
    deleted: bool,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TopicDeleteArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    if let Some(twice) = super::repeated(&arguments.topics) {
        let text = format!("topic '{twice}' is named twice; nothing was deleted");
        return Err(CommandError::says(exit_code::USAGE, text));
    }
    // All have to exist before any is deleted: a name that is wrong may not be the only one.
    let mut missing = Failures::default();
    let mut named = Vec::new();
    for topic in &arguments.topics {
        match existing(client, topic, &format!("delete topic '{topic}'")).await {
            Ok(found) => {
                named.push(format!("{topic} ({})", count(found.partitions.len(), "partition")));
            }
            Err(error) => missing.push(error),
        }
    }
    missing.into_result()?;
    let question = format!("delete {} with all records?", named.join(", "));
    confirm::ask(arguments.yes, &question).await?;
    let mut failures = Failures::default();
    for topic in &arguments.topics {
        match client.delete_topic(topic).await {
            Err(error) => failures.push(error),
            Ok(()) if output == OutputFormat::Json => {
                output::print_json([Row { topic, deleted: true }])?;
            }
            Ok(()) => output::print(format!("{topic}: deleted\n").as_bytes())?,
        }
    }
    failures.into_result()
}
