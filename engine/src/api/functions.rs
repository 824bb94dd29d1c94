//! Functions that users implement.

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

/// A key and its value after a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyed<K, V> {
    /// The key.
    pub key: K,
    /// The key's value after the change.
    pub value: V,
}
