//! `checkpoint show`.

use std::path::Path;

use millstream_engine::checkpoint::{CheckpointRef, Inspection, JobStatus, Positions, Watermarks};
use serde::Serialize;

use super::inspect;
use crate::command::CommandError;
use crate::command::state::{
    SplitRow, StateRow, WatermarkRow, note_holder, split_rows, splits_text, state_rows,
    topic_id_text, watermark_rows, watermarks_text,
};
use crate::exit_code;
use crate::output::{self, Column, OutputFormat, Table, note};

#[derive(Serialize)]
struct Checkpoint {
    job: String,
    checkpoint: u64,
    nonce: String,
    /// `META` or `delta`.
    file: &'static str,
    /// The checkpoint before, if the file names it.
    parent_nonce: Option<String>,
    status: &'static str,
    fingerprint: String,
    /// Of META.
    lineage: Option<String>,
    ledger_offset: Option<i64>,
    ledger_topic_id: Option<String>,
    /// Of a delta file: as the ledger names it.
    digest: Option<String>,
    /// The savepoint that the directory began from.
    restored_from: Option<String>,
    positions: Vec<SplitRow>,
    watermarks: Vec<WatermarkRow>,
    states: Vec<StateRow>,
}

pub(super) fn run(
    directory: &Path,
    checkpoint: Option<u64>,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let inspection = inspect(directory)?;
    note_holder(directory)?;
    let found = find(inspection, checkpoint)?;
    match output {
        OutputFormat::Json => Ok(output::print_json([found])?),
        OutputFormat::Text => Ok(output::print(text(&found).as_bytes())?),
    }
}

fn find(inspection: Inspection, checkpoint: Option<u64>) -> Result<Checkpoint, CommandError> {
    let directory = inspection.path.display().to_string();
    let states = match &inspection.description {
        Ok(Some(description)) => state_rows(description),
        Ok(None) => Vec::new(),
        Err(error) => {
            note(&format!("schemas are not shown: {error}"));
            Vec::new()
        }
    };
    let restored_from = match &inspection.restored {
        Ok(restored) => restored.as_ref().map(ToString::to_string),
        Err(error) => {
            note(&error.to_string());
            None
        }
    };
    let meta = inspection.meta?;
    let wanted = |at: CheckpointRef| checkpoint.is_none_or(|wanted| wanted == at.checkpoint.0);
    if let Some(meta) = meta.filter(|meta| wanted(meta.at())) {
        let common = common(meta.at(), meta.status, &meta.positions, &meta.watermarks);
        return Ok(Checkpoint {
            job: meta.job.to_string(),
            file: "META",
            fingerprint: meta.fingerprint.to_string(),
            lineage: Some(meta.lineage.to_string()),
            ledger_offset: meta.ledger_offset,
            ledger_topic_id: topic_id_text(meta.ledger_topic_id),
            restored_from,
            states,
            ..common
        });
    }
    // Of several attempts the last, which is the one that may count.
    let mut deltas = inspection.deltas.into_iter().rev().filter(|delta| wanted(delta.at));
    let Some(delta) = deltas.next() else {
        let text = match checkpoint {
            Some(number) => format!(
                "{directory} holds no file of checkpoint {number}: `millstream checkpoint list` shows what it holds"
            ),
            None => format!("{directory} holds no META and no delta file"),
        };
        return Err(CommandError::says(exit_code::NO_INPUT, text));
    };
    let summary = delta.content.map_err(|error| {
        CommandError::says(exit_code::STATE, format!("{}: {error}", delta.path.display()))
    })?;
    let header = summary.header;
    let common = common(header.at, header.status, &header.positions, &header.watermarks);
    Ok(Checkpoint {
        job: header.job.to_string(),
        file: "delta",
        parent_nonce: Some(header.parent.nonce.to_string()),
        fingerprint: header.fingerprint.to_string(),
        digest: Some(summary.digest.to_string()),
        restored_from,
        states,
        ..common
    })
}

fn common(
    at: CheckpointRef,
    status: JobStatus,
    positions: &Positions,
    watermarks: &Watermarks,
) -> Checkpoint {
    Checkpoint {
        job: String::new(),
        checkpoint: at.checkpoint.0,
        nonce: at.nonce.to_string(),
        file: "",
        parent_nonce: None,
        status: match status {
            JobStatus::Running => "running",
            JobStatus::Finished => "finished",
        },
        fingerprint: String::new(),
        lineage: None,
        ledger_offset: None,
        ledger_topic_id: None,
        digest: None,
        restored_from: None,
        positions: split_rows(positions),
        watermarks: watermark_rows(watermarks),
        states: Vec::new(),
    }
}

fn text(found: &Checkpoint) -> String {
    let Checkpoint { job, checkpoint, nonce, file, status, .. } = found;
    let mut text =
        format!("job {job}, checkpoint {checkpoint} (nonce {nonce}), {status}, from {file}\n");
    text.push_str(&format!("fingerprint {}\n", found.fingerprint));
    if let Some(lineage) = &found.lineage {
        text.push_str(&format!("lineage {lineage}\n"));
    }
    if let Some(offset) = found.ledger_offset {
        text.push_str(&format!("ledger offset {offset}\n"));
    }
    if let Some(digest) = &found.digest {
        text.push_str(&format!("digest {digest}\n"));
    }
    if let Some(restored) = &found.restored_from {
        text.push_str(&format!("began from {restored}\n"));
    }
    text.push_str(&splits_text(&found.positions));
    text.push_str(&watermarks_text(&found.watermarks));
    text.push_str(&states_text(&found.states));
    text
}

fn states_text(rows: &[StateRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Column::Left("OPERATOR"),
        Column::Left("KIND"),
        Column::Left("STATE"),
        Column::Left("SCHEMA"),
    ]);
    for row in rows {
        let StateRow { operator, kind, state, schema } = row;
        table.row([operator.clone(), kind.clone(), state.clone(), schema.clone()]);
    }
    format!("\n{}", table.text())
}
