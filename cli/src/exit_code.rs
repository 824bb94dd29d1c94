//! What the process tells its parent when it ends. One table for all commands; the README has it, and it is kept stable.

use std::error::Error;

use millstream_dev_broker::{DataDirError, StartError};
use millstream_protocol::ErrorCode;
use millstream_protocol::transaction::{AbortCause, ProduceError};
use millstream_protocol_client::{
    CommitError, GroupConsumerError, GroupError, PositionError, SendError,
};

use crate::command::demo::ChildEnded;
use crate::input::InputError;
use crate::output::OutputError;
use crate::signals::Interrupted;

/// Finished, stopped on request, or a clean verdict.
pub(crate) const OK: u8 = 0;
/// The job or the demo's verdict failed.
pub(crate) const FAILED: u8 = 1;
/// The command line asks for something that can not be done.
pub(crate) const USAGE: u8 = 2;
/// Input is there but can not be used.
pub(crate) const DATA: u8 = 65;
/// Input is not there.
pub(crate) const NO_INPUT: u8 = 66;
/// The cluster can not be reached, or refuses.
pub(crate) const UNAVAILABLE: u8 = 69;
/// A folder can not be used.
pub(crate) const STATE: u8 = 73;
/// Results could not be written to standard output.
const OUTPUT: u8 = 74;
/// Another process owns the transactional id, or the group.instance.id, now.
const FENCED: u8 = 76;
/// A setting can not be used.
pub(crate) const CONFIG: u8 = 78;

/// The code for `error`: what the commands' own errors say, else what the engine says of it and its causes.
pub(crate) fn of(error: &(dyn Error + 'static)) -> u8 {
    if let Some(error) = error.downcast_ref::<Interrupted>() {
        error.exit_code
    } else if let Some(error) = error.downcast_ref::<ChildEnded>() {
        error.exit_code()
    } else if let Some(error) = error.downcast_ref::<InputError>() {
        error.exit_code()
    } else if error.is::<OutputError>() {
        OUTPUT
    } else if let Some(StartError::DataDir(_)) = error.downcast_ref() {
        STATE
    } else if let Some(StartError::Listen { .. } | StartError::Advertised { .. }) =
        error.downcast_ref()
    {
        CONFIG
    } else if error.is::<DataDirError>() {
        STATE
    } else if let Some(error) = error.downcast_ref() {
        of_send(error)
    } else if let Some(error) = error.downcast_ref() {
        of_position(error)
    } else if let Some(error) = error.downcast_ref() {
        of_producer(error)
    } else if error.is::<CommitError>() {
        UNAVAILABLE
    } else if let Some(GroupConsumerError::Membership {
        source: GroupError::FencedInstanceId { .. },
        ..
    }) = error.downcast_ref()
    {
        FENCED
    } else if let Some(GroupConsumerError::Membership { .. } | GroupConsumerError::Closed { .. }) =
        error.downcast_ref()
    {
        UNAVAILABLE
    } else {
        millstream_engine::exit_code(error)
    }
}

fn of_position(error: &PositionError) -> u8 {
    match error {
        PositionError::Fetch(error) => of(error),
        _ => CONFIG,
    }
}

/// A produce request of a producer that was fenced costs the transaction, as the broker has it; who owns the id does not change.
fn of_producer(error: &ProduceError) -> u8 {
    match error {
        ProduceError::Fenced { .. }
        | ProduceError::Abortable {
            cause: AbortCause::Refused { code: ErrorCode::INVALID_PRODUCER_EPOCH, .. },
        } => FENCED,
        error => millstream_engine::exit_code(error),
    }
}

fn of_send(error: &SendError) -> u8 {
    match error {
        SendError::Client(error) => of(error),
        SendError::Producer(error) => of_producer(error),
        SendError::RecordTooLarge { .. } | SendError::Encode { .. } => DATA,
        _ => UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The numbers of the constants in a source file.
    fn codes(source: &str) -> impl Iterator<Item = u8> + '_ {
        let number = |line: &str| line.split_once(": u8 = ")?.1.strip_suffix(';')?.parse().ok();
        source.lines().filter_map(number)
    }

    #[test]
    fn the_readme_has_a_row_for_every_code() {
        let engines = include_str!("../../engine/src/coordinator/exit.rs");
        let mut used: BTreeSet<u8> =
            codes(include_str!("exit_code.rs")).chain(codes(engines)).collect();
        assert_eq!(used.len(), 11, "the form of the constants has changed: {used:?}");
        // A panic, and signals as shells count them.
        used.extend([101, 129, 130, 143]);
        let (_, chapter) = include_str!("../../README.md").split_once("## Exit codes").expect("it");
        let rows = chapter.lines().filter(|line| line.starts_with("| "));
        let rows: Vec<Vec<&str>> =
            rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
        let documented: BTreeSet<u8> = rows
            .iter()
            .flat_map(|cells| cells[0].split(", ").filter_map(|code| code.parse().ok()))
            .collect();
        assert_eq!(documented, used);
        let complete =
            rows.iter().all(|cells| cells.len() == 3 && cells.iter().all(|it| !it.is_empty()));
        assert!(complete, "each has a meaning and what to do next: {rows:?}");
    }
}
