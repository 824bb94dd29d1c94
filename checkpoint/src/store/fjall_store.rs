//! The store on fjall: one keyspace per state, written by ingestion only.
//!
//! An ingestion goes straight to sorted tables and is atomic for its keyspace; it is not in fjall's
//! journal. The floor lives in a keyspace of its own that is only ever written through the journal, so
//! that the two ways of writing never meet in one keyspace. `clear()` is never called (lsm-tree #286).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use xxhash_rust::xxh3::xxh3_128;

use super::fjall_guard::{self, VerifiedFiles};
use super::{KeyRange, StateStore, StoreScan, check_entry, later};
use crate::codec::{FormatError, Frame, Writer};
use crate::delta::{DeltaEntry, KEY_GROUPS_MAX, StateId};
use crate::error::StoreError;
use crate::ids::{CheckpointId, CheckpointRef, Nonce};
use crate::restored::{decode_ref, encode_ref};

/// Sizes of a [`FjallStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FjallOptions {
    /// Block cache in bytes.
    pub cache_bytes: u64,
    /// Threads for compaction.
    pub worker_threads: usize,
}

impl Default for FjallOptions {
    /// 64 MiB of cache, two threads.
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, worker_threads: 2 }
    }
}

/// [`StateStore`] on fjall. Never call it on a tokio worker.
pub struct FjallStore {
    place: String,
    database: Database,
    floor: Keyspace,
    // Guards only the map; a state is added once, at its first ingestion.
    states: RwLock<BTreeMap<StateId, Keyspace>>,
}

/// Keyspace of the floor; states' keyspaces have other names, see [`keyspace_name`].
const FLOOR_KEYSPACE: &str = "floor";
const FLOOR_KEY: &[u8] = b"floor";
const INVENTORY_KEY: &[u8] = b"inventory";
const STATE_PREFIX: &str = "state-";
/// Key of a state's own mark, behind every key group.
const APPLIED_KEY: &[u8] = b"\xff\xffapplied";

impl FjallStore {
    /// Opens the store in a folder, creating it if need be.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if fjall fails or a mark cannot be read.
    pub fn open(path: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        let failed = |operation| {
            let place = place.clone();
            move |error| backend(place, operation, error)
        };
        if fjall_guard::is_unfinished(path)? {
            // The process died while it made it for the first time.
            Self::remove(path)?;
        }
        fjall_guard::check(path, fjall_guard::READ_BYTES_MAX)?;
        let open = || {
            Database::builder(path)
                .cache_size(options.cache_bytes)
                .worker_threads(options.worker_threads.max(1))
                .manual_journal_persist(true)
                .open()
        };
        // It panics on some of what it does not expect to find; nothing of it is kept then.
        let opened = catch_unwind(AssertUnwindSafe(open)).map_err(|_| StoreError::Damaged {
            place: place.clone(),
            state: "as a whole".to_owned(),
            reason: "it can not be opened; restore the directory from a copy, or from a savepoint",
        })?;
        let database = opened.map_err(failed("opening"))?;
        let floor = database
            .keyspace(FLOOR_KEYSPACE, keyspace_options)
            .map_err(failed("opening the floor"))?;
        let store = Self { place, database, floor, states: RwLock::default() };
        store.load_states()?;
        store.check_inventory()?;
        Ok(store)
    }

    /// Reads every file of the store in a folder that has a checksum beside it, and opens nothing: for tools, and while no job
    /// has it open.
    ///
    /// # Errors
    ///
    /// [`StoreError::DamagedFile`] with the file, [`StoreError::Backend`] if the system fails.
    pub fn verify_files(path: &Path) -> Result<VerifiedFiles, StoreError> {
        fjall_guard::check(path, u64::MAX)
    }

