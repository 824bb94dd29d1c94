//! State as functions see it: a handle per state, which reads and writes under the current key of a context.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::collection_table::{CollectionScan, CollectionTable};
use super::descriptors::ReduceFunction;
use super::ttl::{Expiring, NEVER, StateTime, put_varint, split_expiry};
use super::value_table::ValueTable;
use super::{EncodedKey, KeyedStateBackend, StateCodec, StateTtlConfig};
use crate::api::AggregateFunction;
use crate::error::OperatorError;

/// Where handles find their state: a [`ProcessContext`](crate::api::ProcessContext), or the backend itself.
pub trait StateContext {
    /// The states of the operator, with the current key set.
    fn states(&mut self) -> &mut KeyedStateBackend;
}

impl StateContext for KeyedStateBackend {
    fn states(&mut self) -> &mut KeyedStateBackend {
        self
    }
}

/// Which state a handle is of. The default is none at all; its use is an error that says so.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) slot: usize,
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Option<StateTtlConfig>,
}

impl Default for Handle {
    fn default() -> Self {
        Self { slot: usize::MAX, name: "".into(), ttl: None }
    }
}

/// One value per key.
///
/// In memory the value is decoded; it is encoded once per checkpoint, however often it changes.
pub struct ValueState<T> {
    pub(crate) handle: Handle,
    pub(crate) value: PhantomData<fn() -> T>,
}

/// A list per key, in the order of addition.
///
/// Every element is stored by itself: to add one, nothing is read or written again.
pub struct ListState<T> {
    pub(crate) handle: Handle,
    pub(crate) element: PhantomData<fn() -> T>,
}

/// A map per key, in the order of the encoded map keys.
///
/// Every entry is stored by itself: one is read and written without the others.
pub struct MapState<K, V> {
    pub(crate) handle: Handle,
    pub(crate) entry: PhantomData<fn() -> (K, V)>,
}

/// One value per key that everything added is reduced into.
pub struct ReducingState<T> {
    pub(crate) handle: Handle,
    pub(crate) reduce: Option<ReduceFunction<T>>,
}

/// One accumulator per key that everything added goes into.
pub struct AggregatingState<A> {
    pub(crate) handle: Handle,
    pub(crate) function: Option<A>,
}

impl<T: StateCodec + Send> ValueState<T> {
    /// The value of the current key.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if the store fails, the stored bytes are no `T`, or the handle is not registered.
    pub fn value<'c>(
        &self,
        ctx: &'c mut impl StateContext,
    ) -> Result<Option<&'c T>, OperatorError> {
        read(&self.handle, ctx.states())
    }

    /// Sets the value of the current key. The one before is not read.
    ///
    /// # Errors
    ///
    /// As for [`value`](Self::value).
    pub fn update(&self, ctx: &mut impl StateContext, value: T) -> Result<(), OperatorError> {
        let (table, key, time) = ctx.states().values::<T>(self.handle.slot, &self.handle.name)?;
        let index = table.locate(key);
        *table.write(index)? = Some(Expiring { expires_at: self.handle.expires_at(time), value });
        Ok(())
    }

    /// Deletes the value of the current key.
    ///
    /// # Errors
    ///
    /// As for [`value`](Self::value).
    pub fn clear(&self, ctx: &mut impl StateContext) -> Result<(), OperatorError> {
        clear::<T>(&self.handle, ctx.states())
    }
}

impl<T: StateCodec + Send> ReducingState<T> {
    /// The value of the current key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn get<'c>(&self, ctx: &'c mut impl StateContext) -> Result<Option<&'c T>, OperatorError> {
        read(&self.handle, ctx.states())
    }

    /// Reduces `value` into that of the current key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn add(&self, ctx: &mut impl StateContext, value: T) -> Result<(), OperatorError> {
        let Some(reduce) = &self.reduce else { return Err(self.handle.not_registered()) };
        change(&self.handle, ctx.states(), |before| match before {
            Some(before) => reduce(before, value),
            None => value,
        })
    }

    /// Deletes the value of the current key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn clear(&self, ctx: &mut impl StateContext) -> Result<(), OperatorError> {
        clear::<T>(&self.handle, ctx.states())
    }
}

