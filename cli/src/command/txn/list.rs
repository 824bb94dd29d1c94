//! `txn list`.

use millstream_protocol_client::{KafkaClient, TransactionFilter};
use serde::Serialize;

use crate::args::txn::TxnListArguments;
use crate::command::CommandError;
use crate::output::{self, Column, OutputFormat, Table};

#[derive(Serialize)]
struct Row {
    transactional_id: String,
    producer_id: i64,
    /// Kafka's names: `Empty`, `Ongoing`, `PrepareCommit`, `CompleteCommit` …
    state: String,
    coordinator: i32,
}

const OPEN_STATES: [&str; 3] = ["Ongoing", "PrepareCommit", "PrepareAbort"];

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &TxnListArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let mut states = arguments.states.clone();
    if arguments.longer_than.is_some() && states.is_empty() {
        // Kafka takes one that is not open for one that began in 1970.
        states = OPEN_STATES.map(str::to_owned).to_vec();
    }
    let filter = TransactionFilter {
        states,
        producer_ids: Vec::new(),
        running_longer_than: arguments.longer_than,
    };
    let rows = client.list_transactions(&filter).await?.into_iter().map(|listed| Row {
        transactional_id: listed.transactional_id,
        producer_id: listed.producer_id,
        state: listed.state,
        coordinator: listed.coordinator,
    });
    if output == OutputFormat::Json {
        return Ok(output::print_json(rows)?);
    }
    let mut table = Table::new(&[
        Column::Left("TRANSACTIONAL ID"),
        Column::Right("PRODUCER ID"),
        Column::Left("STATE"),
        Column::Right("COORDINATOR"),
    ]);
    for row in rows {
        let (producer, coordinator) = (row.producer_id.to_string(), row.coordinator.to_string());
        table.row([row.transactional_id, producer, row.state, coordinator]);
    }
    Ok(output::print(table.text().as_bytes())?)
}
