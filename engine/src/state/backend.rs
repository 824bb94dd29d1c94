//! All keyed state of one operator at one worker.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use millstream_checkpoint::{
    KeyRange, LayeredState, MemoryStore, SealedState, StateId, StoreError,
};
use thiserror::Error;

use super::collection_table::CollectionTable;
use super::current_key::CurrentKey;
use super::timer_queue::{Due, TimerQueue};
use super::ttl::{Expiring, StateTime, StateTtlConfig, take_varint};
use super::value_table::ValueTable;
use super::{EncodedKey, KeyGroups, SealBudget, StateCodec};
use crate::error::{Bug, OperatorError};

/// The states and timers of one operator at one worker, each addressed by name, key and namespace.
///
/// It holds a current key and namespace; the state handles read and write under these. State of one key in another
/// namespace is another state: windows use their own as namespace.
pub struct KeyedStateBackend {
    place: Place,
    states: Vec<Registered>,
    key: CurrentKey,
    time: StateTime,
    event_timers: TimerQueue,
    processing_timers: TimerQueue,
    cleaning: Cleaning,
}

/// What all states of the operator have in common.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) uid: Arc<str>,
    pub(crate) layered: Arc<LayeredState>,
    pub(crate) key_groups: KeyGroups,
    pub(crate) owned: Range<u16>,
    pub(crate) first_checkpoint: u64,
    pub(crate) cache_entries: usize,
}

struct Registered {
    name: Arc<str>,
    schema: String,
    ttl: Option<StateTtlConfig>,
    state: Box<dyn AnyState>,
}

/// Where the cleaning of expired values is.
#[derive(Default)]
struct Cleaning {
    calls: u32,
    state: usize,
    from: Bytes,
}

/// The cleaning does something at one of so many calls, and looks at so many stored values then.
const CLEANING_EVERY: u32 = 16;
const CLEANING_LOOKS: usize = 64;

/// Names that begin like this are the engine's.
pub(crate) const TIMERS_PREFIX: &str = "timers/";
pub(crate) const EVENT_TIMERS: &str = "timers/event-time";
pub(crate) const PROCESSING_TIMERS: &str = "timers/processing-time";

/// A state that can not be used as it was asked for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateAccessError {
    /// The handle was never registered, or by another operator.
    #[error(
        "state {name:?} is not registered here; register it in open() and keep the handle that is given back"
    )]
    NotRegistered {
        /// The state's name, empty for a handle that was never given one.
        name: Arc<str>,
    },
    /// Two states of one operator carry the same name.
    #[error("two states are named {name:?}; give each its own name")]
    DuplicateName {
        /// The name.
        name: Arc<str>,
    },
    /// The name is empty, longer than 1,024 bytes, or one of the engine's.
    #[error(
        "a state can not be named {name:?}; take 1 to 1,024 bytes that do not begin with \"timers/\""
    )]
    InvalidName {
        /// The name.
        name: Arc<str>,
    },
}

const NAME_BYTES_MAX: usize = 1024;

