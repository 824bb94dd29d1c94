//! One value per key: decoded values in memory, read from the store on first use, encoded once per checkpoint.

use std::sync::Arc;

use hashbrown::HashTable;
use millstream_checkpoint::{LayeredState, SealedState, SealedStateWriter, StateId};

use super::dirty_count::DirtyCount;
use super::mutant::{Mutant, mutant};
use super::{EncodedKey, SealBudget, StateCodec};
use crate::error::{Bug, OperatorError};

/// The values of one state of one operator at one worker.
///
/// A value written in checkpoint n stays in memory until n is confirmed, because the store does not show it before. Beyond
/// `entries_max` values, clean ones that were not used lately are dropped.
///
/// A barrier only sets the changed values aside ([`freeze`](Self::freeze)). They are encoded in slices between units of
/// input ([`seal_some`](Self::seal_some)); one that is to change again before that is encoded first.
pub(crate) struct ValueTable<V> {
    id: StateId,
    backend: Arc<LayeredState>,
    /// Indices of `slots` by the hash of the key.
    table: HashTable<u32>,
    slots: Vec<Option<Slot<V>>>,
    free: Vec<u32>,
    /// Slots changed since the last barrier.
    dirty: Vec<u32>,
    dirty_count: DirtyCount,
    sealing: Option<Sealing>,
    /// The checkpoint that changes made now belong to.
    current: u64,
    confirmed: u64,
    entries_max: usize,
    /// The slot that eviction looks at next.
    hand: usize,
    /// Encoded bytes of a value, on average of the last checkpoint with changes.
    value_bytes: usize,
}

struct Slot<V> {
    /// Key group and encoded key.
    store_key: Box<[u8]>,
    table_hash: u64,
    /// `None`: the key has no value.
    value: Option<V>,
    /// The last checkpoint with a change of this value; 0 if there is none since it was loaded.
    written_in: u64,
    /// Its change in `written_in` has been encoded.
    sealed: bool,
    /// The store, or a sealed checkpoint, may hold a value: a delete has to be written.
    stored: bool,
    used: bool,
}

/// The changes of a checkpoint that are being encoded.
struct Sealing {
    checkpoint: u64,
    list: Vec<u32>,
    at: usize,
    writer: SealedStateWriter,
}

/// Slots that an insertion looks at when there are too many: enough that the table shrinks again after a burst.
const EVICT_LOOKS: usize = 16;

/// Where the key begins in a store key: behind the key group.
const KEY_AT: usize = 2;

