//! Savepoints: all state of a job at one checkpoint in a folder of its own, independent of the state directory, the store and
//! the parallelism of the job that it was taken of.
//!
//! ```text
//! SAVEPOINT                      what it holds, and the length and SHA-256 of every other file
//! state-00000.data …             the entries of one state each
//! ```
//!
//! A savepoint is written under another name and renamed once all of it is durable, so that a folder with a readable file
//! `SAVEPOINT` is whole. The files are described byte by byte in `docs/state.md`.

mod compatibility;
mod error;
mod manifest;
mod of_directory;
mod reader;
mod restore;
mod schema_difference;
mod state_file;
mod target;
mod writer;

use std::fmt;

pub use compatibility::{IncompatibleSavepoint, NotRestored, RestorePlan, plan_restore};
pub use error::{SavepointError, StateFileError};
pub use manifest::{SavedState, SavepointManifest, SavepointTrigger, state_file_name};
pub use of_directory::savepoint_of_directory;
pub use reader::{
    Savepoint, StateFileEntries, delete_savepoint, is_unfinished_savepoint, not_a_savepoint,
};
pub use restore::{RestoreReport, restore_states};
pub use schema_difference::SchemaDifference;
pub use target::check_savepoint_target;
pub use writer::{SavepointCut, write_savepoint};

use crate::ids::RandomError;

/// Name of the file that makes a folder a savepoint.
pub const SAVEPOINT_FILE: &str = "SAVEPOINT";

/// One savepoint, told apart from every other.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SavepointId(pub [u8; 16]);

impl SavepointId {
    /// A new random id from the operating system.
    ///
    /// # Errors
    ///
    /// [`RandomError`] if the operating system gives no random numbers.
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(crate::ids::Nonce::random()?.0))
    }
}

impl fmt::Display for SavepointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SavepointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SavepointId({self})")
    }
}

#[cfg(test)]
pub(crate) mod tests;
