//! What the tools for checkpoints, savepoints and the ledger have in common: how state is told in text and in JSON.

use std::io::ErrorKind;
use std::path::Path;

use millstream_engine::checkpoint::{
    CheckpointRef, Inspection, JobDescription, Positions, RealDisk, TopicId, Watermarks,
};
use serde::Serialize;

use crate::command::CommandError;
use crate::exit_code;
use crate::output::{Column, Table, note};

/// Where a split of a source stands.
#[derive(Debug, Serialize)]
pub(crate) struct SplitRow {
    source: String,
    topic: String,
    partition: i32,
    offset: i64,
    /// Milliseconds since 1970; null if no element had one.
    max_event_time: Option<i64>,
    finished: bool,
}

/// How far event time had come in an operator.
#[derive(Debug, Serialize)]
pub(crate) struct WatermarkRow {
    operator: String,
    watermark: i64,
}

/// A keyed state of an operator.
#[derive(Debug, Serialize)]
pub(crate) struct StateRow {
    pub(crate) operator: String,
    pub(crate) kind: String,
    pub(crate) state: String,
    pub(crate) schema: String,
}

pub(crate) fn split_rows(positions: &Positions) -> Vec<SplitRow> {
    let row = |(uid, split): (&std::sync::Arc<str>, &_)| {
        let split: &millstream_engine::checkpoint::SourcePosition = split;
        SplitRow {
            source: uid.to_string(),
            topic: split.topic.to_string(),
            partition: split.partition,
            offset: split.offset,
            max_event_time: split.max_event_time,
            finished: split.finished,
        }
    };
    positions.iter().map(row).collect()
}

pub(crate) fn watermark_rows(watermarks: &Watermarks) -> Vec<WatermarkRow> {
    let row = |(operator, watermark): &(String, i64)| WatermarkRow {
        // An operator's processing time stands under its uid, a zero byte and a word for it.
        operator: operator.replace('\0', " "),
        watermark: *watermark,
    };
    watermarks.iter().map(row).collect()
}

pub(crate) fn state_rows(description: &JobDescription) -> Vec<StateRow> {
    let mut rows = Vec::new();
    for operator in &description.operators {
        for state in &operator.states {
            rows.push(StateRow {
                operator: operator.uid.to_string(),
                kind: operator.kind.to_string(),
                state: state.name.to_string(),
                schema: state.schema.to_string(),
            });
        }
    }
    rows
}

pub(crate) fn splits_text(rows: &[SplitRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Column::Left("SOURCE"),
        Column::Left("TOPIC"),
        Column::Right("PARTITION"),
        Column::Right("NEXT OFFSET"),
        Column::Left("EVENT TIME"),
    ]);
    for row in rows {
        table.row([
            row.source.clone(),
            row.topic.clone(),
            row.partition.to_string(),
            row.offset.to_string(),
            row.max_event_time.map(event_time_text).unwrap_or_default(),
        ]);
    }
    format!("\n{}", table.text())
}

pub(crate) fn watermarks_text(rows: &[WatermarkRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[Column::Left("OPERATOR"), Column::Left("WATERMARK")]);
    for row in rows {
        table.row([row.operator.clone(), event_time_text(row.watermark)]);
    }
    format!("\n{}", table.text())
}

/// Event time need not be a time of day; its ends have names.
pub(crate) fn event_time_text(ms: i64) -> String {
    match ms {
        i64::MAX => "end of time".to_owned(),
        ms => {
            let text = crate::output::time_text(ms);
            if text.is_empty() { ms.to_string() } else { text }
        }
    }
}

/// A checkpoint with enough of its nonce to tell attempts apart.
pub(crate) fn at_text(at: CheckpointRef) -> String {
    let nonce = at.nonce.to_string();
    format!("{} ({})", at.checkpoint, nonce.get(..8).unwrap_or_default())
}

/// The id, unless the brokers gave none.
pub(crate) fn topic_id_text(id: TopicId) -> Option<String> {
    (id != TopicId::UNKNOWN).then(|| id.to_string())
}

/// Refuses what is no folder, or can not be looked at.
pub(crate) fn existing_folder(directory: &Path) -> Result<(), CommandError> {
    let code_and_text = match std::fs::metadata(directory) {
        Ok(found) if found.is_dir() => return Ok(()),
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            (exit_code::STATE, format!("failed to look at {}: {error}", directory.display()))
        }
        _ => (exit_code::NO_INPUT, format!("there is no folder {}", directory.display())),
    };
    Err(CommandError::says(code_and_text.0, code_and_text.1))
}

/// What a folder holds that has to be there.
pub(crate) fn inspect_folder(directory: &Path) -> Result<Inspection, CommandError> {
    existing_folder(directory)?;
    Ok(Inspection::of(&RealDisk, directory)?)
}

/// The process that holds the directory, if a job is running on it.
pub(crate) fn holder_of(directory: &Path) -> Result<Option<String>, CommandError> {
    let lock = directory.join("LOCK");
    RealDisk::lock_holder(&lock).map_err(|error| {
        let text = format!("failed to look at {}: {error}", lock.display());
        CommandError::says(exit_code::STATE, text)
    })
}

/// Tells if a job holds the directory, whose files then change while they are looked at.
pub(crate) fn note_holder(directory: &Path) -> Result<Option<String>, CommandError> {
    let holder = holder_of(directory)?;
    if let Some(process) = &holder {
        note_running(directory, process);
    }
    Ok(holder)
}

pub(crate) fn note_running(directory: &Path, process: &str) {
    note(&format!(
        "a job is running on {} (process {process}): what is shown is one moment of it",
        directory.display()
    ));
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}
