//! A stream whose elements meet by key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use millstream_checkpoint::StateId;

use super::stream_execution_environment::Program;
use super::{AggregateFunction, DataStream, Keyed, WindowedStream};
use crate::error::OperatorError;
use crate::exchange::{InputGate, KeyPartitioner, KeyedBatch};
use crate::graph::{
    BuildContext, Connectors, OperatorDescription, OperatorInfo, StateDescription, Stream,
};
use crate::operator::{Collector, RunningAggregate};
use crate::state::{StateCodec, ValueState};
use crate::task::{GateTask, ProcessBatch};
use crate::window::TumblingEventTimeWindows;

/// A stream partitioned by key: elements of one key meet at the worker that owns the key's group.
pub struct KeyedStream<S, K, F> {
    pub(super) edge: KeyedEdge<S, K, F>,
    pub(super) program: Program,
}

/// The exchange between an upstream and a keyed operator.
pub(super) struct KeyedEdge<S, K, F> {
    pub(super) upstream: S,
    key_selector: F,
    key: PhantomData<fn() -> K>,
}

impl<S, K, F> KeyedStream<S, K, F> {
    pub(super) fn new(upstream: S, key_selector: F, program: Program) -> Self {
        Self { edge: KeyedEdge { upstream, key_selector, key: PhantomData }, program }
    }
}

impl<S, K, F> KeyedStream<S, K, F>
where
    S: Stream,
    K: StateCodec + Send,
    F: FnMut(&S::Item) -> K + Clone + Send + 'static,
{
    /// A running aggregate per key: one output for every input, the key's result so far. The outputs are a changelog: of
    /// one key the last is the valid one.
    pub fn aggregate<A>(self, function: A) -> DataStream<RunningAggregateNode<S, K, F, A>>
    where
        A: AggregateFunction<Input = S::Item>,
        A::Accumulator: StateCodec + Send,
        A::Output: Send + 'static,
    {
        let info = self.program.operator("aggregate");
        DataStream::new(RunningAggregateNode { info, edge: self.edge, function }, self.program)
    }

    /// Collects elements into windows of event time.
    pub fn window(self, assigner: TumblingEventTimeWindows) -> WindowedStream<S, K, F> {
        WindowedStream { edge: self.edge, assigner, program: self.program }
    }
}

impl<S, K, F> KeyedEdge<S, K, F>
where
    S: Stream,
    K: StateCodec + Send,
    F: FnMut(&S::Item) -> K + Clone + Send + 'static,
{
    /// Puts `operator` behind the exchange and the partitioner at the end of the upstream.
    pub(super) fn attach<C>(
        &self,
        context: &mut BuildContext<'_>,
        position: usize,
        operator: C,
    ) -> Result<(), OperatorError>
    where
        C: ProcessBatch<KeyedBatch<S::Item>> + 'static,
    {
        let ends = context.exchange::<KeyedBatch<S::Item>>(position)?;
        context.add_task(GateTask::new(InputGate::new(ends.inputs), operator));
        let key_groups = context.key_groups();
        let partitioner =
            KeyPartitioner::<K, _, _>::new(self.key_selector.clone(), key_groups, ends.outputs);
        self.upstream.attach(context, partitioner)
    }
}

/// Node of [`KeyedStream::aggregate`].
pub struct RunningAggregateNode<S, K, F, A> {
    info: OperatorInfo,
    edge: KeyedEdge<S, K, F>,
    function: A,
}

impl<S, K, F, A> Stream for RunningAggregateNode<S, K, F, A>
where
    S: Stream,
    K: StateCodec + Send,
    F: FnMut(&S::Item) -> K + Clone + Send + 'static,
    A: AggregateFunction<Input = S::Item>,
    A::Accumulator: StateCodec + Send,
    A::Output: Send + 'static,
{
    type Item = Keyed<K, A::Output>;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<Self::Item> + 'static,
    {
        let uid = Arc::clone(&self.info.uid);
        let operator = RunningAggregate {
            function: self.function.clone(),
            key: PhantomData::<fn() -> K>,
            accumulators: ValueState::new(
                StateId::new(Arc::clone(&uid), ACCUMULATORS),
                context.state(),
                context.first_checkpoint(),
                context.state_cache_entries(),
            ),
            counters: context.counters(&uid),
            uid,
            downstream,
        };
        self.edge.attach(context, self.info.position, operator)
    }

    fn set_uid(&mut self, uid: &str) {
        self.info.set_uid(uid);
    }

    fn describe(&self, operators: &mut Vec<OperatorDescription>) {
        self.edge.upstream.describe(operators);
        let schema = format!("{} -> {}", K::schema(), A::Accumulator::schema());
        operators.push(self.info.describe(vec![StateDescription { name: ACCUMULATORS, schema }]));
    }

    fn connectors(&self, connectors: &mut Connectors) {
        self.edge.upstream.connectors(connectors);
    }
}

const ACCUMULATORS: &str = "accumulators";

impl<S, K, F> fmt::Debug for KeyedStream<S, K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedStream").finish_non_exhaustive()
    }
}

impl<S, K, F> fmt::Debug for KeyedEdge<S, K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedEdge").finish_non_exhaustive()
    }
}

impl<S, K, F, A> fmt::Debug for RunningAggregateNode<S, K, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningAggregateNode").field("info", &self.info).finish_non_exhaustive()
    }
}
