//! A disk in memory that forgets what was not synced and fails where a test tells it to.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, DiskLock, LockOutcome, OpenedFile};

/// What a power loss leaves of everything that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// Nothing of it.
    LoseUnsynced,
    /// All of it, as after a mere process kill.
    KeepUnsynced,
    /// A seeded choice per file and name: nothing, all, or a prefix whose last block is garbage; of
    /// the changes of names in a folder any subset, in order.
    Torn(u64),
}

/// A kind of operation that changes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskOperation {
    /// A folder was made.
    CreateDir,
    /// A file was created.
    Create,
    /// Bytes were appended.
    Write,
    /// A file was synced.
    SyncFile,
    /// A file was renamed.
    Rename,
    /// A file was removed.
    Remove,
    /// A folder was removed.
    RemoveDir,
    /// A folder was synced.
    SyncDir,
}

/// What happens at a chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The operation and all later ones fail: the process is dead, see [`SimulatedDisk::after_crash`].
    Crash,
    /// The operation fails with an I/O error; a write may have been done in part.
    Io,
    /// The operation fails for lack of space.
    NoSpace,
}

/// [`Disk`] in memory. Clones share the disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    // Guards the whole disk: tests only, and every operation is short.
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<u64, SimulatedFile>,
    next_file: u64,
    dirs: BTreeMap<PathBuf, Directory>,
    locked: BTreeMap<PathBuf, bool>,
    log: Vec<(DiskOperation, PathBuf)>,
    fault: Option<(usize, DiskFault)>,
    dead: bool,
    ignore_sync_of: Option<String>,
}

#[derive(Clone, Default)]
struct SimulatedFile {
    data: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Clone, Default)]
struct Directory {
    names: BTreeMap<String, u64>,
    synced: BTreeMap<String, u64>,
    unsynced: Vec<NameChange>,
}

