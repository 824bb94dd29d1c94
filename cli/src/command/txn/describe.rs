//! `txn describe`.

use millstream_protocol_client::{KafkaClient, TransactionDescription};
use serde::Serialize;

use super::{age_ms, seconds_text};
use crate::args::txn::TxnDescribeArguments;
use crate::command::{CommandError, Failures};
use crate::output::{self, Column, OutputFormat, Table, time_text};

#[derive(Serialize)]
struct Transaction {
    transactional_id: String,
    state: String,
    producer_id: i64,
    producer_epoch: i16,
    /// The coordinator aborts what is open for longer.
    timeout_ms: u64,
    /// Milliseconds since 1970; null if none is open.
    start_time: Option<i64>,
    /// How long it is open, by this machine's clock.
    age_ms: Option<i64>,
    partitions: Vec<Partition>,
}

#[derive(Serialize)]
struct Partition {
    topic: String,
    partition: i32,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TxnDescribeArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let ids: Vec<_> = arguments.transactional_ids.iter().map(String::as_str).collect();
    let mut failures = Failures::default();
    let mut found = Vec::new();
    for (id, description) in client.describe_transactions(&ids).await {
        match description {
            Ok(description) => found.push(transaction(id, description)),
            Err(error) => failures.push(error),
        }
    }
    match output {
        OutputFormat::Json => output::print_json(&found)?,
        OutputFormat::Text => {
            let texts: Vec<_> = found.iter().map(text).collect();
            output::print(texts.join("\n").as_bytes())?;
        }
    }
    failures.into_result()
}

fn transaction(id: String, description: TransactionDescription) -> Transaction {
    let partitions = description.partitions.into_iter();
    Transaction {
        transactional_id: id,
        state: description.state,
        producer_id: description.producer.producer_id,
        producer_epoch: description.producer.producer_epoch,
        timeout_ms: u64::try_from(description.timeout.as_millis()).unwrap_or(u64::MAX),
        start_time: description.start_time_ms,
        age_ms: description.start_time_ms.map(age_ms),
        partitions: partitions
            .map(|tp| Partition { topic: tp.topic.to_string(), partition: tp.partition })
            .collect(),
    }
}

fn text(transaction: &Transaction) -> String {
    let Transaction { transactional_id, state, producer_id, producer_epoch, .. } = transaction;
    let mut text = format!(
        "transactional id {transactional_id}, {state}, producer {producer_id} epoch {producer_epoch}, timeout {} ms\n",
        transaction.timeout_ms
    );
    if let (Some(start), Some(age)) = (transaction.start_time, transaction.age_ms) {
        let (time, age) = (time_text(start), seconds_text(age));
        let open = ["Ongoing", "PrepareCommit", "PrepareAbort"].contains(&state.as_str());
        let words = if open { "open since" } else { "began at" };
        text.push_str(&format!("{words} {time} ({age}{})\n", if open { "" } else { " ago" }));
    }
    if !transaction.partitions.is_empty() {
        let mut table = Table::new(&[Column::Left("TOPIC"), Column::Right("PARTITION")]);
        for p in &transaction.partitions {
            table.row([p.topic.clone(), p.partition.to_string()]);
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}
