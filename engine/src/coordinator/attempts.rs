//! Attempts, one after the other: what follows each failure of a job, until it ends for good.

use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{JobStatus, LayeredState, MemoryStore, StateError, StoreError};
use millstream_protocol_client::surroundings::{fill_random, wall_time_ms};
use tokio::time::{Instant, timeout};

use super::attempt::{Ended, STOP_LIMIT, too_late};
use super::checkpoint::RollBackReason;
use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, mutant};
use super::job_master::{JobMaster, Opened};
use super::monitor::Phase;
use super::recovery::Standing;
use super::restart::{
    RestartBackoff, RestartHistory, RestartKind, RestartRecord, SameRecord, may_restart, one_line,
};
use crate::api::RestartStrategy;

/// Backoff between soft rollbacks of which none brought a commit in between.
const ROLLBACK_BACKOFF_MAX: Duration = Duration::from_secs(5);
const ROLLBACK_BACKOFF_MIN: Duration = Duration::from_millis(50);

/// A job that is given up may try for so long to leave no transaction open, which would hold back readers of its output.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// The failures of a job in this process.
#[derive(Debug)]
struct Failures {
    begun: Instant,
    /// The job has run: from then on a failure may be followed by a restart.
    ran: bool,
    backoff: RestartBackoff,
    same_record: SameRecord,
    /// In a row.
    failed_checkpoints: u32,
    /// Why the last checkpoint failed, if it was for a full disk.
    disk_full: Option<String>,
}

impl Failures {
    fn new(strategy: RestartStrategy) -> Self {
        Self {
            begun: Instant::now(),
            ran: false,
            backoff: RestartBackoff::new(strategy),
            same_record: SameRecord::default(),
            failed_checkpoints: 0,
            disk_full: None,
        }
    }
}

/// What follows an attempt that ended without an error.
enum AttemptEnd {
    /// The job has ended.
    Ended,
    /// Nothing failed but a savepoint with stop: the next attempt begins at once.
    Again,
    /// It has to be rolled back.
    RolledBack(RollBackReason),
}

impl JobMaster {
    /// Attempts until one ends for good. One that failed is followed by the next, from the last committed checkpoint, if a
    /// restart may help and the strategy allows it.
    pub(super) async fn run_attempts(
        &self,
        standing: &mut Standing,
        opened: &Opened,
        name: &str,
    ) -> Result<(), JobError> {
        let mut failures = Failures::new(self.graph.config().restart_strategy);
        let ended = self.attempt_until_it_ends(standing, opened, name, &mut failures).await;
        match (ended, failures.disk_full) {
            // Whatever was under way when the time was over: this is what it was about.
            (Err(error), Some(last)) if self.stop.is_overdue(STOP_LIMIT) && is_for_time(&error) => {
                let checkpoint = standing.confirmed();
                let error = JobError::StopOnFullDisk { checkpoint, limit: STOP_LIMIT, last };
                Err(self.with_history(error))
            }
            (ended, _) => ended,
        }
    }

    async fn attempt_until_it_ends(
        &self,
        standing: &mut Standing,
        opened: &Opened,
        name: &str,
        failures: &mut Failures,
    ) -> Result<(), JobError> {
        loop {
            let committed_before = self.monitor.snapshot().committed;
            let attempt = self.attempt(standing, opened, name, &mut failures.ran).await;
            if self.monitor.snapshot().committed > committed_before {
                failures.failed_checkpoints = 0;
                failures.disk_full = None;
            }
            let pause = match attempt {
                Ok(AttemptEnd::Ended) => return Ok(()),
                Ok(AttemptEnd::Again) => continue,
                Ok(AttemptEnd::RolledBack(reason)) => {
                    failures.disk_full = reason.is_disk_full().then(|| reason.text());
                    if self.stop.is_overdue(STOP_LIMIT) {
                        return Err(self.with_history(too_late(standing.confirmed() + 1)));
                    }
                    if matches!(reason, RollBackReason::StoreFull(_)) {
                        self.open_store_again(standing).await?;
                    }
                    match self.failed_checkpoint(&reason, failures, standing) {
                        Ok(pause) => pause,
                        Err(error) => self.failed(error, failures, standing).await?,
                    }
                }
                Err(error) => self.failed(error, failures, standing).await?,
            };
            crash_point(Step::RollbackBegun);
            let pausing = async {
                standing.producer.discard().await;
                if mutant(Mutant::StuckAfterRollback) {
                    std::future::pending::<()>().await;
                }
                // After a request to stop the last checkpoint is taken by the attempt that follows.
                self.stop.pause(pause).await;
                Ok(())
            };
            self.in_time(pausing, standing.confirmed()).await?;
            crash_point(Step::Discarded);
        }
    }