/// What a table of any type can do.
pub(crate) trait AnyState: Send {
    fn freeze(&mut self, checkpoint: u64) -> Result<(), OperatorError>;
    fn seal_some(
        &mut self,
        budget: &mut SealBudget,
        done: &mut dyn FnMut(SealedState),
    ) -> Result<bool, OperatorError>;
    fn confirm(&mut self, checkpoint: u64);
    fn as_any(&mut self) -> &mut dyn Any;
    fn layered(&self) -> (&Arc<LayeredState>, &StateId);
    /// Deletes what is stored under `key` and `suffix`, unless it is in memory, where whoever uses it sees to it.
    fn expire(&mut self, key: EncodedKey<'_>, suffix: &[u8]) -> Result<(), OperatorError>;
}

impl<V: StateCodec + Send> AnyState for ValueTable<V> {
    fn freeze(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.freeze(checkpoint)
    }
    fn seal_some(
        &mut self,
        budget: &mut SealBudget,
        done: &mut dyn FnMut(SealedState),
    ) -> Result<bool, OperatorError> {
        self.seal_some(budget, done)
    }
    fn confirm(&mut self, checkpoint: u64) {
        self.confirm(checkpoint);
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn layered(&self) -> (&Arc<LayeredState>, &StateId) {
        self.layered()
    }
    fn expire(&mut self, key: EncodedKey<'_>, _suffix: &[u8]) -> Result<(), OperatorError> {
        if self.find(key).is_none() {
            let index = self.locate(key);
            *self.write(index)? = None;
        }
        Ok(())
    }
}

impl AnyState for CollectionTable {
    fn freeze(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.freeze(checkpoint)
    }
    fn seal_some(
        &mut self,
        budget: &mut SealBudget,
        done: &mut dyn FnMut(SealedState),
    ) -> Result<bool, OperatorError> {
        self.seal_some(budget, done)
    }
    fn confirm(&mut self, checkpoint: u64) {
        self.confirm(checkpoint);
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn layered(&self) -> (&Arc<LayeredState>, &StateId) {
        self.layered()
    }
    fn expire(&mut self, key: EncodedKey<'_>, suffix: &[u8]) -> Result<(), OperatorError> {
        if self.is_changed(key, suffix) { Ok(()) } else { self.put(key, suffix, None) }
    }
}

impl KeyedStateBackend {
    pub(crate) fn new(place: Place) -> Self {
        let timers = |name| {
            TimerQueue::new(
                StateId::new(Arc::clone(&place.uid), name),
                Arc::clone(&place.layered),
                place.owned.clone(),
                place.first_checkpoint,
            )
        };
        Self {
            event_timers: timers(EVENT_TIMERS),
            processing_timers: timers(PROCESSING_TIMERS),
            place,
            states: Vec::new(),
            key: CurrentKey::default(),
            time: StateTime::default(),
            cleaning: Cleaning::default(),
        }
    }

    /// A backend in memory, over nothing: to find out which states a function registers, and for tests of functions.
    ///
    /// # Errors
    ///
    /// [`StoreError`], which a store in memory does not have.
    pub fn in_memory(operator_uid: &str) -> Result<Self, StoreError> {
        Ok(Self::new(Place {
            uid: operator_uid.into(),
            layered: Arc::new(LayeredState::new(Arc::new(MemoryStore::new()))?),
            key_groups: KeyGroups::new(1, 1),
            owned: 0..1,
            first_checkpoint: 1,
            cache_entries: 1024,
        }))
    }

    /// Sets the current key, in the empty namespace.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if the key can not be encoded.
    pub fn set_current_key<K: StateCodec>(&mut self, key: &K) -> Result<(), OperatorError> {
        let mut bytes = Vec::new();
        key.encode(&mut bytes).map_err(OperatorError::new)?;
        self.key.set(self.place.key_groups.of_key(&bytes));
        Ok(())
    }

    /// Sets the namespace of the current key: any bytes, empty for the plain state of the key.
    pub fn set_current_namespace(&mut self, namespace: &[u8]) {
        self.key.set_namespace(namespace);
    }

    pub(crate) fn set_encoded_key(&mut self, key: EncodedKey<'_>) {
        self.key.set(key);
    }

    /// Makes the key and namespace of a timer the current ones.
    pub(crate) fn set_key_of(&mut self, due: &Due) -> Result<(), OperatorError> {
        let set = self.key.set_stored(self.place.key_groups, due.key_group(), due.key());
        match set {
            Some([]) => Ok(()),
            _ => Err(OperatorError::new(Bug("the key of a timer can not be read".to_owned()))),
        }
    }

    /// The current key, encoded.
    pub(crate) fn encoded_key(&self) -> &[u8] {
        self.key.key()
    }

    pub(crate) fn time(&self) -> StateTime {
        self.time
    }

    pub(crate) fn time_mut(&mut self) -> &mut StateTime {
        &mut self.time
    }

