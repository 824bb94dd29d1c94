//! One value per key: decoded values in memory, read from the store on first use, encoded once per checkpoint.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use millstream_checkpoint::{LayeredState, StateDelta, StateId};

use super::StateCodec;
use crate::error::OperatorError;

/// The value state of one operator at one worker.
///
/// A value written in checkpoint n stays in memory until n is confirmed, because the store does not show it before. Clean
/// values are dropped when there are more than `entries_max`, those that were not used lately first.
pub(crate) struct ValueState<K, V> {
    id: StateId,
    backend: Arc<LayeredState>,
    slots_by_key: HashMap<K, usize>,
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
    value: V,
    /// The last checkpoint with a change of this value; 0 if there is none since it was loaded.
    written_in: u64,
    used: bool,
}

impl<K, V> ValueState<K, V>
where
    K: StateCodec + Hash + Eq,
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
            slots_by_key: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            current,
            confirmed: current.saturating_sub(1),
            entries_max,
        }
    }

    /// Changes the value of `key`; a key without one starts from `create`. `K` is cloned only for a key that is not in
    /// memory.
    pub(crate) fn update<R>(
        &mut self,
        key: &K,
        key_group: u16,
        create: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, OperatorError>
    where
        K: Clone,
    {
        let index = match self.slots_by_key.get(key) {
            Some(index) => *index,
            None => self.load(key, key_group, create)?,
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

    fn load(
        &mut self,
        key: &K,
        key_group: u16,
        create: impl FnOnce() -> V,
    ) -> Result<usize, OperatorError>
    where
        K: Clone,
    {
        if self.slots_by_key.len() >= self.entries_max {
            self.evict();
        }
        let mut store_key = key_group.to_be_bytes().to_vec();
        key.encode(&mut store_key).map_err(OperatorError::new)?;
        let value = match self.backend.get(&self.id, &store_key).map_err(OperatorError::new)? {
            Some(bytes) => V::decode(&bytes).map_err(OperatorError::new)?,
            None => create(),
        };
        let slot = Slot { store_key: store_key.into(), value, written_in: 0, used: true };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Some(place) = self.slots.get_mut(index) {
            *place = Some(slot);
        }
        self.slots_by_key.insert(key.clone(), index);
        Ok(index)
    }

    /// Drops clean values that were not used since the last call. If every value is in use or awaits confirmation the
    /// bound gives way: forgetting a change is not an option.
    fn evict(&mut self) {
        let Self { slots_by_key, slots, free, confirmed, .. } = self;
        slots_by_key.retain(|_, index| {
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

#[cfg(test)]
mod tests;
