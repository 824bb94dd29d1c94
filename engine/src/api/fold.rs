//! The short way to write an aggregate.

use std::fmt;
use std::marker::PhantomData;

use super::AggregateFunction;

/// An [`AggregateFunction`] whose result is its accumulator; made by [`fold`].
pub struct Fold<T, A, F> {
    initial: A,
    add: F,
    element: PhantomData<fn(T)>,
}

/// Aggregates by `add`, beginning with `initial` for every key (and window).
pub fn fold<T, A, F>(initial: A, add: F) -> Fold<T, A, F>
where
    T: Send + 'static,
    A: Clone + Send + 'static,
    F: Fn(&mut A, T) + Clone + Send + 'static,
{
    Fold { initial, add, element: PhantomData }
}

impl<T, A, F> AggregateFunction for Fold<T, A, F>
where
    T: Send + 'static,
    A: Clone + Send + 'static,
    F: Fn(&mut A, T) + Clone + Send + 'static,
{
    type Input = T;
    type Accumulator = A;
    type Output = A;

    fn create_accumulator(&self) -> A {
        self.initial.clone()
    }

    fn add(&self, element: T, accumulator: &mut A) {
        (self.add)(accumulator, element);
    }

    fn result(&self, accumulator: &A) -> A {
        accumulator.clone()
    }
}

impl<T, A: Clone, F: Clone> Clone for Fold<T, A, F> {
    fn clone(&self) -> Self {
        Self { initial: self.initial.clone(), add: self.add.clone(), element: PhantomData }
    }
}

impl<T, A: fmt::Debug, F> fmt::Debug for Fold<T, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fold").field("initial", &self.initial).finish_non_exhaustive()
    }
}
