//! `savepoint trigger`.

use std::thread::sleep;
use std::time::Duration;

use millstream_engine::checkpoint::{ControlAnswer, ControlClient, ControlError, SavepointTrigger};

use crate::args::state::SavepointTriggerArguments;
use crate::command::CommandError;
use crate::exit_code;
use crate::output::OutputFormat;

/// How often the answer is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn run(
    arguments: &SavepointTriggerArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let directory = &arguments.directory.state_dir;
    if !directory.is_dir() {
        let text = format!("there is no folder {}", directory.display());
        return Err(CommandError::says(exit_code::NO_INPUT, text));
    }
    let trigger = match (arguments.stop, arguments.drain) {
        (false, _) => SavepointTrigger::Live,
        (true, false) => SavepointTrigger::Stop,
        (true, true) => SavepointTrigger::Drain,
    };
    let request = ControlClient::ask(directory, trigger, &arguments.target).map_err(of_control)?;
    loop {
        match request.poll().map_err(of_control)? {
            None => sleep(LOOK_INTERVAL),
            Some(ControlAnswer::Taken(taken)) => {
                return super::tell(&arguments.target, &taken, output);
            }
            Some(ControlAnswer::Refused { exit_code, reason }) => {
                return Err(CommandError::says(exit_code, reason));
            }
        }
    }
}

fn of_control(error: ControlError) -> CommandError {
    CommandError { exit_code: exit_code::STATE, cause: error.into() }
}
