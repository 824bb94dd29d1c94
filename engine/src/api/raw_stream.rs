//! A stream of records that are borrowed from what was fetched.

use std::fmt;
use std::sync::Arc;

use super::data_stream::{PipelineEnds, sink_operator, source_parts, stateless_node};
use super::stream_execution_environment::Program;
use super::{DataStream, DataStreamSink, RawSourceReader, Sink, SinkWriter, Source};
use crate::error::{Cause, OperatorError};
use crate::graph::{
    BuildContext, ConnectorDescription, Connectors, OperatorDescription, OperatorInfo,
    RawStreamNode, Stream,
};
use crate::operator::{Collector, Filter, RawMap, RawTryMap};
use crate::task::Raw;
use crate::time::{TimestampAssigner, WatermarkStrategy};
use millstream_protocol::records::RecordView;

/// A stream of borrowed records. Filtering them and writing them to a sink costs no allocation and no reference count per
/// record; [`map`](Self::map) and [`try_map`](Self::try_map) make owned elements.
pub struct RawStream<S> {
    stream: S,
    program: Program,
}

impl<S> RawStream<S> {
    pub(crate) fn new(stream: S, program: Program) -> Self {
        Self { stream, program }
    }
}

impl<S: RawStreamNode> RawStream<S> {
    /// Names the last operator; see [`DataStream::uid`].
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.stream.set_uid(uid);
        self
    }

    /// Keeps the records for which `predicate` holds.
    pub fn filter<F>(self, predicate: F) -> RawStream<RawFilterNode<S, F>>
    where
        F: for<'a, 'r> FnMut(&'a RecordView<'r>) -> bool + Clone + Send + 'static,
    {
        let info = self.program.operator("filter");
        let node = RawFilterNode { info, upstream: self.stream, predicate };
        RawStream { stream: node, program: self.program }
    }

    /// Makes an owned element of every record.
    pub fn map<U, F>(self, function: F) -> DataStream<RawMapNode<S, F>>
    where
        F: for<'r> FnMut(RecordView<'r>) -> U + Clone + Send + 'static,
        U: Send + 'static,
    {
        let info = self.program.operator("map");
        let node = RawMapNode { info, upstream: self.stream, function };
        DataStream { stream: node, program: self.program }
    }

    /// Makes an owned element of every record; an error ends the run and names this operator and the record's place.
    pub fn try_map<U, E, F>(self, function: F) -> DataStream<RawTryMapNode<S, F>>
    where
        F: for<'r> FnMut(RecordView<'r>) -> Result<U, E> + Clone + Send + 'static,
        U: Send + 'static,
        E: Into<Cause> + 'static,
    {
        let info = self.program.operator("map");
        let node = RawTryMapNode { info, upstream: self.stream, function };
        DataStream { stream: node, program: self.program }
    }

    /// Ends the stream in `sink`.
    pub fn sink_to<W>(self, sink: W) -> DataStreamSink
    where
        W: Sink + 'static,
        W::Writer: for<'r> SinkWriter<RecordView<'r>>,
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
}

impl<S> fmt::Debug for RawStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawStream").finish_non_exhaustive()
    }
}

/// Node of [`StreamExecutionEnvironment::from_raw_source`](super::StreamExecutionEnvironment::from_raw_source).
#[derive(Debug)]
pub struct RawSourceNode<S, A> {
    pub(super) info: OperatorInfo,
    pub(super) source: S,
    pub(super) strategy: WatermarkStrategy<A>,
}

impl<S, A> RawStreamNode for RawSourceNode<S, A>
where
    S: Source,
    S::Reader: RawSourceReader,
    A: for<'r> TimestampAssigner<RecordView<'r>> + Clone + 'static,
{
    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: for<'r> Collector<RecordView<'r>> + 'static,
    {
        let parts = source_parts(&self.info, &self.source, &self.strategy, context)?;
        context.add_task(parts.into_task(Raw, &self.strategy, downstream, context));
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

/// Node of [`RawStream::filter`].
#[derive(Debug)]
pub struct RawFilterNode<S, F> {
    info: OperatorInfo,
    upstream: S,
    predicate: F,
}

impl<S, F> RawStreamNode for RawFilterNode<S, F>
where
    S: RawStreamNode,
    F: for<'a, 'r> FnMut(&'a RecordView<'r>) -> bool + Clone + Send + 'static,
{
    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: for<'r> Collector<RecordView<'r>> + 'static,
    {
        self.upstream.attach(context, Filter { predicate: self.predicate.clone(), downstream })
    }

    stateless_node!();
}

/// Node of [`RawStream::map`].
#[derive(Debug)]
pub struct RawMapNode<S, F> {
    info: OperatorInfo,
    upstream: S,
    function: F,
}

impl<S, U, F> Stream for RawMapNode<S, F>
where
    S: RawStreamNode,
    U: Send + 'static,
    F: for<'r> FnMut(RecordView<'r>) -> U + Clone + Send + 'static,
{
    type Item = U;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<U> + 'static,
    {
        self.upstream.attach(context, RawMap { function: self.function.clone(), downstream })
    }

    stateless_node!();
}

/// Node of [`RawStream::try_map`].
#[derive(Debug)]
pub struct RawTryMapNode<S, F> {
    info: OperatorInfo,
    upstream: S,
    function: F,
}

impl<S, U, E, F> Stream for RawTryMapNode<S, F>
where
    S: RawStreamNode,
    U: Send + 'static,
    E: Into<Cause> + 'static,
    F: for<'r> FnMut(RecordView<'r>) -> Result<U, E> + Clone + Send + 'static,
{
    type Item = U;

    fn attach<D>(&self, context: &mut BuildContext<'_>, downstream: D) -> Result<(), OperatorError>
    where
        D: Collector<U> + 'static,
    {
        let uid = Arc::clone(&self.info.uid);
        self.upstream
            .attach(context, RawTryMap { uid, function: self.function.clone(), downstream })
    }

    stateless_node!();
}