impl<A> AggregatingState<A>
where
    A: AggregateFunction,
    A::Accumulator: StateCodec + Send,
{
    /// The result of the current key; `None` if nothing was added.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn get(&self, ctx: &mut impl StateContext) -> Result<Option<A::Output>, OperatorError> {
        let Some(function) = &self.function else { return Err(self.handle.not_registered()) };
        let accumulator = read(&self.handle, ctx.states())?;
        Ok(accumulator.map(|accumulator| function.result(accumulator)))
    }

    /// Adds an element to the accumulator of the current key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn add(&self, ctx: &mut impl StateContext, element: A::Input) -> Result<(), OperatorError> {
        let Some(function) = &self.function else { return Err(self.handle.not_registered()) };
        change(&self.handle, ctx.states(), |before| {
            let mut accumulator = before.unwrap_or_else(|| function.create_accumulator());
            function.add(element, &mut accumulator);
            accumulator
        })
    }

    /// Deletes the accumulator of the current key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn clear(&self, ctx: &mut impl StateContext) -> Result<(), OperatorError> {
        clear::<A::Accumulator>(&self.handle, ctx.states())
    }
}

impl Handle {
    fn expires_at(&self, time: StateTime) -> u64 {
        self.ttl.map_or(NEVER, |ttl| ttl.expires_at(time))
    }

    fn has_expired(&self, expires_at: u64, time: StateTime) -> bool {
        self.ttl.is_some_and(|ttl| ttl.has_expired(expires_at, time))
    }

    fn hides_expired(&self) -> bool {
        self.ttl.is_some_and(StateTtlConfig::hides_expired)
    }

    fn is_prolonged_by_reads(&self) -> bool {
        self.ttl.is_some_and(StateTtlConfig::is_prolonged_by_reads)
    }

    fn not_registered(&self) -> OperatorError {
        let name = Arc::clone(&self.name);
        OperatorError::new(super::StateAccessError::NotRegistered { name })
    }
}

/// The value of the current key, after what its time to live has to say.
fn read<'c, T: StateCodec + Send>(
    handle: &Handle,
    states: &'c mut KeyedStateBackend,
) -> Result<Option<&'c T>, OperatorError> {
    let (table, key, time) = states.values::<T>(handle.slot, &handle.name)?;
    let index = table.load(key)?;
    if handle.ttl.is_some()
        && let Some(expires_at) = table.value(index).map(|value| value.expires_at)
    {
        if handle.has_expired(expires_at, time) {
            if handle.hides_expired() {
                *table.write(index)? = None;
            }
        } else if handle.is_prolonged_by_reads()
            && let Some(value) = table.write(index)?
        {
            value.expires_at = handle.expires_at(time);
        }
    }
    Ok(table.value(index).map(|value| &value.value))
}

/// Makes the value of the current key from the one before. An expired one counts as none, visible or not.
fn change<T: StateCodec + Send>(
    handle: &Handle,
    states: &mut KeyedStateBackend,
    new: impl FnOnce(Option<T>) -> T,
) -> Result<(), OperatorError> {
    let (table, key, time): (&mut ValueTable<Expiring<T>>, _, _) =
        states.values(handle.slot, &handle.name)?;
    let index = table.load(key)?;
    let place = table.write(index)?;
    let before = place.take().filter(|before| !handle.has_expired(before.expires_at, time));
    let value = new(before.map(|before| before.value));
    *place = Some(Expiring { expires_at: handle.expires_at(time), value });
    Ok(())
}

fn clear<T: StateCodec + Send>(
    handle: &Handle,
    states: &mut KeyedStateBackend,
) -> Result<(), OperatorError> {
    let (table, key, _) = states.values::<T>(handle.slot, &handle.name)?;
    let index = table.locate(key);
    *table.write(index)? = None;
    Ok(())
}

/// Reads the elements of a list or a map and applies the time to live to each.
struct Elements<'c> {
    table: &'c mut CollectionTable,
    key: EncodedKey<'c>,
    time: StateTime,
    handle: &'c Handle,
}

