//! The few file operations that the directory needs, behind a trait so that tests can break each one.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

mod real_disk;
mod simulated_disk;

pub use real_disk::RealDisk;
pub use simulated_disk::{CrashMode, DiskFault, DiskOperation, SimulatedDisk};

/// A file being written. Nothing is durable before [`DiskFile::sync_all`].
pub trait DiskFile: fmt::Debug + Send {
    /// Appends all bytes.
    ///
    /// # Errors
    ///
    /// The system's error; `StorageFull` if there is no space.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes contents and length durable (fsync). A failed one must not be repeated.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn sync_all(&mut self) -> io::Result<()>;
}

/// An exclusive lock, held until dropped.
pub trait DiskLock: fmt::Debug + Send + Sync {}

/// Result of [`Disk::try_lock`].
#[derive(Debug)]
pub enum LockOutcome {
    /// The lock is ours.
    Locked(Box<dyn DiskLock>),
    /// Somebody else has it: its process id, or "unknown".
    HeldBy(String),
}

/// A readable file and its length in bytes.
pub type OpenedFile = (Box<dyn Read + Send>, u64);

/// File operations. Names of files become durable only with [`Disk::sync_dir`] of their folder.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a folder and those above it; makes them durable.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Names of the files in a folder, sorted.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn open(&self, path: &Path) -> io::Result<Option<OpenedFile>>;

    /// Creates an empty file, replacing one of that name.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, replacing the target, or a folder to a name that is free, atomically.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable (fsync of the folder).
    ///
    /// # Errors
    ///
    /// The system's error.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Tries to take the exclusive lock on a file, which is created if need be and then says who
    /// holds it.
    ///
    /// # Errors
    ///
    /// The system's error, other than that the lock is held.
    fn try_lock(&self, path: &Path) -> io::Result<LockOutcome>;
}
