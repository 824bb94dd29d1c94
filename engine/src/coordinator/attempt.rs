//! One attempt: workers run from a confirmed checkpoint, checkpoints are taken and committed, until the job ends or its
//! transaction dies.

use std::time::{Duration, Instant};

use millstream_checkpoint::{JobStatus, Meta, Nonce};
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::MissedTickBehavior;

use super::checkpoint::{CHECKPOINT_TIMEOUT, Outcome, RollBackReason, Sealed, next};
use super::error::JobError;
use super::maintenance::Maintenance;
use super::monitor::{JobMonitor, Phase};
use super::offset_publisher::OffsetPublisher;
use super::recovery::Standing;
use super::stop_request::StopRequest;
use crate::exchange::CheckpointKind;
use crate::task::{SealedSnapshot, WorkerReport, WorkerSet};

/// From a request to stop until the last checkpoint has to be committed.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(9);

/// How an attempt ended without error.
pub(crate) enum Ended {
    Finished,
    Stopped,
    RolledBack(RollBackReason),
}

/// Workers at work between two recoveries.
pub(crate) struct Attempt<'a> {
    pub(crate) interval: Duration,
    pub(crate) monitor: &'a JobMonitor,
    pub(crate) stop: &'a StopRequest,
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
        block_in_place(|| self.workers.join());
        let maintained = self.maintenance.finish().await;
        let ended = ended?;
        maintained?;
        Ok(ended)
    }

    async fn run_workers(&mut self) -> Result<Ended, JobError> {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            tokio::select! {
                biased;
                () = self.stop.requested() => return self.stop().await,
                report = self.reports.recv() => {
                    self.note(report)?;
                    if self.finished < self.workers.len() {
                        continue;
                    }
                }
                _ = ticks.tick() => {}
            }
            if self.finished == self.workers.len() {
                self.monitor.update(|now| now.phase = Phase::Finishing);
                return self
                    .checkpoint(CheckpointKind::Suspend)
                    .await
                    .map(|rolled_back| rolled_back.map_or(Ended::Finished, Ended::RolledBack));
            }
            if self.maintenance.has_failed() {
                // Its error is what `finish` returns.
                return Ok(Ended::Stopped);
            }
            if self.counted == self.monitor.counts() {
                // Nothing was read or written since the last checkpoint began: a transaction would hold the ledger alone.
                continue;
            }
            let number = next(self.parent.checkpoint);
            let stop = self.stop.clone();
            let rolled_back = tokio::select! {
                done = self.checkpoint(CheckpointKind::Checkpoint) => done?,
                () = stop.overdue(STOP_LIMIT) => return Err(too_late(number)),
            };
            if let Some(reason) = rolled_back {
                return Ok(Ended::RolledBack(reason));
            }
        }
    }

    /// The last checkpoint before a stop that somebody asked for.
    async fn stop(&mut self) -> Result<Ended, JobError> {
        self.monitor.update(|now| now.phase = Phase::Finishing);
        let checkpoint = next(self.parent.checkpoint);
        let stop = self.stop.clone();
        let last = tokio::select! {
            last = self.checkpoint(CheckpointKind::Suspend) => last?,
            () = stop.overdue(STOP_LIMIT) => return Err(too_late(checkpoint)),
        };
        match last {
            None => Ok(Ended::Stopped),
            Some(RollBackReason::Producer(error)) => Err(self.standing.producer_error(error)),
            Some(RollBackReason::NoSpace(error)) => Err(error.into()),
        }
    }

    /// C1 to C6 of the next checkpoint; the reason if the transaction died instead.
    async fn checkpoint(
        &mut self,
        kind: CheckpointKind,
    ) -> Result<Option<RollBackReason>, JobError> {
        let checkpoint = next(self.parent.checkpoint);
        let begun = Instant::now();
        self.counted = self.monitor.counts();
        // A checkpoint that begins after every input has ended is the job's last.
        let ended = self.finished == self.workers.len();
        let status = if ended { JobStatus::Finished } else { JobStatus::Running };
        self.workers.trigger_checkpoint(checkpoint, kind);
        let parts = self.collect(checkpoint).await?;
        let sealed = Sealed::join(parts, &self.parent, self.nonce, status)?;
        match self.standing.commit(sealed, &self.parent).await? {
            Outcome::RollBack(reason) => return Ok(Some(reason)),
            Outcome::Committed(meta) => self.parent = meta,
        }
        self.maintenance.confirmed(self.parent.clone());
        self.publisher.publish(&self.parent.positions);
        self.monitor.update(|now| {
            now.checkpoint = checkpoint;
            now.committed += 1;
            now.checkpoint_duration = begun.elapsed();
        });
        if kind == CheckpointKind::Suspend {
            return Ok(None);
        }
        if let Err(error) = self.standing.producer.begin_transaction(checkpoint + 1) {
            return Ok(Some(RollBackReason::Producer(error)));
        }
        self.workers.confirm_checkpoint(checkpoint);
        Ok(None)
    }

    /// C2: waits until every worker has sealed its part.
    async fn collect(&mut self, checkpoint: u64) -> Result<Vec<SealedSnapshot>, JobError> {
        let deadline = tokio::time::Instant::now() + CHECKPOINT_TIMEOUT;
        let mut parts: Vec<SealedSnapshot> = Vec::new();
        while parts.len() < self.workers.len() {
            match tokio::time::timeout_at(deadline, self.reports.recv()).await {
                Ok(Some(WorkerReport::Sealed(part))) if part.checkpoint == checkpoint => {
                    parts.push(part);
                }
                Ok(report) => self.note(report)?,
                Err(_) => {
                    return Err(JobError::CheckpointTimeout {
                        checkpoint,
                        limit: CHECKPOINT_TIMEOUT,
                        phase: "a worker did not let the barrier pass; a user function may hang",
                    });
                }
            }
        }
        Ok(parts)
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

/// The last checkpoint did not come to its end before the process has to be gone.
fn too_late(checkpoint: u64) -> JobError {
    JobError::CheckpointTimeout {
        checkpoint,
        limit: STOP_LIMIT,
        phase: "the last checkpoint before the stop; what was committed before is safe, the next start goes on from there",
    }
}
