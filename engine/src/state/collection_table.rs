//! Many elements per key, each stored by itself: what lists and maps are made of.
//!
//! An element is encoded when it is written. To add one, nothing is read, whatever else the key has.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashTable;
use millstream_checkpoint::{
    KeyRange, LayeredScan, LayeredState, SealedState, SealedStateWriter, StateId,
};

use super::dirty_count::DirtyCount;
use super::mutant::{Mutant, mutant};
use super::{EncodedKey, SealBudget};
use crate::error::{Bug, OperatorError};

/// Changes of one key by the rest of their store keys; `None` is a delete.
type Changes = BTreeMap<Box<[u8]>, Option<Bytes>>;

/// The elements of one state of one operator at one worker, as far as the store does not show them yet.
///
/// A store key is key group, encoded key (with its namespace), and the element's own suffix, by which the elements of one
/// key are ordered. Like a [`ValueTable`](super::ValueTable), it only sets changes aside at a barrier: a key that changes
/// again before its elements are sealed begins a new map of changes, and the old one stays as it is.
pub(crate) struct CollectionTable {
    id: StateId,
    backend: Arc<LayeredState>,
    /// Indices of `groups` by the hash of the key.
    table: HashTable<u32>,
    groups: Vec<Option<Group>>,
    free: Vec<u32>,
    /// Groups changed since the last barrier.
    dirty: Vec<u32>,
    dirty_count: DirtyCount,
    sealing: Option<Sealing>,
    /// By checkpoint, groups that changed in it, to be forgotten once it is confirmed.
    old: VecDeque<(u64, Vec<u32>)>,
    current: u64,
    confirmed: u64,
    /// Numbers given to elements of lists since the last barrier.
    numbers: u64,
}

/// The changes of one key.
struct Group {
    /// Key group and encoded key.
    prefix: Box<[u8]>,
    table_hash: u64,
    /// The checkpoint of `changes`; 0 for none.
    written_in: u64,
    changes: Changes,
    /// Changes of an earlier checkpoint, until it is confirmed.
    frozen: Option<(u64, Changes)>,
}

struct Sealing {
    checkpoint: u64,
    list: Vec<u32>,
    at: usize,
    /// The last suffix encoded of the group at `at`.
    after: Option<Box<[u8]>>,
    writer: SealedStateWriter,
}

/// Old groups, or elements of one of them, that one change forgets: more than it can add.
const FORGET_LOOKS: usize = 4;

/// Memory of one change beside its bytes.
const CHANGE_BYTES: usize = 64;

/// Where the key begins in a prefix: behind the key group.
const KEY_AT: usize = 2;

impl CollectionTable {
    /// Reads from `backend`; the first change belongs to checkpoint `current`.
    pub(crate) fn new(id: StateId, backend: Arc<LayeredState>, current: u64) -> Self {
        Self {
            id,
            dirty_count: DirtyCount::new(backend.dirty_bytes().clone()),
            backend,
            table: HashTable::new(),
            groups: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            sealing: None,
            old: VecDeque::new(),
            current,
            confirmed: current.saturating_sub(1),
            numbers: 0,
        }
    }

    /// A number that this checkpoint has not used yet, larger than all before.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The checkpoint that changes made now belong to.
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// The element of `key` with this suffix.
    pub(crate) fn get(
        &self,
        key: EncodedKey<'_>,
        suffix: &[u8],
    ) -> Result<Option<Bytes>, OperatorError> {
        if let Some(group) = self.find(key).and_then(|index| self.group(index))
            && let Some(change) = group.unconfirmed(self.confirmed).find_map(|it| it.get(suffix))
        {
            return Ok(change.clone());
        }
        let store_key = [&key.key_group.to_be_bytes()[..], key.bytes, suffix].concat();
        self.backend.get(&self.id, &store_key).map_err(OperatorError::new)
    }

    /// Writes or, with `None`, deletes one element. Nothing is read.
    pub(crate) fn put(
        &mut self,
        key: EncodedKey<'_>,
        suffix: &[u8],
        value: Option<Bytes>,
    ) -> Result<(), OperatorError> {
        self.forget_some();
        let bytes = value.as_ref().map_or(0, Bytes::len) + suffix.len() + CHANGE_BYTES;
        let group = self.group_to_write(key)?;
        let bytes = bytes + group.prefix.len();
        if group.changes.insert(suffix.into(), value).is_none() {
            self.dirty_count.add(bytes);
        }
        Ok(())
    }

