//! Errors of the state directory and the store.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::codec::FormatError;
use crate::decide::StopReason;
use crate::delta::{DeltaError, StateId};
use crate::ids::{CheckpointRef, Fingerprint, JobName};
use crate::io_advice::{next_step, next_step_of};

/// The state directory could not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another process holds the directory.
    #[error(
        "state directory {} is in use by process {holder}: stop that process, or give this job a \
         directory of its own", path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Process id of the holder, or "unknown".
        holder: String,
    },
    /// The directory belongs to another job.
    #[error(
        "state directory {} belongs to job '{found}', not to '{expected}': use the directory of \
         '{expected}', or an empty one to start it anew", path.display()
    )]
    OtherJob {
        /// The directory.
        path: PathBuf,
        /// The job in META or a delta file.
        found: JobName,
        /// The job being started.
        expected: JobName,
    },
    /// The state was written by a job with other operators or schemas.
    #[error(
        "the state in {} was written with fingerprint {found}, the job now has {expected}: {}; run the \
         old version and take a savepoint, which can be restored into the new one, or start the new one \
         with another job name and an empty directory", path.display(),
        if changes.is_empty() { "its operators, state names or schemas changed" } else { changes }
    )]
    OtherFingerprint {
        /// The file.
        path: PathBuf,
        /// Fingerprint in the file.
        found: Fingerprint,
        /// Fingerprint of the job being started.
        expected: Fingerprint,
        /// What changed, as far as the directory's description of the job tells; empty if it does not.
        changes: String,
    },
    /// META is there and cannot be read.
    #[error(
        "{} is damaged: {source}; restore the directory from a copy, nothing was changed",
        path.display()
    )]
    MetaDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
    /// Another file that says what the directory holds is there and can not be read.
    #[error("{} is damaged: {source}; {next_step}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
        /// What to do.
        next_step: &'static str,
    },
    /// A delta that is needed is damaged, or a caller handed over a wrong one.
    #[error("delta file {}: {source}", path.display())]
    Delta {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: DeltaError,
    },
    /// A delta file that is needed is not there.
    #[error("there is no delta file of checkpoint {at} in {}", path.display())]
    NoSuchDelta {
        /// The directory.
        path: PathBuf,
        /// The checkpoint.
        at: CheckpointRef,
    },
    /// META or a record is too long to be written.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
    /// The disk is full. The checkpoint fails, the job can go on once there is room.
    #[error("no space left for {}: free some space; nothing that was committed is lost", path.display())]
    NoSpace {
        /// The file that was being written.
        path: PathBuf,
    },
    /// There is no room for a copy of the directory, which is made to look at it without changing it.
    #[error(
        "no space left in {}, where a copy of the state directory is made so that it is not changed itself: it needs up to {bytes} bytes and 64 MiB. Free some space, or name another folder with TMPDIR; on the directory's own file system tables and delta files are only linked",
        folder.display()
    )]
    NoSpaceForCopy {
        /// Where the copy was to be.
        folder: PathBuf,
        /// Bytes of the directory.
        bytes: u64,
    },
    /// An I/O error. After one on a write nothing more may be written: what is on disk is unknown
    /// until the next start reads it, and a failed fsync is never repeated.
    #[error("{operation} failed for {}: {source}{}", path.display(), next_step(source))]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier write failed, see [`StateError::Io`].
    #[error(
        "an earlier write to {} failed, the process must be started again", path.display()
    )]
    Poisoned {
        /// The directory.
        path: PathBuf,
    },
    /// The store failed while deltas were replayed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Recovery must stop.
    #[error(transparent)]
    Stop(Box<StopReason>),
}

impl StateError {
    /// Whether the job may roll back and go on (only a full disk); every other error ends the process.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::Store(StoreError::NoSpace { .. }))
    }
}

impl From<StopReason> for StateError {
    fn from(reason: StopReason) -> Self {
        Self::Stop(Box::new(reason))
    }
}

impl StoreError {
    /// The same error, of a store that was opened as a copy of the one in `place`.
    #[must_use]
    pub(crate) fn of_copy(mut self, original: &Path) -> Self {
        match &mut self {
            Self::NoSpace { .. } | Self::InvalidEntries { .. } | Self::OutOfOrder { .. } => {}
            Self::Backend { place, .. }
            | Self::Damaged { place, .. }
            | Self::DamagedFile { place, .. } => *place = original.display().to_string(),
        }
        self
    }
}

/// The state store failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full.
    #[error(
        "no space left for the state store {place}: free some space; nothing that was committed is lost"
    )]
    NoSpace {
        /// The store's folder.
        place: String,
    },
    /// The backend failed; the process must end.
    #[error("state store {place}: {operation} failed: {source}{}", next_step_of(&**source))]
    Backend {
        /// The store's folder.
        place: String,
        /// What was being done.
        operation: &'static str,
        /// The backend's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Entries handed over are not sorted, or a key has no valid key group (a bug of the caller).
    #[error("changes of state {state} are not sorted or have a key without a valid key group")]
    InvalidEntries {
        /// The state.
        state: StateId,
    },
    /// What the store says about itself cannot be read.
    #[error("state {state} in the store {place} is damaged: {reason}")]
    Damaged {
        /// The store's folder.
        place: String,
        /// The state, or the store's own keyspace.
        state: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A file of the store is not what was written, or is missing.
    #[error(
        "file {file} of the state store {place} is damaged: {reason}; restore the directory from a copy, or from a savepoint; nothing was changed"
    )]
    DamagedFile {
        /// The store's folder.
        place: String,
        /// The file in it.
        file: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Layers were used out of order (a bug of the caller).
    #[error("checkpoint {at} cannot follow {last:?} in memory")]
    OutOfOrder {
        /// The checkpoint handed over.
        at: CheckpointRef,
        /// The last one held.
        last: Option<CheckpointRef>,
    },
}
