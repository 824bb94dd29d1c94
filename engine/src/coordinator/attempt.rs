//! One attempt: workers run from a confirmed checkpoint, checkpoints are taken and committed, until the job ends or its
//! transaction dies.

use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{Disk, JobDescription, JobStatus, Meta, Nonce, StateError, StoreError};
use millstream_protocol_client::surroundings::{block_in_place, wall_time_ms};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::checkpoint::{Deadline, Outcome, RollBackReason, Sealed, next};
use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, mutant};
use super::maintenance::Maintenance;
use super::monitor::{JobMonitor, Phase};
use super::offset_publisher::OffsetPublisher;
use super::recovery::Standing;
use super::restart::one_line;
use super::savepoint::{AfterSavepoint, SavepointDesk, SavepointRequest};
use super::schedule::{CheckpointSchedule, DirtyBytes};
use super::statistics::{CheckpointStatistics, CheckpointStatus, CheckpointTrigger};
use super::stop_request::StopRequest;
use crate::exchange::CheckpointKind;
use crate::task::{SealedSnapshot, WorkerReport, WorkerSet};

/// From a request to stop until the last checkpoint has to be committed.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(9);

/// What an error calls it.
pub(crate) const STOP_BOUND: &str = "the time for a stop";

/// How long a worker may go on in a user's function after it was told to end (Flink's `task.cancellation.timeout`), and if
/// the process is to be gone soon.
const CANCELLATION_LIMIT: Duration = Duration::from_secs(180);
const CANCELLATION_LIMIT_OF_A_STOP: Duration = Duration::from_secs(1);

/// How an attempt ended without error.
pub(crate) enum Ended {
    Finished,
    Stopped,
    /// Sources were suspended for a savepoint that could not be written: the job goes on, with new workers.
    SavepointFailed,
    RolledBack(RollBackReason),
}

/// Workers at work between two recoveries.
pub(crate) struct Attempt<'a> {
    pub(crate) schedule: CheckpointSchedule,
    /// How long a checkpoint may take until it is ready to be committed.
    pub(crate) checkpoint_timeout: Duration,
    pub(crate) dirty: DirtyBytes,
    pub(crate) monitor: &'a JobMonitor,
    pub(crate) stop: &'a StopRequest,
    pub(crate) savepoints: &'a SavepointDesk,
    /// Of the job, for savepoints.
    pub(crate) description: JobDescription,
    /// Where savepoints are written.
    pub(crate) savepoint_disk: Arc<dyn Disk>,
    /// The savepoint for which sources were ended; it is taken with the last checkpoint.
    pub(crate) draining: Option<SavepointRequest>,
    pub(crate) standing: &'a mut Standing,
    pub(crate) workers: WorkerSet,
    pub(crate) reports: mpsc::UnboundedReceiver<WorkerReport>,
    pub(crate) maintenance: Maintenance,
    pub(crate) publisher: OffsetPublisher,
    /// Of every checkpoint of this attempt.
    pub(crate) nonce: Nonce,
    /// The last committed checkpoint.
    pub(crate) parent: Meta,
    /// Workers whose inputs have ended.
    pub(crate) finished: usize,
    /// Elements read and written when the last checkpoint, or else the attempt, began; nothing new means nothing to commit.
    pub(crate) counted: (u64, u64),
}

