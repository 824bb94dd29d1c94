//! A copy of a state directory to work on, for tools that may not change the directory itself.
//!
//! To open the store is to change its folder: fjall tidies up and writes its journal. So whoever only wants to look opens a
//! copy. Files that are never written again under their name, tables and delta files, are linked where the copy is on the same
//! file system, and cost no room there; everything else is copied.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{META, io_error};
use crate::disk::RealDisk;
use crate::error::StateError;
use crate::ids::Nonce;

/// A copy of META, JOB, RESTORED, the delta files and the store of a state directory, in a folder of its own below
/// [`std::env::temp_dir`] that only its user may enter. It is removed when this is dropped.
#[derive(Debug)]
pub struct DirectoryCopy {
    path: PathBuf,
}

impl DirectoryCopy {
    /// Copies a directory. Nothing of it is changed; no job can begin on it meanwhile, afterwards one can. It has to be on the
    /// operating system's files.
    ///
    /// # Errors
    ///
    /// [`StateError::InUse`] if a job runs on it, [`StateError::NoSpaceForCopy`], [`StateError::Io`].
    pub fn of(directory: &Path) -> Result<Self, StateError> {
        let _lock = share_lock(directory)?;
        let name = Nonce::random().map_err(|error| {
            io_error("naming a folder in", &std::env::temp_dir())(io::Error::other(error))
        })?;
        let path = std::env::temp_dir().join(format!("millstream-{name}"));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(io_error("creating the folder", &path))?;
        let copy = Self { path };
        for name in [META, "JOB", "RESTORED", "deltas", "store"] {
            let (from, to) = (directory.join(name), copy.path.join(name));
            match fs::symlink_metadata(&from) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                found => found.map_err(io_error("looking at", &from))?,
            };
            copy_all(&from, &to, false).map_err(|failed| failed.told(directory))?;
        }
        Ok(copy)
    }

    /// The folder of the copy.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DirectoryCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a copy of a state directory is left there");
        }
    }
}

/// Holds off a job that would begin meanwhile. Where there is no file LOCK no job has ever run.
fn share_lock(directory: &Path) -> Result<Option<File>, StateError> {
    let path = directory.join("LOCK");
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io_error("opening", &path))?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let holder = RealDisk::lock_holder(&path).map_err(io_error("reading", &path))?;
            let holder = holder.unwrap_or_else(|| "unknown".to_owned());
            Err(StateError::InUse { path: directory.to_owned(), holder })
        }
        Err(TryLockError::Error(error)) => Err(io_error("locking", &path)(error)),
    }
}

struct CopyFailed {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl CopyFailed {
    fn told(self, directory: &Path) -> StateError {
        match self.source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StateError::NoSpaceForCopy {
                folder: std::env::temp_dir(),
                bytes: bytes_of(directory),
            },
            _ => io_error(self.operation, &self.path)(self.source),
        }
    }
}

/// Copies a file, or a folder and all below it. Links are followed to files, not to folders.
fn copy_all(from: &Path, to: &Path, may_link: bool) -> Result<(), CopyFailed> {
    let failed = |operation, path: &Path| {
        let path = path.to_owned();
        move |source| CopyFailed { operation, path, source }
    };
    let kind = fs::symlink_metadata(from).map_err(failed("looking at", from))?.file_type();
    if !kind.is_dir() {
        return copy_file(from, to, may_link && kind.is_file())
            .map_err(|(operation, source)| failed(operation, from)(source));
    }
    fs::create_dir(to).map_err(failed("creating the folder", to))?;
    let is_final = ["tables", "deltas"].iter().any(|name| from.ends_with(name));
    for entry in fs::read_dir(from).map_err(failed("listing", from))? {
        let name = entry.map_err(failed("listing", from))?.file_name();
        copy_all(&from.join(&name), &to.join(&name), is_final)?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, may_link: bool) -> Result<(), (&'static str, io::Error)> {
    // Refused across file systems, and of files of another user.
    if may_link && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    // Not with its rights: the copy of a file that is read-only has to be written.
    let mut source = File::open(from).map_err(|error| ("opening", error))?;
    let mut target = File::create_new(to).map_err(|error| ("copying", error))?;
    io::copy(&mut source, &mut target).map_err(|error| ("copying", error))?;
    Ok(())
}

/// About how much room a copy takes; what can not be looked at is left out.
fn bytes_of(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes_of(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::sync::Arc;

    use super::*;
    use crate::StateDirectory;
    use crate::ids::{Fingerprint, JobName};

    #[test]
    fn a_copy_has_every_file_shares_only_those_that_are_final_and_goes_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        for name in ["store/keyspaces/1/tables", "deltas", "control", "savepoints"] {
            fs::create_dir_all(state.join(name)).unwrap();
        }
        let files =
            ["META", "deltas/d", "store/0.jnl", "store/keyspaces/1/tables/7", "store/version"];
        for name in files.iter().chain(&["LOCK", "control/SERVER", "savepoints/other"]) {
            fs::write(state.join(name), name).unwrap();
        }
        let mut read_only = fs::metadata(state.join("store/0.jnl")).unwrap().permissions();
        read_only.set_readonly(true);
        fs::set_permissions(state.join("store/0.jnl"), read_only).unwrap();
        let copy = DirectoryCopy::of(&state).unwrap();
        let path = copy.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        for name in files {
            assert_eq!(fs::read_to_string(path.join(name)).unwrap(), name);
            let inode = |root: &Path| fs::metadata(root.join(name)).unwrap().ino();
            let same_disk =
                fs::metadata(&path).unwrap().dev() == fs::metadata(&state).unwrap().dev();
            let is_final = name.contains("tables") || name.contains("deltas");
            assert_eq!(inode(&path) == inode(&state), same_disk && is_final, "{name}");
        }
        assert!(!fs::metadata(path.join("store/0.jnl")).unwrap().permissions().readonly());
        for name in ["LOCK", "control", "savepoints"] {
            assert!(!path.join(name).exists(), "{name}");
        }
        drop(copy);
        assert!(!path.exists() && state.join("store/keyspaces/1/tables/7").exists());
    }

    #[test]
    fn a_directory_that_a_job_holds_is_not_copied_and_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobName::new("orders").unwrap();
        let held =
            StateDirectory::open(Arc::new(RealDisk), folder.path(), &job, Fingerprint([1; 16]));
        let refused = DirectoryCopy::of(folder.path()).unwrap_err().to_string();
        let own = format!("in use by process {}", std::process::id());
        assert!(refused.contains(&own), "{refused}");
        drop(held);
        DirectoryCopy::of(folder.path()).unwrap();
    }
}
