//! One checkpoint: steps C2 to C6 of the commit protocol.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_checkpoint::{
    CheckpointId, CheckpointRef, DeltaHeader, FrozenDelta, JobStatus, LedgerRecord, Meta, Nonce,
    Positions, StateError, Watermarks,
};
use millstream_protocol_client::ProduceError;
use tokio::task::spawn_blocking;

use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, mutant};
use super::recovery::{END_TXN_LIMIT, Standing, needs_ledger, wall_time_ms};
use crate::task::SealedSnapshot;

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
        })
    }
}

impl Standing {
    /// C3 to C6. Outputs of the checkpoint have been handed to the producer under its number as tag.
    pub(crate) async fn commit(
        &mut self,
        sealed: Sealed,
        parent: &Meta,
    ) -> Result<Outcome, JobError> {
        let begun = Instant::now();
        let tag = sealed.at.checkpoint.0;
        let delta = Arc::new(sealed.delta);
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
        let written = spawn_blocking(move || directory.write_delta(&header, &delta));
        let (flushed, written) = tokio::join!(self.producer.flush(tag), written);
        let digest = match written {
            Ok(Ok(digest)) => digest,
            Ok(Err(error)) if error.is_no_space() => {
                return Ok(Outcome::RollBack(RollBackReason::NoSpace(error)));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(panic) => return Err(JobError::Bug { what: format!("writing a delta: {panic}") }),
        };
        crash_point(Step::DeltaWritten);
        if let Err(error) = flushed {
            return self.roll_back(error);
        }
        let record = LedgerRecord {
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
        };
        if mutant(Mutant::LedgerOutsideTransaction)
            && let Err(error) = self.commit_outputs_alone(tag).await
        {
            return self.roll_back(error);
        }
        self.ledger.append(&self.producer, &record, tag)?;
        let ledger_offset = match self.end(tag).await {
            Ok(offset) => offset,
            Err(error) => return self.roll_back(error),
        };
        crash_point(Step::Committed);
        self.confirm(record, ledger_offset, parent, begun)
    }

    /// C3c, C5, and C6's bump: the ledger record acknowledged, EndTxn until the answer is definite. Gives the record's offset, if
    /// the broker said it.
    async fn end(&mut self, tag: u64) -> Result<Option<i64>, ProduceError> {
        let acknowledged = self.producer.flush(tag).await?;
        crash_point(Step::Voted);
        self.producer.commit_transaction(END_TXN_LIMIT).await?;
        if self.producer.needs_bump() {
            self.producer.bump_epoch().await?;
        }
        Ok(acknowledged.get(self.ledger.partition()).copied())
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
        begun: Instant,
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
        tracing::debug!(checkpoint = meta.checkpoint.0, took = ?begun.elapsed(), "committed");
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

/// The limit within which workers have to seal a checkpoint; Flink's default.
pub(crate) const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(600);

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
