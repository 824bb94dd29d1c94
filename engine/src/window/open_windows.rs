//! The open windows of one worker: accumulators by window end and key, mirrored into keyed state.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use millstream_checkpoint::{KeyRange, LayeredState, StateDelta, StateId};

use super::{TimeWindow, TumblingEventTimeWindows};
use crate::error::{Bug, OperatorError};
use crate::state::StateCodec;

/// All windows that have not closed yet. They are held in memory whole; the state in the store is
/// `key group (u16) | window end (i64, order preserving) | key` → accumulator, and is deleted when the window closes.
pub(crate) struct OpenWindows<K, A> {
    id: StateId,
    backend: Arc<LayeredState>,
    key_groups: Range<u16>,
    assigner: TumblingEventTimeWindows,
    panes: BTreeMap<i64, Pane<K, A>>,
    /// Window end and slot of every accumulator changed since the last seal.
    dirty: Vec<(i64, usize)>,
    /// Store keys of closed windows that earlier checkpoints have stored.
    deleted: Vec<Bytes>,
    /// The checkpoint that changes made now belong to.
    current: u64,
}

/// One window: its keys and their accumulators.
pub(crate) struct Pane<K, A> {
    window: TimeWindow,
    slots_by_key: HashMap<K, usize>,
    slots: Vec<Slot<A>>,
}

struct Slot<A> {
    store_key: Bytes,
    accumulator: A,
    written_in: u64,
    /// An earlier checkpoint has stored it.
    stored: bool,
}

