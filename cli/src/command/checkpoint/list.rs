//! `checkpoint list`.

use std::path::Path;

use millstream_engine::checkpoint::{CheckpointRef, Inspection};
use serde::Serialize;

use super::inspect;
use crate::command::CommandError;
use crate::command::state::note_holder;
use crate::exit_code;
use crate::output::{self, Column, OutputError, OutputFormat, Table};

#[derive(Serialize)]
struct Row {
    /// Null for a META that can not be read, which alone says which checkpoint it is of.
    checkpoint: Option<u64>,
    nonce: Option<String>,
    /// `META`, `delta` or `quarantined`.
    file: &'static str,
    path: String,
    bytes: Option<u64>,
    /// Whether the directory knows by itself that it was committed; null for what was put aside.
    confirmed: Option<bool>,
    /// What is wrong with the file.
    error: Option<String>,
}

pub(super) fn run(directory: &Path, output: OutputFormat) -> Result<(), CommandError> {
    let inspection = inspect(directory)?;
    note_holder(directory)?;
    let rows = rows(&inspection);
    let damaged = rows.iter().filter(|row| row.error.is_some()).count();
    print(rows, output)?;
    match damaged {
        0 => Ok(()),
        n => {
            let (files, directory) = (output::count(n, "file"), directory.display());
            let text = format!(
                "{files} of {directory} can not be used: `millstream checkpoint verify` reads all, a start says whether it needs them"
            );
            Err(CommandError::says(exit_code::STATE, text))
        }
    }
}

fn print(rows: Vec<Row>, output: OutputFormat) -> Result<(), OutputError> {
    if output == OutputFormat::Json {
        return output::print_json(rows);
    }
    let mut table = Table::new(&[
        Column::Right("CHECKPOINT"),
        Column::Left("NONCE"),
        Column::Left("FILE"),
        Column::Right("BYTES"),
        Column::Left("COMMITTED"),
        Column::Left("NOTE"),
    ]);
    for row in rows {
        let committed = match row.confirmed {
            Some(true) => "yes",
            Some(false) => "ask the ledger",
            None => "",
        };
        table.row([
            row.checkpoint.map_or_else(|| "?".to_owned(), |number| number.to_string()),
            row.nonce.as_deref().and_then(|nonce| nonce.get(..8)).unwrap_or("?").to_owned(),
            row.file.to_owned(),
            row.bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            committed.to_owned(),
            row.error.unwrap_or_default(),
        ]);
    }
    output::print(table.text().as_bytes())
}

fn rows(inspection: &Inspection) -> Vec<Row> {
    let local = inspection.local_state();
    let confirmed = local.as_ref().and_then(|local| local.confirmed());
    let row = |at: Option<CheckpointRef>, file, path: &Path| Row {
        checkpoint: at.map(|at| at.checkpoint.0),
        nonce: at.map(|at| at.nonce.to_string()),
        file,
        path: path.display().to_string(),
        bytes: path.metadata().ok().map(|metadata| metadata.len()),
        confirmed: None,
        error: None,
    };
    let mut rows = Vec::new();
    let meta_path = inspection.path.join("META");
    match &inspection.meta {
        Ok(None) => {}
        Ok(Some(meta)) => {
            rows.push(Row { confirmed: Some(true), ..row(Some(meta.at()), "META", &meta_path) });
        }
        Err(error) => {
            rows.push(Row { error: Some(error.to_string()), ..row(None, "META", &meta_path) });
        }
    }
    for delta in &inspection.deltas {
        let error = delta.content.as_ref().err().map(ToString::to_string);
        let known = confirmed.is_some_and(|c| delta.at.checkpoint <= c.checkpoint);
        let confirmed = delta.content.is_ok().then_some(known);
        rows.push(Row { confirmed, error, ..row(Some(delta.at), "delta", &delta.path) });
    }
    for file in &inspection.quarantined {
        rows.push(row(Some(file.at), "quarantined", &file.path));
    }
    rows
}
