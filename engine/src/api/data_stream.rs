//! A stream of owned elements and the operators that need no key.

use std::fmt;
use std::sync::Arc;

use super::stream_execution_environment::Program;
use super::{KeyedStream, Sink, SinkWriter, Source, SourceReader};
use crate::error::{Cause, OperatorError};
use crate::graph::{
    BuildContext, ConnectorDescription, Connectors, OperatorDescription, OperatorInfo, Pipeline,
    Stream,
};
use crate::operator::{Collector, Filter, FlatMap, Map, SinkOperator, TryMap};
use crate::task::{SourceTask, Typed};
use crate::time::{SplitWatermarks, TimestampAssigner, WatermarkStrategy};

/// A stream of owned elements. Each operator consumes the stream and gives the next one, as with iterators.
pub struct DataStream<S> {
    pub(super) stream: S,
    pub(super) program: Program,
}

impl<S> DataStream<S> {
    pub(crate) fn new(stream: S, program: Program) -> Self {
        Self { stream, program }
    }
}

impl<S: Stream> DataStream<S> {
    /// Names the last operator. State and positions are stored under it, so give one to every source and every operator
    /// with state. Default: the operator's kind and position. A job whose operators, uids or state types have changed is
    /// refused by an older state directory.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.stream.set_uid(uid);
        self
    }

    /// One element out per element in.
    pub fn map<U, F>(self, function: F) -> DataStream<MapNode<S, F>>
    where
        F: FnMut(S::Item) -> U + Clone + Send + 'static,
        U: Send + 'static,
    {
        let info = self.program.operator("map");
        self.then(|upstream| MapNode { info, upstream, function })
    }

    /// One element out per element in; an error ends the run and names this operator and the element's place.
    pub fn try_map<U, E, F>(self, function: F) -> DataStream<TryMapNode<S, F>>
    where
        F: FnMut(S::Item) -> Result<U, E> + Clone + Send + 'static,
        U: Send + 'static,
        E: Into<Cause> + 'static,
    {
        let info = self.program.operator("map");
        self.then(|upstream| TryMapNode { info, upstream, function })
    }

    /// Keeps the elements for which `predicate` holds.
    pub fn filter<F>(self, predicate: F) -> DataStream<FilterNode<S, F>>
    where
        F: FnMut(&S::Item) -> bool + Clone + Send + 'static,
    {
        let info = self.program.operator("filter");
        self.then(|upstream| FilterNode { info, upstream, predicate })
    }

    /// Any number of elements out per element in.
    pub fn flat_map<I, F>(self, function: F) -> DataStream<FlatMapNode<S, F>>
    where
        F: FnMut(S::Item) -> I + Clone + Send + 'static,
        I: IntoIterator + 'static,
        I::Item: Send + 'static,
    {
        let info = self.program.operator("flat-map");
        self.then(|upstream| FlatMapNode { info, upstream, function })
    }

    /// Brings all elements of one key to one worker.
    pub fn key_by<K, F>(self, key_selector: F) -> KeyedStream<S, K, F>
    where
        F: FnMut(&S::Item) -> K + Clone + Send + 'static,
    {
        KeyedStream::new(self.stream, key_selector, self.program)
    }

    /// Ends the stream in `sink`.
    pub fn sink_to<W>(self, sink: W) -> DataStreamSink
    where
        W: Sink + 'static,
        W::Writer: SinkWriter<S::Item>,
    {
        let Self { stream, program } = self;
        let mut ends = PipelineEnds::default();
        stream.describe(&mut ends.operators);
        stream.connectors(&mut ends.connectors);
        let description = sink.description();
        let attach = move |context: &mut BuildContext<'_>, uid: &Arc<str>| {
            let writer = sink_operator(&sink, context, uid)?;
            stream.attach(context, writer)
        };
        DataStreamSink::new(program, Box::new(attach), ends, description)
    }

    pub(super) fn then<N>(self, node: impl FnOnce(S) -> N) -> DataStream<N> {
        DataStream { stream: node(self.stream), program: self.program }
    }
}

/// The end of a stream; kept only to name the sink.
pub struct DataStreamSink {
    program: Program,
    pipeline: usize,
}

/// What a pipeline is made of besides its chains.
#[derive(Default)]
pub(super) struct PipelineEnds {
    pub(super) operators: Vec<OperatorDescription>,
    pub(super) connectors: Connectors,
}

impl DataStreamSink {
    pub(super) fn new(
        program: Program,
        attach: crate::graph::AttachPipeline,
        ends: PipelineEnds,
        description: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Self {
        let PipelineEnds { mut operators, mut connectors } = ends;
        let info = program.operator("sink");
        connectors.sinks.push(ConnectorDescription { uid: Arc::clone(&info.uid), description });
        operators.push(info.describe(Vec::new()));
        let pipeline = program.add_pipeline(Pipeline { attach, operators, connectors });
        Self { program, pipeline }
    }

    /// Names the sink.
    pub fn uid(self, uid: &str) -> Self {
        self.program.set_sink_uid(self.pipeline, uid);
        self
    }
}

impl fmt::Debug for DataStreamSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataStreamSink").field("pipeline", &self.pipeline).finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for DataStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataStream").finish_non_exhaustive()
    }
}

pub(super) fn sink_operator<W: Sink>(
    sink: &W,
    context: &BuildContext<'_>,
    uid: &Arc<str>,
) -> Result<SinkOperator<W::Writer>, OperatorError> {
    let writer =
        sink.create_writer(context.sink_context(uid)).map_err(|error| error.in_operator(uid))?;
    Ok(SinkOperator { uid: Arc::clone(uid), writer, counters: context.counters(uid) })
}