impl Attempt<'_> {
    /// Runs until the job has ended or has to be rolled back; no worker is left then.
    pub(crate) async fn run(mut self) -> Result<Ended, JobError> {
        let ended = self.run_workers().await;
        self.workers.stop();
        let limit = match self.stop.is_requested() {
            true => CANCELLATION_LIMIT_OF_A_STOP,
            false => CANCELLATION_LIMIT,
        };
        let workers = self.workers;
        let all_gone = workers.end_within(limit).await;
        let maintained = self.maintenance.finish().await;
        // The first error is the one that ended the attempt.
        let ended = ended?;
        if !all_gone {
            return Err(JobError::WorkerHangs { limit });
        }
        match maintained {
            Ok(()) => Ok(ended),
            Err(JobError::State(error)) if error.is_no_space() => Ok(disk_full(error)),
            Err(JobError::Store(error @ StoreError::NoSpace { .. })) => {
                Ok(Ended::RolledBack(RollBackReason::StoreFull(error)))
            }
            Err(error) => Err(error),
        }
    }

    async fn run_workers(&mut self) -> Result<Ended, JobError> {
        let (stop, savepoints) = (self.stop, self.savepoints);
        loop {
            let next_look = self.schedule.next_look(Instant::now());
            let draining = self.draining.is_some();
            tokio::select! {
                biased;
                // What windows gave at the end of time must not be committed without the end of the job.
                () = stop.requested(), if !draining => return self.stop().await,
                () = stop.overdue(STOP_LIMIT), if draining => {
                    return Err(too_late(next(self.parent.checkpoint)));
                }
                request = savepoints.next(), if !draining => {
                    match self.serve(request).await? {
                        Some(ended) => return Ok(ended),
                        None => continue,
                    }
                }
                report = self.reports.recv() => {
                    self.note(report)?;
                    if self.finished < self.workers.len() {
                        continue;
                    }
                }
                () = sleep_until(next_look) => {}
            }
            if self.finished == self.workers.len() {
                self.monitor.update(|now| now.phase = Phase::Finishing);
                let kind = CheckpointKind::Suspend;
                let rolled_back = self.checkpoint(kind, CheckpointTrigger::EndOfInput).await?;
                return Ok(self.finish_draining(rolled_back).await);
            }
            if draining {
                // A checkpoint between would commit an event time that has come to its end, of a job that has not.
                self.schedule.skipped(tokio::time::Instant::now());
                continue;
            }
            if self.maintenance.has_failed() {
                // Its error is what `finish` returns.
                return Ok(Ended::Stopped);
            }
            let now = Instant::now();
            let Some(trigger) = self.schedule.due(now, self.dirty.bytes()) else { continue };
            if self.counted == self.monitor.counts() {
                // Nothing was read or written since the last checkpoint began: a transaction would hold the ledger alone.
                self.schedule.skipped(now);
                continue;
            }
            let number = next(self.parent.checkpoint);
            let stop = self.stop.clone();
            let rolled_back = tokio::select! {
                biased;
                done = self.checkpoint(CheckpointKind::Checkpoint, trigger) => done?,
                () = stop.overdue(STOP_LIMIT) => return Err(too_late(number)),
            };
            if let Some(reason) = rolled_back {
                return Ok(Ended::RolledBack(reason));
            }
        }
    }

    /// Takes a savepoint between two checkpoints. Gives how the attempt ended, if it did.
    async fn serve(&mut self, request: SavepointRequest) -> Result<Option<Ended>, JobError> {
        let Some(request) = request.begin(self.standing.directory.path()) else {
            return Ok(None);
        };
        let kind = match request.then {
            AfterSavepoint::GoOn => CheckpointKind::Checkpoint,
            AfterSavepoint::Stop => CheckpointKind::Suspend,
            AfterSavepoint::DrainAndStop => {
                self.monitor.update(|now| now.phase = Phase::Finishing);
                self.workers.drain();
                self.draining = Some(request);
                return Ok(None);
            }
        };
        let stopping = kind == CheckpointKind::Suspend;
        let before = self.parent.positions.clone();
        // Without news the last checkpoint is the cut already.
        if stopping || self.counted != self.monitor.counts() {
            let (number, stop) = (next(self.parent.checkpoint), self.stop.clone());
            let rolled_back = tokio::select! {
                biased;
                done = self.checkpoint(kind, CheckpointTrigger::Requested) => done?,
                () = stop.overdue(STOP_LIMIT) => return Err(too_late(number)),
            };
            if let Some(reason) = rolled_back {
                self.savepoints.put_back(request);
                return Ok(Some(Ended::RolledBack(reason)));
            }
        }
        let layered = &self.standing.layered;
        let mut meta = self.parent.clone();
        if mutant(Mutant::SavepointOfTwoCheckpoints) {
            meta.positions = before;
        }
        let of_job = (&self.description, &self.savepoint_disk);
        if !stopping {
            request.take_in_background(layered, &meta, of_job);
            return Ok(None);
        }
        self.monitor.update(|now| now.phase = Phase::Finishing);
        let taken = request.take(layered, &meta, of_job).await;
        Ok(Some(if taken { Ended::Stopped } else { Ended::SavepointFailed }))
    }

    /// After the last checkpoint of a job whose inputs have ended: the savepoint that they were ended for.
    async fn finish_draining(&mut self, rolled_back: Option<RollBackReason>) -> Ended {
        let request = self.draining.take();
        match (rolled_back, request) {
            (Some(reason), request) => {
                if let Some(request) = request {
                    self.savepoints.put_back(request);
                }
                Ended::RolledBack(reason)
            }
            (None, Some(request)) => {
                let of_job = (&self.description, &self.savepoint_disk);
                request.take(&self.standing.layered, &self.parent, of_job).await;
                Ended::Finished
            }
            (None, None) => Ended::Finished,
        }
    }

    /// The last checkpoint before a stop that somebody asked for.
    async fn stop(&mut self) -> Result<Ended, JobError> {
        self.monitor.update(|now| now.phase = Phase::Finishing);
        let checkpoint = next(self.parent.checkpoint);
        let stop = self.stop.clone();
        let last = tokio::select! {
            biased;
            last = self.checkpoint(CheckpointKind::Suspend, CheckpointTrigger::Requested) => last?,
            () = stop.overdue(STOP_LIMIT) => return Err(too_late(checkpoint)),
        };
        match last {
            None => {
                if mutant(Mutant::WriteAfterLastCommit) {
                    self.write_after_last_commit().await;
                }
                Ok(Ended::Stopped)
            }
            Some(RollBackReason::Producer(error)) => Err(self.standing.producer_error(error)),
            // There may be room before the time for the stop is over.
            Some(reason @ (RollBackReason::NoSpace(_) | RollBackReason::StoreFull(_))) => {
                Ok(Ended::RolledBack(reason))
            }
            Some(RollBackReason::TimedOut { checkpoint, limit, phase }) => {
                let bound = "execution.checkpointing.timeout";
                Err(JobError::CheckpointTimeout { checkpoint, limit, bound, phase })
            }
        }
    }

    /// The mutant: something that belongs to no checkpoint.
    async fn write_after_last_commit(&mut self) {
        let Some(last) = self.standing.ledger.last() else { return };
        let (record, tag) = (last.record.clone(), next(last.record.checkpoint));
        let producer = &self.standing.producer;
        // Begun already, or not: either will do.
        let _ = producer.begin_transaction(tag);
        let _ = self.standing.ledger.append(producer, &record, tag);
        let _ = producer.flush(tag).await;
    }

    /// C1 to C6 of the next checkpoint; the reason if the transaction died instead.
    async fn checkpoint(
        &mut self,
        kind: CheckpointKind,
        trigger: CheckpointTrigger,
    ) -> Result<Option<RollBackReason>, JobError> {
        let begun = Instant::now();
        self.schedule.triggered(Instant::now());
        let number = next(self.parent.checkpoint);
        let mut statistics = CheckpointStatistics::begin(number, trigger, wall_time_ms());
        let done = self.take_checkpoint(kind, begun, &mut statistics).await;
        statistics.end_to_end_duration = begun.elapsed();
        statistics.status = match &done {
            Ok(None) => CheckpointStatus::Completed,
            Ok(Some(reason)) => CheckpointStatus::Failed { reason: reason.text() },
            Err(error) => CheckpointStatus::Failed { reason: one_line(error) },
        };
        self.monitor.checkpoint_ended(statistics);
        if !matches!(done, Ok(None)) {
            return done;
        }
        // Only now: what is applied is found among the checkpoints that have ended.
        self.maintenance.confirmed(self.parent.clone());
        self.publisher.publish(&self.parent.positions);
        if kind == CheckpointKind::Suspend {
            return Ok(None);
        }
        if let Err(error) = self.standing.producer.begin_transaction(number + 1) {
            return Ok(Some(RollBackReason::Producer(error)));
        }
        self.schedule.ended(Instant::now());
        self.workers.confirm_checkpoint(number);
        Ok(None)
    }

    async fn take_checkpoint(
        &mut self,
        kind: CheckpointKind,
        begun: Instant,
        statistics: &mut CheckpointStatistics,
    ) -> Result<Option<RollBackReason>, JobError> {
        let checkpoint = next(self.parent.checkpoint);
        let limit = self.checkpoint_timeout;
        let deadline = Deadline { at: begun + limit, limit };
        self.counted = self.monitor.counts();
        // A checkpoint that begins after every input has ended is the job's last.
        let ended = self.finished == self.workers.len();
        let status = if ended { JobStatus::Finished } else { JobStatus::Running };
        crash_point(Step::Triggered);
        self.workers.trigger_checkpoint(checkpoint, kind);
        let Some(parts) = self.collect(checkpoint, deadline.at).await? else {
            return Ok(Some(RollBackReason::TimedOut {
                checkpoint,
                limit,
                phase: "the barrier has not passed every worker; the limit may be too short, a user's function may hang, or output waits for a broker",
            }));
        };
        // Sorts the changes of all workers.
        let sealed = block_in_place(|| Sealed::join(parts, &self.parent, self.nonce, status))?;
        statistics.sealed(begun, sealed.timing(), Instant::now());
        match self.standing.commit(sealed, &self.parent, deadline, statistics).await? {
            Outcome::RollBack(reason) => Ok(Some(reason)),
            Outcome::Committed(meta) => {
                self.parent = meta;
                Ok(None)
            }
        }
    }

    /// C2: waits until every worker has sealed its part; `None` if that takes longer than until `deadline`.
    async fn collect(
        &mut self,
        checkpoint: u64,
        deadline: Instant,
    ) -> Result<Option<Vec<SealedSnapshot>>, JobError> {
        let mut parts: Vec<SealedSnapshot> = Vec::new();
        while parts.len() < self.workers.len() {
            match timeout_at(deadline, self.reports.recv()).await {
                Ok(Some(WorkerReport::Sealed(part))) if part.checkpoint == checkpoint => {
                    parts.push(part);
                }
                Ok(report) => self.note(report)?,
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(parts))
    }

    fn note(&mut self, report: Option<WorkerReport>) -> Result<(), JobError> {
        match report {
            Some(WorkerReport::Finished { .. }) => {
                self.finished += 1;
                Ok(())
            }
            Some(WorkerReport::Failed { error, .. }) => Err(error.into()),
            Some(WorkerReport::Sealed(part)) => Err(JobError::Bug {
                what: format!(
                    "worker {} sealed checkpoint {} unasked",
                    part.worker, part.checkpoint
                ),
            }),
            Some(WorkerReport::Stopped { worker }) => {
                Err(JobError::Bug { what: format!("worker {worker} stopped unasked") })
            }
            None => Err(JobError::Bug { what: "all workers are gone".to_owned() }),
        }
    }
}

fn disk_full(error: StateError) -> Ended {
    Ended::RolledBack(RollBackReason::NoSpace(error))
}

/// The last checkpoint did not come to its end before the process has to be gone.
pub(crate) fn too_late(checkpoint: u64) -> JobError {
    JobError::CheckpointTimeout {
        checkpoint,
        limit: STOP_LIMIT,
        bound: STOP_BOUND,
        phase: "the last checkpoint before the stop; what was committed before is safe, the next start goes on from there",
    }
}
