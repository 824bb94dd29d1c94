//! Keeps the elements for which a predicate holds.

use super::{Collector, forward_control};
use crate::error::OperatorError;

/// See [`DataStream::filter`](crate::api::DataStream::filter).
pub(crate) struct Filter<F, D> {
    pub(crate) predicate: F,
    pub(crate) downstream: D,
}

forward_control!(Filter<F, D>);

impl<T, F, D> Collector<T> for Filter<F, D>
where
    F: FnMut(&T) -> bool + Send,
    D: Collector<T>,
{
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        if (self.predicate)(&element) {
            self.downstream.collect(element, timestamp)
        } else {
            Ok(())
        }
    }
}
