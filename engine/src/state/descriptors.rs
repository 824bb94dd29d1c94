//! What a state is called and how its values live: given to a [`RuntimeContext`](super::RuntimeContext), which gives a
//! handle back.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::StateTtlConfig;
use crate::api::AggregateFunction;

/// Describes a [`ValueState`](super::ValueState).
pub struct ValueStateDescriptor<T> {
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Option<StateTtlConfig>,
    value: PhantomData<fn() -> T>,
}

/// Describes a [`ListState`](super::ListState).
pub struct ListStateDescriptor<T> {
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Option<StateTtlConfig>,
    element: PhantomData<fn() -> T>,
}

/// Describes a [`MapState`](super::MapState).
pub struct MapStateDescriptor<K, V> {
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Option<StateTtlConfig>,
    entry: PhantomData<fn() -> (K, V)>,
}

/// Describes a [`ReducingState`](super::ReducingState).
pub struct ReducingStateDescriptor<T> {
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Option<StateTtlConfig>,
    pub(crate) reduce: ReduceFunction<T>,
}

/// Describes an [`AggregatingState`](super::AggregatingState).
pub struct AggregatingStateDescriptor<A> {
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Option<StateTtlConfig>,
    pub(crate) function: A,
}

/// Makes one value of two.
pub(crate) type ReduceFunction<T> = Arc<dyn Fn(T, T) -> T + Send + Sync>;

impl<T> ValueStateDescriptor<T> {
    /// A state of this name, which is unique within the operator and keeps the state over restarts.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ttl: None, value: PhantomData }
    }
}

impl<T> ListStateDescriptor<T> {
    /// A state of this name, which is unique within the operator and keeps the state over restarts.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ttl: None, element: PhantomData }
    }
}

impl<K, V> MapStateDescriptor<K, V> {
    /// A state of this name, which is unique within the operator and keeps the state over restarts.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ttl: None, entry: PhantomData }
    }
}

impl<T> ReducingStateDescriptor<T> {
    /// A state of this name, which is unique within the operator and keeps the state over restarts. `reduce` makes one
    /// value of the one so far and the one that is added.
    pub fn new(
        name: impl Into<Arc<str>>,
        reduce: impl Fn(T, T) -> T + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), ttl: None, reduce: Arc::new(reduce) }
    }
}

impl<A: AggregateFunction> AggregatingStateDescriptor<A> {
    /// A state of this name, which is unique within the operator and keeps the state over restarts.
    pub fn new(name: impl Into<Arc<str>>, function: A) -> Self {
        Self { name: name.into(), ttl: None, function }
    }
}

macro_rules! ttl_and_debug {
    ($($descriptor:ident<$($param:ident),*>;)*) => {
        $(
            impl<$($param),*> $descriptor<$($param),*> {
                /// Lets values expire. May be added, changed and taken off between two starts of a job; a value keeps the
                /// expiry that it was written with.
                #[must_use]
                pub fn with_ttl(mut self, ttl: StateTtlConfig) -> Self {
                    self.ttl = Some(ttl);
                    self
                }
            }

            impl<$($param),*> fmt::Debug for $descriptor<$($param),*> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($descriptor))
                        .field("name", &self.name)
                        .field("ttl", &self.ttl)
                        .finish_non_exhaustive()
                }
            }
        )*
    };
}

ttl_and_debug! {
    ValueStateDescriptor<T>;
    ListStateDescriptor<T>;
    MapStateDescriptor<K, V>;
    ReducingStateDescriptor<T>;
    AggregatingStateDescriptor<A>;
}
