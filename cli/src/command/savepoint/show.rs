//! `savepoint show`.

use std::path::{Path, PathBuf};

use millstream_engine::checkpoint::{JobStatus, SavepointManifest, state_file_name};
use serde::Serialize;

use super::open;
use crate::command::state::{
    SplitRow, WatermarkRow, split_rows, splits_text, topic_id_text, watermark_rows, watermarks_text,
};
use crate::command::{CommandError, Failures};
use crate::output::{self, Column, OutputFormat, Table, time_text};

#[derive(Serialize)]
struct Shown {
    savepoint: String,
    id: String,
    job: String,
    checkpoint: u64,
    nonce: String,
    /// Milliseconds since 1970.
    created: i64,
    program: String,
    /// `live`, `stop`, `drain` or `directory`.
    trigger: &'static str,
    status: &'static str,
    max_parallelism: u16,
    fingerprint: String,
    lineage: String,
    ledger_offset: Option<i64>,
    ledger_topic_id: Option<String>,
    positions: Vec<SplitRow>,
    watermarks: Vec<WatermarkRow>,
    states: Vec<State>,
}

#[derive(Serialize)]
struct State {
    operator: String,
    kind: String,
    state: String,
    schema: String,
    file: String,
    entries: u64,
    bytes: u64,
    sha256: String,
}

pub(super) fn run(paths: &[PathBuf], output: OutputFormat) -> Result<(), CommandError> {
    let mut failures = Failures::default();
    let mut found = Vec::new();
    for path in paths {
        match open(path) {
            Ok(savepoint) => found.push(shown(path, savepoint.manifest())),
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

fn shown(path: &Path, manifest: &SavepointManifest) -> Shown {
    let description = &manifest.description;
    let state = |(index, saved): (usize, &millstream_engine::checkpoint::SavedState)| {
        let (uid, name) = (&*saved.state.operator_uid, &*saved.state.state_name);
        let kind = description.operator(uid).map(|operator| operator.kind.to_string());
        State {
            operator: uid.to_owned(),
            kind: kind.unwrap_or_default(),
            state: name.to_owned(),
            schema: description.schema(uid, name).unwrap_or_default().to_owned(),
            file: state_file_name(index),
            entries: saved.entries,
            bytes: saved.file_bytes,
            sha256: saved.sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    };
    Shown {
        savepoint: path.display().to_string(),
        id: manifest.id.to_string(),
        job: description.job.to_string(),
        checkpoint: manifest.at.checkpoint.0,
        nonce: manifest.at.nonce.to_string(),
        created: manifest.created_ms,
        program: manifest.program.clone(),
        trigger: manifest.trigger.name(),
        status: match manifest.status {
            JobStatus::Running => "running",
            JobStatus::Finished => "finished",
        },
        max_parallelism: description.max_parallelism,
        fingerprint: description.fingerprint().to_string(),
        lineage: manifest.lineage.to_string(),
        ledger_offset: manifest.ledger_offset,
        ledger_topic_id: topic_id_text(manifest.ledger_topic_id),
        positions: split_rows(&manifest.positions),
        watermarks: watermark_rows(&manifest.watermarks),
        states: manifest.states.iter().enumerate().map(state).collect(),
    }
}

fn text(shown: &Shown) -> String {
    let Shown { savepoint, id, job, checkpoint, nonce, trigger, program, status, .. } = shown;
    let mut text = format!(
        "{savepoint}: savepoint {id}\njob {job}, checkpoint {checkpoint} (nonce {nonce}), {status}\n"
    );
    text.push_str(&format!(
        "taken {} ({trigger}) by {program}\nmax_parallelism {}, fingerprint {}\n",
        time_text(shown.created),
        shown.max_parallelism,
        shown.fingerprint
    ));
    text.push_str(&splits_text(&shown.positions));
    text.push_str(&watermarks_text(&shown.watermarks));
    if shown.states.is_empty() {
        return text;
    }
    let mut table = Table::new(&[
        Column::Left("OPERATOR"),
        Column::Left("STATE"),
        Column::Right("ENTRIES"),
        Column::Right("BYTES"),
        Column::Left("FILE"),
        Column::Left("SCHEMA"),
    ]);
    for state in &shown.states {
        table.row([
            state.operator.clone(),
            state.state.clone(),
            state.entries.to_string(),
            state.bytes.to_string(),
            state.file.clone(),
            state.schema.clone(),
        ]);
    }
    text.push('\n');
    text.push_str(&table.text());
    text
}