impl<'c> Elements<'c> {
    fn of(handle: &'c Handle, states: &'c mut KeyedStateBackend) -> Result<Self, OperatorError> {
        let (table, key, time) = states.elements(handle.slot, &handle.name)?;
        Ok(Self { table, key, time, handle })
    }

    fn encode<T: StateCodec>(&self, value: &T) -> Result<Bytes, OperatorError> {
        let mut bytes = Vec::new();
        put_varint(self.handle.expires_at(self.time), &mut bytes);
        value.encode(&mut bytes).map_err(OperatorError::new)?;
        Ok(bytes.into())
    }

    /// The value in `bytes`; an expired one is deleted.
    fn decode<T: StateCodec>(
        &mut self,
        suffix: &[u8],
        bytes: &Bytes,
    ) -> Result<Option<T>, OperatorError> {
        let (expires_at, value) = split_expiry::<T>(bytes).map_err(OperatorError::new)?;
        if self.handle.has_expired(expires_at, self.time) {
            if self.handle.hides_expired() {
                self.table.put(self.key, suffix, None)?;
                return Ok(None);
            }
        } else if self.handle.is_prolonged_by_reads() {
            let mut prolonged = Vec::with_capacity(bytes.len() + 1);
            put_varint(self.handle.expires_at(self.time), &mut prolonged);
            prolonged.extend_from_slice(value);
            self.table.put(self.key, suffix, Some(prolonged.into()))?;
        }
        T::decode(value).map(Some).map_err(OperatorError::new)
    }

    fn scan(&self) -> Result<CollectionScan, OperatorError> {
        self.table.scan(self.key)
    }
}

/// A list's suffixes: the checkpoint in which the element was added, and a number within it. Both only grow, also over
/// restarts and when a key moves to another worker, so that an addition needs no look at what there is.
fn list_suffix(checkpoint: u64, number: u64) -> [u8; 16] {
    ((u128::from(checkpoint) << 64) | u128::from(number)).to_be_bytes()
}

impl<T: StateCodec> ListState<T> {
    /// The elements of the current key in the order of addition.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn get(&self, ctx: &mut impl StateContext) -> Result<Vec<T>, OperatorError> {
        let mut elements = Elements::of(&self.handle, ctx.states())?;
        let mut found = Vec::new();
        for element in elements.scan()? {
            let (suffix, bytes) = element?;
            found.extend(elements.decode(&suffix, &bytes)?);
        }
        Ok(found)
    }

    /// Adds an element at the end. Nothing is read.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn add(&self, ctx: &mut impl StateContext, element: &T) -> Result<(), OperatorError> {
        let elements = Elements::of(&self.handle, ctx.states())?;
        let bytes = elements.encode(element)?;
        let number = elements.table.next_number();
        let suffix = list_suffix(elements.table.current(), number);
        elements.table.put(elements.key, &suffix, Some(bytes))
    }

    /// Adds elements at the end.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn add_all<'t>(
        &self,
        ctx: &mut impl StateContext,
        elements: impl IntoIterator<Item = &'t T>,
    ) -> Result<(), OperatorError>
    where
        T: 't,
    {
        elements.into_iter().try_for_each(|element| self.add(ctx, element))
    }

    /// Replaces all elements.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn update<'t>(
        &self,
        ctx: &mut impl StateContext,
        elements: impl IntoIterator<Item = &'t T>,
    ) -> Result<(), OperatorError>
    where
        T: 't,
    {
        self.clear(ctx)?;
        self.add_all(ctx, elements)
    }

    /// Deletes all elements of the current key; reads their keys to do so.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn clear(&self, ctx: &mut impl StateContext) -> Result<(), OperatorError> {
        let elements = Elements::of(&self.handle, ctx.states())?;
        let new = elements.table.current().to_be_bytes();
        for element in elements.scan()? {
            let (suffix, _) = element?;
            if suffix.starts_with(&new) {
                elements.table.take_back(elements.key, &suffix)?;
            } else {
                elements.table.put(elements.key, &suffix, None)?;
            }
        }
        Ok(())
    }
}

