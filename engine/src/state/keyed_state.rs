//! One value per key: decoded values in memory, read from the store on first use, encoded once per checkpoint.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashTable;
use millstream_checkpoint::{LayeredState, StateDelta, StateId};

use super::{EncodedKey, StateCodec};
use crate::error::OperatorError;

/// The value state of one operator at one worker.
///
/// A value written in checkpoint n stays in memory until n is confirmed, because the store does not show it before. Clean
/// values are dropped when there are more than `entries_max`, those that were not used lately first.
pub(crate) struct ValueState<V> {
    id: StateId,
    backend: Arc<LayeredState>,
    /// Indices of `slots` by the hash of the key.
    table: HashTable<usize>,
    slots: Vec<Option<Slot<V>>>,
    free: Vec<usize>,
    dirty: Vec<usize>,
    /// The checkpoint that changes made now belong to.
    current: u64,
    confirmed: u64,
    entries_max: usize,
}

struct Slot<V> {
    /// Key group and encoded key.
    store_key: Bytes,
    table_hash: u64,
    value: V,
    /// The last checkpoint with a change of this value; 0 if there is none since it was loaded.
    written_in: u64,
    used: bool,
}

impl<V> ValueState<V>
where
    V: StateCodec,
{
    /// Reads from `backend`; the first change belongs to checkpoint `current`.
    pub(crate) fn new(
        id: StateId,
        backend: Arc<LayeredState>,
        current: u64,
        entries_max: usize,
    ) -> Self {
        Self {
            id,
            backend,
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            current,
            confirmed: current.saturating_sub(1),
            entries_max,
        }
    }

    /// Changes the value of `key`; a key without one starts from `create`.
    pub(crate) fn update<R>(
        &mut self,
        key: EncodedKey<'_>,
        create: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, OperatorError> {
        let index = match self.find(key) {
            Some(index) => index,
            None => self.load(key, create)?,
        };
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return Err(OperatorError::new(crate::error::Bug(format!(
                "state slot {index} is empty"
            ))));
        };
        slot.used = true;
        if slot.written_in != self.current {
            slot.written_in = self.current;
            self.dirty.push(index);
        }
        Ok(change(&mut slot.value))
    }

    fn find(&self, key: EncodedKey<'_>) -> Option<usize> {
        let is_of_key = |index: &usize| match self.slots.get(*index) {
            Some(Some(slot)) => slot.store_key.get(KEY_AT..) == Some(key.bytes),
            _ => false,
        };
        self.table.find(key.table_hash(), is_of_key).copied()
    }

    fn load(
        &mut self,
        key: EncodedKey<'_>,
        create: impl FnOnce() -> V,
    ) -> Result<usize, OperatorError> {
        if self.table.len() >= self.entries_max {
            self.evict();
        }
        let mut store_key = Vec::with_capacity(KEY_AT + key.bytes.len());
        store_key.extend_from_slice(&key.key_group.to_be_bytes());
        store_key.extend_from_slice(key.bytes);
        let value = match self.backend.get(&self.id, &store_key).map_err(OperatorError::new)? {
            Some(bytes) => V::decode(&bytes).map_err(OperatorError::new)?,
            None => create(),
        };
        let table_hash = key.table_hash();
        let slot =
            Slot { store_key: store_key.into(), table_hash, value, written_in: 0, used: true };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Some(place) = self.slots.get_mut(index) {
            *place = Some(slot);
        }
        let Self { table, slots, .. } = self;
        table.insert_unique(table_hash, index, |index| match slots.get(*index) {
            Some(Some(slot)) => slot.table_hash,
            _ => 0,
        });
        Ok(index)
    }

    /// Drops clean values that were not used since the last call. If every value is in use or awaits confirmation the
    /// bound gives way: forgetting a change is not an option.
    fn evict(&mut self) {
        let Self { table, slots, free, confirmed, .. } = self;
        table.retain(|index| {
            let Some(place) = slots.get_mut(*index) else { return false };
            let Some(slot) = place else { return false };
            let keep = slot.used || slot.written_in > *confirmed;
            slot.used = false;
            if !keep {
                *place = None;
                free.push(*index);
            }
            keep
        });
    }

    /// The changes since the last call; they belong to `checkpoint`, and later ones to the next.
    pub(crate) fn seal(&mut self, checkpoint: u64) -> Result<StateDelta, OperatorError> {
        let mut entries = Vec::with_capacity(self.dirty.len());
        let mut buffer = Vec::new();
        for index in self.dirty.drain(..) {
            let Some(Some(slot)) = self.slots.get(index) else { continue };
            buffer.clear();
            slot.value.encode(&mut buffer).map_err(OperatorError::new)?;
            entries.push((slot.store_key.clone(), Some(Bytes::copy_from_slice(&buffer))));
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.current = checkpoint + 1;
        Ok(StateDelta { state: self.id.clone(), entries })
    }

    /// The store shows the changes up to `checkpoint` from now on.
    pub(crate) fn confirm(&mut self, checkpoint: u64) {
        self.confirmed = self.confirmed.max(checkpoint);
    }
}

/// Where the key begins in a store key: behind the key group.
const KEY_AT: usize = 2;

#[cfg(test)]
mod tests;
