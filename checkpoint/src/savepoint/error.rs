//! Errors of savepoints.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::IncompatibleSavepoint;
use crate::codec::FormatError;
use crate::delta::StateId;
use crate::error::{StateError, StoreError};
use crate::ids::{CheckpointRef, RandomError};
use crate::io_advice::next_step;

/// A savepoint could not be written, read, restored or deleted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SavepointError {
    /// Something is there already.
    #[error("{} exists already: a savepoint is never written over anything; give another path, or delete that one first", path.display())]
    AlreadyExists {
        /// The target.
        path: PathBuf,
    },
    /// The path can not be the name of a folder.
    #[error("{} can not be the folder of a savepoint: give a path that ends in a name", path.display())]
    NotAName {
        /// The target.
        path: PathBuf,
    },
    /// There is no savepoint.
    #[error("{} is not a savepoint: {}", path.display(), match (missing, unfinished) {
        (true, _) => "there is no such folder; `millstream savepoint list FOLDER` shows those that there are",
        (_, true) => "there is no file SAVEPOINT in it; it is what is left of one that was not finished, `millstream savepoint delete` removes it",
        _ => "there is no file SAVEPOINT in it",
    })]
    NotASavepoint {
        /// The folder.
        path: PathBuf,
        /// There is no such folder.
        missing: bool,
        /// It is there, and its name says that writing it was begun.
        unfinished: bool,
    },
    /// A savepoint has to outlive the state directory, whose files are the job's alone.
    #[error(
        "{} is inside the state directory {}: a savepoint lies beside it or elsewhere, so that it is there when the directory is not; give another path",
        path.display(),
        directory.display()
    )]
    InsideStateDirectory {
        /// The target.
        path: PathBuf,
        /// The state directory.
        directory: PathBuf,
    },
    /// The manifest is damaged, or of another format version.
    #[error("{}: {source}{}", path.display(), copy_or_version(source))]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
    /// A state file is damaged, missing or of another savepoint.
    #[error("{}: {source}; restore the savepoint from a copy", path.display())]
    StateFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: StateFileError,
    },
    /// The savepoint does not fit the job.
    #[error("savepoint {} can not be restored: {source}", path.display())]
    Incompatible {
        /// The savepoint.
        path: PathBuf,
        /// Why.
        source: IncompatibleSavepoint,
    },
    /// A state can not be written into a savepoint (a bug, or a store that is damaged).
    #[error("state {state} can not be written to a savepoint: {source}")]
    Unwritable {
        /// The state.
        state: StateId,
        /// What is wrong.
        source: FormatError,
    },
    /// The store holds a state that the job does not describe (a bug, or files of two directories).
    #[error("the store holds state {state}, which the job does not describe; nothing was written")]
    NotDescribed {
        /// The state.
        state: StateId,
    },
    /// The directory holds nothing that a savepoint could be taken of.
    #[error("{} holds no state that a savepoint could be taken of: {reason}", directory.display())]
    NoState {
        /// The state directory.
        directory: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// Only the ledger knows whether the last checkpoint counts.
    #[error(
        "{} knows checkpoint {confirmed} to be committed and holds a delta file of {undecided}; only the ledger knows whether that one was committed: name its cluster (-b HOST:PORT), or start the job and stop it",
        directory.display()
    )]
    Undecided {
        /// The state directory.
        directory: PathBuf,
        /// The last checkpoint known to be committed.
        confirmed: CheckpointRef,
        /// The one behind it.
        undecided: CheckpointRef,
    },
    /// The directory is not where the ledger is.
    #[error(
        "the ledger stands at checkpoint {committed}, {} at {confirmed}: take the savepoint of the directory that the job ran with last",
        directory.display()
    )]
    OtherThanLedger {
        /// The state directory.
        directory: PathBuf,
        /// The last checkpoint known there to be committed.
        confirmed: CheckpointRef,
        /// The ledger's last one.
        committed: CheckpointRef,
    },
    /// The disk is full. The job is not affected.
    #[error("no space left for {}: free some space and take the savepoint again; nothing that looks like one was left", path.display())]
    NoSpace {
        /// The file that was being written.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("{operation} failed for {}: {source}{}", path.display(), next_step(source))]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The state store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state directory failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The operating system gave no random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
}

fn copy_or_version(source: &FormatError) -> &'static str {
    match source {
        FormatError::UnsupportedVersion { .. } => {
            "; restore it with the version of millstream that wrote it, and take a savepoint there that this one reads"
        }
        _ => "; restore the savepoint from a copy",
    }
}

/// A state file is not the one that was written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// It is not there.
    #[error("the file is missing")]
    Missing,
    /// It is longer or shorter than the manifest says.
    #[error("it has {found} bytes, SAVEPOINT says {expected}")]
    OtherLength {
        /// Its length.
        found: u64,
        /// What the manifest says.
        expected: u64,
    },
    /// The header is damaged, foreign or of another version.
    #[error("header: {0}")]
    Header(#[source] FormatError),
    /// It is the file of another state or savepoint.
    #[error("it is the file of another savepoint or state ({state})")]
    OtherFile {
        /// The state it names.
        state: StateId,
    },
    /// A block is damaged.
    #[error("block {block}: {source}")]
    Block {
        /// Which block, counted from 0.
        block: u64,
        /// What is wrong.
        source: FormatError,
    },
    /// The end of the file is missing.
    #[error("the file ends after {bytes} bytes, before its end")]
    Torn {
        /// Bytes there are.
        bytes: u64,
    },
    /// Every block is well but together they are not the file that was written.
    #[error("its SHA-256 is not the one in SAVEPOINT")]
    OtherChecksum,
    /// It holds more or fewer entries than the manifest says.
    #[error("it has {found} entries, SAVEPOINT says {expected}")]
    OtherCount {
        /// Entries read.
        found: u64,
        /// What the manifest says.
        expected: u64,
    },
    /// The file could not be read.
    #[error("reading failed: {}{}", .0, next_step(.0))]
    Io(#[source] io::Error),
}
