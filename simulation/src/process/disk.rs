//! The disk as one process sees it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use millstream_checkpoint::{Disk, DiskFile, LockOutcome, OpenedFile, SimulatedDisk};

use super::{Shared, Status};

/// The machine's disk in the hands of a process, which may die in the middle of an operation.
#[derive(Debug)]
pub(super) struct ProcessDisk {
    pub(super) disk: SimulatedDisk,
    pub(super) process: Arc<Shared>,
}

impl Shared {
    /// Counts an operation that changes the disk. `true`: the process dies in the middle of it.
    fn disk_operation(&self) -> io::Result<bool> {
        let mut state = self.lock();
        if state.status == Status::Dead {
            return Err(io::Error::other("the process is dead"));
        }
        state.disk_operations += 1;
        Ok(state.fate.at_disk_operation == Some(state.disk_operations))
    }

    /// Before an operation that is whole or not at all.
    fn before(self: &Arc<Self>, operation: &str, path: &Path) -> io::Result<()> {
        if self.disk_operation()? {
            self.die_here(format_args!("before {operation} of {}", path.display()));
        }
        Ok(())
    }

    /// A failed fsync: what was written since the last one may be lost or not.
    fn syncs(&self) -> io::Result<()> {
        if self.lock().sync_fails {
            Err(io::Error::other("injected: fsync failed"))
        } else {
            Ok(())
        }
    }

    fn has_room(&self) -> io::Result<()> {
        if self.lock().disk_full { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Disk for ProcessDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.process.has_room()?;
        self.process.before("making", path)?;
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Option<OpenedFile>> {
        self.disk.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.process.has_room()?;
        self.process.before("creating", path)?;
        let file = self.disk.create(path)?;
        let process = Arc::clone(&self.process);
        Ok(Box::new(ProcessFile { file, process, path: path.display().to_string() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.process.before("renaming to", to)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.process.before("removing", path)?;
        self.disk.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.process.before("removing", path)?;
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.process.before("syncing", dir)?;
        self.process.syncs()?;
        self.disk.sync_dir(dir)
    }

    fn try_lock(&self, path: &Path) -> io::Result<LockOutcome> {
        self.disk.try_lock(path)
    }
}

struct ProcessFile {
    file: Box<dyn DiskFile>,
    process: Arc<Shared>,
    path: String,
}

impl fmt::Debug for ProcessFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DiskFile for ProcessFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.process.has_room().is_err() {
            // What there was room for is written.
            self.file.write_all(bytes.get(..bytes.len() / 2).unwrap_or_default())?;
            return Err(ErrorKind::StorageFull.into());
        }
        if self.process.disk_operation()? {
            self.file.write_all(bytes.get(..bytes.len() / 2).unwrap_or_default())?;
            self.process.die_here(format_args!("while it writes {}", self.path));
        }
        self.file.write_all(bytes)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.process.before("syncing", Path::new(&self.path))?;
        self.process.syncs()?;
        self.file.sync_all()
    }
}
