//! The life of a job in one process: open, recover, run attempts until it ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{
    CheckpointId, JobName, JobStatus, LayeredState, Nonce, OwnerId, Positions, Recovery,
    RecoveryPoint, Resolution, StateDirectory, StateStore, StopReason, StoreFacts,
};
use millstream_protocol::IsolationLevel;
use millstream_protocol_client::surroundings::block_in_place;
use millstream_protocol_client::{ClientConfig, ConfigError, KafkaClient};
use tokio::sync::mpsc;

use super::attempt::{Attempt, Ended, STOP_BOUND, STOP_LIMIT};
use super::checkpoint::{RollBackReason, next};
use super::control::ControlDesk;
use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, mutant};
use super::ledger::{Ledger, LedgerTopicError};
use super::maintenance::Maintenance;
use super::monitor::{JobMonitor, Phase};
use super::offset_publisher::OffsetPublisher;
use super::random_id;
use super::recovery::Standing;
use super::restore::RestoreRequest;
use super::savepoint::SavepointDesk;
use super::schedule::{CheckpointSchedule, DirtyBytes};
use super::stop_request::StopRequest;
use super::storage::Storage;
use crate::connector::kafka::{
    DeliveryGuarantee, KafkaSinkDescription, KafkaSourceDescription, OpenedSource, OpenedSources,
    SharedProducer, SinkOutput,
};
use crate::graph::{Extensions, JobGraph, RestoreContext};
use crate::time::MonotonicClock;

/// A transaction must not grow older than this part of its timeout before its checkpoint begins.
const INTERVALS_PER_TIMEOUT: u32 = 3;

/// Drives one job; see the module.
#[derive(Debug)]
pub(crate) struct JobMaster {
    pub(super) graph: JobGraph,
    state_dir: PathBuf,
    storage: Storage,
    pub(super) monitor: JobMonitor,
    pub(super) stop: StopRequest,
    savepoints: SavepointDesk,
    restore: Option<RestoreRequest>,
}

/// Connections and topics of a job, opened once per process.
#[derive(Debug)]
pub(super) struct Opened {
    sources: OpenedSources,
    descriptions: BTreeMap<Arc<str>, Arc<KafkaSourceDescription>>,
    output: SinkOutput,
    pub(super) bounded: bool,
    transaction_timeout: Duration,
}

impl Opened {
    /// Where the sources go on behind `known`. Refuses a state whose records are gone, and topics that only bear the names of
    /// those it was made from.
    async fn resume_positions(&self, known: &Positions) -> Result<Positions, JobError> {
        let mut positions = Positions::new();
        for (uid, source) in &self.sources.0 {
            let Some(description) = self.descriptions.get(uid) else { continue };
            for position in description.resume_positions(uid, source, known).await? {
                positions.insert(Arc::clone(uid), position);
            }
        }
        Ok(positions)
    }
}

impl JobMaster {
    pub(crate) fn new(
        graph: JobGraph,
        state_dir: PathBuf,
        storage: Storage,
        monitor: JobMonitor,
        stop: StopRequest,
        savepoints: SavepointDesk,
        restore: Option<RestoreRequest>,
    ) -> Self {
        Self { graph, state_dir, storage, monitor, stop, savepoints, restore }
    }

