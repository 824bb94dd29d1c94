//! `savepoint delete`.

use millstream_engine::checkpoint::{
    RealDisk, SAVEPOINT_FILE, delete_savepoint, is_unfinished_savepoint, not_a_savepoint,
};
use serde::Serialize;

use crate::args::state::SavepointDeleteArguments;
use crate::cluster::runtime;
use crate::command::{CommandError, Failures};
use crate::confirm;
use crate::output::{self, OutputFormat, count, note};

#[derive(Serialize)]
struct Row {
    savepoint: String,
    deleted: bool,
    files: usize,
}

pub(super) fn run(
    arguments: &SavepointDeleteArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    confirm::check(arguments.yes, "deleting a savepoint")?;
    // All have to be there before any is deleted: a path that is wrong may not be the only one.
    let mut named = Vec::new();
    for path in &arguments.savepoints {
        let begun = is_unfinished_savepoint(path) && path.is_dir();
        if !begun && !path.join(SAVEPOINT_FILE).is_file() {
            return Err(not_a_savepoint(&RealDisk, path).into());
        }
        named.push(path.display().to_string());
    }
    let question = format!("delete savepoint {}?", named.join(", "));
    runtime()?.block_on(confirm::ask(arguments.yes, &question))?;
    let mut failures = Failures::default();
    for path in &arguments.savepoints {
        let savepoint = path.display().to_string();
        match delete_savepoint(&RealDisk, path) {
            Err(error) => failures.push(error),
            Ok(files) => {
                if path.exists() {
                    note(&format!("{savepoint} holds other files, which were left there"));
                }
                match output {
                    OutputFormat::Json => {
                        output::print_json([Row { savepoint, deleted: true, files }])?;
                    }
                    OutputFormat::Text => {
                        let text = format!("{savepoint}: deleted, {}\n", count(files, "file"));
                        output::print(text.as_bytes())?;
                    }
                }
            }
        }
    }
    failures.into_result()
}