    /// Removes the store in a folder, if there is one: of a restore that was not finished.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the system refuses.
    pub fn remove(path: &Path) -> Result<(), StoreError> {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::Backend {
                place: path.display().to_string(),
                operation: "removing",
                source: Box::new(error),
            }),
            _ => Ok(()),
        }
    }

    fn load_states(&self) -> Result<(), StoreError> {
        for name in self.database.list_keyspace_names() {
            if !name.starts_with(STATE_PREFIX) {
                continue;
            }
            let opened = self.database.keyspace(&name, keyspace_options);
            let keyspace = opened.map_err(|error| self.failed("opening a state", error))?;
            let mark = keyspace.get(APPLIED_KEY);
            // Without a mark no ingestion was finished, so there is nothing in it.
            let Some(mark) = mark.map_err(|error| self.failed("reading", error))? else { continue };
            let (state, _) = self.read_mark(&name, &mark)?;
            if keyspace_name(&state) != *name {
                return Err(self.damaged(&name, "it is another state's"));
            }
            self.states.write().unwrap_or_else(PoisonError::into_inner).insert(state, keyspace);
        }
        Ok(())
    }

    /// Every state that was there when the floor was last raised is there, and not an older copy of it: fjall forgets a
    /// keyspace whose files are gone, and believes one whose files were put back.
    fn check_inventory(&self) -> Result<(), StoreError> {
        let found = self.floor.get(INVENTORY_KEY).map_err(|error| self.failed("reading", error))?;
        let Some(found) = found else { return Ok(()) };
        let inventory = decode_inventory(&found);
        let inventory =
            inventory.map_err(|_| self.damaged(FLOOR_KEYSPACE, "its inventory cannot be read"))?;
        let (floor, inventory) = inventory;
        for (state, listed) in inventory {
            let keyspace = self.state(&state);
            let Some(keyspace) = keyspace else {
                return Err(self.damaged(&state.to_string(), "it is gone"));
            };
            let mark = keyspace.get(APPLIED_KEY).map_err(|error| self.failed("reading", error))?;
            let mark = mark.map(|mark| self.read_mark(&state.to_string(), &mark)).transpose()?;
            let whole =
                mark.is_some_and(|(_, at)| at == listed || at.checkpoint > floor.checkpoint);
            if !whole {
                let reason = "it is an older copy, or another job's";
                return Err(self.damaged(&state.to_string(), reason));
            }
        }
        Ok(())
    }

    /// What [`check_inventory`](Self::check_inventory) will hold the states against.
    fn write_inventory(&self, floor: CheckpointRef) -> Result<(), StoreError> {
        let mut inventory = Vec::new();
        for state in self.states()? {
            let Some(keyspace) = self.state(&state) else { continue };
            let mark = keyspace.get(APPLIED_KEY).map_err(|error| self.failed("reading", error))?;
            let mark = mark.map(|mark| self.read_mark(&state.to_string(), &mark)).transpose()?;
            inventory.extend(mark.map(|(_, at)| (state, at)));
        }
        let written = encode_inventory(floor, &inventory);
        let written =
            written.map_err(|_| self.damaged(FLOOR_KEYSPACE, "it has too many states"))?;
        let written = self.floor.insert(INVENTORY_KEY, written);
        written.map_err(|error| self.failed("raising the floor", error))
    }

    fn state(&self, state: &StateId) -> Option<Keyspace> {
        self.states.read().unwrap_or_else(PoisonError::into_inner).get(state).cloned()
    }

    fn read_mark(&self, name: &str, mark: &[u8]) -> Result<(StateId, CheckpointRef), StoreError> {
        decode_mark(mark).map_err(|_| self.damaged(name, "its mark cannot be read"))
    }

    fn damaged(&self, state: &str, reason: &'static str) -> StoreError {
        StoreError::Damaged { place: self.place.clone(), state: state.to_owned(), reason }
    }

    fn failed(&self, operation: &'static str, error: fjall::Error) -> StoreError {
        backend(self.place.clone(), operation, error)
    }
}

impl StateStore for FjallStore {
    fn get(&self, state: &StateId, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let Some(keyspace) = self.state(state) else { return Ok(None) };
        let found = keyspace.get(key).map_err(|error| self.failed("reading", error))?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(&self, state: &StateId, range: &KeyRange) -> Result<StoreScan, StoreError> {
        let Some(keyspace) = self.state(state) else { return Ok(Box::new(std::iter::empty())) };
        // The mark lies behind every key group and is no entry.
        let limit = Bytes::copy_from_slice(&KEY_GROUPS_MAX.to_be_bytes());
        let end = range.end.clone().map_or(limit.clone(), |end| end.min(limit));
        if range.start >= end {
            return Ok(Box::new(std::iter::empty()));
        }
        let place = self.place.clone();
        // The iterator holds the tables it began with; ingestions only add new ones.
        let found = keyspace.range(range.start.clone()..end).map(move |guard| {
            let (key, value) =
                guard.into_inner().map_err(|error| backend(place.clone(), "scanning", error))?;
            Ok((Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&value)))
        });
        Ok(Box::new(StopAfterError { inner: found, failed: false }))
    }

    fn ingest(
        &self,
        state: &StateId,
        at: CheckpointRef,
        entries: &mut dyn Iterator<Item = DeltaEntry>,
    ) -> Result<(), StoreError> {
        let known = self.state(state);
        let keyspace = match &known {
            Some(keyspace) => keyspace.clone(),
            None => self
                .database
                .keyspace(&keyspace_name(state), keyspace_options)
                .map_err(|error| self.failed("creating a state", error))?,
        };
        let failed = |error| self.failed("ingesting", error);
        let mark = encode_mark(state, at).map_err(|_| self.damaged("", "its name is too long"))?;
        let mut ingestion = keyspace.start_ingestion().map_err(failed)?;
        let mut last: Option<Bytes> = None;
        for (key, value) in entries {
            // fjall panics on keys out of order.
            check_entry(state, last.as_deref(), &key)?;
            match value {
                Some(value) => ingestion.write(&*key, &*value),
                None => ingestion.write_tombstone(&*key),
            }
            .map_err(failed)?;
            last = Some(key);
        }
        ingestion.write(APPLIED_KEY, mark).map_err(failed)?;
        ingestion.finish().map_err(failed)?;
        if known.is_none() {
            let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
            states.insert(state.clone(), keyspace);
        }
        Ok(())
    }