impl<K: StateCodec, V: StateCodec> MapState<K, V> {
    /// The value of a map key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn get(&self, ctx: &mut impl StateContext, key: &K) -> Result<Option<V>, OperatorError> {
        let mut elements = Elements::of(&self.handle, ctx.states())?;
        let suffix = encoded(key)?;
        match elements.table.get(elements.key, &suffix)? {
            Some(bytes) => elements.decode(&suffix, &bytes),
            None => Ok(None),
        }
    }

    /// Whether there is a value of a map key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn contains(&self, ctx: &mut impl StateContext, key: &K) -> Result<bool, OperatorError> {
        Ok(self.get(ctx, key)?.is_some())
    }

    /// Sets the value of a map key. Nothing is read.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn put(
        &self,
        ctx: &mut impl StateContext,
        key: &K,
        value: &V,
    ) -> Result<(), OperatorError> {
        let elements = Elements::of(&self.handle, ctx.states())?;
        let bytes = elements.encode(value)?;
        elements.table.put(elements.key, &encoded(key)?, Some(bytes))
    }

    /// Deletes the value of a map key.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn remove(&self, ctx: &mut impl StateContext, key: &K) -> Result<(), OperatorError> {
        let elements = Elements::of(&self.handle, ctx.states())?;
        elements.table.put(elements.key, &encoded(key)?, None)
    }

    /// All entries of the current key in the order of their encoded map keys.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn entries(&self, ctx: &mut impl StateContext) -> Result<Vec<(K, V)>, OperatorError> {
        let mut elements = Elements::of(&self.handle, ctx.states())?;
        let mut found = Vec::new();
        for element in elements.scan()? {
            let (suffix, bytes) = element?;
            if let Some(value) = elements.decode(&suffix, &bytes)? {
                found.push((K::decode(&suffix).map_err(OperatorError::new)?, value));
            }
        }
        Ok(found)
    }

    /// Whether the current key has no entry.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn is_empty(&self, ctx: &mut impl StateContext) -> Result<bool, OperatorError> {
        let mut elements = Elements::of(&self.handle, ctx.states())?;
        for element in elements.scan()? {
            let (suffix, bytes) = element?;
            if elements.decode::<V>(&suffix, &bytes)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes all entries of the current key; reads their keys to do so.
    ///
    /// # Errors
    ///
    /// As for [`ValueState::value`].
    pub fn clear(&self, ctx: &mut impl StateContext) -> Result<(), OperatorError> {
        let elements = Elements::of(&self.handle, ctx.states())?;
        for element in elements.scan()? {
            elements.table.put(elements.key, &element?.0, None)?;
        }
        Ok(())
    }
}

fn encoded<T: StateCodec>(value: &T) -> Result<Vec<u8>, OperatorError> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes).map_err(OperatorError::new)?;
    Ok(bytes)
}

macro_rules! handles {
    ($($state:ident<$($param:ident),*> { $($field:ident),* };)*) => {
        $(
            /// Without a state; to be replaced in `open`.
            impl<$($param),*> Default for $state<$($param),*> {
                fn default() -> Self {
                    Self { handle: Handle::default(), $($field: Default::default()),* }
                }
            }

            impl<$($param),*> fmt::Debug for $state<$($param),*> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($state))
                        .field("name", &self.handle.name)
                        .finish_non_exhaustive()
                }
            }
        )*
    };
}

handles! {
    ValueState<T> { value };
    ListState<T> { element };
    MapState<K, V> { entry };
    ReducingState<T> { reduce };
    AggregatingState<A> { function };
}

impl<T> Clone for ValueState<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), value: PhantomData }
    }
}

impl<T> Clone for ListState<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), element: PhantomData }
    }
}

impl<K, V> Clone for MapState<K, V> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), entry: PhantomData }
    }
}

impl<T> Clone for ReducingState<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), reduce: self.reduce.clone() }
    }
}

impl<A: Clone> Clone for AggregatingState<A> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), function: self.function.clone() }
    }
}
