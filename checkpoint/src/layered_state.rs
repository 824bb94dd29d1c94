//! The read view of state: deltas that are not in the store yet, newest first, over the store.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::delta::{Changes, DeltaEntry, FrozenDelta, StateId};
use crate::error::StoreError;
use crate::ids::CheckpointRef;
use crate::store::{KeyRange, StateStore, StoreScan};

/// State as of the last frozen checkpoint; shared by the workers (reads), the coordinator (freeze,
/// confirm, drop) and one background thread (apply, persist).
///
/// A worker reads its own active and frozen changes first and asks here for the rest.
#[derive(Debug)]
pub struct LayeredState {
    store: Arc<dyn StateStore>,
    // Guards only the list, which is replaced as a whole; no I/O happens under it.
    layers: RwLock<Layers>,
    // Two appliers would ingest the same changes in the wrong order.
    applier: Mutex<()>,
    dirty: DirtyBytes,
}

/// About how many bytes of changes the workers hold that no checkpoint has frozen yet. Every worker adds and takes off its
/// own part; anybody may read it at any time. Whoever takes checkpoints takes one early when there are too many.
#[derive(Clone, Debug, Default)]
pub struct DirtyBytes(Arc<AtomicUsize>);

impl DirtyBytes {
    /// The bytes now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds changes of `bytes`.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes off what was added: it has been frozen.
    pub fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Oldest first.
#[derive(Clone, Debug, Default)]
struct Layers {
    list: Arc<Vec<Layer>>,
    /// How many of the list, from the front, are confirmed.
    confirmed: usize,
    /// The last one that went into the store.
    applied: Option<CheckpointRef>,
}

#[derive(Clone, Debug)]
struct Layer {
    at: CheckpointRef,
    delta: Arc<FrozenDelta>,
}

/// What one call of [`LayeredState::apply_confirmed`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedStep {
    /// The store now holds everything up to here (persisted later).
    pub up_to: CheckpointRef,
    /// Checkpoints merged into it.
    pub checkpoints: usize,
    /// Changes written.
    pub entries: usize,
    /// Bytes that were freed in memory.
    pub bytes: usize,
}

/// All confirmed state at one checkpoint, see [`LayeredState::snapshot`].
pub struct StateSnapshot {
    /// The checkpoint.
    pub at: Option<CheckpointRef>,
    /// The entries of every state that ever had one, states in order.
    pub scans: Vec<(StateId, StoreScan)>,
}

impl std::fmt::Debug for StateSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateSnapshot")
            .field("at", &self.at)
            .field("states", &self.scans.len())
            .finish_non_exhaustive()
    }
}

impl LayeredState {
    /// A view of the store alone.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails.
    pub fn new(store: Arc<dyn StateStore>) -> Result<Self, StoreError> {
        let layers = Layers { applied: store.floor()?, ..Layers::default() };
        let dirty = DirtyBytes::default();
        Ok(Self { store, layers: RwLock::new(layers), applier: Mutex::new(()), dirty })
    }

