//! What the process tells its parent when it ends. One table for all commands; the README has it, and it is kept stable.

use std::error::Error;

use millstream_dev_broker::{DataDirError, StartError};

use crate::command::demo::ChildEnded;
use crate::input::InputError;
use crate::output::OutputError;
use crate::signals::Interrupted;

/// Finished, stopped on request, or a clean verdict.
pub(crate) const OK: u8 = 0;
/// The job or the demo's verdict failed.
pub(crate) const FAILED: u8 = 1;
/// Input is there but can not be used.
pub(crate) const DATA: u8 = 65;
/// Input is not there.
pub(crate) const NO_INPUT: u8 = 66;
/// A folder can not be used.
const STATE: u8 = 73;
/// Results could not be written to standard output.
const OUTPUT: u8 = 74;
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
    } else {
        millstream_engine::exit_code(error)
    }
}
