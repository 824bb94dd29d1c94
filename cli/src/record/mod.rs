//! Records as text: what consume prints and produce reads.

mod format;
mod json;

pub(crate) use format::RecordFormat;
pub(crate) use json::{JsonBytes, JsonInput, write_json};