    /// One recovery and one attempt.
    async fn attempt(
        &self,
        standing: &mut Standing,
        opened: &Opened,
        name: &str,
        ran: &mut bool,
    ) -> Result<AttemptEnd, JobError> {
        let point = match self.recover(standing, opened).await {
            Ok(point) => point,
            // The disk has filled up since the job ran last; while it starts that is for its user.
            Err(JobError::State(error)) if *ran && error.is_no_space() => {
                return Ok(AttemptEnd::RolledBack(match error {
                    StateError::Store(error) => RollBackReason::StoreFull(error),
                    error => RollBackReason::NoSpace(error),
                }));
            }
            Err(JobError::Store(error @ StoreError::NoSpace { .. })) if *ran => {
                return Ok(AttemptEnd::RolledBack(RollBackReason::StoreFull(error)));
            }
            Err(error) => return Err(error),
        };
        if point.status == JobStatus::Finished {
            let finished = self.finished_before(name, point.at.checkpoint, opened.bounded);
            return finished.map(|()| AttemptEnd::Ended);
        }
        let checkpoint = point.at.checkpoint.0;
        let first = !std::mem::replace(ran, true);
        self.monitor.update(|now| {
            if first {
                now.resumed_from = checkpoint;
            }
            now.checkpoint = checkpoint;
        });
        if !first {
            crash_point(Step::RolledBack);
        }
        let ended = self.run_attempt(standing, opened).await?;
        let checkpoint = standing.confirmed();
        match ended {
            Ended::SavepointFailed => {
                tracing::info!("no savepoint, so no stop: going on from checkpoint {checkpoint}");
                return Ok(AttemptEnd::Again);
            }
            Ended::Finished => {
                tracing::info!(
                    "finished: everything was read and committed (checkpoint {checkpoint})"
                );
            }
            Ended::Stopped => {
                tracing::info!("stopped; the next start goes on from checkpoint {checkpoint}");
            }
            Ended::RolledBack(reason) => return Ok(AttemptEnd::RolledBack(reason)),
        }
        Ok(AttemptEnd::Ended)
    }

    /// A checkpoint was not committed: the pause before the replay, or the failure that this is once too many failed.
    fn failed_checkpoint(
        &self,
        reason: &RollBackReason,
        failures: &mut Failures,
        standing: &Standing,
    ) -> Result<Duration, JobError> {
        let tolerable = self.graph.config().checkpoints.tolerable_failed_checkpoints;
        failures.failed_checkpoints = failures.failed_checkpoints.saturating_add(1);
        let failed = failures.failed_checkpoints;
        self.monitor.update(|now| now.rollbacks += 1);
        if failed > tolerable {
            failures.failed_checkpoints = 0;
            let last = reason.text();
            return Err(JobError::TooManyFailedCheckpoints { failed, tolerable, last });
        }
        match reason {
            RollBackReason::Producer(error) => tracing::warn!(
                error = error as &dyn std::error::Error,
                "the transaction died; rolling back to the last committed checkpoint and replaying"
            ),
            RollBackReason::NoSpace(_) | RollBackReason::StoreFull(_) => {
                let until = match self.stop.is_requested() {
                    true => format!(" until {STOP_LIMIT:?} after the request to stop"),
                    false => String::new(),
                };
                tracing::error!("disk full, retrying{until}: {}", reason.text());
            }
            RollBackReason::TimedOut { .. } => tracing::warn!(
                "{}; rolling back to the last committed checkpoint and replaying",
                reason.text()
            ),
        }
        // The first replay begins at once.
        let pause = match failed {
            1 => Duration::ZERO,
            _ => (ROLLBACK_BACKOFF_MIN * 2_u32.saturating_pow(failed.min(20) - 2))
                .min(ROLLBACK_BACKOFF_MAX),
        };
        self.monitor.restarted(RestartRecord {
            at_ms: wall_time_ms(),
            kind: RestartKind::FailedCheckpoint,
            checkpoint: standing.confirmed(),
            reason: reason.text(),
            delay: pause,
        });
        Ok(pause)
    }

