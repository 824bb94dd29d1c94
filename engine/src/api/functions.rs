//! Functions that users implement, and the plainest of them.

use std::marker::PhantomData;

/// An aggregate: elements go into an accumulator, a result comes out.
///
/// The accumulator is the state: it is kept per key (and window), checkpointed, and moved between workers, so it must hold
/// everything that [`result`](Self::result) needs.
pub trait AggregateFunction: Clone + Send + 'static {
    /// What is aggregated.
    type Input: Send + 'static;
    /// What is kept.
    type Accumulator;
    /// What comes out.
    type Output;

    /// The accumulator of a key that has seen nothing.
    fn create_accumulator(&self) -> Self::Accumulator;
    /// Takes one element in.
    fn add(&self, element: Self::Input, accumulator: &mut Self::Accumulator);
    /// The result so far.
    fn result(&self, accumulator: &Self::Accumulator) -> Self::Output;
}

/// Counts elements.
#[derive(Debug)]
pub struct Count<T>(PhantomData<fn(T)>);

impl<T> Count<T> {
    /// A count of elements of any kind.
    #[must_use]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Count<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T> Default for Count<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + 'static> AggregateFunction for Count<T> {
    type Input = T;
    type Accumulator = u64;
    type Output = u64;

    fn create_accumulator(&self) -> u64 {
        0
    }

    fn add(&self, _element: T, count: &mut u64) {
        *count += 1;
    }

    fn result(&self, count: &u64) -> u64 {
        *count
    }
}

/// A key and its value after a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyed<K, V> {
    /// The key.
    pub key: K,
    /// The key's value after the change.
    pub value: V,
}
