//! `txn abort`: by the transactional id, or where a transaction hangs.

use std::time::Duration;

use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{KafkaClient, OffsetSpec};
use serde::Serialize;

use super::{age_ms, seconds_text};
use crate::args::txn::TxnAbortArguments;
use crate::command::CommandError;
use crate::output::{self, OutputFormat, count};
use crate::{confirm, exit_code};

#[derive(Serialize)]
struct Row<'a> {
    transactional_id: Option<&'a str>,
    producer_id: i64,
    /// Where it was aborted: null for everywhere.
    topic: Option<&'a str>,
    partition: Option<i32>,
    aborted: bool,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TxnAbortArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    match (&arguments.transactional_id, &arguments.topic) {
        (Some(id), _) => abort_id(client, id, arguments.yes, output).await,
        (None, Some(topic)) => {
            let partition = TopicPartition::new(topic.as_str(), arguments.partition.unwrap_or(0));
            let producer_id = arguments.producer_id.unwrap_or(-1);
            abort_hanging(client, &partition, producer_id, arguments.yes, output).await
        }
        (None, None) => {
            Err(CommandError::says(exit_code::USAGE, "give a transactional id, or a partition"))
        }
    }
}

/// Takes the transactional id over, whose open transaction the coordinator then aborts, and lets it go.
async fn abort_id(
    client: &KafkaClient,
    id: &str,
    yes: bool,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let described = client.describe_transactions(&[id]).await.remove(id).transpose()?;
    // An id that nobody has used would be made by taking it over.
    let Some(description) = described.filter(|description| description.state == "Ongoing") else {
        let text = format!(
            "transactional id '{id}' has no open transaction; `millstream txn list --state Ongoing` shows those that have"
        );
        return Err(CommandError::says(exit_code::UNAVAILABLE, text));
    };
    let age = description.start_time_ms.map(|start| seconds_text(age_ms(start)));
    let question = format!(
        "abort the transaction of {id}, open for {} in {}? Its producer is fenced: if it still runs, it fails.",
        age.unwrap_or_else(|| "an unknown time".to_owned()),
        count(description.partitions.len(), "partition")
    );
    confirm::ask(yes, &question).await?;
    let producer = client.record_producer(Some(id));
    producer.init_transactions().await?;
    let producer_id = description.producer.producer_id;
    if output == OutputFormat::Json {
        let row = Row {
            transactional_id: Some(id),
            producer_id,
            topic: None,
            partition: None,
            aborted: true,
        };
        return Ok(output::print_json([row])?);
    }
    Ok(output::print(format!("{id}: aborted, producer {producer_id} is fenced\n").as_bytes())?)
}

/// Writes the marker that no coordinator will write.
async fn abort_hanging(
    client: &KafkaClient,
    partition: &TopicPartition,
    producer_id: i64,
    yes: bool,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let here = std::slice::from_ref(partition);
    let hanging = client.find_hanging_transactions(here, Duration::ZERO).await?;
    let Some(found) = hanging.iter().find(|found| found.producer.producer_id == producer_id) else {
        return Err(not_hanging(client, partition, producer_id).await);
    };
    let start = found.producer.transaction_start_offset.unwrap_or(-1);
    let question = format!(
        "abort the transaction of producer {producer_id} in {partition} from offset {start} on? No coordinator knows it as open."
    );
    confirm::ask(yes, &question).await?;
    client.abort_transaction(&found.abort()).await?;
    let asked = [(partition.clone(), OffsetSpec::Latest)];
    let stable = client.list_offsets(&asked, IsolationLevel::ReadCommitted).await?;
    if output == OutputFormat::Json {
        let row = Row {
            transactional_id: found.transactional_id.as_deref(),
            producer_id,
            topic: Some(&partition.topic),
            partition: Some(partition.partition),
            aborted: true,
        };
        return Ok(output::print_json([row])?);
    }
    let readable = stable.get(partition).map_or(-1, |listed| listed.offset);
    let text = format!(
        "{partition}: producer {producer_id} aborted; committed records can be read up to offset {readable}\n"
    );
    Ok(output::print(text.as_bytes())?)
}

/// What the producer is there, if it does not hang.
async fn not_hanging(
    client: &KafkaClient,
    partition: &TopicPartition,
    producer_id: i64,
) -> CommandError {
    let described = client.describe_producers(std::slice::from_ref(partition)).await;
    let producers = match described.map(|mut all| all.remove(partition)) {
        Ok(Some(Ok(producers))) => producers,
        Ok(Some(Err(error))) | Err(error) => return error.into(),
        Ok(None) => Vec::new(),
    };
    let producer = producers.iter().find(|producer| producer.producer_id == producer_id);
    let text = match producer.map(|producer| producer.transaction_start_offset) {
        Some(Some(_)) => format!(
            "the transaction of producer {producer_id} in {partition} does not hang: its coordinator knows it and will end it; `millstream txn abort TRANSACTIONAL_ID` ends it as a whole"
        ),
        Some(None) => format!("producer {producer_id} has no open transaction in {partition}"),
        None => format!(
            "{partition} knows no producer {producer_id}; `millstream txn find-hanging` shows transactions that hang"
        ),
    };
    CommandError::says(exit_code::UNAVAILABLE, text)
}
