//! `millstream group`: consumer groups and their offsets.

mod delete;
mod describe;
mod list;
mod reset_offsets;

use super::CommandError;
use crate::args::group::{GroupArguments, GroupCommand};
use crate::confirm;

pub(crate) fn run(arguments: GroupArguments) -> Result<(), CommandError> {
    let GroupArguments { cluster, command } = arguments;
    match &command {
        GroupCommand::Delete(delete) => confirm::check(delete.yes, "deleting groups")?,
        GroupCommand::ResetOffsets(reset) => {
            confirm::check(reset.yes || reset.dry_run, "moving the offsets of a group")?;
        }
        GroupCommand::List(_) | GroupCommand::Describe(_) => {}
    }
    let output = cluster.output;
    cluster.with_client(|client| async move {
        match command {
            GroupCommand::List(arguments) => list::run(&client, &arguments, output).await,
            GroupCommand::Describe(arguments) => describe::run(&client, &arguments, output).await,
            GroupCommand::ResetOffsets(arguments) => {
                reset_offsets::run(&client, &arguments, output).await
            }
            GroupCommand::Delete(arguments) => delete::run(&client, &arguments, output).await,
        }
    })
}