/// Node of [`StreamExecutionEnvironment::from_source`](super::StreamExecutionEnvironment::from_source).
#[derive(Debug)]
pub struct SourceNode<S, A> {
    pub(super) info: OperatorInfo,
    pub(super) source: S,
    pub(super) strategy: WatermarkStrategy<A>,
}

impl<S, A> Stream for SourceNode<S, A>
where
    S: Source,
    S::Reader: SourceReader,
    <S::Reader as SourceReader>::Item: Send + 'static,
    A: TimestampAssigner<<S::Reader as SourceReader>::Item> + Clone + 'static,
{
    type Item = <S::Reader as SourceReader>::Item;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<Self::Item> + 'static,
    {
        let parts = source_parts(&self.info, &self.source, &self.strategy, context)?;
        context.add_task(parts.into_task(Typed, &self.strategy, downstream, context));
        Ok(())
    }

    fn set_uid(&mut self, uid: &str) {
        self.info.set_uid(uid);
    }

    fn describe(&self, operators: &mut Vec<OperatorDescription>) {
        operators.push(self.info.describe(Vec::new()));
    }

    fn connectors(&self, connectors: &mut Connectors) {
        let description = self.source.description();
        connectors
            .sources
            .push(ConnectorDescription { uid: Arc::clone(&self.info.uid), description });
    }
}

/// The reader of one worker and the event time of its splits.
pub(super) struct SourceParts<R> {
    uid: Arc<str>,
    reader: R,
    watermarks: SplitWatermarks,
}

pub(super) fn source_parts<S: Source, A>(
    info: &OperatorInfo,
    source: &S,
    strategy: &WatermarkStrategy<A>,
    context: &BuildContext<'_>,
) -> Result<SourceParts<S::Reader>, OperatorError> {
    let uid = Arc::clone(&info.uid);
    let source_context = context.source_context(&uid);
    let splits: Vec<_> = source_context
        .positions
        .iter()
        .map(|split| (split.max_event_time, split.finished))
        .collect();
    let reader = source.create_reader(source_context).map_err(|error| error.in_operator(&uid))?;
    let watermarks = SplitWatermarks::new(strategy.generator, strategy.idle_timeout, splits);
    Ok(SourceParts { uid, reader, watermarks })
}

impl<R> SourceParts<R> {
    pub(super) fn into_task<P, A: Clone, D>(
        self,
        wrap: impl FnOnce(R) -> P,
        strategy: &WatermarkStrategy<A>,
        downstream: D,
        context: &BuildContext<'_>,
    ) -> SourceTask<P, A, D> {
        SourceTask {
            counters: context.counters(&self.uid),
            uid: self.uid,
            reader: wrap(self.reader),
            assigner: strategy.assigner.clone(),
            downstream,
            watermarks: self.watermarks,
            clock: context.clock(),
            state: Default::default(),
        }
    }
}

/// The methods of a node without state that has an upstream.
macro_rules! stateless_node {
    () => {
        fn set_uid(&mut self, uid: &str) {
            self.info.set_uid(uid);
        }

        fn describe(&self, operators: &mut Vec<$crate::graph::OperatorDescription>) {
            self.upstream.describe(operators);
            operators.push(self.info.describe(Vec::new()));
        }

        fn connectors(&self, connectors: &mut $crate::graph::Connectors) {
            self.upstream.connectors(connectors);
        }
    };
}
pub(super) use stateless_node;

/// Node of [`DataStream::map`].
#[derive(Debug)]
pub struct MapNode<S, F> {
    info: OperatorInfo,
    upstream: S,
    function: F,
}

impl<S, U, F> Stream for MapNode<S, F>
where
    S: Stream,
    U: Send + 'static,
    F: FnMut(S::Item) -> U + Clone + Send + 'static,
{
    type Item = U;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<U> + 'static,
    {
        self.upstream.attach(context, Map { function: self.function.clone(), downstream })
    }

    stateless_node!();
}

/// Node of [`DataStream::try_map`].
#[derive(Debug)]
pub struct TryMapNode<S, F> {
    info: OperatorInfo,
    upstream: S,
    function: F,
}

impl<S, U, E, F> Stream for TryMapNode<S, F>
where
    S: Stream,
    U: Send + 'static,
    E: Into<Cause> + 'static,
    F: FnMut(S::Item) -> Result<U, E> + Clone + Send + 'static,
{
    type Item = U;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<U> + 'static,
    {
        let uid = Arc::clone(&self.info.uid);
        self.upstream.attach(context, TryMap { uid, function: self.function.clone(), downstream })
    }

    stateless_node!();
}

/// Node of [`DataStream::filter`].
#[derive(Debug)]
pub struct FilterNode<S, F> {
    info: OperatorInfo,
    upstream: S,
    predicate: F,
}

impl<S, F> Stream for FilterNode<S, F>
where
    S: Stream,
    F: FnMut(&S::Item) -> bool + Clone + Send + 'static,
{
    type Item = S::Item;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<S::Item> + 'static,
    {
        self.upstream.attach(context, Filter { predicate: self.predicate.clone(), downstream })
    }

    stateless_node!();
}

/// Node of [`DataStream::flat_map`].
#[derive(Debug)]
pub struct FlatMapNode<S, F> {
    info: OperatorInfo,
    upstream: S,
    function: F,
}

impl<S, I, F> Stream for FlatMapNode<S, F>
where
    S: Stream,
    I: IntoIterator + 'static,
    I::Item: Send + 'static,
    F: FnMut(S::Item) -> I + Clone + Send + 'static,
{
    type Item = I::Item;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<I::Item> + 'static,
    {
        self.upstream.attach(context, FlatMap { function: self.function.clone(), downstream })
    }

    stateless_node!();
}
