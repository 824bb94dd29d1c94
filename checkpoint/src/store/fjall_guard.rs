//! What fjall does not look at before it opens a folder, and would then tidy up or believe.
//!
//! Its blocks carry checksums that are looked at whenever they are read, and so do batches in its journal. But it reads a
//! keyspace's list of tables (`v<N>`) without holding it against the checksum that stands beside it in `current`, takes a
//! keyspace without `current` for one that was never finished and removes it, starts an empty database where the file
//! `version` is missing, and reserves memory for as many sections as a table's end claims. Each of that is looked at here,
//! before anything is opened. It costs one small read for each keyspace and table, and nothing per key.
//!
//! The layout is that of the pinned version of fjall; a test damages every byte of a store and so notices a change of it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::StoreError;

/// Holds what can be held against a checksum against it. Nothing is changed.
///
/// # Errors
///
/// [`StoreError::Damaged`] with the file, [`StoreError::Backend`] if the system fails.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    let guard = Guard { path };
    let keyspaces = path.join("keyspaces");
    let Some(ids) = guard.list(&keyspaces)? else { return guard.check_new() };
    if !guard.exists(&path.join("version"))? {
        return Err(guard.damaged(&path.join("version"), "it is missing beside keyspaces"));
    }
    for id in &ids {
        let folder = keyspaces.join(id);
        if id.parse::<u64>().is_err() {
            return Err(guard.damaged(&folder, "it is no keyspace of the store"));
        }
        guard.check_keyspace(&folder)?;
    }
    if !ids.is_empty() && !ids.iter().any(|id| id == "0") {
        let reason = "the keyspace that names the others is missing";
        return Err(guard.damaged(&keyspaces.join("0"), reason));
    }
    Ok(())
}

struct Guard<'a> {
    path: &'a Path,
}

/// Number, checksum and its kind.
const CURRENT_BYTES: usize = 8 + 16 + 1;
/// A list of as many tables as no store has.
const VERSION_BYTES_MAX: u64 = 64 << 20;
/// Magic, version, kind of checksum, checksum, position and length of the table of contents.
const TRAILER_BYTES: u64 = 4 + 1 + 1 + 16 + 8 + 8;
/// A table has about ten sections of some thirty bytes.
const CONTENTS_BYTES_MAX: u64 = 1 << 20;

impl Guard<'_> {
    /// Without keyspaces there is nothing, or a database whose making was cut short.
    fn check_new(&self) -> Result<(), StoreError> {
        match self.exists(&self.path.join("version"))? {
            true => Err(self.damaged(&self.path.join("keyspaces"), "it is missing")),
            false => Ok(()),
        }
    }

    fn check_keyspace(&self, folder: &Path) -> Result<(), StoreError> {
        let tables = folder.join("tables");
        let names = self.list(&tables)?.unwrap_or_default();
        let current = folder.join("current");
        let Some(content) = self.read(&current, CURRENT_BYTES as u64)? else {
            // One whose making was cut short has no table yet.
            return match names.is_empty() {
                true => Ok(()),
                false => Err(self.damaged(&current, "it is missing beside tables")),
            };
        };
        let parts = content.split_first_chunk::<8>().zip(content.get(8..24)).zip(content.get(24));
        let Some((((number, _), checksum), 0)) = parts.map(|(p, kind)| (p, *kind)) else {
            return Err(self.damaged(&current, "it can not be read"));
        };
        let version = folder.join(format!("v{}", u64::from_le_bytes(*number)));
        let Some(list) = self.read(&version, VERSION_BYTES_MAX)? else {
            return Err(self.damaged(&version, "it is missing, and 'current' names it"));
        };
        if xxh3_128(&list).to_le_bytes() != *checksum {
            return Err(self.damaged(&version, "its checksum is not the one in 'current'"));
        }
        names.iter().try_for_each(|name| self.check_table(&tables.join(name)))
    }

    /// The end of a table: where its sections are.
    fn check_table(&self, path: &Path) -> Result<(), StoreError> {
        let wrong = || self.damaged(path, "its end is not that of a table");
        let mut file = File::open(path).map_err(|error| self.failed(error))?;
        let bytes = file.metadata().map_err(|error| self.failed(error))?.len();
        let begin = bytes.checked_sub(TRAILER_BYTES).ok_or_else(wrong)?;
        let mut trailer = [0; TRAILER_BYTES as usize];
        file.seek(SeekFrom::Start(begin)).map_err(|error| self.failed(error))?;
        file.read_exact(&mut trailer).map_err(|error| self.failed(error))?;
        let (head, rest) = trailer.split_at(6);
        let (checksum, place) = rest.split_at(16);
        let mut numbers = place.chunks_exact(8).map(|number| {
            number.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        });
        let (at, length) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let whole = at.checked_add(length) == Some(begin) && length <= CONTENTS_BYTES_MAX;
        if head != b"SFA!\x01\x00" || !whole {
            return Err(wrong());
        }
        let mut contents = Vec::new();
        file.seek(SeekFrom::Start(at)).map_err(|error| self.failed(error))?;
        file.take(length).read_to_end(&mut contents).map_err(|error| self.failed(error))?;
        if xxh3_128(&contents).to_le_bytes() != *checksum {
            return Err(self.damaged(path, "the checksum of its table of contents does not fit"));
        }
        Ok(())
    }

    /// Names in a folder; `None` if there is no such folder.
    fn list(&self, folder: &Path) -> Result<Option<Vec<String>>, StoreError> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(self.damaged(folder, "it is no folder"));
            }
            entries => entries.map_err(|error| self.failed(error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| self.failed(error))?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort();
        Ok(Some(names))
    }

    /// Contents of a file of at most `bytes_max` bytes; `None` if there is none.
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.failed(error))?,
        };
        if file.metadata().map_err(|error| self.failed(error))?.len() > bytes_max {
            return Err(self.damaged(path, "it is longer than it can be"));
        }
        let mut content = Vec::new();
        file.take(bytes_max).read_to_end(&mut content).map_err(|error| self.failed(error))?;
        Ok(Some(content))
    }

    fn exists(&self, path: &Path) -> Result<bool, StoreError> {
        path.try_exists().map_err(|error| self.failed(error))
    }

    fn damaged(&self, file: &Path, reason: &'static str) -> StoreError {
        let name: PathBuf = file.strip_prefix(self.path).unwrap_or(file).to_owned();
        StoreError::DamagedFile {
            place: self.path.display().to_string(),
            file: name.display().to_string(),
            reason,
        }
    }

    fn failed(&self, error: std::io::Error) -> StoreError {
        StoreError::Backend {
            place: self.path.display().to_string(),
            operation: "looking at its files",
            source: Box::new(error),
        }
    }
}
