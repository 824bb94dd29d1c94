//! `millstream savepoint`: all state of a job in a folder of its own.

mod create;
mod delete;
mod list;
mod show;
mod verify;

use std::path::Path;
use std::sync::Arc;

use millstream_engine::checkpoint::{RealDisk, Savepoint, SavepointError};

use super::CommandError;
use crate::args::state::{SavepointArguments, SavepointCommand};

pub(crate) fn run(arguments: &SavepointArguments) -> Result<(), CommandError> {
    let output = arguments.cluster.output;
    match &arguments.command {
        SavepointCommand::Create(create) => create::run(&arguments.cluster, create, output),
        SavepointCommand::List(list) => list::run(&list.folder, output),
        SavepointCommand::Show(show) => show::run(&show.savepoints, output),
        SavepointCommand::Verify(verify) => verify::run(&verify.savepoints, output),
        SavepointCommand::Delete(delete) => delete::run(delete, output),
    }
}

fn open(path: &Path) -> Result<Savepoint, SavepointError> {
    Savepoint::open(Arc::new(RealDisk), path)
}
