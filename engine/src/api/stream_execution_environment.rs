//! Where a job begins: its name and settings, its sources.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::data_stream::SourceNode;
use super::raw_stream::RawSourceNode;
use super::{DataStream, RawSourceReader, RawStream, Source, SourceReader};
use crate::error::GraphError;
use crate::graph::{JobGraph, OperatorInfo, Pipeline};
use crate::time::WatermarkStrategy;

/// Settings of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionConfig {
    /// The job's name; names its state, its ledger and its transactional id.
    pub job_name: String,
    /// Number of workers, each with a thread. Default: the cores of the machine.
    pub parallelism: usize,
    /// Number of key groups, at least the parallelism. Fixed for the life of the job's state. Default: 256.
    pub max_parallelism: u16,
    /// Time from one checkpoint's start to the next one's. Default: 1 s.
    pub checkpoint_interval: Duration,
    /// Bound of one exchange channel between two workers, in estimated bytes. Default: 256 KiB.
    pub exchange_bytes: usize,
    /// How many clean values one state keeps decoded per worker. Default: 262,144.
    pub state_cache_entries: usize,
}

/// Describes a job: streams begin at [`from_source`](Self::from_source) and end at `sink_to`.
#[derive(Clone, Debug)]
pub struct StreamExecutionEnvironment {
    config: ExecutionConfig,
    program: Program,
}

/// The pipelines described so far. Streams share it with their environment until it becomes a graph.
#[derive(Clone, Default)]
pub(crate) struct Program(Arc<Mutex<ProgramState>>);

#[derive(Default)]
struct ProgramState {
    operators: usize,
    pipelines: Vec<Pipeline>,
}

impl StreamExecutionEnvironment {
    /// A job with default settings.
    pub fn new(job_name: impl Into<String>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let config = ExecutionConfig {
            job_name: job_name.into(),
            parallelism: cores,
            max_parallelism: 256,
            checkpoint_interval: Duration::from_secs(1),
            exchange_bytes: 256 * 1024,
            state_cache_entries: 262_144,
        };
        Self { config, program: Program::default() }
    }

    /// Sets [`ExecutionConfig::parallelism`].
    #[must_use]
    pub fn parallelism(mut self, workers: usize) -> Self {
        self.config.parallelism = workers;
        self
    }

    /// Sets [`ExecutionConfig::max_parallelism`].
    #[must_use]
    pub fn max_parallelism(mut self, key_groups: u16) -> Self {
        self.config.max_parallelism = key_groups;
        self
    }

    /// Sets [`ExecutionConfig::checkpoint_interval`].
    #[must_use]
    pub fn checkpoint_interval(mut self, interval: Duration) -> Self {
        self.config.checkpoint_interval = interval;
        self
    }

    /// Sets [`ExecutionConfig::exchange_bytes`].
    #[must_use]
    pub fn exchange_bytes(mut self, bytes: usize) -> Self {
        self.config.exchange_bytes = bytes;
        self
    }

    /// Sets [`ExecutionConfig::state_cache_entries`].
    #[must_use]
    pub fn state_cache_entries(mut self, entries: usize) -> Self {
        self.config.state_cache_entries = entries;
        self
    }

    /// The settings so far.
    #[must_use]
    pub fn config(&self) -> &ExecutionConfig {
        &self.config
    }

    /// A stream of the owned elements of `source`.
    pub fn from_source<S, A>(
        &self,
        source: S,
        strategy: WatermarkStrategy<A>,
    ) -> DataStream<SourceNode<S, A>>
    where
        S: Source,
        S::Reader: SourceReader,
    {
        let info = self.program.operator("source");
        DataStream::new(SourceNode { info, source, strategy }, self.program.clone())
    }

    /// A stream of the borrowed records of `source`: nothing is copied, allocated or counted per record.
    pub fn from_raw_source<S, A>(
        &self,
        source: S,
        strategy: WatermarkStrategy<A>,
    ) -> RawStream<RawSourceNode<S, A>>
    where
        S: Source,
        S::Reader: RawSourceReader,
    {
        let info = self.program.operator("source");
        RawStream::new(RawSourceNode { info, source, strategy }, self.program.clone())
    }

    /// The job described so far.
    ///
    /// # Errors
    ///
    /// [`GraphError`] if it has no sink, two operators with one uid, or an impossible parallelism.
    pub fn into_job_graph(self) -> Result<JobGraph, GraphError> {
        JobGraph::new(self.config, std::mem::take(&mut self.program.lock().pipelines))
    }
}

impl Program {
    /// Uid and position of the next operator of the program.
    pub(crate) fn operator(&self, kind: &'static str) -> OperatorInfo {
        let mut program = self.lock();
        program.operators += 1;
        OperatorInfo::new(kind, program.operators)
    }

    /// Adds a pipeline and gives its index.
    pub(crate) fn add_pipeline(&self, pipeline: Pipeline) -> usize {
        let mut program = self.lock();
        program.pipelines.push(pipeline);
        program.pipelines.len() - 1
    }

    /// Sets the uid of the sink of a pipeline.
    pub(crate) fn set_sink_uid(&self, pipeline: usize, uid: &str) {
        let mut program = self.lock();
        let Some(pipeline) = program.pipelines.get_mut(pipeline) else { return };
        if let Some(sink) = pipeline.operators.last_mut() {
            sink.uid = uid.into();
        }
        if let Some(sink) = pipeline.connectors.sinks.last_mut() {
            sink.uid = uid.into();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ProgramState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} operators)", self.lock().operators)
    }
}