    pub(crate) fn uid(&self) -> &Arc<str> {
        &self.place.uid
    }

    /// Name and schema of every state, timers included.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = (Arc<str>, String)> + '_ {
        let timers = [EVENT_TIMERS, PROCESSING_TIMERS].map(|name| (name.into(), String::new()));
        let own = self.states.iter().map(|state| (Arc::clone(&state.name), state.schema.clone()));
        own.chain(timers)
    }

    /// Whether values of any state expire.
    pub(crate) fn has_ttl(&self) -> bool {
        self.states.iter().any(|state| state.ttl.is_some())
    }

    /// Adds a table of values; gives its slot.
    pub(crate) fn register_values<V: StateCodec + Send>(
        &mut self,
        name: &Arc<str>,
        schema: String,
        ttl: Option<StateTtlConfig>,
    ) -> Result<usize, OperatorError> {
        let place = &self.place;
        let table = ValueTable::<Expiring<V>>::new(
            StateId::new(Arc::clone(&place.uid), Arc::clone(name)),
            Arc::clone(&place.layered),
            place.first_checkpoint,
            place.cache_entries,
        );
        self.register(name, schema, ttl, Box::new(table))
    }

    /// Adds a table of elements; gives its slot.
    pub(crate) fn register_elements(
        &mut self,
        name: &Arc<str>,
        schema: String,
        ttl: Option<StateTtlConfig>,
    ) -> Result<usize, OperatorError> {
        let place = &self.place;
        let table = CollectionTable::new(
            StateId::new(Arc::clone(&place.uid), Arc::clone(name)),
            Arc::clone(&place.layered),
            place.first_checkpoint,
        );
        self.register(name, schema, ttl, Box::new(table))
    }

    fn register(
        &mut self,
        name: &Arc<str>,
        schema: String,
        ttl: Option<StateTtlConfig>,
        state: Box<dyn AnyState>,
    ) -> Result<usize, OperatorError> {
        let name = Arc::clone(name);
        let long = name.len() > NAME_BYTES_MAX;
        if name.is_empty() || long || name.starts_with(TIMERS_PREFIX) {
            return Err(OperatorError::new(StateAccessError::InvalidName { name }));
        }
        if self.states.iter().any(|known| known.name == name) {
            return Err(OperatorError::new(StateAccessError::DuplicateName { name }));
        }
        self.states.push(Registered { name, schema, ttl, state });
        Ok(self.states.len() - 1)
    }

    /// The values in `slot`, the current key and time.
    pub(crate) fn values<V: StateCodec + Send>(
        &mut self,
        slot: usize,
        name: &Arc<str>,
    ) -> Result<(&mut ValueTable<Expiring<V>>, EncodedKey<'_>, StateTime), OperatorError> {
        let Self { states, key, time, .. } = self;
        Ok((table(states, slot, name)?, key.encoded(), *time))
    }

    /// The elements in `slot`, the current key and time.
    pub(crate) fn elements(
        &mut self,
        slot: usize,
        name: &Arc<str>,
    ) -> Result<(&mut CollectionTable, EncodedKey<'_>, StateTime), OperatorError> {
        let Self { states, key, time, .. } = self;
        Ok((table(states, slot, name)?, key.encoded(), *time))
    }

    /// The timers in event time, and the current key.
    pub(crate) fn event_timers(&mut self) -> (&mut TimerQueue, EncodedKey<'_>) {
        (&mut self.event_timers, self.key.encoded())
    }

    /// The timers in processing time, and the current key.
    pub(crate) fn processing_timers(&mut self) -> (&mut TimerQueue, EncodedKey<'_>) {
        (&mut self.processing_timers, self.key.encoded())
    }

    /// When the first timer in processing time may fire.
    pub(crate) fn first_processing_timer(&self) -> Option<i64> {
        self.processing_timers.first_in_memory()
    }