#[derive(Clone)]
enum NameChange {
    Set(String, u64),
    Rename(String, String, u64),
    Remove(String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Set(name, file) => {
                names.insert(name.clone(), *file);
            }
            Self::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl SimulatedDisk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the operation number `operation` (counted from 0 since the disk was made) fail.
    pub fn fail_at(&self, operation: usize, fault: DiskFault) {
        self.lock().fault = Some((operation, fault));
    }

    /// Turns every sync of files whose name contains `part` into a lie: it answers success and does
    /// nothing. The mutant of crash tests.
    pub fn lie_about_sync_of(&self, part: &str) {
        self.lock().ignore_sync_of = Some(part.to_owned());
    }

    /// The operations done so far that changed the disk, or tried to.
    #[must_use]
    pub fn operations(&self) -> Vec<(DiskOperation, PathBuf)> {
        self.lock().log.clone()
    }

    /// Whether a crash was injected and reached.
    #[must_use]
    pub fn crashed(&self) -> bool {
        self.lock().dead
    }

    /// The disk that the next process finds. This one is dead from now on; locks are gone.
    #[must_use]
    pub fn after_crash(&self, mode: CrashMode) -> Self {
        let mut inner = self.lock();
        inner.dead = true;
        let mut random = Random(match mode {
            CrashMode::Torn(seed) => seed,
            CrashMode::LoseUnsynced | CrashMode::KeepUnsynced => 0,
        });
        let files: BTreeMap<u64, SimulatedFile> = inner
            .files
            .iter()
            .map(|(id, file)| {
                let data = match mode {
                    CrashMode::LoseUnsynced => file.synced.clone(),
                    CrashMode::KeepUnsynced => file.data.clone(),
                    CrashMode::Torn(_) => file.torn(&mut random),
                };
                (*id, SimulatedFile { synced: data.clone(), data })
            })
            .collect();
        let dirs = inner
            .dirs
            .iter()
            .map(|(path, dir)| {
                let mut names = dir.synced.clone();
                for change in &dir.unsynced {
                    let kept = match mode {
                        CrashMode::LoseUnsynced => false,
                        CrashMode::KeepUnsynced => true,
                        CrashMode::Torn(_) => random.below(2) == 1,
                    };
                    if kept {
                        change.apply(&mut names);
                    }
                }
                (path.clone(), Directory { synced: names.clone(), names, unsynced: Vec::new() })
            })
            .collect();
        let next_file = inner.next_file;
        let inner = Inner { files, next_file, dirs, ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Another disk with the same files, as a copy of a folder in use has them: what was not synced included, locks not.
    #[must_use]
    pub fn copy(&self) -> Self {
        let inner = self.lock();
        let files = inner.files.clone();
        let dirs = inner.dirs.clone();
        let inner = Inner { files, next_file: inner.next_file, dirs, ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// All files, in order.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let inner = self.lock();
        let files = |(dir, in_dir): (&PathBuf, &Directory)| -> Vec<PathBuf> {
            in_dir.names.keys().map(|name| dir.join(name)).collect()
        };
        inner.dirs.iter().flat_map(files).collect()
    }

    /// Changes the bytes of a file directly, as bit rot would.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut inner = self.lock();
        let id = inner.find(path)?.ok_or(ErrorKind::NotFound)?;
        let file = inner.files.get_mut(&id).ok_or(ErrorKind::NotFound)?;
        change(&mut file.data);
        file.synced.clone_from(&file.data);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimulatedFile {
    /// A prefix of what was not synced, the last block of it garbage.
    fn torn(&self, random: &mut Random) -> Vec<u8> {
        // Files are only ever appended to, so the synced part is a prefix.
        let unsynced = self.data.len() - self.synced.len();
        match random.below(4) {
            0 => self.synced.clone(),
            1 => self.data.clone(),
            _ => {
                let kept = self.synced.len() + random.below(unsynced + 1);
                let mut data = self.data.get(..kept).unwrap_or_default().to_vec();
                let garbage = random.below(kept - self.synced.len() + 1).min(512);
                for byte in data.iter_mut().rev().take(garbage) {
                    *byte = u8::try_from(random.below(256)).unwrap_or_default();
                }
                data
            }
        }
    }
}

impl Inner {
    /// Counts and logs a changing operation, and fails it if it is the chosen one.
    fn step(&mut self, operation: DiskOperation, path: &Path) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the simulated process is dead"));
        }
        let number = self.log.len();
        self.log.push((operation, path.to_owned()));
        match self.fault {
            Some((at, DiskFault::Crash)) if at == number => {
                self.dead = true;
                Err(io::Error::other("simulated crash"))
            }
            Some((at, DiskFault::Io)) if at == number => {
                Err(io::Error::other("simulated I/O error"))
            }
            Some((at, DiskFault::NoSpace)) if at == number => Err(ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(io::Error::other("the simulated process is dead")) } else { Ok(()) }
    }

    fn dir(&mut self, path: &Path) -> io::Result<&mut Directory> {
        self.dirs.get_mut(path).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn find(&mut self, path: &Path) -> io::Result<Option<u64>> {
        let (dir, name) = split(path)?;
        Ok(self.dir(dir)?.names.get(name).copied())
    }

    /// Durable at once, as making a folder is: what is in it has been synced or not, which is what tests are about.
    fn rename_dir(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if self.dirs.get(to).is_some_and(|target| !target.names.is_empty()) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let dir = self.dirs.remove(from).ok_or(ErrorKind::NotFound)?;
        self.dirs.insert(to.to_owned(), dir);
        Ok(())
    }

    fn change(&mut self, dir: &Path, change: NameChange) -> io::Result<()> {
        let dir = self.dir(dir)?;
        change.apply(&mut dir.names);
        dir.unsynced.push(change);
        Ok(())
    }
}

fn split(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    Option::zip(path.parent(), name).ok_or_else(|| ErrorKind::InvalidInput.into())
}

impl Disk for SimulatedDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.lock();
        inner.alive()?;
        if inner.dirs.contains_key(path) {
            return Ok(());
        }
        inner.step(DiskOperation::CreateDir, path)?;
        inner.dirs.insert(path.to_owned(), Directory::default());
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut inner = self.lock();
        inner.alive()?;
        Ok(inner.dir(dir)?.names.keys().cloned().collect())
    }

    fn open(&self, path: &Path) -> io::Result<Option<OpenedFile>> {
        let mut inner = self.lock();
        inner.alive()?;
        let Some(id) = inner.find(path)? else { return Ok(None) };
        let data = inner.files.get(&id).map(|file| file.data.clone()).unwrap_or_default();
        let bytes = data.len() as u64;
        let reader: Box<dyn Read + Send> = Box::new(Cursor::new(data));
        Ok(Some((reader, bytes)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.lock();
        inner.step(DiskOperation::Create, path)?;
        let (dir, name) = split(path)?;
        let id = inner.next_file;
        inner.next_file += 1;
        inner.files.insert(id, SimulatedFile::default());
        inner.change(dir, NameChange::Set(name.to_owned(), id))?;
        Ok(Box::new(OpenFile { disk: self.clone(), path: path.to_owned(), id }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.lock();
        inner.step(DiskOperation::Rename, to)?;
        if inner.dirs.contains_key(from) {
            return inner.rename_dir(from, to);
        }
        let id = inner.find(from)?.ok_or(ErrorKind::NotFound)?;
        let ((dir, from), (to_dir, to)) = (split(from)?, split(to)?);
        if dir != to_dir {
            return Err(ErrorKind::CrossesDevices.into());
        }
        inner.change(dir, NameChange::Rename(from.to_owned(), to.to_owned(), id))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.lock();
        inner.step(DiskOperation::Remove, path)?;
        inner.find(path)?.ok_or(ErrorKind::NotFound)?;
        let (dir, name) = split(path)?;
        inner.change(dir, NameChange::Remove(name.to_owned()))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.lock();
        inner.step(DiskOperation::RemoveDir, path)?;
        if !inner.dir(path)?.names.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        inner.dirs.remove(path);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.lock();
        inner.step(DiskOperation::SyncDir, dir)?;
        let dir = inner.dir(dir)?;
        dir.synced.clone_from(&dir.names);
        dir.unsynced.clear();
        Ok(())
    }

    fn try_lock(&self, path: &Path) -> io::Result<LockOutcome> {
        let mut inner = self.lock();
        inner.alive()?;
        let held = inner.locked.entry(path.to_owned()).or_default();
        if *held {
            return Ok(LockOutcome::HeldBy(std::process::id().to_string()));
        }
        *held = true;
        Ok(LockOutcome::Locked(Box::new(HeldLock { disk: self.clone(), path: path.to_owned() })))
    }
}

#[derive(Debug)]
struct OpenFile {
    disk: SimulatedDisk,
    path: PathBuf,
    id: u64,
}

impl DiskFile for OpenFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.lock();
        let done = inner.step(DiskOperation::Write, &self.path);
        let written = match (&done, inner.files.get_mut(&self.id)) {
            (_, None) => return Err(ErrorKind::NotFound.into()),
            (Ok(()), Some(file)) => (file, bytes),
            // A failing write leaves half of it.
            (Err(_), Some(file)) => (file, bytes.get(..bytes.len() / 2).unwrap_or_default()),
        };
        written.0.data.extend_from_slice(written.1);
        done
    }

    fn sync_all(&mut self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.step(DiskOperation::SyncFile, &self.path)?;
        let lie = inner.ignore_sync_of.as_ref();
        if lie.is_some_and(|part| self.path.to_string_lossy().contains(part.as_str())) {
            return Ok(());
        }
        let file = inner.files.get_mut(&self.id).ok_or(ErrorKind::NotFound)?;
        file.synced.clone_from(&file.data);
        Ok(())
    }
}

#[derive(Debug)]
struct HeldLock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl DiskLock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.disk.lock().locked.insert(self.path.clone(), false);
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("SimulatedDisk")
            .field("files", &inner.files.len())
            .field("operations", &inner.log.len())
            .finish_non_exhaustive()
    }
}

/// SplitMix64; good enough to choose what a crash leaves.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        usize::try_from(z % bound.max(1) as u64).unwrap_or_default()
    }
}
