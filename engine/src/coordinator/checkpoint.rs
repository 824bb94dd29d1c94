//! One checkpoint: steps C2 to C6 of the commit protocol.

use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{
    CheckpointId, CheckpointRef, DeltaHeader, FrozenDelta, JobStatus, LedgerRecord, Meta, Nonce,
    Positions, StateError, StoreError, Watermarks,
};
use millstream_protocol_client::ProduceError;
use millstream_protocol_client::surroundings::{spawn_blocking, wall_time_ms};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, mutant};
use super::recovery::{END_TXN_LIMIT, Standing, needs_ledger};
use super::restart::one_line;
use super::statistics::CheckpointStatistics;
use crate::task::{BarrierTiming, SealedSnapshot};

/// What came of a checkpoint.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Committed; the position of the job is now this.
    Committed(Meta),
    /// The transaction died, or its end is not known: the ledger has to be asked.
    RollBack(RollBackReason),
}

/// Why an attempt can not go on.
#[derive(Debug)]
pub(crate) enum RollBackReason {
    /// The producer said so.
    Producer(ProduceError),
    /// The disk is full: wait for room, then try again.
    NoSpace(StateError),
    /// The disk was full when changes went into the store: wait for room, open the store again.
    StoreFull(StoreError),
    /// The checkpoint took too long.
    TimedOut {
        /// Which one.
        checkpoint: u64,
        /// The bound.
        limit: Duration,
        /// What was being waited for.
        phase: &'static str,
    },
}

impl RollBackReason {
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self, Self::NoSpace(_) | Self::StoreFull(_))
    }

    /// In one line.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Producer(error) => one_line(error),
            Self::NoSpace(error) => one_line(error),
            Self::StoreFull(error) => one_line(error),
            Self::TimedOut { checkpoint, limit, phase } => {
                format!(
                    "checkpoint {checkpoint} took longer than {limit:?} (execution.checkpointing.timeout): {phase}"
                )
            }
        }
    }
}

/// By when a checkpoint has to be ready to be committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// The time that it was given.
    pub(crate) limit: Duration,
}

/// The checkpoint after `parent`, sealed by all workers.
#[derive(Debug)]
pub(crate) struct Sealed {
    at: CheckpointRef,
    parent: CheckpointRef,
    parent_ledger_offset: Option<i64>,
    positions: Positions,
    watermarks: Watermarks,
    status: JobStatus,
    delta: FrozenDelta,
    timing: BarrierTiming,
}

impl Sealed {
    /// Joins the workers' parts. Positions of splits that no worker reads stay as they were in `parent`.
    pub(crate) fn join(
        parts: Vec<SealedSnapshot>,
        parent: &Meta,
        nonce: Nonce,
        status: JobStatus,
    ) -> Result<Self, JobError> {
        let merged = SealedSnapshot::merge(parts)
            .ok_or_else(|| JobError::Bug { what: "a checkpoint of no workers".to_owned() })?;
        let mut positions = parent.positions.clone();
        positions.extend(merged.positions);
        let delta = FrozenDelta::from_parts(merged.states).map_err(|error| JobError::Bug {
            what: format!("workers sealed a wrong delta: {error}"),
        })?;
        Ok(Self {
            at: CheckpointRef::new(parent.checkpoint.next(), nonce),
            parent: parent.at(),
            parent_ledger_offset: parent.ledger_offset,
            positions,
            watermarks: merged.watermarks,
            status,
            delta,
            timing: merged.timing,
        })
    }

    /// When the barrier passed the workers.
    pub(crate) fn timing(&self) -> BarrierTiming {
        self.timing
    }
}

