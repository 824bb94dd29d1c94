//! Exactly-once stream processing on Kafka in one static binary.

mod args;
mod cluster;
mod command;
mod confirm;
mod exit_code;
mod input;
mod output;
mod position;
mod record;
mod signals;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    output::start_logging(arguments.verbose);
    match command::run(arguments.command) {
        Ok(()) => exit_code::OK.into(),
        Err(error) => {
            output::note(&format!("error: {}", millstream_engine::error_chain(&*error.cause)));
            error.exit_code.into()
        }
    }
}