    pub(crate) async fn run(self) -> Result<(), JobError> {
        let name = self.graph.config().job_name.clone();
        let job = JobName::new(&name).map_err(|error| JobError::InvalidJob {
            job: name.clone(),
            reason: error.to_string(),
        })?;
        let config = self.graph.config();
        if config.checkpoint_interval.is_zero() {
            return Err(self.invalid("its checkpoint interval is zero".to_owned()));
        }
        let problem = config.checkpoints.problem().or_else(|| config.restart_strategy.problem());
        if let Some(problem) = problem {
            return Err(self.invalid(problem));
        }
        self.check_isolation()?;
        let description = self.graph.description(job.clone());
        let fingerprint = description.fingerprint();
        // R0. Before anything is asked of a broker: a directory that is in use or not ours ends it here.
        let directory = Arc::new(block_in_place(|| {
            StateDirectory::open_described(self.storage.disk(), &self.state_dir, &description)
        })?);
        crash_point(Step::Locked);
        let _control = block_in_place(|| ControlDesk::open(&directory, &self.savepoints));
        let resolution = config.resolution;
        let restore = match &self.restore {
            None => None,
            Some(request) => {
                let disk = self.storage.disk();
                block_in_place(|| request.prepare(&directory, &description, resolution, disk))?
            }
        };
        let bounded = self.is_bounded();
        if let Some(meta) = directory.local().meta
            && meta.status == JobStatus::Finished
        {
            return self.finished_before(&name, meta.checkpoint, bounded);
        }
        let sink = self.sink_description(&name)?;
        self.tell_ignored(&sink.config);
        let transactional_id = format!("{name}/{}", super::ledger::SLOT);
        let opening = async {
            let client = KafkaClient::connect(sink.config.clone()).await?;
            self.check_interval(&client)?;
            let opened = self.open(&client, &transactional_id, bounded).await?;
            Ok::<_, JobError>((client, opened))
        };
        let (client, opened) = tokio::select! {
            biased;
            opened = opening => opened?,
            () = self.stop.requested() => {
                tracing::info!("stopped before anything was begun");
                self.monitor.update(|now| now.phase = Phase::Finished);
                return Ok(());
            }
        };
        self.stop.watch_over(opened.output.transactional.producer.clone());
        // Whoever lets a directory or a savepoint count more than the ledger may have named the wrong cluster. The inputs tell,
        // before a ledger topic is made there, anybody is fenced or META is written. (A plain start has the ledger's topic id.)
        let taken = match (&restore, config.resolution) {
            (Some(restore), _) => Some(restore.positions().clone()),
            (None, Some(_)) => positions_of(&directory),
            (None, None) => None,
        };
        if let Some(positions) = taken {
            opened.resume_positions(&positions).await?;
        }
        let owner = OwnerId(random_id()?);
        let known = directory.local().meta;
        let newest = directory.local().newest();
        let mut ledger = Ledger::open(
            client.clone(),
            &name,
            transactional_id.clone(),
            owner,
            // Whoever adopts the local state knows that the topic may be gone.
            known
                .as_ref()
                .filter(|_| config.resolution != Some(Resolution::AdoptLocal))
                .map(|meta| (meta.ledger_topic_id, newest)),
            known.and_then(|meta| meta.ledger_offset),
        )
        .await
        .map_err(|source| not_acted_on(config.resolution, source))?;
        crash_point(Step::LedgerOpened);
        if let Some(restore) = restore {
            let unknown = |uid: &str| !restore.knows_source(uid);
            let positions = self.first_positions(&opened, unknown).await?;
            let place = (&*directory, &self.storage);
            restore.restore(&job, place, &mut ledger, positions).await?;
        }
        let store = self.open_store(&directory)?;
        check_store_has_meta(&directory, &*store)?;
        let mut standing = Standing {
            job,
            fingerprint,
            owner,
            recovery: Recovery {
                // With a savepoint the word was about that.
                resolution: config.resolution.filter(|_| self.restore.is_none()),
                ..Recovery::new(owner)
            },
            layered: Arc::new(block_in_place(|| LayeredState::new(Arc::clone(&store)))?),
            directory,
            store,
            ledger,
            producer: opened.output.transactional.producer.clone(),
            idempotent: opened.output.idempotent.as_ref().map(|shared| shared.producer.clone()),
            transactional_id,
        };
        let result = self.run_attempts(&mut standing, &opened, &name).await;
        client.close().await;
        for source in opened.sources.0.values() {
            source.client.close().await;
        }
        if result.is_ok() {
            self.monitor.update(|now| now.phase = Phase::Finished);
        }
        result
    }

