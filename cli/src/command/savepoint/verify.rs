//! `savepoint verify`.

use std::path::PathBuf;

use serde::Serialize;

use super::open;
use crate::command::{CommandError, Failures};
use crate::output::{self, OutputFormat, count};

#[derive(Serialize)]
struct Row {
    savepoint: String,
    ok: bool,
    /// Null if it is not whole, as is `bytes`.
    entries: Option<u64>,
    bytes: Option<u64>,
    /// What is wrong with it.
    error: Option<String>,
}

pub(super) fn run(paths: &[PathBuf], output: OutputFormat) -> Result<(), CommandError> {
    let mut failures = Failures::default();
    for path in paths {
        let verified = open(path).and_then(|savepoint| savepoint.verify().map(|()| savepoint));
        let savepoint = match verified {
            Ok(savepoint) => savepoint,
            Err(error) => {
                if output == OutputFormat::Json {
                    let savepoint = path.display().to_string();
                    let error = Some(millstream_engine::error_chain(&error));
                    let (entries, bytes) = (None, None);
                    output::print_json([Row { savepoint, ok: false, entries, bytes, error }])?;
                }
                failures.push(error);
                continue;
            }
        };
        let manifest = savepoint.manifest();
        let (entries, bytes) = (manifest.entries(), manifest.state_bytes());
        let name = path.display().to_string();
        match output {
            OutputFormat::Json => {
                let (entries, bytes) = (Some(entries), Some(bytes));
                output::print_json([Row {
                    savepoint: name,
                    ok: true,
                    entries,
                    bytes,
                    error: None,
                }])?;
            }
            OutputFormat::Text => {
                let text = format!(
                    "{name}: whole, {} of {}, {}\n",
                    count(entries, "entry"),
                    count(manifest.states.len(), "state"),
                    count(bytes, "byte")
                );
                output::print(text.as_bytes())?;
            }
        }
    }
    failures.into_result()
}
