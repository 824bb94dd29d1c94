//! The open windows of one worker: accumulators by window end and key, mirrored into keyed state.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashTable;
use millstream_checkpoint::{KeyRange, LayeredState, SealedState, SealedStateWriter, StateId};

use super::{TimeWindow, TumblingEventTimeWindows};
use crate::error::{Bug, OperatorError};
use crate::state::{DirtyCount, EncodedKey, KeyGroups, SealBudget, StateCodec};

/// All windows that have not closed yet. They are held in memory whole; the state in the store is
/// `key group (u16) | window end (i64, order preserving) | key` → accumulator, and is deleted when the window closes.
pub(crate) struct OpenWindows<K, A> {
    id: StateId,
    backend: Arc<LayeredState>,
    key_groups: KeyGroups,
    owned: Range<u16>,
    assigner: TumblingEventTimeWindows,
    panes: BTreeMap<i64, Pane<K, A>>,
    /// Window end and slot of every accumulator changed since the last seal.
    dirty: Vec<(i64, usize)>,
    /// Store keys of closed windows that earlier checkpoints have stored.
    deleted: Vec<Bytes>,
    dirty_count: DirtyCount,
    sealing: Option<Sealing>,
    /// The checkpoint that changes made now belong to.
    current: u64,
}

/// The changes of a checkpoint that are being encoded.
struct Sealing {
    checkpoint: u64,
    dirty: Vec<(i64, usize)>,
    deleted: Vec<Bytes>,
    at: usize,
    writer: SealedStateWriter,
}

/// One window: its keys and their accumulators.
pub(crate) struct Pane<K, A> {
    window: TimeWindow,
    /// Indices of `slots` by the hash of the key.
    table: HashTable<u32>,
    slots: Vec<Slot<A>>,
    key: PhantomData<fn() -> K>,
}

struct Slot<A> {
    store_key: Bytes,
    table_hash: u64,
    accumulator: A,
    written_in: u64,
    /// Its change in `written_in` has been encoded.
    sealed: bool,
    /// An earlier checkpoint has stored it.
    stored: bool,
}

