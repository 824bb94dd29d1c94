//! The folder of a durable broker: one file per partition, one for everything else.
//!
//! ```text
//! lock                      held by the running process
//! state.log                 "MSDB0001", then records: length u32, CRC-32C u32, bytes (core/storage.rs)
//! logs/<topic id>-<n>.log   the partition's batches as on the wire, one after the other
//! ```
//!
//! Files only grow, except that a compacted log replaces the old one by rename. Effects are written in the order in
//! which the cluster made them, so a killed process leaves a prefix of them and perhaps one torn write; opening cuts
//! that off.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use uuid::Uuid;

use crate::core::{StorageEffect, Stored, whole_batches};

const MAGIC: &[u8; 8] = b"MSDB0001";

/// The folder of a dev broker could not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataDirError {
    /// A file operation failed.
    #[error("cannot {action} {path:?}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process has the folder open.
    #[error("{path:?} is in use by another dev broker; stop it or name another folder")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The folder's state log is not one of ours, or of another version.
    #[error("{path:?} was not written by this version of the dev broker; name another folder")]
    NotOurs {
        /// The state log.
        path: PathBuf,
    },
}

/// An open folder.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    fsync: bool,
    _lock: File,
    state: File,
    logs: HashMap<(Uuid, i32), File>,
    unsynced: BTreeSet<(Uuid, i32)>,
    state_unsynced: bool,
}

impl DataDir {
    /// Opens or makes the folder at `path` and reads what is in it. Torn ends are cut off.
    pub(crate) fn open(path: &Path, fsync: bool) -> Result<(Self, Stored), DataDirError> {
        let logs = path.join("logs");
        fs::create_dir_all(&logs).map_err(failed("create", &logs))?;
        let lock = lock(path)?;
        let state_path = path.join("state.log");
        let stored = Stored { state: read_state(&state_path)?, logs: read_logs(&logs)? };
        let state = append_to(&state_path)?;
        let dir = Self {
            path: path.to_owned(),
            fsync,
            _lock: lock,
            state,
            logs: HashMap::new(),
            unsynced: BTreeSet::new(),
            state_unsynced: false,
        };
        Ok((dir, stored))
    }

