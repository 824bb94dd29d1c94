//! Where a function registers its states when it is opened.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::descriptors::{
    AggregatingStateDescriptor, ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor,
    ValueStateDescriptor,
};
use super::handles::{AggregatingState, Handle, ListState, MapState, ReducingState, ValueState};
use super::{KeyedStateBackend, StateCodec, StateTtlConfig};
use crate::api::AggregateFunction;
use crate::error::OperatorError;

/// What a function finds when it is opened at one worker (Flink's `RuntimeContext`): it gives handles for descriptors.
pub struct RuntimeContext<'a> {
    backend: &'a mut KeyedStateBackend,
    key_schema: String,
    worker: usize,
    parallelism: usize,
}

impl<'a> RuntimeContext<'a> {
    pub(crate) fn new(
        backend: &'a mut KeyedStateBackend,
        key_schema: String,
        worker: usize,
        parallelism: usize,
    ) -> Self {
        Self { backend, key_schema, worker, parallelism }
    }

    /// Registers states in `backend`, whose keys are of type `K`, outside of a job.
    pub fn of_backend<K: StateCodec>(backend: &'a mut KeyedStateBackend) -> Self {
        Self::new(backend, K::schema(), 0, 1)
    }

    /// Uid of the operator.
    #[must_use]
    pub fn operator_uid(&self) -> &str {
        self.backend.uid()
    }

    /// Index of the worker among those of the job.
    #[must_use]
    pub fn index_of_this_subtask(&self) -> usize {
        self.worker
    }

    /// Number of workers of the job.
    #[must_use]
    pub fn number_of_parallel_subtasks(&self) -> usize {
        self.parallelism
    }

    /// Registers a state of one value per key.
    ///
    /// # Errors
    ///
    /// [`StateAccessError`](super::StateAccessError) as the error's cause, for a name that is taken or not allowed.
    pub fn value_state<T: StateCodec + Send>(
        &mut self,
        descriptor: ValueStateDescriptor<T>,
    ) -> Result<ValueState<T>, OperatorError> {
        let ValueStateDescriptor { name, ttl, .. } = descriptor;
        let handle = self.values::<T>("value", name, ttl)?;
        Ok(ValueState { handle, value: PhantomData })
    }

    /// Registers a state of one list per key.
    ///
    /// # Errors
    ///
    /// As for [`value_state`](Self::value_state).
    pub fn list_state<T: StateCodec>(
        &mut self,
        descriptor: ListStateDescriptor<T>,
    ) -> Result<ListState<T>, OperatorError> {
        let ListStateDescriptor { name, ttl, .. } = descriptor;
        let schema = format!("list {} -> {}", self.key_schema, T::schema());
        let handle = self.elements(schema, name, ttl)?;
        Ok(ListState { handle, element: PhantomData })
    }

    /// Registers a state of one map per key.
    ///
    /// # Errors
    ///
    /// As for [`value_state`](Self::value_state).
    pub fn map_state<K: StateCodec, V: StateCodec>(
        &mut self,
        descriptor: MapStateDescriptor<K, V>,
    ) -> Result<MapState<K, V>, OperatorError> {
        let MapStateDescriptor { name, ttl, .. } = descriptor;
        let schema = format!("map {} -> {} -> {}", self.key_schema, K::schema(), V::schema());
        let handle = self.elements(schema, name, ttl)?;
        Ok(MapState { handle, entry: PhantomData })
    }

    /// Registers a state of one reduced value per key.
    ///
    /// # Errors
    ///
    /// As for [`value_state`](Self::value_state).
    pub fn reducing_state<T: StateCodec + Send>(
        &mut self,
        descriptor: ReducingStateDescriptor<T>,
    ) -> Result<ReducingState<T>, OperatorError> {
        let ReducingStateDescriptor { name, ttl, reduce } = descriptor;
        let handle = self.values::<T>("reducing", name, ttl)?;
        Ok(ReducingState { handle, reduce: Some(reduce) })
    }

    /// Registers a state of one accumulator per key.
    ///
    /// # Errors
    ///
    /// As for [`value_state`](Self::value_state).
    pub fn aggregating_state<A>(
        &mut self,
        descriptor: AggregatingStateDescriptor<A>,
    ) -> Result<AggregatingState<A>, OperatorError>
    where
        A: AggregateFunction,
        A::Accumulator: StateCodec + Send,
    {
        let AggregatingStateDescriptor { name, ttl, function } = descriptor;
        let handle = self.values::<A::Accumulator>("aggregating", name, ttl)?;
        Ok(AggregatingState { handle, function: Some(function) })
    }

    fn values<T: StateCodec + Send>(
        &mut self,
        kind: &str,
        name: Arc<str>,
        ttl: Option<StateTtlConfig>,
    ) -> Result<Handle, OperatorError> {
        let schema = format!("{kind} {} -> {}", self.key_schema, T::schema());
        let slot = self.backend.register_values::<T>(&name, schema, ttl)?;
        Ok(Handle { slot, name, ttl })
    }

    fn elements(
        &mut self,
        schema: String,
        name: Arc<str>,
        ttl: Option<StateTtlConfig>,
    ) -> Result<Handle, OperatorError> {
        let slot = self.backend.register_elements(&name, schema, ttl)?;
        Ok(Handle { slot, name, ttl })
    }
}

impl fmt::Debug for RuntimeContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeContext")
            .field("operator_uid", &self.backend.uid())
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}
