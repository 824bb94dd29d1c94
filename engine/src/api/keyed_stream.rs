//! A stream whose elements meet by key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use millstream_checkpoint::StateId;

use super::stream_execution_environment::Program;
use super::{AggregateFunction, DataStream, Keyed, KeyedProcessFunction, WindowedStream};
use crate::coordinator::error_chain;
use crate::error::{GraphError, OperatorError};
use crate::exchange::{InputGate, KeyPartitioner, KeyedBatch};
use crate::graph::{
    BuildContext, Connectors, OperatorDescription, OperatorInfo, StateDescription, Stream,
};
use crate::operator::{Collector, KeyedProcess, RunningAggregate, processing_time_name};
use crate::state::{KeyedStateBackend, RuntimeContext, StateCodec, ValueTable};
use crate::task::{GateTask, ProcessBatch};
use crate::time::WATERMARK_MIN;
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

    /// Runs a function with state and timers of its own. Both are stored under `uid`.
    pub fn process<P>(self, uid: &str, function: P) -> DataStream<KeyedProcessNode<S, K, F, P>>
    where
        P: KeyedProcessFunction<Key = K, Input = S::Item>,
    {
        let mut info = self.program.operator("process");
        info.set_uid(uid);
        let states = describe_states(uid, &function).unwrap_or_else(|error| {
            let reason = error_chain(&error);
            self.program.refuse(GraphError::InvalidFunction { uid: uid.to_owned(), reason });
            Vec::new()
        });
        DataStream::new(KeyedProcessNode { info, edge: self.edge, function, states }, self.program)
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
            accumulators: ValueTable::new(
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
        operators
            .push(self.info.describe(vec![StateDescription { name: ACCUMULATORS.into(), schema }]));
    }

    fn connectors(&self, connectors: &mut Connectors) {
        self.edge.upstream.connectors(connectors);
    }
}

/// Node of [`KeyedStream::process`].
pub struct KeyedProcessNode<S, K, F, P> {
    info: OperatorInfo,
    edge: KeyedEdge<S, K, F>,
    function: P,
    states: Vec<StateDescription>,
}

impl<S, K, F, P> Stream for KeyedProcessNode<S, K, F, P>
where
    S: Stream,
    K: StateCodec + Send,
    F: FnMut(&S::Item) -> K + Clone + Send + 'static,
    P: KeyedProcessFunction<Key = K, Input = S::Item>,
{
    type Item = P::Output;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<Self::Item> + 'static,
    {
        let uid = Arc::clone(&self.info.uid);
        let mut states = KeyedStateBackend::new(context.state_place(&uid));
        let time = states.time_mut();
        time.watermark = context.restored_watermark(&uid).unwrap_or(WATERMARK_MIN);
        let processing_time = context.restored_watermark(&processing_time_name(&uid));
        time.processing_ms = processing_time.unwrap_or(0);
        let operator = KeyedProcess {
            function: self.function.clone(),
            states,
            worker: context.worker(),
            parallelism: context.parallelism(),
            clock: context.clock(),
            forwarded: WATERMARK_MIN,
            clock_runs: true,
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
        operators.push(self.info.describe(self.states.clone()));
    }

    fn connectors(&self, connectors: &mut Connectors) {
        self.edge.upstream.connectors(connectors);
    }
}

/// The states that a function registers, found by opening a copy of it over nothing.
fn describe_states<P: KeyedProcessFunction>(
    uid: &str,
    function: &P,
) -> Result<Vec<StateDescription>, OperatorError> {
    let mut states = KeyedStateBackend::in_memory(uid).map_err(OperatorError::new)?;
    function.clone().open(&mut RuntimeContext::of_backend::<P::Key>(&mut states))?;
    // The timers' keys hold the key too.
    let key = P::Key::schema();
    let schema = |schema: String| if schema.is_empty() { format!("timers {key}") } else { schema };
    let described = states.schemas();
    Ok(described.map(|(name, own)| StateDescription { name, schema: schema(own) }).collect())
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

impl<S, K, F, P> fmt::Debug for KeyedProcessNode<S, K, F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedProcessNode").field("info", &self.info).finish_non_exhaustive()
    }
}

impl<S, K, F, A> fmt::Debug for RunningAggregateNode<S, K, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningAggregateNode").field("info", &self.info).finish_non_exhaustive()
    }
}
