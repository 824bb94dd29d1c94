//! The state directory of one job in one process slot: lock, META and delta files.
//!
//! ```text
//! LOCK                                      held while a process runs, says which
//! META                                      replaced as a whole
//! JOB                                       what the job's state looks like, in words
//! RESTORED                                  how the directory began, if from a savepoint
//! deltas/delta-<n>-<nonce>.delta            appears complete and durable, or not at all
//! deltas/….delta.quarantined                damaged, or of a dead attempt; kept until passed
//! store/                                    the state store's own files
//! ```

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod copy;
mod description;
mod file_names;
mod inspection;
mod local_state;
mod replay;

pub use copy::DirectoryCopy;
pub use inspection::{Inspected, InspectedDelta, Inspection};
pub use local_state::{LocalState, QuarantinedFile};
pub use replay::{ReplayReport, replay};

use crate::codec::FormatError;
use crate::delta::{
    DeltaDigest, DeltaError, DeltaHeader, DeltaSummary, DeltaWriter, FrozenDelta, ReadError,
    WriteError, read_delta,
};
use crate::disk::{Disk, DiskLock, LockOutcome};
use crate::error::StateError;
use crate::ids::{CheckpointId, CheckpointRef, Fingerprint, JobName};
use crate::meta::Meta;
use crate::recovery::passed;
use file_names::{delta_name, is_temporary, parse_delta_name, parse_quarantined_name};

/// An open, locked state directory. All calls block on the disk; they may come from several threads.
#[derive(Debug)]
pub struct StateDirectory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    deltas: PathBuf,
    job: JobName,
    fingerprint: Fingerprint,
    // What the files say, kept in step with them; several threads write files.
    local: Mutex<LocalState>,
    // Two writers of META would share one temporary file.
    meta_writer: Mutex<()>,
    poisoned: AtomicBool,
    _lock: Box<dyn DiskLock>,
}

const META: &str = "META";

