//! `savepoint trigger`.

use std::time::Duration;

use millstream_engine::checkpoint::{ControlAnswer, ControlClient, ControlError, SavepointTrigger};
use tokio::time::{Instant, interval};

use crate::args::state::SavepointTriggerArguments;
use crate::cluster::runtime;
use crate::command::CommandError;
use crate::command::state::existing_folder;
use crate::exit_code;
use crate::output::{OutputFormat, note};
use crate::signals::{Interrupted, Signals};

/// How often the answer is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// After so long the one who waits is told what for.
const SILENT_FOR: Duration = Duration::from_secs(3);

pub(super) fn run(
    arguments: &SavepointTriggerArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let directory = &arguments.directory.state_dir;
    existing_folder(directory)?;
    let trigger = match (arguments.stop, arguments.drain) {
        (false, _) => SavepointTrigger::Live,
        (true, false) => SavepointTrigger::Stop,
        (true, true) => SavepointTrigger::Drain,
    };
    match runtime()?.block_on(ask_and_wait(arguments, trigger))? {
        ControlAnswer::Taken(taken) => super::tell(&arguments.target, &taken, output),
        ControlAnswer::Refused { exit_code, reason } => Err(CommandError::says(exit_code, reason)),
    }
}

async fn ask_and_wait(
    arguments: &SavepointTriggerArguments,
    trigger: SavepointTrigger,
) -> Result<ControlAnswer, CommandError> {
    // Before the request is made: none is left behind by a signal that comes right after.
    let mut signals = Signals::listen()?;
    let directory = &arguments.directory.state_dir;
    let request = ControlClient::ask(directory, trigger, &arguments.target).map_err(of_control)?;
    let begun = Instant::now();
    let mut told = false;
    let mut looks = interval(LOOK_INTERVAL);
    loop {
        tokio::select! {
            biased;
            interrupted = signals.next() => return given_up(&request, arguments, Some(interrupted)),
            _ = looks.tick() => {}
        }
        if let Some(answer) = request.poll().map_err(of_control)? {
            return Ok(answer);
        }
        if begun.elapsed() >= arguments.timeout {
            return given_up(&request, arguments, None);
        }
        if begun.elapsed() >= SILENT_FOR && !std::mem::replace(&mut told, true) {
            note(&waits_for(&request, arguments.timeout));
        }
    }
}

/// What takes so long.
fn waits_for(request: &ControlClient, timeout: Duration) -> String {
    let process = request.process().ok().flatten().unwrap_or_else(|| "unknown".to_owned());
    let (what, end) = match request.is_waiting() {
        true => (
            "has not begun with the savepoint: it comes after a checkpoint and after earlier requests, or the process is stopped (its log says more)",
            "withdraws the request",
        ),
        false => ("is taking the savepoint", "ends the waiting only"),
    };
    let timeout = humantime::format_duration(timeout);
    format!("process {process} {what}. Waiting up to {timeout} (--timeout); Ctrl-C {end}")
}

/// Takes the request back, unless there is an answer after all.
fn given_up(
    request: &ControlClient,
    arguments: &SavepointTriggerArguments,
    interrupted: Option<Interrupted>,
) -> Result<ControlAnswer, CommandError> {
    let target = arguments.target.display();
    let is_withdrawn = request.withdraw().map_err(of_control)?;
    if !is_withdrawn && let Some(answer) = request.poll().map_err(of_control)? {
        return Ok(answer);
    }
    let what = match is_withdrawn {
        true => format!("the request is withdrawn, nothing is or will be written to {target}"),
        false => format!(
            "the job's process has begun with the savepoint, so it goes on: if {target} is there, it is whole"
        ),
    };
    match interrupted {
        Some(interrupted) => {
            note(&what);
            Err(interrupted.into())
        }
        None => {
            let waited = humantime::format_duration(arguments.timeout);
            let text = format!(
                "no savepoint within {waited} (--timeout): {what}. Look at the job's log and whether its process runs, then try again"
            );
            Err(CommandError::says(exit_code::FAILED, text))
        }
    }
}

fn of_control(error: ControlError) -> CommandError {
    CommandError { exit_code: exit_code::STATE, cause: error.into() }
}
