//! Any number of elements out per element in.

use super::{Collector, forward_control};
use crate::error::OperatorError;

/// See [`DataStream::flat_map`](crate::api::DataStream::flat_map).
pub(crate) struct FlatMap<F, D> {
    pub(crate) function: F,
    pub(crate) downstream: D,
}

forward_control!(FlatMap<F, D>);

impl<T, I, F, D> Collector<T> for FlatMap<F, D>
where
    F: FnMut(T) -> I + Send,
    I: IntoIterator,
    D: Collector<I::Item>,
{
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        for output in (self.function)(element) {
            self.downstream.collect(output, timestamp)?;
        }
        Ok(())
    }
}