    /// The job failed: the pause before the next try, or the error that ends the job.
    async fn failed(
        &self,
        error: JobError,
        failures: &mut Failures,
        standing: &mut Standing,
    ) -> Result<Duration, JobError> {
        // One that has never run is told at once what is wrong, and one that is to end is not started again.
        if !failures.ran || self.stop.is_requested() || !may_restart(&error) {
            return Err(self.with_history(error));
        }
        let limit = self.graph.config().same_record_failures;
        let same_record = failures.same_record.count(&error);
        let given_up = if limit > 0 && same_record >= limit {
            Some(format!("the same record made the job fail {same_record} times in a row"))
        } else {
            None
        };
        let pause = match given_up {
            Some(why) => Err(why),
            None => {
                let pause = failures.backoff.on_failure(failures.begun.elapsed(), random());
                pause.ok_or_else(|| failures.backoff.to_string())
            }
        };
        let pause = match pause {
            Ok(pause) => pause,
            Err(why) => {
                self.leave(standing).await;
                let restarts = RestartHistory(self.monitor.restarts());
                return Err(JobError::GaveUp { why, restarts, source: Box::new(error) });
            }
        };
        let record = RestartRecord {
            at_ms: wall_time_ms(),
            kind: RestartKind::Failure,
            checkpoint: standing.confirmed(),
            reason: one_line(&error),
            delay: pause,
        };
        tracing::error!(
            "the job failed and is restarted from checkpoint {} in {pause:?}: {}",
            record.checkpoint,
            record.reason
        );
        self.monitor.update(|now| {
            now.restarts += 1;
            now.phase = Phase::Restarting;
        });
        self.monitor.restarted(record);
        Ok(pause)
    }

    /// An error that no restart follows, with the failures before it.
    fn with_history(&self, error: JobError) -> JobError {
        let restarts = RestartHistory(self.monitor.restarts());
        if restarts.0.is_empty() {
            return error;
        }
        let why = match self.stop.is_requested() {
            true => "it was asked to stop",
            false => "no restart helps",
        };
        let why = why.to_owned();
        JobError::GaveUp { why, restarts, source: Box::new(error) }
    }

    /// Has the coordinator abort what is open, if the job is still ours.
    async fn leave(&self, standing: &mut Standing) {
        let leaving = async {
            if standing.look_first().await.is_ok() {
                // Without success the transaction ends by its timeout.
                let _ = standing.producer.init_transactions().await;
            }
        };
        if timeout(LEAVE_LIMIT, leaving).await.is_err() {
            tracing::warn!(
                "no answer from the coordinator: the open transaction holds back readers until transaction.timeout.ms"
            );
        }
    }

    /// What a full disk left of the store is read anew; its files hold nothing that delta files do not.
    async fn open_store_again(&self, standing: &mut Standing) -> Result<(), JobError> {
        // The old one has to be closed before: it holds the folder's lock.
        standing.store = Arc::new(MemoryStore::new());
        standing.layered = Arc::new(LayeredState::new(Arc::clone(&standing.store))?);
        let mut pause = ROLLBACK_BACKOFF_MIN;
        loop {
            match self.open_store(&standing.directory) {
                Ok(store) => {
                    standing.layered = Arc::new(LayeredState::new(Arc::clone(&store))?);
                    standing.store = store;
                    return Ok(());
                }
                Err(error) if self.stop.is_overdue(STOP_LIMIT) => return Err(error),
                Err(error) if self.stop.is_requested() && !is_disk_full(&error) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::error!(%error, "the state store can not be opened, retrying");
                    self.stop.pause(pause).await;
                    pause = (pause * 2).min(ROLLBACK_BACKOFF_MAX);
                }
            }
        }
    }
}

/// Whether a job that was asked to stop ended by this only because its time was over, or because the disk still was full.
fn is_for_time(error: &JobError) -> bool {
    match error {
        JobError::GaveUp { source, .. } => is_for_time(source),
        JobError::CheckpointTimeout { .. } => true,
        error => is_disk_full(error),
    }
}

fn is_disk_full(error: &JobError) -> bool {
    match error {
        JobError::State(error) => error.is_no_space(),
        JobError::Store(error) => matches!(error, StoreError::NoSpace { .. }),
        _ => false,
    }
}

/// From 0 to 1. Without random numbers pauses have no jitter.
fn random() -> f64 {
    let mut byte = [0_u8; 1];
    fill_random(&mut byte).map_or(0.5, |()| f64::from(byte[0]) / 255.0)
}
