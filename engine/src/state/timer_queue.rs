//! The timers of one operator at one worker, in the order in which they fire.
//!
//! They are stored under key group, timestamp, key and namespace, so that one key group's timers lie in their order. Of
//! those that are due next a slice is kept in memory; the rest may be as many as the store can hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use millstream_checkpoint::{
    KeyRange, LayeredState, SealedState, SealedStateWriter, StateId, StoreError,
};

use super::dirty_count::DirtyCount;
use super::mutant::{Mutant, mutant};
use super::{EncodedKey, SealBudget};
use crate::error::{Bug, OperatorError};

/// By store key: whether the timer exists.
type Changes = BTreeMap<Bytes, bool>;

/// Timers that can be registered, deleted and taken in order; a timer of the same key, namespace and time exists once.
pub(crate) struct TimerQueue {
    id: StateId,
    backend: Arc<LayeredState>,
    owned: Range<u16>,
    /// Changes since the last barrier.
    changes: Changes,
    dirty_count: DirtyCount,
    /// Changes of the checkpoint that is not confirmed yet.
    frozen: Option<(u64, Changes)>,
    sealing: Option<Sealing>,
    /// What the store shows by now; dropped little by little.
    old: Vec<Changes>,
    /// All timers before `horizon`.
    due: BTreeSet<Due>,
    /// The first timestamp whose timers are not in `due`; `None` if all timers are.
    horizon: Option<i64>,
    current: u64,
    confirmed: u64,
}

/// A timer, ordered as timers fire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    timestamp: i64,
    store_key: Bytes,
}

struct Sealing {
    /// The last store key sealed.
    after: Option<Bytes>,
    writer: SealedStateWriter,
}

/// Timers of one key group that are read at once; those of one timestamp are never split. Few in tests, so that small
/// histories go over the horizon.
const SLICE: usize = if cfg!(test) { 3 } else { 64 };

/// Beyond so many timers in memory the later half is left to the store.
const DUE_MAX: usize = if cfg!(test) { 12 } else { 65_536 };

/// Old changes dropped with each new one.
const FORGET: usize = 4;

/// Where the timestamp and where the key begin in a store key.
const TIMESTAMP_AT: usize = 2;
const KEY_AT: usize = 10;

/// Memory of one timer beside its store key.
const TIMER_BYTES: usize = 96;

impl TimerQueue {
    /// The timers of the keys in the `owned` key groups; the first change belongs to checkpoint `current`.
    pub(crate) fn new(
        id: StateId,
        backend: Arc<LayeredState>,
        owned: Range<u16>,
        current: u64,
    ) -> Self {
        Self {
            id,
            dirty_count: DirtyCount::new(backend.dirty_bytes().clone()),
            backend,
            owned,
            changes: Changes::new(),
            frozen: None,
            sealing: None,
            old: Vec::new(),
            due: BTreeSet::new(),
            horizon: Some(i64::MIN),
            current,
            confirmed: current.saturating_sub(1),
        }
    }

    /// Registers a timer; harmless if there is the same one. `key` holds key and namespace.
    pub(crate) fn register(&mut self, key: EncodedKey<'_>, timestamp: i64) {
        let store_key = store_key(key, timestamp);
        if self.horizon.is_none_or(|horizon| timestamp < horizon) {
            self.due.insert(Due { timestamp, store_key: store_key.clone() });
            self.shorten();
        }
        self.change(store_key, true);
    }

    /// Deletes a timer; harmless if there is none.
    pub(crate) fn delete(&mut self, key: EncodedKey<'_>, timestamp: i64) {
        let due = Due { timestamp, store_key: store_key(key, timestamp) };
        self.due.remove(&due);
        self.change(due.store_key, false);
    }

    /// Timestamp of the earliest timer.
    pub(crate) fn first(&mut self) -> Result<Option<i64>, OperatorError> {
        while self.due.is_empty() && self.horizon.is_some() {
            self.load()?;
        }
        Ok(self.due.first().map(|due| due.timestamp))
    }

