//! One file per command.

pub(crate) mod demo;
mod dev;
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
        Command::Version => version::print(),
        Command::Completions { shell } => {
            // Into memory first: the generators panic where they can not write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "millstream", &mut script);
            Ok(output::print(&script)?)
        }
    }
}