    /// R1 to R6, unless the job is asked to stop and it takes too long.
    pub(super) async fn recover(
        &self,
        standing: &mut Standing,
        opened: &Opened,
    ) -> Result<RecoveryPoint, JobError> {
        self.monitor.update(|now| now.phase = Phase::Starting);
        let first_positions = async || self.first_positions(opened, |_| true).await;
        let check =
            async |positions: &Positions| opened.resume_positions(positions).await.map(drop);
        let confirmed = standing.confirmed();
        self.in_time(standing.recover(first_positions, check), confirmed).await
    }

    /// Start positions of those sources that have no state.
    async fn first_positions(
        &self,
        opened: &Opened,
        chosen: impl Fn(&str) -> bool,
    ) -> Result<Positions, JobError> {
        let mut positions = Positions::new();
        for (uid, source) in opened.sources.0.iter().filter(|(uid, _)| chosen(uid)) {
            let Some(description) = opened.descriptions.get(uid) else { continue };
            for position in description.first_positions(uid, source).await? {
                positions.insert(Arc::clone(uid), position);
            }
        }
        Ok(positions)
    }

    /// The outcome of `work`, unless the job is asked to stop and it takes too long.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, JobError>>,
        checkpoint: u64,
    ) -> Result<T, JobError> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.stop.overdue(STOP_LIMIT) => Err(JobError::CheckpointTimeout {
                checkpoint,
                limit: STOP_LIMIT,
                bound: STOP_BOUND,
                phase: "the job was asked to stop while it recovered; what was committed before is safe",
            }),
        }
    }

    /// Runs workers from the confirmed checkpoint until the job ends, is stopped, or its transaction dies.
    pub(super) async fn run_attempt(
        &self,
        standing: &mut Standing,
        opened: &Opened,
    ) -> Result<Ended, JobError> {
        let mut parent =
            standing.directory.local().meta.ok_or_else(|| JobError::Bug {
                what: "META is missing after recovery".to_owned(),
            })?;
        // META of a first checkpoint was written before its record. Savepoints of it have to tell that it was committed.
        if let Some(own) = standing.ledger.last().filter(|own| own.record.at() == parent.at()) {
            parent.ledger_offset.get_or_insert(own.offset);
        }
        let resumed = opened.resume_positions(&parent.positions);
        let positions = self.in_time(resumed, parent.checkpoint.0).await?;
        let first = next(parent.checkpoint);
        if let Err(error) = standing.producer.begin_transaction(first) {
            return Ok(Ended::RolledBack(RollBackReason::Producer(error)));
        }
        let restore = RestoreContext {
            state: Arc::clone(&standing.layered),
            positions,
            watermarks: parent.watermarks.clone(),
            first_checkpoint: first,
            extensions: Extensions::new().with(opened.sources.clone()).with(opened.output.clone()),
            clock: Arc::new(MonotonicClock::new()),
        };
        // Before any worker runs: what they read from here on has to be committed.
        let counted = self.monitor.counts();
        let (report, reports) = mpsc::unbounded_channel();
        let workers = block_in_place(|| {
            self.graph.spawn(&restore, move |message| {
                // The receiver is gone only when the attempt has ended anyway.
                let _ = report.send(message);
            })
        })?;
        let config = self.graph.config();
        let maintenance = Maintenance::start(
            Arc::clone(&standing.directory),
            Arc::clone(&standing.layered),
            self.monitor.clone(),
            config.checkpoints.num_retained as u64,
        );
        self.monitor.update(|now| now.phase = Phase::Running);
        tracing::info!("running from checkpoint {}", parent.checkpoint.0);
        let transaction_age_max = opened.transaction_timeout / INTERVALS_PER_TIMEOUT;
        let attempt = Attempt {
            schedule: CheckpointSchedule::new(
                config.checkpoint_interval,
                config.checkpoints.min_pause,
                config.checkpoints.dirty_bytes_max,
                transaction_age_max,
                tokio::time::Instant::now(),
            ),
            checkpoint_timeout: config.checkpoints.timeout,
            dirty: DirtyBytes { layered: Arc::clone(&standing.layered) },
            monitor: &self.monitor,
            stop: &self.stop,
            savepoints: &self.savepoints,
            description: self.graph.description(standing.job.clone()),
            savepoint_disk: self.storage.savepoint_disk(),
            draining: None,
            standing,
            workers,
            reports,
            maintenance,
            publisher: OffsetPublisher::new(&opened.sources),
            nonce: Nonce(random_id()?),
            parent,
            finished: 0,
            counted,
        };
        attempt.run().await
    }

    pub(super) fn finished_before(
        &self,
        job: &str,
        checkpoint: CheckpointId,
        bounded: bool,
    ) -> Result<(), JobError> {
        self.monitor.update(|now| {
            now.checkpoint = checkpoint.0;
            now.phase = Phase::Finished;
        });
        if bounded {
            tracing::info!(
                "nothing to do: the job has finished with checkpoint {checkpoint}; input that came later is not read"
            );
            return Ok(());
        }
        Err(JobError::AlreadyFinished {
            job: job.to_owned(),
            directory: self.state_dir.clone(),
            checkpoint: checkpoint.0,
        })
    }

    /// Connects the sources and checks the topics of the sinks.
    async fn open(
        &self,
        client: &KafkaClient,
        transactional_id: &str,
        bounded: bool,
    ) -> Result<Opened, JobError> {
        let mut sources = BTreeMap::new();
        let mut descriptions = BTreeMap::new();
        for connector in self.graph.sources() {
            let Some(description) = connector.downcast::<KafkaSourceDescription>() else {
                return Err(
                    self.invalid(format!("source {:?} is not a Kafka source", connector.uid))
                );
            };
            if description.topics.is_empty() {
                return Err(self.invalid(format!("source {:?} names no topic", connector.uid)));
            }
            let opened: OpenedSource = description.open(&connector.uid).await?;
            sources.insert(Arc::clone(&connector.uid), opened);
            descriptions.insert(Arc::clone(&connector.uid), description);
        }
        let mut partitions = BTreeMap::new();
        let mut at_least_once = false;
        for connector in self.graph.sinks() {
            if let Some(description) = connector.downcast::<KafkaSinkDescription>() {
                at_least_once |= description.guarantee == DeliveryGuarantee::AtLeastOnce;
                let count = description.open(&connector.uid, client).await?;
                partitions.insert(description.topic.clone(), count);
            }
        }
        for description in descriptions.values() {
            if let Some(topic) =
                description.topics.iter().find(|topic| partitions.contains_key(*topic))
            {
                return Err(self.invalid(format!(
                    "it reads and writes topic {topic:?}, so it would read its own output"
                )));
            }
        }
        let own_id = match mutant(Mutant::NoFence) {
            true => Some(format!("{transactional_id}/{}", u128::from_be_bytes(random_id()?))),
            false => None,
        };
        let transactional_id = own_id.as_deref().unwrap_or(transactional_id);
        let output = SinkOutput {
            transactional: SharedProducer::new(client.producer(Some(transactional_id))),
            idempotent: at_least_once.then(|| SharedProducer::new(client.producer(None))),
            partitions: Arc::new(partitions),
        };
        let transaction_timeout = client.config().transaction_timeout;
        let sources = OpenedSources(sources);
        Ok(Opened { sources, descriptions, output, bounded, transaction_timeout })
    }

    /// The one cluster that all Kafka sinks of the job write to: the arbiter.
    fn sink_description(&self, name: &str) -> Result<Arc<KafkaSinkDescription>, JobError> {
        let mut found: Option<Arc<KafkaSinkDescription>> = None;
        for connector in self.graph.sinks() {
            let Some(description) = connector.downcast::<KafkaSinkDescription>() else {
                return Err(self.invalid(format!("sink {:?} is not a Kafka sink", connector.uid)));
            };
            if let Some(first) = &found
                && first.config.bootstrap_servers != description.config.bootstrap_servers
            {
                return Err(self.invalid(
                    "its Kafka sinks are on two clusters, one transaction can cover only one"
                        .to_owned(),
                ));
            }
            found.get_or_insert(description);
        }
        found.ok_or_else(|| JobError::InvalidJob {
            job: name.to_owned(),
            reason: "it has no Kafka sink".to_owned(),
        })
    }

    /// Properties that look as if they did something here.
    fn tell_ignored(&self, config: &ClientConfig) {
        for (property, reason) in config.ignored() {
            tracing::warn!("{property} has no effect: {reason}");
        }
        if config.is_explicit("auto.offset.reset") {
            tracing::warn!(
                "auto.offset.reset has no effect: a job without state begins at its source's starting_offsets, \
                 any other at its checkpoint"
            );
        }
        for property in ["linger.ms", "partitioner.ignore.keys"] {
            if config.is_explicit(property) {
                tracing::warn!(
                    "{property} has no effect: a job's sink hands over full batches, and all of them at a barrier, \
                     and puts keys where Java's client does"
                );
            }
        }
    }

    fn is_bounded(&self) -> bool {
        self.graph.sources().all(|source| {
            source
                .downcast::<KafkaSourceDescription>()
                .is_none_or(|description| description.bounded.is_some())
        })
    }

    /// A job reads committed records only: what a transaction wrote that is aborted later would be in state and output for good.
    fn check_isolation(&self) -> Result<(), JobError> {
        let sources = self.graph.sources().filter_map(|source| {
            let source: Arc<KafkaSourceDescription> = source.downcast()?;
            Some(source.config.isolation_level)
        });
        let sinks = self.graph.sinks().filter_map(|sink| {
            let sink: Arc<KafkaSinkDescription> = sink.downcast()?;
            Some(sink.config.isolation_level)
        });
        match sources.chain(sinks).any(|level| level == IsolationLevel::ReadUncommitted) {
            false => Ok(()),
            true => Err(JobError::Config(ConfigError::NotSupported {
                name: "isolation.level".to_owned(),
                value: "read_uncommitted".to_owned(),
                reason: "a job reads committed records only, or what is aborted later would be in its state and output; leave it out",
            })),
        }
    }

    fn check_interval(&self, client: &KafkaClient) -> Result<(), JobError> {
        let interval = self.graph.config().checkpoint_interval;
        let timeout = client.config().transaction_timeout;
        if interval.saturating_mul(INTERVALS_PER_TIMEOUT) > timeout {
            let needed = interval.saturating_mul(INTERVALS_PER_TIMEOUT);
            return Err(JobError::IntervalTooLong { interval, timeout, needed });
        }
        Ok(())
    }

    fn invalid(&self, reason: String) -> JobError {
        JobError::InvalidJob { job: self.graph.config().job_name.clone(), reason }
    }

    pub(super) fn open_store(
        &self,
        directory: &StateDirectory,
    ) -> Result<Arc<dyn StateStore>, JobError> {
        Ok(block_in_place(|| self.storage.open_store(&directory.store_path()))?)
    }
}

