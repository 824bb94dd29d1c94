//! A keyed stream cut into windows.

use std::fmt;
use std::sync::Arc;

use millstream_checkpoint::StateId;

use super::keyed_stream::KeyedEdge;
use super::stream_execution_environment::Program;
use super::{AggregateFunction, DataStream};
use crate::error::OperatorError;
use crate::graph::{
    BuildContext, Connectors, OperatorDescription, OperatorInfo, StateDescription, Stream,
};
use crate::operator::{Collector, WindowAggregate};
use crate::state::StateCodec;
use crate::time::WATERMARK_MIN;
use crate::window::{OpenWindows, TumblingEventTimeWindows, WindowResult};

/// A keyed stream whose elements have been given windows.
pub struct WindowedStream<S, K, F> {
    pub(super) edge: KeyedEdge<S, K, F>,
    pub(super) assigner: TumblingEventTimeWindows,
    pub(super) program: Program,
}

impl<S, K, F> WindowedStream<S, K, F>
where
    S: Stream,
    K: StateCodec + Send,
    F: FnMut(&S::Item) -> K + Clone + Send + 'static,
{
    /// One result per key and window, when the watermark reaches the window's last millisecond. Elements that come later
    /// are dropped and counted (`late_records_dropped`). The result's timestamp is the window's last millisecond.
    pub fn aggregate<A>(self, function: A) -> DataStream<WindowAggregateNode<S, K, F, A>>
    where
        A: AggregateFunction<Input = S::Item>,
        A::Accumulator: StateCodec + Send,
        A::Output: Send + 'static,
    {
        let info = self.program.operator("window");
        let node = WindowAggregateNode { info, edge: self.edge, assigner: self.assigner, function };
        DataStream::new(node, self.program)
    }
}

/// Node of [`WindowedStream::aggregate`].
pub struct WindowAggregateNode<S, K, F, A> {
    info: OperatorInfo,
    edge: KeyedEdge<S, K, F>,
    assigner: TumblingEventTimeWindows,
    function: A,
}

impl<S, K, F, A> Stream for WindowAggregateNode<S, K, F, A>
where
    S: Stream,
    K: StateCodec + Send,
    F: FnMut(&S::Item) -> K + Clone + Send + 'static,
    A: AggregateFunction<Input = S::Item>,
    A::Accumulator: StateCodec + Send,
    A::Output: Send + 'static,
{
    type Item = WindowResult<K, A::Output>;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<Self::Item> + 'static,
    {
        let uid = Arc::clone(&self.info.uid);
        let operator = WindowAggregate {
            assigner: self.assigner,
            function: self.function.clone(),
            windows: OpenWindows::new(
                StateId::new(Arc::clone(&uid), PANES),
                context.state(),
                context.key_groups(),
                context.key_groups().range_of(context.worker()),
                self.assigner,
                context.first_checkpoint(),
            ),
            watermark: context.restored_watermark(&uid).unwrap_or(WATERMARK_MIN),
            forwarded: WATERMARK_MIN,
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
        let (key, accumulator) = (K::schema(), A::Accumulator::schema());
        let schema = format!("{} {key} -> {accumulator}", self.assigner.schema());
        operators.push(self.info.describe(vec![StateDescription { name: PANES.into(), schema }]));
    }

    fn connectors(&self, connectors: &mut Connectors) {
        self.edge.upstream.connectors(connectors);
    }
}

const PANES: &str = "panes";

impl<S, K, F> fmt::Debug for WindowedStream<S, K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowedStream").field("assigner", &self.assigner).finish_non_exhaustive()
    }
}

impl<S, K, F, A> fmt::Debug for WindowAggregateNode<S, K, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowAggregateNode").field("info", &self.info).finish_non_exhaustive()
    }
}
