//! A whole job, ready to run any number of times: at its start, and again after every rollback.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use millstream_checkpoint::{
    DescribedOperator, DescribedState, Fingerprint, JobDescription, JobName, KEY_GROUPS_MAX,
    LayeredState, MemoryStore, Positions, StoreError, Watermarks,
};

use super::build_context::SharedContext;
use super::{BuildContext, Extensions, OperatorDescription};
use crate::api::ExecutionConfig;
use crate::error::{GraphError, OperatorError};
use crate::metrics::JobMetrics;
use crate::task::{Mailbox, ReportSender, Worker, WorkerNotifier, WorkerReport, WorkerSet};
use crate::time::{Clock, MonotonicClock};

/// The chains that end in one sink.
pub(crate) struct Pipeline {
    pub(crate) attach: AttachPipeline,
    pub(crate) operators: Vec<OperatorDescription>,
    pub(crate) connectors: Connectors,
}

/// Builds one worker's chains of a pipeline; the sink's uid is the pipeline's last.
pub(crate) type AttachPipeline =
    Box<dyn Fn(&mut BuildContext<'_>, &Arc<str>) -> Result<(), OperatorError> + Send>;

/// Sources and sinks of a job or pipeline.
#[derive(Clone, Debug, Default)]
pub struct Connectors {
    pub(crate) sources: Vec<ConnectorDescription>,
    pub(crate) sinks: Vec<ConnectorDescription>,
}

/// A source or sink as the coordinator sees it.
#[derive(Clone)]
pub struct ConnectorDescription {
    /// Its uid.
    pub uid: Arc<str>,
    /// What the connector said about it; of a type that connector and coordinator agree on.
    pub description: Arc<dyn Any + Send + Sync>,
}

impl ConnectorDescription {
    /// The description, if it is a `T`.
    #[must_use]
    pub fn downcast<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.description).downcast().ok()
    }
}

impl fmt::Debug for ConnectorDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectorDescription").field("uid", &self.uid).finish_non_exhaustive()
    }
}

/// What a run of the job starts from.
#[derive(Clone, Debug)]
pub struct RestoreContext {
    /// Keyed state of the checkpoint that the run starts from.
    pub state: Arc<LayeredState>,
    /// Where every split of every source begins. Sources read no other splits.
    pub positions: Positions,
    /// Watermarks of operators, as [`SealedSnapshot::merge`](crate::task::SealedSnapshot::merge) gave them.
    pub watermarks: Watermarks,
    /// The checkpoint that the first elements belong to.
    pub first_checkpoint: u64,
    /// What connectors find in their contexts.
    pub extensions: Extensions,
    /// Processing time, for idleness.
    pub clock: Arc<dyn Clock>,
}

impl RestoreContext {
    /// Starts with empty state in memory and without any split; the first checkpoint is 1.
    ///
    /// # Errors
    ///
    /// [`StoreError`], which a store in memory does not have.
    pub fn empty() -> Result<Self, StoreError> {
        Ok(Self {
            state: Arc::new(LayeredState::new(Arc::new(MemoryStore::new()))?),
            positions: Positions::new(),
            watermarks: Watermarks::new(),
            first_checkpoint: 1,
            extensions: Extensions::new(),
            clock: Arc::new(MonotonicClock::new()),
        })
    }
}

/// A validated job.
pub struct JobGraph {
    config: ExecutionConfig,
    pipelines: Vec<Pipeline>,
    metrics: JobMetrics,
}

impl JobGraph {
    pub(crate) fn new(
        config: ExecutionConfig,
        pipelines: Vec<Pipeline>,
    ) -> Result<Self, GraphError> {
        if config.max_parallelism == 0 || config.max_parallelism > KEY_GROUPS_MAX {
            return Err(GraphError::InvalidMaxParallelism {
                max_parallelism: config.max_parallelism,
            });
        }
        if config.parallelism == 0 || config.parallelism > usize::from(config.max_parallelism) {
            return Err(GraphError::InvalidParallelism {
                parallelism: config.parallelism,
                max_parallelism: config.max_parallelism,
            });
        }
        if pipelines.is_empty() {
            return Err(GraphError::NoSink);
        }
        let mut uids = BTreeSet::new();
        for operator in pipelines.iter().flat_map(|pipeline| &pipeline.operators) {
            if !uids.insert(&operator.uid) {
                return Err(GraphError::DuplicateUid { uid: operator.uid.to_string() });
            }
        }
        Ok(Self { config, pipelines, metrics: JobMetrics::new() })
    }

