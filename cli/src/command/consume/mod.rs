//! `millstream consume`: the records of a topic, up to its end or on and on.

mod bounds;
mod member;
mod partitions;
mod printer;

use std::time::Duration;

use millstream_protocol::IsolationLevel;
use millstream_protocol_client::{ClientConfig, FetchError};

use self::printer::Printer;
use super::CommandError;
use crate::args::records::{ConsumeArguments, IsolationLevelArgument};
use crate::cluster::with_signals;
use crate::exit_code;
use crate::output::{OutputFormat, note};
use crate::position::Position;

pub(crate) fn run(arguments: ConsumeArguments) -> Result<(), CommandError> {
    if arguments.format.is_some() && arguments.cluster.output == OutputFormat::Json {
        let text = "--format shapes text, and --output json prints objects: leave one of them out";
        return Err(CommandError::says(exit_code::USAGE, text));
    }
    let config = config(&arguments)?;
    with_signals(config, |client, mut signals| async move {
        let mut printer = Printer::new(&arguments);
        if arguments.group.is_some() {
            return member::consume(&client, signals, &arguments, &mut printer).await;
        }
        tokio::select! {
            ended = partitions::consume(&client, &arguments, &mut printer) => ended,
            // Who follows has no other way to end it.
            signal = signals.next() => if arguments.follow { Ok(()) } else { Err(signal.into()) },
        }
    })
}

fn config(arguments: &ConsumeArguments) -> Result<ClientConfig, CommandError> {
    let mut config = arguments.cluster.config()?;
    match arguments.isolation_level {
        Some(IsolationLevelArgument::ReadCommitted) => {
            config.isolation_level = IsolationLevel::ReadCommitted;
        }
        Some(IsolationLevelArgument::ReadUncommitted) => {
            config.isolation_level = IsolationLevel::ReadUncommitted;
        }
        None => {}
    }
    if arguments.group.is_none() {
        // A file of properties may serve several programs.
        for (name, instead) in [("group.id", "--group"), ("auto.offset.reset", "--from")] {
            if config.is_explicit(name) {
                note(&format!(
                    "{name} has no effect on a reader without a group; there is {instead}"
                ));
            }
        }
    }
    if let Some(group) = &arguments.group {
        config.set("group.id", group)?;
        let reset = match arguments.from {
            Position::Beginning => "earliest",
            Position::End => "latest",
            _ => {
                let text = "a group begins where it has committed, else at --from beginning or end; `millstream group reset-offsets` moves it elsewhere";
                return Err(CommandError::says(exit_code::USAGE, text));
            }
        };
        if !config.is_explicit("auto.offset.reset") {
            config.set("auto.offset.reset", reset)?;
        }
    }
    Ok(config)
}

/// A partition that can not be read on.
fn failed(partition: &impl std::fmt::Display, error: FetchError) -> CommandError {
    let code = exit_code::of(&error);
    CommandError::says(code, format!("failed to read {partition}: {error}"))
}

/// Nothing came for so long, and these places are not read to their end.
fn stalled(places: &[String], patience: Duration) -> CommandError {
    let text = format!(
        "nothing came for {} s: {}; `millstream topic describe` shows whether the partitions have leaders",
        patience.as_secs(),
        places.join(", ")
    );
    CommandError::says(exit_code::UNAVAILABLE, text)
}
