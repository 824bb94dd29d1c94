//! One file per command.

pub(crate) mod demo;
mod dev;
mod version;

use std::error::Error;

use clap::CommandFactory;

use crate::args::{Arguments, Command};
use crate::exit_code;

/// Why a command ended without success, and the exit code that says so.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit_code: u8,
    pub(crate) cause: Box<dyn Error + Send + Sync>,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for CommandError {
    fn from(error: E) -> Self {
        let cause = error.into();
        let exit_code = cause
            .downcast_ref::<millstream_engine::JobError>()
            .map_or(exit_code::FAILED, millstream_engine::JobError::exit_code);
        Self { exit_code, cause }
    }
}

pub(crate) fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoJob(arguments) => demo::job::run(&arguments),
        Command::Dev(arguments) => dev::run(arguments),
        Command::Version => version::print(),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Arguments::command(),
                "millstream",
                &mut std::io::stdout(),
            );
            Ok(())
        }
    }
}
