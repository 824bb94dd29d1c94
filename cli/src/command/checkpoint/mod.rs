//! `millstream checkpoint`: what a state directory holds.

mod list;
mod show;
mod verify;

use std::path::Path;

use millstream_engine::checkpoint::Inspection;

use super::CommandError;
use super::state::inspect_folder;
use crate::args::state::{CheckpointArguments, CheckpointCommand};
use crate::exit_code;

pub(crate) fn run(arguments: &CheckpointArguments) -> Result<(), CommandError> {
    let output = arguments.output.output;
    match &arguments.command {
        CheckpointCommand::List(directory) => list::run(&directory.state_dir, output),
        CheckpointCommand::Show(show) => {
            show::run(&show.directory.state_dir, show.checkpoint, output)
        }
        CheckpointCommand::Verify(verify) => {
            verify::run(&verify.directory.state_dir, verify.store, output)
        }
    }
}

/// Looks at a state directory, which has to be one.
fn inspect(directory: &Path) -> Result<Inspection, CommandError> {
    let inspection = inspect_folder(directory)?;
    let nothing = matches!(inspection.meta, Ok(None))
        && inspection.deltas.is_empty()
        && inspection.quarantined.is_empty()
        && matches!(inspection.restored, Ok(None));
    if nothing {
        let text = format!(
            "{} holds no state: it has no META and no delta files. Give the folder that the job was given",
            directory.display()
        );
        return Err(CommandError::says(exit_code::NO_INPUT, text));
    }
    Ok(inspection)
}