    /// The settings that the job was described with.
    #[must_use]
    pub fn config(&self) -> &ExecutionConfig {
        &self.config
    }

    /// What guards the job's state directory: uids, kinds and state schemas of all operators in the order of the program.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        JobDescription::fingerprint_of(self.config.max_parallelism, &self.described_operators())
    }

    /// The same in words, for the state directory, savepoints and errors.
    #[must_use]
    pub fn description(&self, job: JobName) -> JobDescription {
        let operators = self.described_operators();
        JobDescription { job, max_parallelism: self.config.max_parallelism, operators }
    }

    fn described_operators(&self) -> Vec<DescribedOperator> {
        let describe = |operator: &OperatorDescription| DescribedOperator {
            uid: Arc::clone(&operator.uid),
            kind: operator.kind.into(),
            states: operator
                .states
                .iter()
                .map(|state| DescribedState {
                    name: Arc::clone(&state.name),
                    schema: state.schema.as_str().into(),
                })
                .collect(),
        };
        self.operators().map(describe).collect()
    }

    /// All operators in the order of the program.
    pub fn operators(&self) -> impl Iterator<Item = &OperatorDescription> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.operators)
    }

    /// All sources with what their connectors say about them.
    pub fn sources(&self) -> impl Iterator<Item = &ConnectorDescription> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.connectors.sources)
    }

    /// All sinks with what their connectors say about them.
    pub fn sinks(&self) -> impl Iterator<Item = &ConnectorDescription> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.connectors.sinks)
    }

    /// Counters of all operators; they go on counting over rollbacks.
    #[must_use]
    pub fn metrics(&self) -> &JobMetrics {
        &self.metrics
    }

    /// Builds the chains and gives every worker a thread. Reports arrive on the workers' threads: `on_report` must not
    /// block. Stop and join the workers of an earlier run first.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a reader, a writer or a thread cannot be made.
    pub fn spawn(
        &self,
        restore: &RestoreContext,
        on_report: impl Fn(WorkerReport) + Send + Sync + 'static,
    ) -> Result<WorkerSet, OperatorError> {
        let reports = ReportSender::new(on_report);
        let (workers, mut set) = self.build(restore, &reports)?;
        if let Err(error) = set.start(workers, &reports) {
            set.stop();
            set.join();
            return Err(OperatorError::new(error));
        }
        Ok(set)
    }

    /// Builds the chains without threads: the caller steps the workers, in any order, and controls them by the set.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a reader or a writer cannot be made.
    pub fn build_workers(
        &self,
        restore: &RestoreContext,
        on_report: impl Fn(WorkerReport) + Send + Sync + 'static,
    ) -> Result<(Vec<Worker>, WorkerSet), OperatorError> {
        self.build(restore, &ReportSender::new(on_report))
    }

    fn build(
        &self,
        restore: &RestoreContext,
        reports: &ReportSender,
    ) -> Result<(Vec<Worker>, WorkerSet), OperatorError> {
        let notifiers: Vec<_> =
            (0..self.config.parallelism).map(|_| WorkerNotifier::new()).collect();
        let mut exchanges = BTreeMap::new();
        let mut workers = Vec::new();
        let mut mailboxes = Vec::new();
        for (index, notifier) in notifiers.iter().enumerate() {
            let shared = SharedContext {
                config: &self.config,
                restore,
                metrics: &self.metrics,
                notifiers: &notifiers,
                exchanges: &mut exchanges,
            };
            let mut context = BuildContext { worker: index, tasks: Vec::new(), shared };
            for pipeline in &self.pipelines {
                let sink = pipeline.operators.last().map(|sink| Arc::clone(&sink.uid));
                (pipeline.attach)(&mut context, &sink.unwrap_or_default())?;
            }
            let tasks = context.tasks;
            let mailbox = Mailbox::new(notifier.clone());
            mailboxes.push(mailbox.clone());
            workers.push(Worker::new(index, tasks, mailbox, notifier.clone(), reports.clone()));
        }
        Ok((workers, WorkerSet::new(mailboxes)))
    }
}

impl fmt::Debug for JobGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobGraph")
            .field("config", &self.config)
            .field("operators", &self.operators().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
