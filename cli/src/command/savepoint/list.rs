//! `savepoint list`.

use std::path::{Path, PathBuf};

use millstream_engine::checkpoint::{
    SAVEPOINT_FILE, SavepointError, SavepointManifest, is_unfinished_savepoint,
};
use serde::Serialize;

use super::open;
use crate::command::state::at_text;
use crate::command::{CommandError, Failures};
use crate::exit_code;
use crate::output::{self, Column, OutputFormat, Table, note, time_text};

#[derive(Serialize)]
struct Row {
    savepoint: String,
    id: Option<String>,
    job: Option<String>,
    checkpoint: Option<u64>,
    nonce: Option<String>,
    /// Milliseconds since 1970.
    created: Option<i64>,
    trigger: Option<&'static str>,
    entries: Option<u64>,
    bytes: Option<u64>,
    /// What is wrong with it.
    error: Option<String>,
}

pub(super) fn run(folder: &Path, output: OutputFormat) -> Result<(), CommandError> {
    let read = std::fs::read_dir(folder).map_err(|error| {
        CommandError::says(exit_code::NO_INPUT, format!("{}: {error}", folder.display()))
    })?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in read {
        let path = entry?.path();
        if path.join(SAVEPOINT_FILE).is_file() || is_unfinished_savepoint(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    let found: Vec<_> = paths.iter().map(|path| (path, open(path))).collect();
    if output == OutputFormat::Json {
        output::print_json(found.iter().map(|(path, opened)| match opened {
            Ok(savepoint) => whole(path, savepoint.manifest()),
            Err(error) => broken(path, error),
        }))?;
        return failures(found.into_iter().filter_map(|(_, opened)| opened.err()), output);
    }
    if found.is_empty() {
        note(&format!("there is no savepoint in {}", folder.display()));
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::Left("SAVEPOINT"),
        Column::Left("JOB"),
        Column::Left("CHECKPOINT"),
        Column::Left("CREATED"),
        Column::Left("TAKEN"),
        Column::Right("ENTRIES"),
        Column::Right("BYTES"),
    ]);
    let mut wrong = Vec::new();
    for (path, opened) in found {
        match opened {
            Ok(savepoint) => {
                let manifest = savepoint.manifest();
                table.row([
                    path.display().to_string(),
                    manifest.description.job.to_string(),
                    at_text(manifest.at),
                    time_text(manifest.created_ms),
                    manifest.trigger.name().to_owned(),
                    manifest.entries().to_string(),
                    manifest.state_bytes().to_string(),
                ]);
            }
            Err(error) => wrong.push(error),
        }
    }
    output::print(table.text().as_bytes())?;
    failures(wrong, output)
}

/// All were listed; those that can not be read end the command. One that is being written, or was not finished, is no failure.
fn failures(
    wrong: impl IntoIterator<Item = SavepointError>,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let mut failures = Failures::default();
    for error in wrong {
        match error {
            SavepointError::NotASavepoint { .. } if output == OutputFormat::Json => {}
            SavepointError::NotASavepoint { .. } => note(&error.to_string()),
            _ => failures.push(error),
        }
    }
    failures.into_result()
}

fn whole(path: &Path, manifest: &SavepointManifest) -> Row {
    Row {
        savepoint: path.display().to_string(),
        id: Some(manifest.id.to_string()),
        job: Some(manifest.description.job.to_string()),
        checkpoint: Some(manifest.at.checkpoint.0),
        nonce: Some(manifest.at.nonce.to_string()),
        created: Some(manifest.created_ms),
        trigger: Some(manifest.trigger.name()),
        entries: Some(manifest.entries()),
        bytes: Some(manifest.state_bytes()),
        error: None,
    }
}

fn broken(path: &Path, error: &SavepointError) -> Row {
    Row {
        savepoint: path.display().to_string(),
        id: None,
        job: None,
        checkpoint: None,
        nonce: None,
        created: None,
        trigger: None,
        entries: None,
        bytes: None,
        error: Some(error.to_string()),
    }
}