    /// The same, as far as it is known without a look into the store; that look is never behind by more than one change.
    pub(crate) fn first_in_memory(&self) -> Option<i64> {
        self.due.first().map(|due| due.timestamp).or(self.horizon)
    }

    /// Takes the earliest timer at or before `time`.
    pub(crate) fn take(&mut self, time: i64) -> Result<Option<Due>, OperatorError> {
        while self.due.is_empty() && self.horizon.is_some_and(|horizon| horizon <= time) {
            self.load()?;
        }
        if self.due.first().is_none_or(|due| due.timestamp > time) {
            return Ok(None);
        }
        let due = self.due.pop_first();
        if let Some(due) = &due {
            self.change(due.store_key.clone(), false);
        }
        Ok(due)
    }

    fn change(&mut self, store_key: Bytes, exists: bool) {
        for _ in 0..FORGET {
            let Some(old) = self.old.last_mut() else { break };
            if old.pop_first().is_none() {
                self.old.pop();
            }
        }
        let bytes = store_key.len() + TIMER_BYTES;
        if self.changes.insert(store_key, exists).is_none() {
            self.dirty_count.add(bytes);
        }
    }

    /// Leaves the later half of the timers in memory to the store and the changes, if there are very many.
    fn shorten(&mut self) {
        if self.due.len() <= DUE_MAX {
            return;
        }
        let Some(middle) = self.due.iter().nth(DUE_MAX / 2).map(|due| due.timestamp) else {
            return;
        };
        if self.due.first().is_some_and(|first| first.timestamp == middle) {
            // Half of them fire at one time.
            return;
        }
        drop(self.due.split_off(&Due { timestamp: middle, store_key: Bytes::new() }));
        self.horizon = Some(middle);
    }

    /// Reads the next timers of every key group and moves the horizon behind those that are read of all.
    fn load(&mut self) -> Result<(), OperatorError> {
        let Some(horizon) = self.horizon else { return Ok(()) };
        let mut read: Vec<Due> = Vec::new();
        let mut next: Option<i64> = None;
        for key_group in self.owned.clone() {
            if let Some(cut) = self.load_key_group(key_group, horizon, &mut read)? {
                next = Some(next.map_or(cut, |next| next.min(cut)));
            }
        }
        self.due
            .extend(read.into_iter().filter(|due| next.is_none_or(|next| due.timestamp < next)));
        self.horizon = next;
        Ok(())
    }

    /// Reads timers from `horizon` on; gives the timestamp of the first one that was not read.
    fn load_key_group(
        &self,
        key_group: u16,
        horizon: i64,
        read: &mut Vec<Due>,
    ) -> Result<Option<i64>, OperatorError> {
        let bound = |group: u16, timestamp: i64| {
            let mut bytes = group.to_be_bytes().to_vec();
            bytes.extend_from_slice(&ordered(timestamp));
            Bytes::from(bytes)
        };
        let start = bound(key_group, horizon);
        let end = Bytes::copy_from_slice(&(key_group + 1).to_be_bytes());
        let range = KeyRange { start: start.clone(), end: Some(end.clone()) };
        let mut stored =
            self.backend.scan(&self.id, &range).map_err(OperatorError::new)?.peekable();
        let frozen = self.frozen.iter().filter(|_| !mutant(Mutant::NoFrozenTimers));
        let frozen = frozen.flat_map(|(_, changes)| changes.range(start.clone()..end.clone()));
        let mut frozen = frozen.peekable();
        let mut changed = self.changes.range(start.clone()..end.clone()).peekable();
        let first = read.len();
        loop {
            let of_store = match stored.peek() {
                Some(Ok((key, _))) => Some(key),
                Some(Err(_)) => return Err(scan_error(stored.next())),
                None => None,
            };
            let candidates =
                [changed.peek().map(|it| it.0), frozen.peek().map(|it| it.0), of_store];
            let Some(key) = candidates.into_iter().flatten().min().cloned() else {
                return Ok(None);
            };
            let newest = changed.next_if(|it| *it.0 == key).map(|it| *it.1);
            let older = frozen.next_if(|it| *it.0 == key).map(|it| *it.1);
            let oldest = stored.next_if(|it| matches!(it, Ok((of, _)) if *of == key)).map(|_| true);
            if !newest.or(older).or(oldest).unwrap_or(false) {
                continue;
            }
            let due = Due::of_store_key(key)?;
            if read.len() - first >= SLICE
                && read.last().is_some_and(|last| last.timestamp != due.timestamp)
            {
                return Ok(Some(due.timestamp));
            }
            read.push(due);
        }
    }