    /// Forgets an element that neither a checkpoint nor the store can hold, since it was added after the last barrier under
    /// a suffix never used before.
    pub(crate) fn take_back(
        &mut self,
        key: EncodedKey<'_>,
        suffix: &[u8],
    ) -> Result<(), OperatorError> {
        self.group_to_write(key)?.changes.remove(suffix);
        Ok(())
    }

    /// Whether there is a change of this element that the store may not show yet.
    pub(crate) fn is_changed(&self, key: EncodedKey<'_>, suffix: &[u8]) -> bool {
        let group = self.find(key).and_then(|index| self.group(index));
        group.is_some_and(|it| it.unconfirmed(self.confirmed).any(|it| it.contains_key(suffix)))
    }

    /// The elements of `key` in the order of their suffixes, as of now.
    pub(crate) fn scan(&self, key: EncodedKey<'_>) -> Result<CollectionScan, OperatorError> {
        let mut newest: BTreeMap<&[u8], &Option<Bytes>> = BTreeMap::new();
        if let Some(group) = self.find(key).and_then(|index| self.group(index)) {
            for (suffix, value) in group.unconfirmed(self.confirmed).flatten() {
                newest.entry(suffix).or_insert(value);
            }
        }
        let overlay: Vec<_> = newest
            .into_iter()
            .map(|(suffix, value)| (Bytes::copy_from_slice(suffix), value.clone()))
            .collect();
        let prefix = [&key.key_group.to_be_bytes()[..], key.bytes].concat();
        let range = KeyRange::prefix(&prefix);
        let stored = self.backend.scan(&self.id, &range).map_err(OperatorError::new)?;
        Ok(CollectionScan {
            overlay: overlay.into_iter().peekable(),
            stored: stored.peekable(),
            prefix_bytes: prefix.len(),
        })
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
        self.numbers = 0;
        if !list.is_empty() {
            let writer = SealedStateWriter::new(self.id.clone(), list.len());
            self.sealing = Some(Sealing { checkpoint, list, at: 0, after: None, writer });
        }
        Ok(())
    }

    /// Seals changes that were frozen, as many as the budget allows. `true` once none is left; the last call that had
    /// something to do gives them all to `done`.
    pub(crate) fn seal_some(
        &mut self,
        budget: &mut SealBudget,
        done: impl FnOnce(SealedState),
    ) -> Result<bool, OperatorError> {
        let Self { sealing, groups, .. } = self;
        let Some(Sealing { checkpoint, list, at, after, writer }) = sealing else {
            return Ok(true);
        };
        while let Some(index) = list.get(*at) {
            let group = groups.get(*index as usize).and_then(Option::as_ref);
            if let Some(group) = group
                && let Some(changes) = group.changes_in(*checkpoint)
            {
                let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                for (suffix, value) in changes.range::<[u8], _>((from, Bound::Unbounded)) {
                    if budget.is_spent() {
                        // `after` names the last one sealed.
                        return Ok(false);
                    }
                    let key: [&[u8]; 2] = [&group.prefix, suffix];
                    match value {
                        Some(value) => writer.put(&key).extend_from_slice(value),
                        None => writer.delete(&key),
                    }
                    budget.spend(value.as_ref().map_or(0, Bytes::len));
                    if budget.is_spent() {
                        *after = Some(suffix.clone());
                        return Ok(false);
                    }
                }
            }
            *after = None;
            *at += 1;
        }
        if let Some(Sealing { checkpoint, list, writer, .. }) = self.sealing.take() {
            self.old.push_back((checkpoint, list));
            done(writer.finish().map_err(OperatorError::new)?);
        }
        Ok(true)
    }

    /// The store shows the changes up to `checkpoint` from now on.
    pub(crate) fn confirm(&mut self, checkpoint: u64) {
        self.confirmed = self.confirmed.max(checkpoint);
    }

    /// Where the elements are stored.
    pub(crate) fn layered(&self) -> (&Arc<LayeredState>, &StateId) {
        (&self.backend, &self.id)
    }

    fn find(&self, key: EncodedKey<'_>) -> Option<usize> {
        let is_of_key = |index: &u32| {
            let group = self.group(*index as usize);
            group.is_some_and(|group| group.prefix.get(KEY_AT..) == Some(key.bytes))
        };
        self.table.find(key.table_hash(), is_of_key).map(|index| *index as usize)
    }

    fn group(&self, index: usize) -> Option<&Group> {
        self.groups.get(index)?.as_ref()
    }