    /// Puts `records` in place of the state log and removes the logs of topics that are not in `topics`.
    pub(crate) fn begin(
        &mut self,
        records: &[Bytes],
        topics: &BTreeSet<Uuid>,
    ) -> Result<(), DataDirError> {
        let mut content = BytesMut::from(&MAGIC[..]);
        for record in records {
            content.put_slice(&framed(record));
        }
        let path = self.path.join("state.log");
        replace(&path, &[content.freeze()])?;
        self.state = append_to(&path)?;
        let logs = self.path.join("logs");
        for (path, name) in log_files(&logs)? {
            if name.is_none_or(|(id, _)| !topics.contains(&id)) {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Carries out one effect.
    pub(crate) fn apply(&mut self, effect: StorageEffect) -> Result<(), DataDirError> {
        match effect {
            StorageEffect::Append { topic_id, partition, batch } => {
                let path = self.log_path(topic_id, partition);
                let key = (topic_id, partition);
                let file = match self.logs.entry(key) {
                    Entry::Occupied(open) => open.into_mut(),
                    Entry::Vacant(place) => place.insert(append_to(&path)?),
                };
                file.write_all(&batch).map_err(failed("write to", &path))?;
                self.unsynced.insert(key);
            }
            StorageEffect::Rewrite { topic_id, partition, content } => {
                let path = self.log_path(topic_id, partition);
                replace(&path, &content)?;
                self.logs.insert((topic_id, partition), append_to(&path)?);
            }
            StorageEffect::State(record) => {
                let path = self.path.join("state.log");
                self.state.write_all(&framed(&record)).map_err(failed("write to", &path))?;
                self.state_unsynced = true;
            }
            StorageEffect::DeleteLogs { topic_id } => {
                self.logs.retain(|(id, _), _| *id != topic_id);
                self.unsynced.retain(|(id, _)| *id != topic_id);
                for (path, name) in log_files(&self.path.join("logs"))? {
                    if name.is_some_and(|(id, _)| id == topic_id) {
                        fs::remove_file(&path).map_err(failed("remove", &path))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Forces what was written to disk, if the broker is told to.
    pub(crate) fn sync(&mut self) -> Result<(), DataDirError> {
        let touched = std::mem::take(&mut self.unsynced);
        let state = std::mem::take(&mut self.state_unsynced);
        if !self.fsync {
            return Ok(());
        }
        if state {
            self.state.sync_data().map_err(failed("sync", &self.path.join("state.log")))?;
        }
        for key in touched {
            if let Some(file) = self.logs.get(&key) {
                file.sync_data().map_err(failed("sync", &self.log_path(key.0, key.1)))?;
            }
        }
        Ok(())
    }

    fn log_path(&self, topic_id: Uuid, partition: i32) -> PathBuf {
        self.path.join("logs").join(format!("{}-{partition}.log", topic_id.simple()))
    }
}

fn lock(path: &Path) -> Result<File, DataDirError> {
    let lock_path = path.join("lock");
    let file = append_to(&lock_path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(DataDirError::InUse { path: path.to_owned() }),
        Err(fs::TryLockError::Error(source)) => {
            Err(DataDirError::Io { action: "lock", path: lock_path, source })
        }
    }
}

fn read_state(path: &Path) -> Result<Vec<Bytes>, DataDirError> {
    let mut content = match fs::read(path) {
        Ok(content) => Bytes::from(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed("read", path)(source)),
    };
    // A file that ends inside the magic was torn at its very first write.
    if content.len() < MAGIC.len() && MAGIC.starts_with(&content) {
        return Ok(Vec::new());
    }
    if !content.starts_with(MAGIC) {
        return Err(DataDirError::NotOurs { path: path.to_owned() });
    }
    content.advance(MAGIC.len());
    Ok(whole_records(content))
}

/// The records of a state log up to the first that is torn or damaged.
pub(crate) fn whole_records(mut content: Bytes) -> Vec<Bytes> {
    let mut records = Vec::new();
    while let (Ok(length), Ok(crc)) = (content.try_get_u32(), content.try_get_u32()) {
        let Ok(length) = usize::try_from(length) else { break };
        if content.len() < length {
            break;
        }
        let record = content.split_to(length);
        if crc32c::crc32c(&record) != crc {
            break;
        }
        records.push(record);
    }
    records
}

/// A record as it lies in the state log.
pub(crate) fn framed(record: &Bytes) -> Vec<u8> {
    let mut framed = Vec::with_capacity(record.len() + 8);
    framed.put_u32(u32::try_from(record.len()).unwrap_or(u32::MAX));
    framed.put_u32(crc32c::crc32c(record));
    framed.put_slice(record);
    framed
}

fn read_logs(logs: &Path) -> Result<BTreeMap<(Uuid, i32), Bytes>, DataDirError> {
    let mut stored = BTreeMap::new();
    for (path, name) in log_files(logs)? {
        let Some(name) = name else { continue };
        let mut content = Bytes::from(fs::read(&path).map_err(failed("read", &path))?);
        let whole = whole_batches(&content);
        if whole < content.len() {
            let file = append_to(&path)?;
            file.set_len(u64::try_from(whole).unwrap_or(u64::MAX)).map_err(failed("cut", &path))?;
            content.truncate(whole);
        }
        stored.insert(name, content);
    }
    Ok(stored)
}

/// Every file in `logs` and the partition its name tells; `None` for one left over from a torn rewrite.
type LogFile = (PathBuf, Option<(Uuid, i32)>);

fn log_files(logs: &Path) -> Result<Vec<LogFile>, DataDirError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(logs).map_err(failed("list", logs))? {
        let path = entry.map_err(failed("list", logs))?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|name| name.split_once('-'))
            .and_then(|(id, partition)| Some((Uuid::try_parse(id).ok()?, partition.parse().ok()?)));
        files.push((path, name));
    }
    Ok(files)
}

/// Replaces a file all at once: a reader sees the old content or the new.
fn replace(path: &Path, content: &[Bytes]) -> Result<(), DataDirError> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(failed("create", &new))?;
    for piece in content {
        file.write_all(piece).map_err(failed("write to", &new))?;
    }
    file.sync_data().map_err(failed("sync", &new))?;
    fs::rename(&new, path).map_err(failed("rename", &new))
}

fn append_to(path: &Path) -> Result<File, DataDirError> {
    OpenOptions::new().create(true).append(true).open(path).map_err(failed("open", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |source| DataDirError::Io { action, path, source }
}
