//! Where a job begins: its name and settings, its sources.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::data_stream::SourceNode;
use super::raw_stream::RawSourceNode;
use super::{
    CheckpointConfig, DataStream, OptionError, RawSourceReader, RawStream, RestartStrategy, Source,
    SourceReader, options,
};
use crate::error::GraphError;
use crate::graph::{JobGraph, OperatorInfo, Pipeline};
use crate::time::WatermarkStrategy;
use millstream_checkpoint::Resolution;

/// Settings of a job.
#[derive(Clone, Debug, PartialEq)]
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
    /// Settings of checkpoints beside their interval.
    pub checkpoints: CheckpointConfig,
    /// What happens after a failure. Default: restarts with growing pauses, without end.
    pub restart_strategy: RestartStrategy,
    /// A record at which the job fails so many times in a row, with the same error, ends it whatever the strategy: it would
    /// fail for ever. 0: never. Default: 3.
    pub same_record_failures: u32,
    /// The way out of a state and a ledger that do not fit together, for one start. Default: none, the job stops and says
    /// what is wrong.
    pub resolution: Option<Resolution>,
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
    /// The first thing wrong with what was described.
    error: Option<GraphError>,
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
            checkpoints: CheckpointConfig::default(),
            restart_strategy: RestartStrategy::default(),
            same_record_failures: 3,
            resolution: None,
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

    /// Sets [`CheckpointConfig::timeout`].
    #[must_use]
    pub fn checkpoint_timeout(mut self, timeout: Duration) -> Self {
        self.config.checkpoints.timeout = timeout;
        self
    }

    /// Sets [`CheckpointConfig::min_pause`].
    #[must_use]
    pub fn min_pause_between_checkpoints(mut self, pause: Duration) -> Self {
        self.config.checkpoints.min_pause = pause;
        self
    }

    /// Sets [`CheckpointConfig::tolerable_failed_checkpoints`].
    #[must_use]
    pub fn tolerable_failed_checkpoints(mut self, checkpoints: u32) -> Self {
        self.config.checkpoints.tolerable_failed_checkpoints = checkpoints;
        self
    }

    /// Sets [`CheckpointConfig::dirty_bytes_max`].
    #[must_use]
    pub fn checkpoint_dirty_bytes(mut self, bytes: usize) -> Self {
        self.config.checkpoints.dirty_bytes_max = bytes;
        self
    }

    /// Sets [`CheckpointConfig::num_retained`].
    #[must_use]
    pub fn retained_checkpoints(mut self, checkpoints: usize) -> Self {
        self.config.checkpoints.num_retained = checkpoints;
        self
    }

    /// Sets [`CheckpointConfig::history_size`].
    #[must_use]
    pub fn checkpoint_history(mut self, checkpoints: usize) -> Self {
        self.config.checkpoints.history_size = checkpoints;
        self
    }

    /// Sets [`ExecutionConfig::restart_strategy`].
    #[must_use]
    pub fn restart_strategy(mut self, strategy: RestartStrategy) -> Self {
        self.config.restart_strategy = strategy;
        self
    }

    /// Sets [`ExecutionConfig::same_record_failures`].
    #[must_use]
    pub fn same_record_failures(mut self, failures: u32) -> Self {
        self.config.same_record_failures = failures;
        self
    }

    /// Takes the state directory as the truth for a ledger that vanished or was restored older. Only where that is so;
    /// anywhere else the job refuses to start with it. See [`Resolution::AdoptLocal`].
    #[must_use]
    pub fn adopt_local(mut self) -> Self {
        self.config.resolution = Some(Resolution::AdoptLocal);
        self
    }

    /// Goes on from a state that is older than what the ledger says was committed: output since then is written again. Only
    /// where that is so; anywhere else the job refuses to start with it. See [`Resolution::AcceptRewind`].
    #[must_use]
    pub fn accept_rewind(mut self) -> Self {
        self.config.resolution = Some(Resolution::AcceptRewind);
        self
    }

    /// Sets an option by its name in Flink's configuration (`docs/options.md` has defaults and bounds):
    ///
    /// | option | sets | value |
    /// | --- | --- | --- |
    /// | `execution.checkpointing.interval` | [`ExecutionConfig::checkpoint_interval`] | time |
    /// | `execution.checkpointing.timeout` | [`CheckpointConfig::timeout`] | time |
    /// | `execution.checkpointing.min-pause` | [`CheckpointConfig::min_pause`] | time |
    /// | `execution.checkpointing.tolerable-failed-checkpoints` | [`CheckpointConfig::tolerable_failed_checkpoints`] | number or `infinite` |
    /// | `execution.checkpointing.num-retained` | [`CheckpointConfig::num_retained`] | number |
    /// | `execution.checkpointing.dirty-bytes` (not in Flink) | [`CheckpointConfig::dirty_bytes_max`] | size |
    /// | `web.checkpoints.history` | [`CheckpointConfig::history_size`] | number |
    /// | `parallelism.default` | [`ExecutionConfig::parallelism`] | number |
    /// | `restart-strategy.type` | [`ExecutionConfig::restart_strategy`] | `none`, `fixed-delay`, `failure-rate`, `exponential-delay` |
    /// | `restart-strategy.fixed-delay.{attempts, delay}` | [`RestartStrategy::FixedDelay`] | number, time |
    /// | `restart-strategy.failure-rate.{max-failures-per-interval, failure-rate-interval, delay}` | [`RestartStrategy::FailureRate`] | number, times |
    /// | `restart-strategy.exponential-delay.{initial-backoff, max-backoff, backoff-multiplier, reset-backoff-threshold, jitter-factor, attempts-before-reset-backoff}` | [`RestartStrategy::ExponentialDelay`] | times, numbers |
    /// | `restart-strategy.same-record-failures` (not in Flink) | [`ExecutionConfig::same_record_failures`] | number |
    ///
    /// Times are written as in Flink: `500ms`, `10 s`, `5 min`, `1 h`; a number alone counts milliseconds.
    ///
    /// # Errors
    ///
    /// [`OptionError`] for an unknown name, a value that is none of the option's, or an option of a restart strategy that is
    /// not the one chosen.
    pub fn option(mut self, name: &str, value: &str) -> Result<Self, OptionError> {
        options::set(&mut self.config, name, value)?;
        Ok(self)
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
    /// [`GraphError`] if it has no sink, two operators with one uid, an impossible parallelism, or a function that can not be
    /// opened.
    pub fn into_job_graph(self) -> Result<JobGraph, GraphError> {
        let (error, pipelines) = {
            let mut program = self.program.lock();
            (program.error.take(), std::mem::take(&mut program.pipelines))
        };
        match error {
            Some(error) => Err(error),
            None => JobGraph::new(self.config, pipelines),
        }
    }
}

impl Program {
    /// Uid and position of the next operator of the program.
    pub(crate) fn operator(&self, kind: &'static str) -> OperatorInfo {
        let mut program = self.lock();
        program.operators += 1;
        OperatorInfo::new(kind, program.operators)
    }

    /// Remembers that something that was described can not run.
    pub(crate) fn refuse(&self, error: GraphError) {
        self.lock().error.get_or_insert(error);
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