    /// The count of bytes that the workers have changed since their last barrier.
    #[must_use]
    pub fn dirty_bytes(&self) -> &DirtyBytes {
        &self.dirty
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn StateStore> {
        &self.store
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails.
    pub fn get(&self, state: &StateId, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        // The list is taken before the store is read: a layer that is applied in between is then seen
        // twice, never missed.
        let layers = Arc::clone(&self.read().list);
        for layer in layers.iter().rev() {
            let Some(changes) = layer.delta.shared_changes(state) else { continue };
            if let Some(at) = changes.find(key) {
                return Ok(changes.entry(at).1);
            }
        }
        self.store.get(state, key)
    }

    /// The entries of a range in key order, as of now.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails; later errors come as items.
    pub fn scan(&self, state: &StateId, range: &KeyRange) -> Result<LayeredScan, StoreError> {
        let layers = Arc::clone(&self.read().list);
        self.scan_layers(&layers, state, range)
    }

    /// Everything confirmed as it is now: the last confirmed checkpoint and the entries of every state at it. Nothing that is
    /// confirmed or applied later shows in it. `None` as the checkpoint: nothing was ever confirmed here.
    ///
    /// Call it where no checkpoint is being confirmed, as the coordinator does between two; the scans may then be read by
    /// any thread for as long as it takes. They hold what they show: memory of the layers, files of the store.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails; later errors come as items.
    pub fn snapshot(&self) -> Result<StateSnapshot, StoreError> {
        let (list, confirmed, applied) = {
            let layers = self.read();
            (Arc::clone(&layers.list), layers.confirmed, layers.applied)
        };
        let layers = list.get(..confirmed).unwrap_or_default();
        let mut states: BTreeSet<StateId> = self.store.states()?.into_iter().collect();
        states.extend(layers.iter().flat_map(|layer| layer.delta.states().cloned()));
        let mut scans: Vec<(StateId, StoreScan)> = Vec::new();
        for state in states {
            let scan = self.scan_layers(layers, &state, &KeyRange::all())?;
            scans.push((state, Box::new(scan)));
        }
        Ok(StateSnapshot { at: layers.last().map(|layer| layer.at).or(applied), scans })
    }

    fn scan_layers(
        &self,
        layers: &[Layer],
        state: &StateId,
        range: &KeyRange,
    ) -> Result<LayeredScan, StoreError> {
        let mut cursors = Vec::new();
        for layer in layers.iter().rev() {
            let Some(changes) = layer.delta.shared_changes(state) else { continue };
            let from = changes.lower_bound(&range.start);
            let to = match &range.end {
                Some(end) => changes.lower_bound(end),
                None => changes.len(),
            };
            if from < to {
                cursors.push(Cursor { changes: Arc::clone(changes), at: from, end: to });
            }
        }
        Ok(LayeredScan { cursors, store: self.store.scan(state, range)?.peekable() })
    }

    /// Puts the frozen changes of a checkpoint on top. They count as unconfirmed.
    ///
    /// # Errors
    ///
    /// [`StoreError::OutOfOrder`] if it is not the checkpoint after the last one.
    pub fn push_frozen(
        &self,
        at: CheckpointRef,
        delta: Arc<FrozenDelta>,
    ) -> Result<(), StoreError> {
        let mut layers = self.write();
        let last = layers.list.last().map(|layer| layer.at).or(layers.applied);
        if last.is_some_and(|last| last.checkpoint.next() != at.checkpoint) {
            return Err(StoreError::OutOfOrder { at, last });
        }
        let mut list = Vec::clone(&layers.list);
        list.push(Layer { at, delta });
        layers.list = Arc::new(list);
        Ok(())
    }

    /// The ledger holds `at`: it and everything below may be applied. Harmless if known already.
    ///
    /// # Errors
    ///
    /// [`StoreError::OutOfOrder`] if there is no such checkpoint here.
    pub fn confirm(&self, at: CheckpointRef) -> Result<(), StoreError> {
        let mut layers = self.write();
        if let Some(found) = layers.list.iter().position(|layer| layer.at == at) {
            layers.confirmed = layers.confirmed.max(found + 1);
            return Ok(());
        }
        let last = layers.applied;
        if last == Some(at) { Ok(()) } else { Err(StoreError::OutOfOrder { at, last }) }
    }

    /// Soft rollback: forgets every unconfirmed checkpoint and says which.
    pub fn drop_unconfirmed(&self) -> Vec<CheckpointRef> {
        let mut layers = self.write();
        let mut list = Vec::clone(&layers.list);
        let dropped = list.split_off(layers.confirmed.min(list.len()));
        layers.list = Arc::new(list);
        dropped.into_iter().map(|layer| layer.at).collect()
    }

    /// C7: moves the oldest confirmed changes into the store, several checkpoints in one ingestion as
    /// long as they have at most `bytes_max` bytes together (one is always taken). `None` if there is
    /// nothing to do. Call it from a background thread until then.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails; the process must end then.
    pub fn apply_confirmed(&self, bytes_max: usize) -> Result<Option<AppliedStep>, StoreError> {
        let _applier = self.applier.lock().unwrap_or_else(PoisonError::into_inner);
        let (list, confirmed) = {
            let layers = self.read();
            (Arc::clone(&layers.list), layers.confirmed)
        };
        let mut bytes = 0;
        let mut count = 0;
        for layer in list.iter().take(confirmed) {
            bytes += layer.delta.bytes();
            if count > 0 && bytes > bytes_max {
                bytes -= layer.delta.bytes();
                break;
            }
            count += 1;
        }
        let chosen = list.get(..count).unwrap_or_default();
        let Some(up_to) = chosen.last().map(|layer| layer.at) else { return Ok(None) };
        let states: BTreeSet<&StateId> =
            chosen.iter().flat_map(|layer| layer.delta.states()).collect();
        let mut entries = 0;
        for state in states {
            let newest_first = chosen.iter().rev().filter_map(|layer| {
                let changes = layer.delta.shared_changes(state)?;
                Some(Cursor { changes: Arc::clone(changes), at: 0, end: changes.len() })
            });
            let mut merged = Merge { cursors: newest_first.collect() }.inspect(|_| entries += 1);
            self.store.ingest(state, up_to, &mut merged)?;
        }
        // The list may have grown or lost its unconfirmed end meanwhile, never its front.
        let mut layers = self.write();
        layers.list = Arc::new(layers.list.get(count..).unwrap_or_default().to_vec());
        layers.confirmed -= count;
        layers.applied = Some(up_to);
        Ok(Some(AppliedStep { up_to, checkpoints: count, entries, bytes }))
    }

    /// Makes the store durable and raises its floor to the last checkpoint applied; gives the floor.
    /// Deltas up to it may be deleted once META has passed them too.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails; the process must end then.
    pub fn persist(&self) -> Result<Option<CheckpointRef>, StoreError> {
        let _applier = self.applier.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = self.read().applied;
        if let Some(at) = applied
            && self.store.floor()? != Some(at)
        {
            self.store.persist_floor(at)?;
        }
        Ok(applied)
    }

    /// Bytes of changes in memory that are not in the store yet: confirmed, unconfirmed.
    #[must_use]
    pub fn pending_bytes(&self) -> (usize, usize) {
        let layers = self.read();
        let (confirmed, unconfirmed) = layers.list.split_at(layers.confirmed);
        let sum = |part: &[Layer]| part.iter().map(|layer| layer.delta.bytes()).sum();
        (sum(confirmed), sum(unconfirmed))
    }

    fn read(&self) -> RwLockReadGuard<'_, Layers> {
        self.layers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Layers> {
        self.layers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the changes of one state in one layer.
#[derive(Debug)]
struct Cursor {
    changes: Arc<Changes>,
    at: usize,
    end: usize,
}

impl Cursor {
    fn key(&self) -> Option<&[u8]> {
        (self.at < self.end).then(|| self.changes.key(self.at))
    }
}

/// Merges layers, newest first in the list; of equal keys the newest wins.
#[derive(Debug)]
struct Merge {
    cursors: Vec<Cursor>,
}

/// The smallest key of all cursors.
fn smallest(cursors: &[Cursor]) -> Option<&[u8]> {
    cursors.iter().filter_map(Cursor::key).min()
}

/// Moves every cursor past the smallest key; gives what the newest layer says about it.
fn take_smallest(cursors: &mut [Cursor]) -> Option<DeltaEntry> {
    let mut newest: Option<(&[u8], &Cursor)> = None;
    for cursor in cursors.iter() {
        if let Some(key) = cursor.key()
            && newest.is_none_or(|(smallest, _)| key < smallest)
        {
            newest = Some((key, cursor));
        }
    }
    let (_, cursor) = newest?;
    let entry = cursor.changes.entry(cursor.at);
    for cursor in cursors {
        if cursor.key() == Some(&entry.0[..]) {
            cursor.at += 1;
        }
    }
    Some(entry)
}

impl Iterator for Merge {
    type Item = DeltaEntry;

    fn next(&mut self) -> Option<DeltaEntry> {
        if let [only] = self.cursors.as_mut_slice() {
            let entry = (only.at < only.end).then(|| only.changes.entry(only.at));
            only.at += 1;
            return entry;
        }
        take_smallest(&mut self.cursors)
    }
}

/// Entries of a [`LayeredState::scan`].
pub struct LayeredScan {
    cursors: Vec<Cursor>,
    store: Peekable<StoreScan>,
}

impl Iterator for LayeredScan {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(layered) = smallest(&self.cursors) else { return self.store.next() };
            match self.store.peek() {
                Some(Err(_)) => {
                    self.cursors.clear();
                    return self.store.next();
                }
                Some(Ok((stored, _))) if **stored < *layered => return self.store.next(),
                Some(Ok((stored, _))) if **stored == *layered => drop(self.store.next()),
                _ => {}
            }
            if let Some((key, Some(value))) = take_smallest(&mut self.cursors) {
                return Some(Ok((key, value)));
            }
        }
    }
}

impl std::fmt::Debug for LayeredScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayeredScan").field("layers", &self.cursors.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
