//! Reads, verifies and deletes savepoints.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::manifest::{SavedState, SavepointManifest, state_file_name};
use super::state_file::{StateFileHeader, StateFileReader};
use super::writer::{PARTIAL, io_error};
use super::{SAVEPOINT_FILE, SavepointError, StateFileError};
use crate::codec::FormatError;
use crate::disk::Disk;

/// A savepoint whose manifest was read, and whose files have the lengths that it says.
#[derive(Clone, Debug)]
pub struct Savepoint {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    manifest: SavepointManifest,
}

impl Savepoint {
    /// Opens the savepoint in a folder. Nothing is changed there, now or later.
    ///
    /// # Errors
    ///
    /// [`SavepointError::NotASavepoint`], [`SavepointError::Manifest`], [`SavepointError::StateFile`] for a file that is
    /// missing or of another length, [`SavepointError::Io`].
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Self, SavepointError> {
        let manifest = read_manifest(&*disk, path)?;
        let savepoint = Self { disk, path: path.to_owned(), manifest };
        for index in 0..savepoint.manifest.states.len() {
            savepoint.open_file(index)?;
        }
        Ok(savepoint)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    #[must_use]
    pub fn manifest(&self) -> &SavepointManifest {
        &self.manifest
    }

    /// The entries of state number `index` of the manifest, in the order of their keys. The state is proven to be as it was
    /// written only when the last entry has been read.
    ///
    /// # Errors
    ///
    /// [`SavepointError::StateFile`], [`SavepointError::Io`]; later ones come as items, and nothing after them.
    pub fn entries(&self, index: usize) -> Result<StateFileEntries, SavepointError> {
        let path = self.path.join(state_file_name(index));
        let (source, saved) = self.open_file(index)?;
        let header = StateFileHeader {
            savepoint: self.manifest.id,
            state: saved.state.clone(),
            key_groups: self.manifest.description.max_parallelism,
        };
        let source = Box::new(std::io::BufReader::with_capacity(READ_BYTES, source));
        let reader = StateFileReader::open(source, saved.file_bytes, &header, saved.sha256);
        let expected = saved.entries;
        let reader =
            reader.map_err(|source| SavepointError::StateFile { path: path.clone(), source })?;
        Ok(StateFileEntries { path, reader, expected, ended: false })
    }

    /// Reads all of it and holds every checksum against what was read.
    ///
    /// # Errors
    ///
    /// As [`entries`](Self::entries): the first thing that is wrong.
    pub fn verify(&self) -> Result<(), SavepointError> {
        for index in 0..self.manifest.states.len() {
            for entry in self.entries(index)? {
                entry?;
            }
        }
        Ok(())
    }

    fn open_file(
        &self,
        index: usize,
    ) -> Result<(Box<dyn Read + Send>, &SavedState), SavepointError> {
        let path = self.path.join(state_file_name(index));
        let wrong = |source| SavepointError::StateFile { path: path.clone(), source };
        let saved =
            self.manifest.states.get(index).ok_or_else(|| wrong(StateFileError::Missing))?;
        let opened = self.disk.open(&path).map_err(io_error("opening", &path))?;
        let (source, found) = opened.ok_or_else(|| wrong(StateFileError::Missing))?;
        let expected = saved.file_bytes;
        if found != expected {
            return Err(wrong(StateFileError::OtherLength { found, expected }));
        }
        Ok((source, saved))
    }
}

/// Entries of one state, see [`Savepoint::entries`].
pub struct StateFileEntries {
    path: PathBuf,
    reader: StateFileReader,
    expected: u64,
    ended: bool,
}

impl Iterator for StateFileEntries {
    type Item = Result<(Bytes, Bytes), SavepointError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.reader.next_entry();
        self.ended = !matches!(next, Ok(Some(_)));
        let failed = |source| {
            let path = self.path.clone();
            Some(Err(SavepointError::StateFile { path, source }))
        };
        match next {
            Ok(Some(entry)) => Some(Ok(entry)),
            Ok(None) => {
                let (found, expected) = (self.reader.entries(), self.expected);
                if found == expected {
                    return None;
                }
                failed(StateFileError::OtherCount { found, expected })
            }
            Err(source) => failed(source),
        }
    }
}

impl std::fmt::Debug for StateFileEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateFileEntries").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Whether a folder's name is that of a savepoint which was begun and not finished.
#[must_use]
pub fn is_unfinished_savepoint(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with('.') && name.ends_with(PARTIAL)
}

/// Removes a savepoint, or what is left of one that was not finished: first what makes it one, then the rest. Gives the
/// number of files removed. A folder that is neither is left alone, and files that do not belong to it keep the folder.
///
/// # Errors
///
/// [`SavepointError::NotASavepoint`], [`SavepointError::Io`]. A damaged manifest is no reason not to delete.
pub fn delete_savepoint(disk: &dyn Disk, path: &Path) -> Result<usize, SavepointError> {
    let names = match disk.list(path) {
        Err(error) if is_missing(&error) => return Err(not_a_savepoint(disk, path)),
        listed => listed.map_err(io_error("listing", path))?,
    };
    let has_manifest = names.iter().any(|name| name == SAVEPOINT_FILE);
    if !has_manifest && !is_unfinished_savepoint(path) {
        return Err(not_a_savepoint(disk, path));
    }
    let remove = |name: &str| {
        let file = path.join(name);
        disk.remove(&file).map_err(io_error("removing", &file))
    };
    let mut removed = 0;
    if has_manifest {
        remove(SAVEPOINT_FILE)?;
        disk.sync_dir(path).map_err(io_error("syncing the folder", path))?;
        removed += 1;
    }
    let mut foreign = false;
    for name in names.iter().filter(|name| *name != SAVEPOINT_FILE) {
        if is_state_file(name) {
            remove(name)?;
            removed += 1;
        } else {
            foreign = true;
        }
    }
    if !foreign {
        disk.remove_dir(path).map_err(io_error("removing the folder", path))?;
    }
    Ok(removed)
}

/// The error for a path that holds no savepoint: what is there instead, and what to do.
#[must_use]
pub fn not_a_savepoint(disk: &dyn Disk, path: &Path) -> SavepointError {
    let missing = disk.list(path).is_err_and(|error| is_missing(&error));
    let unfinished = !missing && is_unfinished_savepoint(path);
    SavepointError::NotASavepoint { path: path.to_owned(), missing, unfinished }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn is_state_file(name: &str) -> bool {
    let number = name.strip_prefix("state-").and_then(|name| name.strip_suffix(".data"));
    number.and_then(|number| number.parse().ok()).is_some_and(|n| state_file_name(n) == name)
}

fn read_manifest(disk: &dyn Disk, path: &Path) -> Result<SavepointManifest, SavepointError> {
    let file = path.join(SAVEPOINT_FILE);
    let opened = match disk.open(&file) {
        Err(error) if is_missing(&error) => None,
        opened => opened.map_err(io_error("opening", &file))?,
    };
    let (reader, bytes) = opened.ok_or_else(|| not_a_savepoint(disk, path))?;
    let damaged = |source| SavepointError::Manifest { path: file.clone(), source };
    let limit = SavepointManifest::BYTES_MAX as u64;
    if bytes > limit {
        let what = SAVEPOINT_FILE;
        return Err(damaged(FormatError::TooLong { what, claimed: bytes, limit }));
    }
    let mut content = Vec::new();
    reader.take(limit).read_to_end(&mut content).map_err(io_error("reading", &file))?;
    SavepointManifest::decode(&content).map_err(damaged)
}

const READ_BYTES: usize = 256 << 10;
