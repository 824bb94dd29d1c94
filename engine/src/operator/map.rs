//! One element out per element in: infallible, fallible, and from a borrowed record to an owned element.

use std::sync::Arc;

use super::{Collector, forward_control};
use crate::error::{Cause, OperatorError};
use millstream_protocol::records::RecordView;

/// See [`DataStream::map`](crate::api::DataStream::map).
pub(crate) struct Map<F, D> {
    pub(crate) function: F,
    pub(crate) downstream: D,
}

forward_control!(Map<F, D>);

impl<T, U, F, D> Collector<T> for Map<F, D>
where
    F: FnMut(T) -> U + Send,
    D: Collector<U>,
{
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        self.downstream.collect((self.function)(element), timestamp)
    }
}

/// See [`DataStream::try_map`](crate::api::DataStream::try_map).
pub(crate) struct TryMap<F, D> {
    pub(crate) uid: Arc<str>,
    pub(crate) function: F,
    pub(crate) downstream: D,
}

forward_control!(TryMap<F, D>);

impl<T, U, E, F, D> Collector<T> for TryMap<F, D>
where
    F: FnMut(T) -> Result<U, E> + Send,
    E: Into<Cause>,
    D: Collector<U>,
{
    fn collect(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        match (self.function)(element) {
            Ok(mapped) => self.downstream.collect(mapped, timestamp),
            Err(cause) => Err(OperatorError::new(cause).in_operator(&self.uid)),
        }
    }
}

/// See [`RawStream::map`](crate::api::RawStream::map). A type of its own, since `Map`'s bound can not say that the
/// result does not borrow from the record.
pub(crate) struct RawMap<F, D> {
    pub(crate) function: F,
    pub(crate) downstream: D,
}

forward_control!(RawMap<F, D>);

impl<'a, U, F, D> Collector<RecordView<'a>> for RawMap<F, D>
where
    F: for<'r> FnMut(RecordView<'r>) -> U + Send,
    D: Collector<U>,
{
    fn collect(&mut self, element: RecordView<'a>, timestamp: i64) -> Result<(), OperatorError> {
        self.downstream.collect((self.function)(element), timestamp)
    }
}

/// See [`RawStream::try_map`](crate::api::RawStream::try_map).
pub(crate) struct RawTryMap<F, D> {
    pub(crate) uid: Arc<str>,
    pub(crate) function: F,
    pub(crate) downstream: D,
}

forward_control!(RawTryMap<F, D>);

impl<'a, U, E, F, D> Collector<RecordView<'a>> for RawTryMap<F, D>
where
    F: for<'r> FnMut(RecordView<'r>) -> Result<U, E> + Send,
    E: Into<Cause>,
    D: Collector<U>,
{
    fn collect(&mut self, element: RecordView<'a>, timestamp: i64) -> Result<(), OperatorError> {
        match (self.function)(element) {
            Ok(mapped) => self.downstream.collect(mapped, timestamp),
            Err(cause) => Err(OperatorError::new(cause).in_operator(&self.uid)),
        }
    }
}