impl<V> ValueTable<V>
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
            dirty_count: DirtyCount::new(backend.dirty_bytes().clone()),
            backend,
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            sealing: None,
            current,
            confirmed: current.saturating_sub(1),
            entries_max,
            hand: 0,
            value_bytes: size_of::<V>(),
        }
    }

    /// Changes the value of `key`; a key without one starts from `create`.
    pub(crate) fn update<R>(
        &mut self,
        key: EncodedKey<'_>,
        create: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, OperatorError> {
        let index = self.load(key)?;
        let value = self.write(index)?;
        Ok(change(value.get_or_insert_with(create)))
    }

    /// The place of `key`, whose value is read from the store if it is not in memory.
    pub(crate) fn load(&mut self, key: EncodedKey<'_>) -> Result<usize, OperatorError> {
        if let Some(index) = self.find(key) {
            return Ok(index);
        }
        let store_key = store_key(key);
        let found = self.backend.get(&self.id, &store_key).map_err(OperatorError::new)?;
        let value = found.map(|bytes| V::decode(&bytes)).transpose().map_err(OperatorError::new)?;
        let stored = value.is_some();
        Ok(self.insert(key, store_key, value, stored))
    }

    /// The place of `key`, for a change that does not depend on its value: the store is not asked.
    pub(crate) fn locate(&mut self, key: EncodedKey<'_>) -> usize {
        match self.find(key) {
            Some(index) => index,
            None => self.insert(key, store_key(key), None, true),
        }
    }

    /// The value at a place given by [`load`](Self::load).
    pub(crate) fn value(&self, index: usize) -> Option<&V> {
        self.slots.get(index)?.as_ref()?.value.as_ref()
    }

    /// The value at a place, to be changed.
    pub(crate) fn write(&mut self, index: usize) -> Result<&mut Option<V>, OperatorError> {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return Err(OperatorError::new(Bug(format!("state slot {index} is empty"))));
        };
        slot.used = true;
        if slot.written_in != self.current {
            if let Some(sealing) = &mut self.sealing
                && slot.written_in == sealing.checkpoint
                && !mutant(Mutant::NoCopyOnWrite)
            {
                slot.seal(&mut sealing.writer)?;
            }
            slot.written_in = self.current;
            slot.sealed = false;
            self.dirty.push(u32::try_from(index).unwrap_or(u32::MAX));
            self.dirty_count.add(slot.store_key.len() + self.value_bytes);
        }
        Ok(&mut slot.value)
    }

    /// Whether `key` is in memory.
    pub(crate) fn find(&self, key: EncodedKey<'_>) -> Option<usize> {
        let is_of_key = |index: &u32| match self.slots.get(*index as usize) {
            Some(Some(slot)) => slot.store_key.get(KEY_AT..) == Some(key.bytes),
            _ => false,
        };
        self.table.find(key.table_hash(), is_of_key).map(|index| *index as usize)
    }

    fn insert(
        &mut self,
        key: EncodedKey<'_>,
        store_key: Box<[u8]>,
        value: Option<V>,
        stored: bool,
    ) -> usize {
        if self.table.len() >= self.entries_max {
            self.evict();
        }
        let table_hash = key.table_hash();
        let slot =
            Slot { store_key, table_hash, value, written_in: 0, sealed: false, stored, used: true };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Four thousand million values do not fit into memory.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.slots.get_mut(index as usize) {
            *place = Some(slot);
        }
        let Self { table, slots, .. } = self;
        table.insert_unique(table_hash, index, |index| match slots.get(*index as usize) {
            Some(Some(slot)) => slot.table_hash,
            _ => 0,
        });
        index as usize
    }

    /// Looks at a few slots in turn and drops clean values that were not used since the last look. If every value is in
    /// use or awaits confirmation the bound gives way: forgetting a change is not an option.
    fn evict(&mut self) {
        let Self { table, slots, free, confirmed, hand, .. } = self;
        for _ in 0..EVICT_LOOKS.min(slots.len()) {
            *hand = (*hand + 1) % slots.len();
            let Some(place) = slots.get_mut(*hand) else { continue };
            let Some(slot) = place else { continue };
            let unconfirmed = slot.written_in > *confirmed && !mutant(Mutant::EvictUnconfirmed);
            if slot.used || unconfirmed {
                slot.used = false;
                continue;
            }
            let index = u32::try_from(*hand).unwrap_or(u32::MAX);
            if let Ok(entry) = table.find_entry(slot.table_hash, |of| *of == index) {
                entry.remove();
            }
            *place = None;
            free.push(index);
        }
    }

    /// The changes so far belong to `checkpoint`, later ones to the next. Takes no time, however many there are.
    pub(crate) fn freeze(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        if let Some(sealing) = &self.sealing {
            return Err(OperatorError::new(Bug(format!(
                "checkpoint {checkpoint} begins before {} of {} is sealed",
                sealing.checkpoint, self.id
            ))));
        }
        let list = std::mem::take(&mut self.dirty);
        self.dirty_count.frozen();
        self.current = checkpoint + 1;
        if !list.is_empty() {
            let writer = SealedStateWriter::new(self.id.clone(), list.len());
            self.sealing = Some(Sealing { checkpoint, list, at: 0, writer });
        }
        Ok(())
    }

    /// Encodes changes that were frozen, as many as the budget allows. `true` once none is left; the last call that had
    /// something to do gives them all to `done`.
    pub(crate) fn seal_some(
        &mut self,
        budget: &mut SealBudget,
        done: impl FnOnce(SealedState),
    ) -> Result<bool, OperatorError> {
        let Some(sealing) = &mut self.sealing else { return Ok(true) };
        while let Some(index) = sealing.list.get(sealing.at) {
            if budget.is_spent() {
                return Ok(false);
            }
            sealing.at += 1;
            let Some(Some(slot)) = self.slots.get_mut(*index as usize) else { continue };
            if slot.written_in == sealing.checkpoint && !slot.sealed {
                let before = sealing.writer.bytes();
                slot.seal(&mut sealing.writer)?;
                budget.spend(sealing.writer.bytes() - before);
            }
        }
        if let Some(Sealing { writer, .. }) = self.sealing.take() {
            let sealed = writer.finish().map_err(OperatorError::new)?;
            if let Some(average) = sealed.bytes().checked_div(sealed.len()) {
                self.value_bytes = average;
            }
            done(sealed);
        }
        Ok(true)
    }

    /// The store shows the changes up to `checkpoint` from now on.
    pub(crate) fn confirm(&mut self, checkpoint: u64) {
        self.confirmed = self.confirmed.max(checkpoint);
    }

    /// Where the values are stored.
    pub(crate) fn layered(&self) -> (&Arc<LayeredState>, &StateId) {
        (&self.backend, &self.id)
    }
}

impl<V: StateCodec> Slot<V> {
    fn seal(&mut self, writer: &mut SealedStateWriter) -> Result<(), OperatorError> {
        if self.sealed {
            return Ok(());
        }
        match &self.value {
            Some(value) => {
                value.encode(writer.put(&[&self.store_key])).map_err(OperatorError::new)?;
                self.stored = true;
            }
            // A key that came and went within one checkpoint leaves nothing behind.
            None if self.stored && !mutant(Mutant::NoDelete) => {
                writer.delete(&[&self.store_key]);
                self.stored = false;
            }
            None => {}
        }
        self.sealed = true;
        Ok(())
    }
}

fn store_key(key: EncodedKey<'_>) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(KEY_AT + key.bytes.len());
    bytes.extend_from_slice(&key.key_group.to_be_bytes());
    bytes.extend_from_slice(key.bytes);
    bytes.into()
}

#[cfg(test)]
mod tests;
