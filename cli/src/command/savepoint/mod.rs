//! `millstream savepoint`: all state of a job in a folder of its own.

mod create;
mod delete;
mod list;
mod show;
mod trigger;
mod verify;

use std::path::Path;
use std::sync::Arc;

use millstream_engine::checkpoint::{RealDisk, Savepoint, SavepointError, SavepointTaken};
use serde::Serialize;

use super::CommandError;
use crate::args::state::{SavepointArguments, SavepointCommand};
use crate::command::state::at_text;
use crate::output::{self, OutputFormat, count};

pub(crate) fn run(arguments: &SavepointArguments) -> Result<(), CommandError> {
    let output = arguments.cluster.output;
    match &arguments.command {
        SavepointCommand::Create(create) => create::run(&arguments.cluster, create, output),
        SavepointCommand::Trigger(trigger) => trigger::run(trigger, output),
        SavepointCommand::List(list) => list::run(&list.folder, output),
        SavepointCommand::Show(show) => show::run(&show.savepoints, output),
        SavepointCommand::Verify(verify) => verify::run(&verify.savepoints, output),
        SavepointCommand::Delete(delete) => delete::run(delete, output),
    }
}

fn open(path: &Path) -> Result<Savepoint, SavepointError> {
    Savepoint::open(Arc::new(RealDisk), path)
}

#[derive(Serialize)]
struct TakenRow {
    savepoint: String,
    id: String,
    job: String,
    checkpoint: u64,
    nonce: String,
    entries: u64,
    bytes: u64,
}

/// Tells of a savepoint that was taken.
fn tell(target: &Path, taken: &SavepointTaken, output: OutputFormat) -> Result<(), CommandError> {
    let savepoint = target.display().to_string();
    if output == OutputFormat::Json {
        return Ok(output::print_json([TakenRow {
            savepoint,
            id: taken.id.to_string(),
            job: taken.job.to_string(),
            checkpoint: taken.at.checkpoint.0,
            nonce: taken.at.nonce.to_string(),
            entries: taken.entries,
            bytes: taken.state_bytes,
        }])?);
    }
    let text = format!(
        "{savepoint}: savepoint of job {}, checkpoint {}, {}\n",
        taken.job,
        at_text(taken.at),
        count(taken.entries, "entry")
    );
    Ok(output::print(text.as_bytes())?)
}
