//! The state store: confirmed state only, never ahead of the ledger.

use bytes::Bytes;

use crate::delta::{DeltaEntry, StateId, key_group};
use crate::error::StoreError;
use crate::ids::CheckpointRef;

mod fjall_guard;
mod fjall_store;
mod memory_store;

pub use fjall_guard::VerifiedFiles;
pub use fjall_store::{FjallOptions, FjallStore};
pub use memory_store::MemoryStore;

/// A half-open range of state keys, `end` `None` meaning "to the last key".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key.
    pub start: Bytes,
    /// First key that is no longer in the range.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self { start: Bytes::new(), end: None }
    }

    /// All keys that begin with `prefix` (key group included).
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        let end = end.pop().map(|last| {
            end.push(last + 1);
            Bytes::from(end)
        });
        Self { start: Bytes::copy_from_slice(prefix), end }
    }

    /// All keys of the key groups from `first` to before `end`.
    #[must_use]
    pub fn key_groups(first: u16, end: u16) -> Self {
        Self {
            start: Bytes::copy_from_slice(&first.to_be_bytes()),
            end: Some(Bytes::copy_from_slice(&end.to_be_bytes())),
        }
    }

    /// Whether `key` is in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &*self.start && self.end.as_ref().is_none_or(|end| key < &**end)
    }
}

/// Entries of a scan in key order; after an error nothing more comes.
pub type StoreScan = Box<dyn Iterator<Item = Result<(Bytes, Bytes), StoreError>> + Send>;

/// A store of confirmed state. Calls block (disk): never call them on a tokio worker.
///
/// Two marks make a replay of deltas right after any crash. `applied(state)` lives in the state's own
/// keyspace and is written in the same atomic ingestion as the changes. `floor()` covers every state,
/// also those that an epoch did not touch: it is set only after all of them were persisted.
pub trait StateStore: Send + Sync + std::fmt::Debug {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails.
    fn get(&self, state: &StateId, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// The entries of a range as of now; later ingestions do not show in it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails.
    fn scan(&self, state: &StateId, range: &KeyRange) -> Result<StoreScan, StoreError>;

    /// Writes changes (keys strictly ascending) and `applied(state) = at`, all or nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails or the entries are not in order.
    fn ingest(
        &self,
        state: &StateId,
        at: CheckpointRef,
        entries: &mut dyn Iterator<Item = DeltaEntry>,
    ) -> Result<(), StoreError>;

    /// The last checkpoint ingested into a state; the floor if that is later.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails.
    fn applied(&self, state: &StateId) -> Result<Option<CheckpointRef>, StoreError>;

    /// Makes everything ingested so far durable.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails; it must not be used any more then.
    fn persist(&self) -> Result<(), StoreError>;

    /// The checkpoint up to which every state is applied and persisted.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails.
    fn floor(&self) -> Result<Option<CheckpointRef>, StoreError>;

    /// Persists everything, then raises the floor to `at` and makes that durable too.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails.
    fn persist_floor(&self, at: CheckpointRef) -> Result<(), StoreError>;

    /// All states there are, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the backend fails.
    fn states(&self) -> Result<Vec<StateId>, StoreError>;
}

/// Keys must ascend strictly and begin with a valid key group.
fn check_entry(state: &StateId, last: Option<&[u8]>, key: &[u8]) -> Result<(), StoreError> {
    if key_group(key).is_none() || last.is_some_and(|last| last >= key) {
        return Err(StoreError::InvalidEntries { state: state.clone() });
    }
    Ok(())
}

/// The later of two marks.
fn later(one: Option<CheckpointRef>, other: Option<CheckpointRef>) -> Option<CheckpointRef> {
    one.into_iter().chain(other).max_by_key(|at| at.checkpoint)
}

#[cfg(test)]
mod conformance;