impl<K, A> OpenWindows<K, A>
where
    K: StateCodec + Hash + Eq,
    A: StateCodec,
{
    /// The windows of the keys in `key_groups`; the first change belongs to checkpoint `current`.
    pub(crate) fn new(
        id: StateId,
        backend: Arc<LayeredState>,
        key_groups: Range<u16>,
        assigner: TumblingEventTimeWindows,
        current: u64,
    ) -> Self {
        Self {
            id,
            backend,
            key_groups,
            assigner,
            panes: BTreeMap::new(),
            dirty: Vec::new(),
            deleted: Vec::new(),
            current,
        }
    }

    /// Reads the windows that were open at the checkpoint which the job starts from.
    pub(crate) fn load(&mut self) -> Result<(), OperatorError> {
        let range = KeyRange::key_groups(self.key_groups.start, self.key_groups.end);
        for entry in self.backend.scan(&self.id, &range).map_err(OperatorError::new)? {
            let (store_key, value) = entry.map_err(OperatorError::new)?;
            load_entry(&mut self.panes, self.assigner, store_key, &value)?;
        }
        Ok(())
    }

    /// Changes the accumulator of `key` in `window`, which starts from `create`.
    pub(crate) fn update(
        &mut self,
        window: TimeWindow,
        key: K,
        key_group: u16,
        create: impl FnOnce() -> A,
        change: impl FnOnce(&mut A),
    ) -> Result<(), OperatorError> {
        let pane = self.panes.entry(window.end).or_insert_with(|| Pane::new(window));
        let index = match pane.slots_by_key.get(&key) {
            Some(index) => *index,
            None => {
                let store_key = store_key(key_group, window.end, &key)?;
                pane.insert(
                    key,
                    Slot { store_key, accumulator: create(), written_in: 0, stored: false },
                )
            }
        };
        let Some(slot) = pane.slots.get_mut(index) else {
            return Err(OperatorError::new(Bug(format!("window slot {index} does not exist"))));
        };
        if slot.written_in != self.current {
            slot.written_in = self.current;
            self.dirty.push((window.end, index));
        }
        change(&mut slot.accumulator);
        Ok(())
    }

    /// Removes the earliest window whose last millisecond is at or before `watermark`, if there is one.
    pub(crate) fn take_closed(&mut self, watermark: i64) -> Option<Pane<K, A>> {
        let earliest = self.panes.first_entry()?;
        if earliest.get().window.max_timestamp() > watermark {
            return None;
        }
        let pane = earliest.remove();
        let stored = pane.slots.iter().filter(|slot| slot.stored);
        self.deleted.extend(stored.map(|slot| slot.store_key.clone()));
        Some(pane)
    }

    /// The changes since the last call; they belong to `checkpoint`, and later ones to the next.
    pub(crate) fn seal(&mut self, checkpoint: u64) -> Result<StateDelta, OperatorError> {
        let mut entries = Vec::with_capacity(self.dirty.len() + self.deleted.len());
        entries.extend(self.deleted.drain(..).map(|key| (key, None)));
        let mut buffer = Vec::new();
        for (end, index) in self.dirty.drain(..) {
            // A window that has closed since has left its deletions instead.
            let Some(pane) = self.panes.get_mut(&end) else { continue };
            let Some(slot) = pane.slots.get_mut(index) else { continue };
            slot.stored = true;
            buffer.clear();
            slot.accumulator.encode(&mut buffer).map_err(OperatorError::new)?;
            entries.push((slot.store_key.clone(), Some(Bytes::copy_from_slice(&buffer))));
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.current = checkpoint + 1;
        Ok(StateDelta { state: self.id.clone(), entries })
    }
}

impl<K, A> Pane<K, A>
where
    K: Hash + Eq,
{
    fn new(window: TimeWindow) -> Self {
        Self { window, slots_by_key: HashMap::new(), slots: Vec::new() }
    }

    fn insert(&mut self, key: K, slot: Slot<A>) -> usize {
        let index = self.slots.len();
        self.slots.push(slot);
        self.slots_by_key.insert(key, index);
        index
    }

    /// The pane's window.
    pub(crate) fn window(&self) -> TimeWindow {
        self.window
    }

    /// Keys and accumulators in the order of key group and encoded key, which does not depend on a hash map's seed.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (K, A)> {
        let mut keys: Vec<Option<K>> = self.slots.iter().map(|_| None).collect();
        for (key, index) in self.slots_by_key {
            if let Some(place) = keys.get_mut(index) {
                *place = Some(key);
            }
        }
        let mut entries: Vec<_> = keys.into_iter().zip(self.slots).collect();
        entries.sort_unstable_by(|a, b| a.1.store_key.cmp(&b.1.store_key));
        entries.into_iter().filter_map(|(key, slot)| Some((key?, slot.accumulator)))
    }
}

fn store_key<K: StateCodec>(key_group: u16, end: i64, key: &K) -> Result<Bytes, OperatorError> {
    let mut bytes = Vec::with_capacity(32);
    bytes.extend_from_slice(&key_group.to_be_bytes());
    bytes.extend_from_slice(&(end ^ i64::MIN).to_be_bytes());
    key.encode(&mut bytes).map_err(OperatorError::new)?;
    Ok(bytes.into())
}

fn load_entry<K, A>(
    panes: &mut BTreeMap<i64, Pane<K, A>>,
    assigner: TumblingEventTimeWindows,
    store_key: Bytes,
    value: &[u8],
) -> Result<(), OperatorError>
where
    K: StateCodec + Hash + Eq,
    A: StateCodec,
{
    let end = store_key.get(2..10).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    let (Some(end), Some(key)) = (end, store_key.get(10..)) else {
        return Err(OperatorError::new(Bug(format!(
            "window state has a key of {} bytes",
            store_key.len()
        ))));
    };
    let end = i64::from_be_bytes(end) ^ i64::MIN;
    let key = K::decode(key).map_err(OperatorError::new)?;
    let accumulator = A::decode(value).map_err(OperatorError::new)?;
    let pane = panes.entry(end).or_insert_with(|| Pane::new(assigner.ending_at(end)));
    pane.insert(key, Slot { store_key, accumulator, written_in: 0, stored: true });
    Ok(())
}

#[cfg(test)]
mod tests;