impl StateDirectory {
    /// R0: creates the directory if need be, locks it, loads META, reads and verifies every delta file
    /// (a damaged one is renamed to `….quarantined`), and refuses another job's state.
    ///
    /// # Errors
    ///
    /// [`StateError::InUse`], [`StateError::OtherJob`], [`StateError::OtherFingerprint`],
    /// [`StateError::MetaDamaged`], [`StateError::Delta`] for a delta of another format version, and
    /// [`StateError::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        job: &JobName,
        fingerprint: Fingerprint,
    ) -> Result<Self, StateError> {
        let deltas = path.join("deltas");
        disk.create_dir_all(path).map_err(io_error("creating the folder", path))?;
        disk.create_dir_all(&deltas).map_err(io_error("creating the folder", &deltas))?;
        let lock_path = path.join("LOCK");
        let lock = match disk.try_lock(&lock_path).map_err(io_error("locking", &lock_path))? {
            LockOutcome::Locked(lock) => lock,
            LockOutcome::HeldBy(holder) => {
                return Err(StateError::InUse { path: path.to_owned(), holder });
            }
        };
        let local = LocalState {
            path: path.to_owned(),
            meta: None,
            restored: None,
            deltas: Vec::new(),
            quarantined: Vec::new(),
        };
        let directory = Self {
            disk,
            path: path.to_owned(),
            deltas,
            job: job.clone(),
            fingerprint,
            local: Mutex::new(local),
            meta_writer: Mutex::new(()),
            poisoned: AtomicBool::new(false),
            _lock: lock,
        };
        directory.load()?;
        Ok(directory)
    }

    /// What the directory holds now.
    #[must_use]
    pub fn local(&self) -> LocalState {
        self.lock().clone()
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Operators and schemas of the job that opened it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Folder for the state store's files.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Replaces META: new file, fsync, rename, fsync of the folder.
    ///
    /// # Errors
    ///
    /// [`StateError::Unwritable`] for a META of another job or of an earlier checkpoint than the one
    /// there is, [`StateError::NoSpace`], [`StateError::Io`], [`StateError::Poisoned`].
    pub fn write_meta(&self, meta: &Meta) -> Result<(), StateError> {
        self.check_usable()?;
        let _writer = self.meta_writer.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path.join(META);
        let refuse = |source| StateError::Unwritable { path: path.clone(), source };
        let invalid = |reason| refuse(FormatError::Invalid { what: META, reason });
        if meta.job != self.job || meta.fingerprint != self.fingerprint {
            return Err(invalid("it belongs to another job"));
        }
        if self.lock().meta.as_ref().is_some_and(|now| now.checkpoint > meta.checkpoint) {
            return Err(invalid("its checkpoint is before the one on disk"));
        }
        let bytes = meta.encode().map_err(refuse)?;
        self.replace_file(META, &bytes)?;
        self.lock().meta = Some(meta.clone());
        Ok(())
    }

    /// Writes a file of the directory as a whole: temporary file, fsync, rename, fsync of the folder.
    fn replace_file(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        let (path, temporary) = (self.path.join(name), self.path.join(format!("{name}.tmp")));
        let write = || {
            let mut file = self.disk.create(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            self.disk.rename(&temporary, &path)?;
            self.disk.sync_dir(&self.path)
        };
        write().map_err(|error| self.write_failed("writing", &path, error))
    }

    /// Writes the delta file of a checkpoint (C3b) and makes it durable: temporary file, fsync, rename,
    /// fsync of the folder. No ledger record with its digest may be committed before this returns it.
    ///
    /// # Errors
    ///
    /// [`StateError::Delta`] for a header that does not fit, [`StateError::NoSpace`] (nothing is left
    /// behind), [`StateError::Io`], [`StateError::Poisoned`].
    pub fn write_delta(
        &self,
        header: &DeltaHeader,
        delta: &FrozenDelta,
    ) -> Result<DeltaDigest, StateError> {
        self.write_delta_telling(header, delta, |_| ())
    }

    /// As [`write_delta`](Self::write_delta), and tells the digest as soon as it is known, before anything is durable: the ledger
    /// record may be on its way meanwhile, not its commit.
    ///
    /// # Errors
    ///
    /// As [`write_delta`](Self::write_delta), also after the digest was told.
    pub fn write_delta_telling(
        &self,
        header: &DeltaHeader,
        delta: &FrozenDelta,
        tell: impl FnOnce(DeltaDigest),
    ) -> Result<DeltaDigest, StateError> {
        self.check_usable()?;
        let path = self.deltas.join(delta_name(header.at));
        let refuse = |source| StateError::Delta { path: path.clone(), source };
        self.check_header(header).map_err(refuse)?;
        let temporary = path.with_extension("tmp");
        let write = || {
            let mut file = self.disk.create(&temporary)?;
            let written = DeltaWriter::write(&mut *file, header, delta)?;
            tell(written.0);
            file.sync_all()?;
            self.disk.rename(&temporary, &path)?;
            self.disk.sync_dir(&self.deltas)?;
            Ok(written)
        };
        let (digest, file_bytes) = write().map_err(|error| match error {
            WriteError::Delta(source) => refuse(source),
            WriteError::Io(error) => {
                let full = error.kind() == ErrorKind::StorageFull;
                let failed = self.write_failed("writing", &path, error);
                if full {
                    self.discard(&[&temporary, &path]);
                }
                failed
            }
        })?;
        let mut local = self.lock();
        local.deltas.retain(|known| known.header.at != header.at);
        local.deltas.push(DeltaSummary { header: header.clone(), digest, file_bytes });
        local.deltas.sort_by_key(|known| known.header.at);
        Ok(digest)
    }

    /// Size of a delta file; `None` if there is no such file.
    #[must_use]
    pub fn delta_file_bytes(&self, at: CheckpointRef) -> Option<u64> {
        self.lock().delta(at).map(|delta| delta.file_bytes)
    }

    /// Reads and verifies a delta file.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchDelta`], [`StateError::Delta`] if it is damaged, [`StateError::Io`].
    pub fn read_delta(&self, at: CheckpointRef) -> Result<(DeltaSummary, FrozenDelta), StateError> {
        let path = self.deltas.join(delta_name(at));
        let mut delta = FrozenDelta::default();
        let summary = self.read_file(&path, at, |state, entries| {
            delta.insert_sorted(state, entries);
        })?;
        match summary {
            Ok(summary) => Ok((summary, delta)),
            Err(source) => Err(StateError::Delta { path, source }),
        }
    }

    /// Puts the delta file of a dead attempt aside; harmless if there is none.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSpace`], [`StateError::Io`], [`StateError::Poisoned`].
    pub fn quarantine(&self, at: CheckpointRef) -> Result<(), StateError> {
        self.check_usable()?;
        let known = self.lock().delta(at).is_some();
        if known {
            self.put_aside(&delta_name(at), at, None)?;
        }
        Ok(())
    }

    /// C7: removes deltas that nothing needs any more: the store holds them in every state (`floor`
    /// is [`StateStore::floor`](crate::StateStore::floor)) and META itself holds a checkpoint at or
    /// after theirs. Quarantined files go by the same rule. Gives the number of files removed.
    ///
    /// # Errors
    ///
    /// [`StateError::Io`], [`StateError::Poisoned`].
    pub fn delete_applied(&self, floor: CheckpointId) -> Result<usize, StateError> {
        self.check_usable()?;
        let mut local = self.lock();
        let Some(passed) = passed(&local, floor) else { return Ok(0) };
        let deltas = local.deletable(floor);
        let mut names: Vec<PathBuf> =
            deltas.into_iter().map(|at| self.deltas.join(delta_name(at))).collect();
        for file in &local.quarantined {
            if file.at.checkpoint <= passed {
                names.push(file.path.clone());
            }
        }
        for path in &names {
            match self.disk.remove(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(self.write_failed("removing", path, error));
                }
                // No fsync of the folder: a file that comes back does no harm.
                _ => {}
            }
        }
        local.deltas.retain(|delta| delta.header.at.checkpoint > passed);
        local.quarantined.retain(|file| file.at.checkpoint > passed);
        Ok(names.len())
    }

    fn load(&self) -> Result<(), StateError> {
        let meta = self.load_meta()?;
        self.lock().meta = meta;
        let restored = self.load_restored()?;
        self.lock().restored = restored;
        let list = self.disk.list(&self.deltas);
        for name in list.map_err(io_error("listing", &self.deltas))? {
            let path = self.deltas.join(&name);
            if is_temporary(&name) {
                // Never renamed, so never vouched for by anybody.
                self.disk.remove(&path).map_err(io_error("removing", &path))?;
            } else if let Some(at) = parse_quarantined_name(&name) {
                self.lock().quarantined.push(QuarantinedFile { path, at, reason: None });
            } else if let Some(at) = parse_delta_name(&name) {
                self.load_delta(&name, &path, at)?;
            }
        }
        self.lock().deltas.sort_by_key(|delta| delta.header.at);
        Ok(())
    }

    fn load_meta(&self) -> Result<Option<Meta>, StateError> {
        let path = self.path.join(META);
        let damaged = |source| StateError::MetaDamaged { path: path.clone(), source };
        let content = match read_whole(&*self.disk, &path, META, Meta::BYTES_MAX)? {
            None => return Ok(None),
            Some(content) => content.map_err(damaged)?,
        };
        let meta = Meta::decode(&content).map_err(damaged)?;
        self.check_belongs(&path, &meta.job, meta.fingerprint)?;
        Ok(Some(meta))
    }

    fn load_delta(&self, name: &str, path: &Path, at: CheckpointRef) -> Result<(), StateError> {
        match self.read_file(path, at, |_, _| {})? {
            Ok(summary) => {
                let header = &summary.header;
                self.check_belongs(path, &header.job, header.fingerprint)?;
                self.lock().deltas.push(summary);
                Ok(())
            }
            Err(DeltaError::Header(source @ FormatError::UnsupportedVersion { .. })) => {
                // Not damaged: another version of this program can read it.
                let source = DeltaError::Header(source);
                Err(StateError::Delta { path: path.to_owned(), source })
            }
            Err(reason) => self.put_aside(name, at, Some(reason)),
        }
    }

    fn read_file(
        &self,
        path: &Path,
        at: CheckpointRef,
        visit: impl FnMut(crate::StateId, crate::delta::Changes),
    ) -> Result<Result<DeltaSummary, DeltaError>, StateError> {
        let read = read_delta_file(&*self.disk, path, at, visit)?;
        read.ok_or_else(|| StateError::NoSuchDelta { path: self.deltas.clone(), at })
    }

    /// Renames a delta file so that no later start takes it for one.
    fn put_aside(
        &self,
        name: &str,
        at: CheckpointRef,
        reason: Option<DeltaError>,
    ) -> Result<(), StateError> {
        let path = self.deltas.join(name);
        let mut local = self.lock();
        let taken = |path: &Path| local.quarantined.iter().any(|file| file.path == path);
        let mut target = self.deltas.join(format!("{name}.quarantined"));
        let mut copy = 1;
        while taken(&target) {
            copy += 1;
            target = self.deltas.join(format!("{name}.{copy}.quarantined"));
        }
        let renamed = self.disk.rename(&path, &target);
        renamed
            .and_then(|()| self.disk.sync_dir(&self.deltas))
            .map_err(|error| self.write_failed("quarantining", &path, error))?;
        local.deltas.retain(|delta| delta.header.at != at);
        local.quarantined.push(QuarantinedFile { path: target, at, reason });
        Ok(())
    }

    fn check_belongs(
        &self,
        path: &Path,
        job: &JobName,
        fingerprint: Fingerprint,
    ) -> Result<(), StateError> {
        if *job != self.job {
            return Err(StateError::OtherJob {
                path: self.path.clone(),
                found: job.clone(),
                expected: self.job.clone(),
            });
        }
        if fingerprint != self.fingerprint {
            return Err(StateError::OtherFingerprint {
                path: path.to_owned(),
                found: fingerprint,
                expected: self.fingerprint,
                changes: String::new(),
            });
        }
        Ok(())
    }

    fn check_header(&self, header: &DeltaHeader) -> Result<(), DeltaError> {
        let (at, parent) = (header.at, header.parent);
        if at.checkpoint.previous() != Some(parent.checkpoint) {
            return Err(DeltaError::Parent { at, parent });
        }
        if header.job != self.job || header.fingerprint != self.fingerprint {
            return Err(DeltaError::WrongName { found: at, job: header.job.clone() });
        }
        Ok(())
    }

    fn check_usable(&self) -> Result<(), StateError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(StateError::Poisoned { path: self.path.clone() });
        }
        Ok(())
    }

    /// The error of a failed write. Only a full disk leaves the directory usable.
    fn write_failed(&self, operation: &'static str, path: &Path, error: io::Error) -> StateError {
        let error = io_error(operation, path)(error);
        if !error.is_no_space() {
            self.poisoned.store(true, Ordering::Release);
        }
        error
    }

    /// Makes room after a write failed for lack of space; what cannot be removed is found at the next
    /// start.
    fn discard(&self, paths: &[&Path]) {
        for path in paths {
            if let Err(error) = self.disk.remove(path) {
                tracing::debug!(path = %path.display(), %error, "nothing to remove");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LocalState> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const READ_BYTES: usize = 256 << 10;

/// Reads and verifies a delta file; `None` if there is none.
fn read_delta_file(
    disk: &dyn Disk,
    path: &Path,
    at: CheckpointRef,
    visit: impl FnMut(crate::StateId, crate::delta::Changes),
) -> Result<Option<Result<DeltaSummary, DeltaError>>, StateError> {
    let opened = disk.open(path).map_err(io_error("opening", path))?;
    let Some((mut reader, bytes)) = opened else { return Ok(None) };
    match read_delta(&mut io::BufReader::with_capacity(READ_BYTES, &mut reader), bytes, visit) {
        Ok(summary) if summary.header.at != at => {
            let DeltaHeader { at: found, job, .. } = summary.header;
            Ok(Some(Err(DeltaError::WrongName { found, job })))
        }
        Ok(summary) => Ok(Some(Ok(summary))),
        Err(ReadError::Delta(error)) => Ok(Some(Err(error))),
        Err(ReadError::Io(error)) => Err(io_error("reading", path)(error)),
    }
}

/// Contents of a small file; `None` if there is none. One that is longer than anything we write is not read.
fn read_whole(
    disk: &dyn Disk,
    path: &Path,
    what: &'static str,
    bytes_max: usize,
) -> Result<Option<Result<Vec<u8>, FormatError>>, StateError> {
    let opened = disk.open(path).map_err(io_error("opening", path))?;
    let Some((reader, bytes)) = opened else { return Ok(None) };
    let limit = bytes_max as u64;
    if bytes > limit {
        return Ok(Some(Err(FormatError::TooLong { what, claimed: bytes, limit })));
    }
    let mut content = Vec::new();
    reader.take(limit).read_to_end(&mut content).map_err(io_error("reading", path))?;
    Ok(Some(Ok(content)))
}

fn io_error(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            StateError::NoSpace { path: path.clone() }
        }
        _ => StateError::Io { operation, path: path.clone(), source },
    }
}

#[cfg(test)]
mod tests;
