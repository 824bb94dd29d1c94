//! The store in memory: for small tests and as the reference the fjall store is compared with.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{KeyRange, StateStore, StoreScan, check_entry, later};
use crate::delta::{DeltaEntry, StateId};
use crate::error::StoreError;
use crate::ids::CheckpointRef;

/// [`StateStore`] in memory. What was not persisted can be lost on purpose, see
/// [`MemoryStore::after_crash`].
#[derive(Debug, Default)]
pub struct MemoryStore {
    // Guards all contents; a call holds it for one lookup or one copy.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    now: Contents,
    persisted: Contents,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    states: BTreeMap<StateId, State>,
    floor: Option<CheckpointRef>,
}

#[derive(Clone, Debug, Default)]
struct State {
    entries: BTreeMap<Bytes, Bytes>,
    applied: Option<CheckpointRef>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The store after a power loss: of each state for which `keep` says so the latest contents, of the
    /// others only what was persisted (each state is atomic only for itself).
    #[must_use]
    pub fn after_crash(&self, mut keep: impl FnMut(&StateId) -> bool) -> Self {
        let inner = self.lock();
        let mut contents = inner.persisted.clone();
        for (state, now) in &inner.now.states {
            if keep(state) {
                contents.states.insert(state.clone(), now.clone());
            }
        }
        Self { inner: Mutex::new(Inner { persisted: contents.clone(), now: contents }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for MemoryStore {
    fn get(&self, state: &StateId, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let inner = self.lock();
        Ok(inner.now.states.get(state).and_then(|state| state.entries.get(key)).cloned())
    }

    fn scan(&self, state: &StateId, range: &KeyRange) -> Result<StoreScan, StoreError> {
        let inner = self.lock();
        let Some(state) = inner.now.states.get(state) else {
            return Ok(Box::new(std::iter::empty()));
        };
        // A copy, so that later ingestions do not show.
        let found: Vec<_> = state
            .entries
            .range(range.start.clone()..)
            .take_while(|(key, _)| range.contains(key))
            .map(|(key, value)| Ok((key.clone(), value.clone())))
            .collect();
        Ok(Box::new(found.into_iter()))
    }

    fn ingest(
        &self,
        state: &StateId,
        at: CheckpointRef,
        entries: &mut dyn Iterator<Item = DeltaEntry>,
    ) -> Result<(), StoreError> {
        let mut changes: Vec<DeltaEntry> = Vec::new();
        for entry in entries {
            check_entry(state, changes.last().map(|(key, _)| &**key), &entry.0)?;
            changes.push(entry);
        }
        let mut inner = self.lock();
        let contents = inner.now.states.entry(state.clone()).or_default();
        for (key, value) in changes {
            match value {
                Some(value) => contents.entries.insert(key, value),
                None => contents.entries.remove(&key),
            };
        }
        contents.applied = Some(at);
        Ok(())
    }

    fn applied(&self, state: &StateId) -> Result<Option<CheckpointRef>, StoreError> {
        let inner = self.lock();
        let own = inner.now.states.get(state).and_then(|state| state.applied);
        Ok(later(own, inner.now.floor))
    }

    fn persist(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.persisted = inner.now.clone();
        Ok(())
    }

    fn floor(&self) -> Result<Option<CheckpointRef>, StoreError> {
        Ok(self.lock().now.floor)
    }

    fn persist_floor(&self, at: CheckpointRef) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.now.floor = Some(at);
        inner.persisted = inner.now.clone();
        Ok(())
    }

    fn states(&self) -> Result<Vec<StateId>, StoreError> {
        Ok(self.lock().now.states.keys().cloned().collect())
    }
}
