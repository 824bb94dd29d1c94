//! What fjall does not look at before it opens a folder, and would then tidy up or believe.
//!
//! Its blocks carry checksums that are looked at whenever they are read, and so do batches in its journal. But it reads a
//! keyspace's list of tables (`v<N>`) without holding it against the checksum that stands beside it in `current`, nor the
//! tables against the checksums that stand in the list, so that one may stand in for another; it takes a
//! keyspace without `current` for one that was never finished and removes it, starts an empty database where the file
//! `version` is missing, and reserves memory for as many sections as a table's end claims. Each of that is looked at here,
//! before anything is opened. Tables are read whole up to [`READ_BYTES_MAX`] together, as fast as they come from the file
//! cache; of those beyond it only the end is looked at, and nothing tells whether one stands in for another until the tool
//! `checkpoint verify` reads all.
//!
//! The layout is that of the pinned version of fjall; a test damages every byte of a store and so notices a change of it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::error::StoreError;

/// How much of the tables is read whole at a start: a third of a second's work.
pub(super) const READ_BYTES_MAX: u64 = 1 << 30;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedFiles {
    /// Tables there are.
    pub tables: usize,
    /// Bytes of tables that were held against their checksum.
    pub bytes: u64,
}

/// Holds what can be held against a checksum against it, tables whole up to `bytes_max` bytes. Nothing is changed.
///
/// # Errors
///
/// [`StoreError::DamagedFile`] with the file, [`StoreError::Backend`] if the system fails.
pub(super) fn check(path: &Path, bytes_max: u64) -> Result<VerifiedFiles, StoreError> {
    let mut guard = Guard { path, bytes_max, verified: VerifiedFiles::default() };
    if guard.is_unfinished()? {
        return Ok(guard.verified);
    }
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
    Ok(guard.verified)
}

/// Whether the folder holds what is left of a database whose making was cut short, before anything could be in it. fjall would
/// trip over that.
///
/// # Errors
///
/// [`StoreError::DamagedFile`] for a file in the place of a folder, [`StoreError::Backend`] if the system fails.
pub(super) fn is_unfinished(path: &Path) -> Result<bool, StoreError> {
    Guard { path, bytes_max: 0, verified: VerifiedFiles::default() }.is_unfinished()
}

struct Guard<'a> {
    path: &'a Path,
    bytes_max: u64,
    verified: VerifiedFiles,
}

/// Number, checksum and its kind.
const CURRENT_BYTES: usize = 8 + 16 + 1;
const READ_BYTES: usize = 256 << 10;
/// Magic and format of the file `version`.
const FORMAT_BYTES: u64 = 4;
/// The first entry of a journal is no run of zeros.
const JOURNAL_LOOKS: u64 = 4096;
/// A list of as many tables as no store has.
const VERSION_BYTES_MAX: u64 = 64 << 20;
/// Magic, version, kind of checksum, checksum, position and length of the table of contents.
const TRAILER_BYTES: usize = 4 + 1 + 1 + 16 + 8 + 8;
/// A table has about ten sections of some thirty bytes.
const CONTENTS_BYTES_MAX: u64 = 64 << 10;