    /// The changes so far belong to `checkpoint`, later ones to the next. Takes no time, however many there are.
    pub(crate) fn freeze(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        if self.sealing.is_some() {
            return Err(OperatorError::new(Bug(format!(
                "checkpoint {checkpoint} begins before the last one of {} is sealed",
                self.id
            ))));
        }
        self.forget_frozen();
        self.dirty_count.frozen();
        self.current = checkpoint + 1;
        let changes = std::mem::take(&mut self.changes);
        if !changes.is_empty() {
            let writer = SealedStateWriter::new(self.id.clone(), changes.len()).ascending();
            self.sealing = Some(Sealing { after: None, writer });
            self.frozen = Some((checkpoint, changes));
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
        if let (Some(Sealing { after, writer }), Some((_, frozen))) =
            (&mut self.sealing, &self.frozen)
        {
            let from = after.clone().map_or(Bound::Unbounded, Bound::Excluded);
            for (key, exists) in frozen.range((from, Bound::Unbounded)) {
                if budget.is_spent() {
                    return Ok(false);
                }
                if *exists {
                    writer.put(&[key]);
                } else {
                    writer.delete(&[key]);
                }
                budget.spend(0);
                *after = Some(key.clone());
            }
        }
        if let Some(Sealing { writer, .. }) = self.sealing.take() {
            done(writer.finish().map_err(OperatorError::new)?);
        }
        Ok(true)
    }

    /// The store shows the changes up to `checkpoint` from now on.
    pub(crate) fn confirm(&mut self, checkpoint: u64) {
        self.confirmed = self.confirmed.max(checkpoint);
        if self.sealing.is_none() {
            self.forget_frozen();
        }
    }

    fn forget_frozen(&mut self) {
        if let Some((_, changes)) = self.frozen.take_if(|frozen| frozen.0 <= self.confirmed) {
            self.old.push(changes);
        }
    }
}

impl Due {
    fn of_store_key(store_key: Bytes) -> Result<Self, OperatorError> {
        let bytes = store_key.get(TIMESTAMP_AT..KEY_AT).and_then(|it| <[u8; 8]>::try_from(it).ok());
        let Some(bytes) = bytes else {
            let what = format!("timer state has a key of {} bytes", store_key.len());
            return Err(OperatorError::new(Bug(what)));
        };
        Ok(Self { timestamp: i64::from_be_bytes(bytes) ^ i64::MIN, store_key })
    }

    /// When it fires, in milliseconds.
    pub(crate) fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// Its key group.
    pub(crate) fn key_group(&self) -> u16 {
        self.store_key.first_chunk().map_or(0, |group| u16::from_be_bytes(*group))
    }

    /// Its key and namespace, as they were registered.
    pub(crate) fn key(&self) -> &[u8] {
        self.store_key.get(KEY_AT..).unwrap_or_default()
    }
}

/// Bytes that are ordered as the timestamps are.
fn ordered(timestamp: i64) -> [u8; 8] {
    (timestamp ^ i64::MIN).to_be_bytes()
}

fn store_key(key: EncodedKey<'_>, timestamp: i64) -> Bytes {
    let mut bytes = Vec::with_capacity(KEY_AT + key.bytes.len());
    bytes.extend_from_slice(&key.key_group.to_be_bytes());
    bytes.extend_from_slice(&ordered(timestamp));
    bytes.extend_from_slice(key.bytes);
    bytes.into()
}

fn scan_error<T>(item: Option<Result<T, StoreError>>) -> OperatorError {
    match item {
        Some(Err(error)) => OperatorError::new(error),
        _ => OperatorError::new(Bug("an error of a scan is gone".to_owned())),
    }
}