impl Standing {
    /// C3 to C6. Outputs of the checkpoint have been handed to the producer under its number as tag. By `deadline` everything
    /// has to be ready to be committed.
    pub(crate) async fn commit(
        &mut self,
        sealed: Sealed,
        parent: &Meta,
        deadline: Deadline,
        statistics: &mut CheckpointStatistics,
    ) -> Result<Outcome, JobError> {
        let begun = Instant::now();
        let tag = sealed.at.checkpoint.0;
        let delta = Arc::new(sealed.delta);
        statistics.state_bytes = delta.bytes() as u64;
        statistics.dirty_keys = delta.entries() as u64;
        self.layered.push_frozen(sealed.at, Arc::clone(&delta))?;
        crash_point(Step::Sealed);
        if mutant(Mutant::ApplyBeforeCommit) {
            self.layered.confirm(sealed.at)?;
            let layered = Arc::clone(&self.layered);
            blocking(move || {
                while layered.apply_confirmed(usize::MAX)?.is_some() {}
                Ok(layered.persist().map(|_| ())?)
            })
            .await?;
        }

        let header = DeltaHeader {
            job: self.job.clone(),
            at: sealed.at,
            parent: sealed.parent,
            parent_ledger_offset: sealed.parent_ledger_offset,
            positions: sealed.positions.clone(),
            watermarks: sealed.watermarks.clone(),
            status: sealed.status,
            fingerprint: self.fingerprint,
            producer: self.producer.identity().map(|id| (id.producer_id, id.producer_epoch)),
        };
        let directory = Arc::clone(&self.directory);
        let (tell, digest) = oneshot::channel();
        let writing = spawn_blocking(move || {
            let told = |digest| {
                // Who waited for it is gone with the whole job.
                let _ = tell.send(digest);
            };
            let written = directory.write_delta_telling(&header, &delta, told);
            (written.map(|_| directory.delta_file_bytes(header.at)), begun.elapsed())
        });
        // Output, ledger record and the delta's fsync are on their way together; the commit waits for all of them.
        let record = digest.await.ok().map(|digest| LedgerRecord {
            job: self.job.clone(),
            checkpoint: sealed.at.checkpoint,
            nonce: sealed.at.nonce,
            parent: Some(sealed.parent),
            owner: self.owner,
            positions: sealed.positions,
            watermarks: sealed.watermarks,
            status: sealed.status,
            delta_digest: Some(digest),
            fingerprint: self.fingerprint,
            wall_time_ms: wall_time_ms(),
        });
        let outputs_alone = match mutant(Mutant::LedgerOutsideTransaction) {
            true => self.commit_outputs_alone(tag).await,
            false => Ok(()),
        };
        let appended = match &record {
            Some(record) => self.ledger.append(&self.producer, record, tag),
            None => Ok(()),
        };
        // It is waited for in any case: a file that appears after the rollback would be one more dead attempt's.
        let written = writing.await.map(|(written, took)| {
            statistics.delta_duration = took;
            written
        });
        let file_bytes = match written {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) if error.is_no_space() => {
                return Ok(Outcome::RollBack(RollBackReason::NoSpace(error)));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(panic) => return Err(JobError::Bug { what: format!("writing a delta: {panic}") }),
        };
        statistics.delta_file_bytes = file_bytes.unwrap_or(0);
        crash_point(Step::DeltaWritten);
        if let Err(error) = outputs_alone {
            return self.roll_back(error);
        }
        appended?;
        let Some(record) = record else {
            return Err(JobError::Bug { what: "a delta was written without a digest".to_owned() });
        };
        crash_point(Step::LedgerAppended);
        let acknowledged = match timeout_at(deadline.at, self.flush_output(tag)).await {
            Ok(Ok(offsets)) => offsets,
            Ok(Err(error)) => return self.roll_back(error),
            Err(_) => {
                return Ok(Outcome::RollBack(RollBackReason::TimedOut {
                    checkpoint: tag,
                    limit: deadline.limit,
                    phase: "the brokers did not acknowledge its output",
                }));
            }
        };
        statistics.acknowledge_duration = begun.elapsed();
        crash_point(Step::Voted);
        let ledger_offset = acknowledged.get(self.ledger.partition()).copied();
        let ready = Instant::now();
        if let Err(error) = self.end().await {
            return self.roll_back(error);
        }
        statistics.commit_duration = ready.elapsed();
        let confirmed = self.confirm(record, ledger_offset, parent);
        crash_point(Step::Confirmed);
        confirmed
    }

    /// C5 and C6's bump: EndTxn until the answer is definite.
    async fn end(&mut self) -> Result<(), ProduceError> {
        self.producer.commit_transaction(END_TXN_LIMIT).await?;
        crash_point(Step::Committed);
        if self.producer.needs_bump() {
            self.producer.bump_epoch().await?;
        }
        crash_point(Step::Bumped);
        Ok(())
    }

    /// The mutant: outputs and ledger in two transactions. A crash between them is what its test looks for.
    async fn commit_outputs_alone(&mut self, tag: u64) -> Result<(), ProduceError> {
        self.producer.commit_transaction(END_TXN_LIMIT).await?;
        crash_point(Step::Voted);
        if self.producer.needs_bump() {
            self.producer.bump_epoch().await?;
        }
        self.producer.begin_transaction(tag)
    }

    /// C6: the commit is known.
    fn confirm(
        &mut self,
        record: LedgerRecord,
        ledger_offset: Option<i64>,
        parent: &Meta,
    ) -> Result<Outcome, JobError> {
        // A resent record may be acknowledged without its offset; reading on from the one before finds it again.
        let ledger_offset = ledger_offset.or(parent.ledger_offset).unwrap_or(0);
        let meta = Meta {
            checkpoint: record.checkpoint,
            nonce: record.nonce,
            positions: record.positions.clone(),
            watermarks: record.watermarks.clone(),
            status: record.status,
            ledger_offset: Some(ledger_offset),
            ..parent.clone()
        };
        self.layered.confirm(meta.at())?;
        self.ledger.committed(record, ledger_offset);
        Ok(Outcome::Committed(meta))
    }

    fn roll_back(&self, error: ProduceError) -> Result<Outcome, JobError> {
        if needs_ledger(&error) {
            Ok(Outcome::RollBack(RollBackReason::Producer(error)))
        } else {
            Err(self.producer_error(error))
        }
    }
}

/// The number after `checkpoint`.
pub(crate) fn next(checkpoint: CheckpointId) -> u64 {
    checkpoint.next().0
}

async fn blocking(
    work: impl FnOnce() -> Result<(), JobError> + Send + 'static,
) -> Result<(), JobError> {
    spawn_blocking(work).await.unwrap_or_else(|panic| {
        Err(JobError::Bug { what: format!("a blocking step ended: {panic}") })
    })
}