impl<K, A> OpenWindows<K, A>
where
    K: StateCodec,
    A: StateCodec,
{
    /// The windows of the keys in the `owned` key groups; the first change belongs to checkpoint `current`.
    pub(crate) fn new(
        id: StateId,
        backend: Arc<LayeredState>,
        key_groups: KeyGroups,
        owned: Range<u16>,
        assigner: TumblingEventTimeWindows,
        current: u64,
    ) -> Self {
        Self {
            id,
            dirty_count: DirtyCount::new(backend.dirty_bytes().clone()),
            sealing: None,
            backend,
            key_groups,
            owned,
            assigner,
            panes: BTreeMap::new(),
            dirty: Vec::new(),
            deleted: Vec::new(),
            current,
        }
    }

    /// Reads the windows that were open at the checkpoint which the job starts from.
    pub(crate) fn load(&mut self) -> Result<(), OperatorError> {
        let range = KeyRange::key_groups(self.owned.start, self.owned.end);
        for entry in self.backend.scan(&self.id, &range).map_err(OperatorError::new)? {
            let (store_key, value) = entry.map_err(OperatorError::new)?;
            self.load_entry(store_key, &value)?;
        }
        Ok(())
    }

    fn load_entry(&mut self, store_key: Bytes, value: &[u8]) -> Result<(), OperatorError> {
        let end = store_key.get(2..KEY_AT).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        let (Some(end), Some(key)) = (end, store_key.get(KEY_AT..)) else {
            return Err(OperatorError::new(Bug(format!(
                "window state has a key of {} bytes",
                store_key.len()
            ))));
        };
        let end = i64::from_be_bytes(end) ^ i64::MIN;
        let table_hash = self.key_groups.of_key(key).table_hash();
        let accumulator = A::decode(value).map_err(OperatorError::new)?;
        let pane = self.panes.entry(end).or_insert_with(|| Pane::new(self.assigner.ending_at(end)));
        pane.insert(Slot {
            store_key,
            table_hash,
            accumulator,
            written_in: 0,
            sealed: false,
            stored: true,
        });
        Ok(())
    }

    /// Changes the accumulator of `key` in `window`, which starts from `create`.
    pub(crate) fn update(
        &mut self,
        window: TimeWindow,
        key: EncodedKey<'_>,
        create: impl FnOnce() -> A,
        change: impl FnOnce(&mut A),
    ) -> Result<(), OperatorError> {
        let pane = self.panes.entry(window.end).or_insert_with(|| Pane::new(window));
        let index = pane.find(key).unwrap_or_else(|| {
            let store_key = store_key(window.end, key);
            let table_hash = key.table_hash();
            let accumulator = create();
            pane.insert(Slot {
                store_key,
                table_hash,
                accumulator,
                written_in: 0,
                sealed: false,
                stored: false,
            })
        });
        let Some(slot) = pane.slots.get_mut(index) else {
            return Err(OperatorError::new(Bug(format!("window slot {index} does not exist"))));
        };
        if slot.written_in != self.current {
            if let Some(sealing) = &mut self.sealing {
                slot.seal(sealing)?;
            }
            slot.written_in = self.current;
            slot.sealed = false;
            self.dirty.push((window.end, index));
            self.dirty_count.add(slot.store_key.len() + size_of::<A>());
        }
        change(&mut slot.accumulator);
        Ok(())
    }

    /// Removes the earliest window whose last millisecond is at or before `watermark`, if there is one.
    pub(crate) fn take_closed(
        &mut self,
        watermark: i64,
    ) -> Result<Option<Pane<K, A>>, OperatorError> {
        let Some(earliest) = self.panes.first_entry() else { return Ok(None) };
        if earliest.get().window.max_timestamp() > watermark {
            return Ok(None);
        }
        let mut pane = earliest.remove();
        if let Some(sealing) = &mut self.sealing {
            // The checkpoint that is being sealed still has the window open.
            pane.slots.iter_mut().try_for_each(|slot| slot.seal(sealing))?;
        }
        let stored = pane.slots.iter().filter(|slot| slot.stored);
        self.deleted.extend(stored.map(|slot| slot.store_key.clone()));
        Ok(Some(pane))
    }

    /// The changes so far belong to `checkpoint`, later ones to the next. Takes no time, however many there are.
    pub(crate) fn freeze(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        if let Some(sealing) = &self.sealing {
            return Err(OperatorError::new(Bug(format!(
                "checkpoint {checkpoint} begins before {} of {} is sealed",
                sealing.checkpoint, self.id
            ))));
        }
        let (dirty, deleted) = (std::mem::take(&mut self.dirty), std::mem::take(&mut self.deleted));
        self.dirty_count.frozen();
        self.current = checkpoint + 1;
        if !dirty.is_empty() || !deleted.is_empty() {
            let writer = SealedStateWriter::new(self.id.clone(), dirty.len() + deleted.len());
            self.sealing = Some(Sealing { checkpoint, dirty, deleted, at: 0, writer });
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
        while let Some(store_key) = sealing.deleted.pop_if(|_| !budget.is_spent()) {
            sealing.writer.delete(&[&store_key]);
            budget.spend(0);
        }
        while let Some((end, index)) = sealing.dirty.get(sealing.at).copied() {
            if budget.is_spent() {
                return Ok(false);
            }
            sealing.at += 1;
            // A window that has closed since was sealed then, or has left its deletions instead.
            let Some(pane) = self.panes.get_mut(&end) else { continue };
            let Some(slot) = pane.slots.get_mut(index) else { continue };
            let before = sealing.writer.bytes();
            slot.seal(sealing)?;
            budget.spend(sealing.writer.bytes() - before);
        }
        if !sealing.deleted.is_empty() {
            return Ok(false);
        }
        if let Some(Sealing { writer, .. }) = self.sealing.take() {
            done(writer.finish().map_err(OperatorError::new)?);
        }
        Ok(true)
    }
}

impl<A: StateCodec> Slot<A> {
    /// Encodes it, if the checkpoint has a change of it that is not encoded yet.
    fn seal(&mut self, sealing: &mut Sealing) -> Result<(), OperatorError> {
        if self.written_in == sealing.checkpoint && !self.sealed {
            self.accumulator
                .encode(sealing.writer.put(&[&self.store_key]))
                .map_err(OperatorError::new)?;
            self.sealed = true;
            self.stored = true;
        }
        Ok(())
    }
}

impl<K, A> Pane<K, A>
where
    K: StateCodec,
{
    fn new(window: TimeWindow) -> Self {
        Self { window, table: HashTable::new(), slots: Vec::new(), key: PhantomData }
    }

    fn find(&self, key: EncodedKey<'_>) -> Option<usize> {
        let is_of_key = |index: &u32| {
            let slot = self.slots.get(*index as usize);
            slot.is_some_and(|slot| slot.store_key.get(KEY_AT..) == Some(key.bytes))
        };
        self.table.find(key.table_hash(), is_of_key).map(|index| *index as usize)
    }

    fn insert(&mut self, slot: Slot<A>) -> usize {
        let Self { table, slots, .. } = self;
        let index = slots.len();
        // Four thousand million keys of one window do not fit into memory.
        let entry = u32::try_from(index).unwrap_or(u32::MAX);
        let table_hash = slot.table_hash;
        slots.push(slot);
        let hash_of = |index: &u32| slots.get(*index as usize).map_or(0, |slot| slot.table_hash);
        table.insert_unique(table_hash, entry, hash_of);
        index
    }

    /// The pane's window.
    pub(crate) fn window(&self) -> TimeWindow {
        self.window
    }

    /// Keys and accumulators in the order of key group and encoded key.
    pub(crate) fn into_entries(mut self) -> impl Iterator<Item = Result<(K, A), OperatorError>> {
        self.slots.sort_unstable_by(|a, b| a.store_key.cmp(&b.store_key));
        self.slots.into_iter().map(|slot| {
            let key = slot.store_key.get(KEY_AT..).unwrap_or_default();
            Ok((K::decode(key).map_err(OperatorError::new)?, slot.accumulator))
        })
    }
}

/// Where the key begins in a store key: behind key group and window end.
const KEY_AT: usize = 10;

fn store_key(end: i64, key: EncodedKey<'_>) -> Bytes {
    let mut bytes = Vec::with_capacity(KEY_AT + key.bytes.len());
    bytes.extend_from_slice(&key.key_group.to_be_bytes());
    bytes.extend_from_slice(&(end ^ i64::MIN).to_be_bytes());
    bytes.extend_from_slice(key.bytes);
    bytes.into()
}

#[cfg(test)]
mod tests;
