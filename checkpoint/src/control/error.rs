//! Why a job's process could not be asked, or did not answer.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::codec::FormatError;
use crate::ids::RandomError;
use crate::io_advice::next_step;

/// A request to a job's process failed, as opposed to one that was answered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No process holds the state directory.
    #[error(
        "no job runs on {}: `millstream savepoint create --state-dir` takes a savepoint of what the last one has left there",
        directory.display()
    )]
    NotRunning {
        /// The state directory.
        directory: PathBuf,
    },
    /// A process holds it that serves no requests.
    #[error(
        "process {process} holds {} and serves no requests: it is starting or ending, is a tool or another version of millstream, or can not write to the folder control/ there, which a job says in its log: try again in a moment",
        directory.display()
    )]
    NotServing {
        /// The state directory.
        directory: PathBuf,
        /// Who holds it.
        process: String,
    },
    /// The process ended before it answered. Whether the savepoint was taken is seen where it was to be: a folder of that
    /// name is whole.
    #[error(
        "the job's process on {} ended before it answered; if {} is there, it is whole: `millstream savepoint verify` tells",
        directory.display(),
        target.display()
    )]
    Ended {
        /// The state directory.
        directory: PathBuf,
        /// Where the savepoint was to be.
        target: PathBuf,
    },
    /// The request can not be put in words.
    #[error("the request can not be written: {source}")]
    Unwritable {
        /// What is wrong.
        source: FormatError,
    },
    /// A file is not what was written.
    #[error("{}: {source}; it is of another version of millstream, or was changed: ask again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
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
    /// The operating system gave no random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
}

pub(super) fn io_error(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> ControlError {
    let path = path.to_owned();
    move |source| ControlError::Io { operation, path: path.clone(), source }
}
