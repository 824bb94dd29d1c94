//! One file per command.

mod checkpoint;
mod consume;
pub(crate) mod demo;
mod dev;
mod doctor;
mod group;
mod ledger;
mod produce;
mod savepoint;
mod state;
mod topic;
mod txn;
mod version;

use std::error::Error;

use clap::CommandFactory;

use crate::args::{Arguments, Command};
use crate::{exit_code, output};

/// Why a command ended without success, and the exit code that says so.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit_code: u8,
    pub(crate) cause: Box<dyn Error + Send + Sync>,
}

impl CommandError {
    /// An error that is its text.
    pub(crate) fn says(exit_code: u8, text: impl Into<String>) -> Self {
        Self { exit_code, cause: text.into().into() }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for CommandError {
    fn from(error: E) -> Self {
        let cause = error.into();
        Self { exit_code: exit_code::of(&*cause), cause }
    }
}

pub(crate) fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoJob(arguments) => demo::job::run(&arguments),
        Command::Dev(arguments) => dev::run(arguments),
        Command::Topic(arguments) => topic::run(arguments),
        Command::Produce(arguments) => produce::run(arguments),
        Command::Consume(arguments) => consume::run(arguments),
        Command::Group(arguments) => group::run(arguments),
        Command::Txn(arguments) => txn::run(arguments),
        Command::Checkpoint(arguments) => checkpoint::run(&arguments),
        Command::Savepoint(arguments) => savepoint::run(&arguments),
        Command::Ledger(arguments) => ledger::run(arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Version => version::print(),
        Command::Completions { shell } => {
            // Into memory first: the generators panic where they can not write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "millstream", &mut script);
            Ok(output::print(&script)?)
        }
    }
}

/// Failures of some of several things: all are told, the last one ends the command.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    last: Option<CommandError>,
}

impl Failures {
    /// One more.
    pub(crate) fn push(&mut self, error: impl Into<CommandError>) {
        if let Some(earlier) = self.last.replace(error.into()) {
            let text = millstream_engine::error_chain(&*earlier.cause);
            output::note(&format!("error: {text}"));
        }
    }

    /// The last one, if there was any.
    pub(crate) fn into_result(self) -> Result<(), CommandError> {
        self.last.map_or(Ok(()), Err)
    }
}
