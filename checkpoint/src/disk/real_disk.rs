//! The operating system's files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::Path;

use super::{Disk, DiskFile, DiskLock, LockOutcome, OpenedFile};

/// [`Disk`] on the operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Who holds the lock on a file at this moment: its process id, or "unknown"; `None` if nobody does, or there is no such
    /// file. Nothing is created or written.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn lock_holder(path: &Path) -> io::Result<Option<String>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match file.try_lock_shared() {
            // Closing the file gives it back at once.
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => read_holder(&file).map(Some),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// What the holder of a lock has written into its file.
fn read_holder(file: &File) -> io::Result<String> {
    let mut holder = String::new();
    file.take(32).read_to_string(&mut holder)?;
    let digits = !holder.is_empty() && holder.bytes().all(|b| b.is_ascii_digit());
    Ok(if digits { holder } else { "unknown".into() })
}

#[derive(Debug)]
struct RealFile(File);

#[derive(Debug)]
struct RealLock {
    // The lock lives as long as the open file.
    _file: File,
}

impl DiskLock for RealLock {}

impl DiskFile for RealFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_dir(parent.unwrap_or(Path::new(".")))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // A name that is not UTF-8 is none of ours.
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Option<OpenedFile>> {
        match File::open(path) {
            Ok(file) => {
                let bytes = file.metadata()?.len();
                let reader: Box<dyn Read + Send> = Box::new(file);
                Ok(Some((reader, bytes)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(File::create(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn try_lock(&self, path: &Path) -> io::Result<LockOutcome> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return read_holder(&file).map(LockOutcome::HeldBy);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Only for the error text of the next process, so it need not be durable.
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())?;
        Ok(LockOutcome::Locked(Box::new(RealLock { _file: file })))
    }
}