/// A word that somebody gave must not be passed over in silence where the ledger topic itself stops the start.
fn not_acted_on(resolution: Option<Resolution>, source: LedgerTopicError) -> JobError {
    match (resolution, source) {
        (
            Some(resolution),
            source @ (LedgerTopicError::Missing { .. } | LedgerTopicError::WrongPolicy { .. }),
        ) => JobError::ResolutionNotActedOn { resolution, source },
        (_, source) => source.into(),
    }
}

/// Of the last checkpoint that the directory knows to be committed, as far as it knows positions.
fn positions_of(directory: &StateDirectory) -> Option<Positions> {
    let local = directory.local();
    let meta = local.confirmed().and_then(|at| local.meta_at(at)).or(local.meta);
    meta.map(|meta| meta.positions)
}

/// A store that holds state comes with the META that says of which checkpoint; the delta files beside it may all have been
/// applied and removed.
fn check_store_has_meta(
    directory: &StateDirectory,
    store: &dyn StateStore,
) -> Result<(), JobError> {
    let local = directory.local();
    if local.meta.is_some() || local.restored.is_some() {
        return Ok(());
    }
    let held = block_in_place(|| StoreFacts::of(store))?;
    if held.floor.is_none() && held.applied.is_empty() {
        return Ok(());
    }
    let directory = directory.path().to_owned();
    Err(StopReason::MetaMissing { directory }.into())
}