    fn applied(&self, state: &StateId) -> Result<Option<CheckpointRef>, StoreError> {
        let floor = self.floor()?;
        let Some(keyspace) = self.state(state) else { return Ok(floor) };
        let mark = keyspace.get(APPLIED_KEY).map_err(|error| self.failed("reading", error))?;
        let own = mark.map(|mark| self.read_mark(&state.to_string(), &mark)).transpose()?;
        Ok(later(own.map(|(_, at)| at), floor))
    }

    fn persist(&self) -> Result<(), StoreError> {
        let done = self.database.persist(PersistMode::SyncAll);
        done.map_err(|error| self.failed("persisting", error))
    }

    fn floor(&self) -> Result<Option<CheckpointRef>, StoreError> {
        let mark = self.floor.get(FLOOR_KEY).map_err(|error| self.failed("reading", error))?;
        let mark = mark.map(|mark| self.read_mark(FLOOR_KEYSPACE, &mark)).transpose()?;
        Ok(mark.map(|(_, at)| at))
    }

    fn persist_floor(&self, at: CheckpointRef) -> Result<(), StoreError> {
        // The floor vouches for the ingestions, so they come first.
        self.persist()?;
        // Before the floor: an inventory is right for every later state of the store too.
        self.write_inventory(at)?;
        let mark = encode_mark(&StateId::new("", ""), at)
            .map_err(|_| self.damaged(FLOOR_KEYSPACE, "its mark cannot be written"))?;
        let written = self.floor.insert(FLOOR_KEY, mark);
        written.map_err(|error| self.failed("raising the floor", error))?;
        self.persist()
    }

    fn states(&self) -> Result<Vec<StateId>, StoreError> {
        Ok(self.states.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect())
    }
}

impl std::fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FjallStore").field("place", &self.place).finish_non_exhaustive()
    }
}

struct StopAfterError<I> {
    inner: I,
    failed: bool,
}

impl<T, I: Iterator<Item = Result<T, StoreError>>> Iterator for StopAfterError<I> {
    type Item = Result<T, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.inner.next()?;
        self.failed = item.is_err();
        Some(item)
    }
}

fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().manual_journal_persist(true)
}

/// fjall takes up to 255 bytes, uids and state names may be longer: their hash names the keyspace, the
/// mark inside holds them.
fn keyspace_name(state: &StateId) -> String {
    let mut text = Vec::new();
    for part in [&state.operator_uid, &state.state_name] {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    format!("{STATE_PREFIX}{:032x}", xxh3_128(&text))
}

const MARK: Frame =
    Frame { what: "mark of a state", magic: *b"MSMARK\r\n", version: 1, body_bytes_max: 16 << 10 };

fn encode_mark(state: &StateId, at: CheckpointRef) -> Result<Vec<u8>, FormatError> {
    let mut body = Writer::default();
    body.u64(at.checkpoint.0);
    body.id(at.nonce.0);
    body.string("operator uid", &state.operator_uid)?;
    body.string("state name", &state.state_name)?;
    MARK.seal(&body)
}

fn decode_mark(mark: &[u8]) -> Result<(StateId, CheckpointRef), FormatError> {
    let mut body = MARK.open(mark)?;
    let at = CheckpointRef::new(CheckpointId(body.u64()?), Nonce(body.id()?));
    let state = StateId { operator_uid: body.string()?, state_name: body.string()? };
    body.end()?;
    Ok((state, at))
}

const INVENTORY: Frame = Frame {
    what: "inventory of the store",
    magic: *b"MSINVENT",
    version: 1,
    body_bytes_max: 64 << 20,
};

fn encode_inventory(
    floor: CheckpointRef,
    states: &[(StateId, CheckpointRef)],
) -> Result<Vec<u8>, FormatError> {
    let mut body = Writer::default();
    encode_ref(&mut body, floor);
    body.length("states", states.len())?;
    for (state, at) in states {
        body.string("operator uid", &state.operator_uid)?;
        body.string("state name", &state.state_name)?;
        encode_ref(&mut body, *at);
    }
    INVENTORY.seal(&body)
}

/// The floor that it was written for, and the marks of all states then.
type Inventory = (CheckpointRef, Vec<(StateId, CheckpointRef)>);

fn decode_inventory(inventory: &[u8]) -> Result<Inventory, FormatError> {
    let mut body = INVENTORY.open(inventory)?;
    let floor = decode_ref(&mut body)?;
    let mut states = Vec::new();
    for _ in 0..body.count(4 + 4 + 8 + 16)? {
        let state = StateId { operator_uid: body.string()?, state_name: body.string()? };
        states.push((state, decode_ref(&mut body)?));
    }
    body.end()?;
    Ok((floor, states))
}

fn backend(place: String, operation: &'static str, error: fjall::Error) -> StoreError {
    let full = match &error {
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => {
            matches!(io.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        }
        _ => false,
    };
    if full {
        return StoreError::NoSpace { place };
    }
    StoreError::Backend { place, operation, source: Box::new(error) }
}