    /// All changes so far belong to `checkpoint`, later ones to the next.
    pub(crate) fn freeze(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.states.iter_mut().try_for_each(|state| state.state.freeze(checkpoint))?;
        self.event_timers.freeze(checkpoint)?;
        self.processing_timers.freeze(checkpoint)
    }

    /// Encodes what was frozen, as much as the budget allows; `true` once nothing is left.
    pub(crate) fn seal_some(
        &mut self,
        budget: &mut SealBudget,
        mut done: impl FnMut(SealedState),
    ) -> Result<bool, OperatorError> {
        for state in &mut self.states {
            if !state.state.seal_some(budget, &mut done)? {
                return Ok(false);
            }
        }
        Ok(self.event_timers.seal_some(budget, &mut done)?
            && self.processing_timers.seal_some(budget, &mut done)?)
    }

    /// The store shows the changes up to `checkpoint` from now on.
    pub(crate) fn confirm(&mut self, checkpoint: u64) {
        self.states.iter_mut().for_each(|state| state.state.confirm(checkpoint));
        self.event_timers.confirm(checkpoint);
        self.processing_timers.confirm(checkpoint);
    }

    /// Now and then deletes stored values that have expired, in the order of their keys, round and round.
    pub(crate) fn clean_some(&mut self) -> Result<(), OperatorError> {
        self.cleaning.calls += 1;
        if self.cleaning.calls < CLEANING_EVERY {
            return Ok(());
        }
        self.cleaning.calls = 0;
        self.clean(CLEANING_LOOKS)
    }

    /// Looks at the next `looks` stored values of states that expire.
    pub(crate) fn clean(&mut self, looks: usize) -> Result<(), OperatorError> {
        let Self { place, states, key, time, cleaning, .. } = self;
        let Some(state) = states.get_mut(cleaning.state) else {
            *cleaning = Cleaning::default();
            return Ok(());
        };
        let Some(ttl) = state.ttl else {
            cleaning.state += 1;
            return Ok(());
        };
        let owned = KeyRange::key_groups(place.owned.start, place.owned.end);
        let start = owned.start.max(cleaning.from.clone());
        let (layered, id) = state.state.layered();
        let scan = layered.scan(id, &KeyRange { start, end: owned.end });
        let mut expired: Vec<Bytes> = Vec::new();
        let mut last: Option<Bytes> = None;
        let mut looked = 0;
        for entry in scan.map_err(OperatorError::new)?.take(looks) {
            let (store_key, value) = entry.map_err(OperatorError::new)?;
            looked += 1;
            if take_varint(&value).is_some_and(|(expiry, _)| ttl.has_expired(expiry, *time)) {
                expired.push(store_key.clone());
            }
            last = Some(store_key);
        }
        for store_key in &expired {
            let Some((group, rest)) = store_key.split_first_chunk::<2>() else { continue };
            let group = u16::from_be_bytes(*group);
            if let Some(suffix) = key.set_stored(place.key_groups, group, rest) {
                state.state.expire(key.encoded(), suffix)?;
            }
        }
        if looked < looks {
            cleaning.state += 1;
            cleaning.from = Bytes::new();
        } else if let Some(last) = last {
            // The smallest key behind the last one.
            cleaning.from = [&last[..], &[0]].concat().into();
        }
        Ok(())
    }
}

fn table<'s, T: 'static>(
    states: &'s mut [Registered],
    slot: usize,
    name: &Arc<str>,
) -> Result<&'s mut T, OperatorError> {
    let unknown = || OperatorError::new(StateAccessError::NotRegistered { name: Arc::clone(name) });
    let state =
        states.get_mut(slot).filter(|state| Arc::ptr_eq(&state.name, name)).ok_or_else(unknown)?;
    state.state.as_any().downcast_mut().ok_or_else(unknown)
}

impl fmt::Debug for KeyedStateBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.states.iter().map(|state| &state.name).collect();
        f.debug_struct("KeyedStateBackend")
            .field("uid", &self.place.uid)
            .field("states", &names)
            .finish_non_exhaustive()
    }
}