impl Guard<'_> {
    /// Without keyspaces there is nothing, or a database whose making was cut short.
    fn check_new(&self) -> Result<VerifiedFiles, StoreError> {
        match self.exists(&self.path.join("version"))? {
            true => Err(self.damaged(&self.path.join("keyspaces"), "it is missing")),
            false => Ok(self.verified),
        }
    }

    /// fjall makes, in this order: the lock, the folder of keyspaces, a journal of zeros, the file `version`, and once that is
    /// synced the first keyspace.
    fn is_unfinished(&self) -> Result<bool, StoreError> {
        let Some(names) = self.list(self.path)? else { return Ok(false) };
        for name in &names {
            let file = self.path.join(name);
            let untouched = match name.as_str() {
                "lock" => true,
                "keyspaces" => self.list(&file)?.is_none_or(|ids| ids.is_empty()),
                "0.jnl" => self.begins_with_zeros(&file)?,
                "version" => self.read(&file, FORMAT_BYTES - 1).is_ok(),
                _ => false,
            };
            if !untouched {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn begins_with_zeros(&self, file: &Path) -> Result<bool, StoreError> {
        let mut begin = Vec::new();
        let opened = File::open(file).map_err(|error| self.failed(error))?;
        opened.take(JOURNAL_LOOKS).read_to_end(&mut begin).map_err(|error| self.failed(error))?;
        Ok(begin.iter().all(|byte| *byte == 0))
    }

    fn check_keyspace(&mut self, folder: &Path) -> Result<(), StoreError> {
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
        let listed = contents_of(&list).and_then(|contents| tables_of(&list, contents));
        let listed = listed.ok_or_else(|| self.damaged(&version, "its tables can not be read"))?;
        // Other files there are left-overs of a crash, which fjall removes.
        listed.iter().try_for_each(|(table, checksum)| {
            self.check_table(&tables.join(table.to_string()), *checksum)
        })
    }

    /// The end of a table, where its sections are, and all of it if that is not too much.
    fn check_table(&mut self, path: &Path, checksum: [u8; 16]) -> Result<(), StoreError> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.damaged(path, "it is missing, and the list of tables names it"));
            }
            opened => opened.map_err(|error| self.failed(error))?,
        };
        let bytes = file.metadata().map_err(|error| self.failed(error))?.len();
        // Tables are large, their end is small.
        let begin = bytes.saturating_sub(CONTENTS_BYTES_MAX + TRAILER_BYTES as u64);
        let mut end = Vec::new();
        file.seek(SeekFrom::Start(begin)).map_err(|error| self.failed(error))?;
        (&file).take(bytes - begin).read_to_end(&mut end).map_err(|error| self.failed(error))?;
        if contents_at(&end, begin).is_none() {
            return Err(self.damaged(path, "its end is not that of a table"));
        }
        self.verified.tables += 1;
        if self.verified.bytes.saturating_add(bytes) > self.bytes_max {
            return Ok(());
        }
        self.verified.bytes += bytes;
        let mut digest = Xxh3::new();
        let mut buffer = vec![0; READ_BYTES];
        file.seek(SeekFrom::Start(0)).map_err(|error| self.failed(error))?;
        loop {
            let read = file.read(&mut buffer).map_err(|error| self.failed(error))?;
            if read == 0 {
                break;
            }
            digest.update(buffer.get(..read).unwrap_or_default());
        }
        if digest.digest128().to_le_bytes() != checksum {
            return Err(self.damaged(path, "its checksum is not the one in the list of tables"));
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

/// The table of contents at the end of a file, if its checksum fits.
fn contents_of(file: &[u8]) -> Option<&[u8]> {
    contents_at(file, 0)
}

/// The same of the last part of a file, which begins at byte `begin` of it.
fn contents_at(end: &[u8], begin: u64) -> Option<&[u8]> {
    let (before, trailer) = end.split_at_checked(end.len().checked_sub(TRAILER_BYTES)?)?;
    let place = trailer.strip_prefix(b"SFA!\x01\x00")?;
    let (checksum, place) = place.split_first_chunk::<16>()?;
    let (at, length) = (number(place)?, number(place.get(8..)?)?);
    let at = usize::try_from(at.checked_sub(begin)?).ok()?;
    let contents = before.get(at..)?;
    let whole = contents.len() as u64 == length && contents.starts_with(b"TOC!");
    (whole && xxh3_128(contents).to_le_bytes() == *checksum).then_some(contents)
}

/// Numbers and checksums of the tables in a list of tables.
fn tables_of(file: &[u8], contents: &[u8]) -> Option<Vec<(u64, [u8; 16])>> {
    // Magic and number of sections; of each its position, its length and its name with its length before it.
    let mut sections = contents.get(8..)?;
    let section = loop {
        let (at, length) = (number(sections)?, number(sections.get(8..)?)?);
        let name_bytes = u16::from_le_bytes(*sections.get(16..)?.first_chunk()?);
        let name = sections.get(18..18 + usize::from(name_bytes))?;
        sections = sections.get(18 + usize::from(name_bytes)..)?;
        if name == b"tables" {
            let at = usize::try_from(at).ok()?;
            break file.get(at..at.checked_add(usize::try_from(length).ok()?)?)?;
        }
    };
    let mut rest = section;
    let mut tables = Vec::new();
    let levels = take_byte(&mut rest)?;
    for _ in 0..levels {
        for _ in 0..take_byte(&mut rest)? {
            let (count, behind) = rest.split_first_chunk::<4>()?;
            rest = behind;
            for _ in 0..u32::from_le_bytes(*count) {
                tables.push((number(rest)?, *rest.get(9..)?.first_chunk()?));
                rest = rest.get(TABLE_BYTES..)?;
            }
        }
    }
    Some(tables)
}

/// Number, kind of checksum, checksum, sequence number.
const TABLE_BYTES: usize = 8 + 1 + 16 + 8;

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|number| u64::from_le_bytes(*number))
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*byte)
}

#[cfg(test)]
mod tests;