    fn group_to_write(&mut self, key: EncodedKey<'_>) -> Result<&mut Group, OperatorError> {
        let index = self.find(key).unwrap_or_else(|| self.insert(key));
        let (current, confirmed) = (self.current, self.confirmed);
        let Some(Some(group)) = self.groups.get_mut(index) else {
            return Err(OperatorError::new(Bug(format!("collection group {index} is empty"))));
        };
        if group.written_in != current {
            group.begin(current, confirmed);
            self.dirty.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
        Ok(group)
    }

    fn insert(&mut self, key: EncodedKey<'_>) -> usize {
        let table_hash = key.table_hash();
        let prefix = [&key.key_group.to_be_bytes()[..], key.bytes].concat();
        let group = Group {
            prefix: prefix.into(),
            table_hash,
            written_in: 0,
            changes: Changes::new(),
            frozen: None,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.groups.push(None);
            // Four thousand million keys do not fit into memory.
            u32::try_from(self.groups.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.groups.get_mut(index as usize) {
            *place = Some(group);
        }
        let Self { table, groups, .. } = self;
        table.insert_unique(table_hash, index, |index| match groups.get(*index as usize) {
            Some(Some(group)) => group.table_hash,
            _ => 0,
        });
        index as usize
    }

    /// Drops a little of what the store shows by now.
    fn forget_some(&mut self) {
        for _ in 0..FORGET_LOOKS {
            let Some((checkpoint, list)) = self.old.front_mut() else { return };
            if *checkpoint > self.confirmed {
                return;
            }
            let Some(index) = list.last().copied() else {
                self.old.pop_front();
                continue;
            };
            let mut forgotten = true;
            if let Some(place) = self.groups.get_mut(index as usize)
                && let Some(group) = place
            {
                if group.written_in > *checkpoint {
                    // Changed again since; another list has it too.
                    if let Some((_, frozen)) =
                        group.frozen.as_mut().filter(|it| it.0 <= *checkpoint)
                    {
                        frozen.pop_first();
                        forgotten = frozen.is_empty();
                    }
                } else {
                    group.changes.pop_first();
                    forgotten = group.changes.is_empty();
                    if forgotten {
                        if let Ok(entry) =
                            self.table.find_entry(group.table_hash, |of| *of == index)
                        {
                            entry.remove();
                        }
                        *place = None;
                        self.free.push(index);
                    }
                }
            }
            if forgotten {
                list.pop();
            }
        }
    }
}

impl Group {
    /// Changes that the store may not show yet, newest first.
    fn unconfirmed(&self, confirmed: u64) -> impl Iterator<Item = &Changes> {
        let newest = Some((self.written_in, &self.changes));
        let frozen = self.frozen.as_ref().map(|(checkpoint, changes)| (*checkpoint, changes));
        let known = move |(checkpoint, changes)| (checkpoint > confirmed).then_some(changes);
        newest.into_iter().chain(frozen).filter_map(known)
    }

    fn changes_in(&self, checkpoint: u64) -> Option<&Changes> {
        if self.written_in == checkpoint {
            return Some(&self.changes);
        }
        self.frozen.as_ref().filter(|frozen| frozen.0 == checkpoint).map(|(_, changes)| changes)
    }

    /// Sets the changes of an earlier checkpoint aside; those that come now belong to `current`.
    fn begin(&mut self, current: u64, confirmed: u64) {
        let earlier = std::mem::take(&mut self.changes);
        let earlier_in = std::mem::replace(&mut self.written_in, current);
        if earlier_in > confirmed && !mutant(Mutant::NoFrozenElements) {
            self.frozen = Some((earlier_in, earlier));
        }
    }
}

/// Elements of one key; gives suffix and value.
pub(crate) struct CollectionScan {
    overlay: Peekable<std::vec::IntoIter<(Bytes, Option<Bytes>)>>,
    stored: Peekable<LayeredScan>,
    prefix_bytes: usize,
}

impl Iterator for CollectionScan {
    type Item = Result<(Bytes, Bytes), OperatorError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((changed, _)) = self.overlay.peek() else { return self.next_stored() };
            match self.stored.peek() {
                Some(Err(_)) => return self.next_stored(),
                Some(Ok((stored, _))) => {
                    let stored = stored.get(self.prefix_bytes..).unwrap_or_default();
                    if stored < &**changed {
                        return self.next_stored();
                    }
                    if stored == &**changed {
                        self.stored.next();
                    }
                }
                None => {}
            }
            if let Some((suffix, Some(value))) = self.overlay.next() {
                return Some(Ok((suffix, value)));
            }
        }
    }
}

impl CollectionScan {
    fn next_stored(&mut self) -> Option<Result<(Bytes, Bytes), OperatorError>> {
        let item = self.stored.next()?.map_err(OperatorError::new);
        let suffix = |key: &Bytes| key.slice(self.prefix_bytes.min(key.len())..);
        Some(item.map(|(key, value)| (suffix(&key), value)))
    }
}
