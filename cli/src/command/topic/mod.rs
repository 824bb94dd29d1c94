//! `millstream topic`: topics of a cluster.

mod alter;
mod create;
mod delete;
mod describe;
mod list;

use millstream_protocol_client::{ClientError, KafkaClient, TopicDescription};

use super::CommandError;
use crate::args::topic::{TopicArguments, TopicCommand};
use crate::confirm;

pub(crate) fn run(arguments: TopicArguments) -> Result<(), CommandError> {
    let TopicArguments { cluster, command } = arguments;
    if let TopicCommand::Delete(delete) = &command {
        confirm::check(delete.yes, "deleting topics")?;
    }
    let output = cluster.output;
    cluster.with_client(|client| async move {
        match command {
            TopicCommand::List(arguments) => list::run(&client, &arguments, output).await,
            TopicCommand::Describe(arguments) => describe::run(&client, &arguments, output).await,
            TopicCommand::Create(arguments) => create::run(&client, &arguments, output).await,
            TopicCommand::Alter(arguments) => alter::run(&client, &arguments, output).await,
            TopicCommand::Delete(arguments) => delete::run(&client, &arguments, output).await,
        }
    })
}

/// The first name that comes twice.
fn repeated(topics: &[String]) -> Option<&String> {
    topics
        .iter()
        .enumerate()
        .find(|(at, topic)| topics[..*at].contains(topic))
        .map(|(_, topic)| topic)
}

/// A topic that has to exist for `operation`.
pub(crate) async fn existing(
    client: &KafkaClient,
    topic: &str,
    operation: &str,
) -> Result<TopicDescription, ClientError> {
    client.describe_topic(topic).await?.ok_or_else(|| ClientError::UnknownTopic {
        operation: operation.to_owned(),
        topic: topic.to_owned(),
    })
}
