//! From a state directory and a ledger to a job that may run: steps R1 to R6 of the commit protocol. The same steps serve the
//! start of a process and, in a process that lives on, the soft rollback (X).
//!
//! ```text
//! look ─> fence ─> resolve ─> decide ─> repair ─> own ─> run
//!   ^       │ met an open transaction               │ lost it again
//!   └───────┴───────────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millstream_checkpoint::{
    Decision, Facts, Fingerprint, JobName, LayeredState, LedgerRecord, LineageId, Look, Meta,
    Nonce, OwnerId, OwnershipPhase, Positions, RecoveryPoint, Resolution, StateDirectory,
    StateStore, StoreFacts, decide, look_before_fence, look_resolving, replay, replay_plan,
};
use millstream_protocol_client::{ProduceError, Producer};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, mutant};
use super::ledger::{Ledger, SLOT};
use crate::connector::kafka::topic_reader::ReadUntil;

/// InitProducerId answers "concurrent transactions" both when it met an open transaction and while the markers of one that
/// ended are being written. Markers take milliseconds; an answer that stays the same for this long is another's transaction.
const TAKEOVER_SPELL: Duration = Duration::from_secs(3);

/// Backoff between tries to fence.
const FENCE_BACKOFF_MIN: Duration = Duration::from_millis(20);
const FENCE_BACKOFF_MAX: Duration = Duration::from_millis(500);

/// How long EndTxn of an owner record may go without a definite answer before the ledger is asked.
pub(crate) const END_TXN_LIMIT: Duration = Duration::from_secs(30);

/// What a process holds of its job, apart from the workers.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) job: JobName,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) owner: OwnerId,
    pub(crate) phase: OwnershipPhase,
    pub(crate) failed_takeovers: u32,
    pub(crate) newer_owner: bool,
    pub(crate) directory: Arc<StateDirectory>,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) layered: Arc<LayeredState>,
    pub(crate) ledger: Ledger,
    pub(crate) producer: Producer,
    pub(crate) transactional_id: String,
    /// The operator's word, until it has become the truth.
    pub(crate) resolution: Option<Resolution>,
}

impl Standing {
    /// R1 to R6. `first_positions` resolves the start positions of a job that has never run.
    pub(crate) async fn recover<F>(&mut self, first_positions: F) -> Result<RecoveryPoint, JobError>
    where
        F: AsyncFn() -> Result<Positions, JobError>,
    {
        loop {
            self.first_start(&first_positions).await?;
            // The mutant decides on a ledger that an EndTxn under way may still change.
            let early = mutant(Mutant::ReadBeforeFence).then(|| self.decide());
            self.fence().await?;
            crash_point(Step::Fenced);
            self.look(ReadUntil::HighWatermark).await?;
            crash_point(Step::Resolved);
            let point = early.unwrap_or_else(|| self.decide_by_resolution())?;
            crash_point(Step::Decided);
            // After R2 the ledger is definite: an owner record of ours that is not there never will be.
            self.phase = self.phase.after_read(true, self.is_last_owner());
            self.repair(&point)?;
            crash_point(Step::Repaired);
            if self.phase == OwnershipPhase::Owner || self.own(&point).await? {
                return Ok(point);
            }
        }
    }

    /// Makes META of checkpoint 0 durable before anything is fenced or written, so that a crash finds either nothing or the
    /// positions from which the job began.
    async fn first_start<F>(&mut self, first_positions: &F) -> Result<(), JobError>
    where
        F: AsyncFn() -> Result<Positions, JobError>,
    {
        self.look_first().await?;
        let local = self.directory.local();
        if local.meta.is_some() || !local.deltas.is_empty() || self.ledger.last().is_some() {
            return Ok(());
        }
        let meta = Meta {
            job: self.job.clone(),
            checkpoint: millstream_checkpoint::CheckpointId::ZERO,
            nonce: Nonce::random()?,
            positions: first_positions().await?,
            watermarks: Vec::new(),
            status: millstream_checkpoint::JobStatus::Running,
            ledger_partition: SLOT,
            ledger_offset: None,
            ledger_topic_id: self.ledger.topic_id(),
            lineage: LineageId::random()?,
            fingerprint: self.fingerprint,
        };
        block_in_place(|| self.directory.write_meta(&meta))?;
        crash_point(Step::FirstMeta);
        Ok(())
    }

    /// R1: a look that may only stop. It reads to the last stable offset, so it never waits for an open transaction.
    pub(crate) async fn look_first(&mut self) -> Result<(), JobError> {
        self.look(ReadUntil::LastStableOffset).await?;
        let local = self.directory.local();
        if let Some(resolution) = self.resolution {
            return Ok(look_resolving(&self.facts(&local), resolution)?);
        }
        match look_before_fence(&self.facts(&local)) {
            Look::Continue => Ok(()),
            Look::Fenced(reason) => Err(reason.into()),
            Look::Stop(reason) => Err(reason.into()),
        }
    }

    /// Reads on in the ledger.
    async fn look(&mut self, until: ReadUntil) -> Result<(), JobError> {
        let other_owner = self.ledger.look(until).await?;
        // A starter takes over; only who owned or may have owned before this read gives way.
        self.newer_owner |= other_owner && self.phase != OwnershipPhase::Starter;
        if self.is_last_owner() {
            self.phase = OwnershipPhase::Owner;
        }
        Ok(())
    }

    pub(super) fn is_last_owner(&self) -> bool {
        self.ledger.last().is_some_and(|last| last.record.owner == self.owner)
    }

    /// R2: InitProducerId until success. From then on every older producer of the job is dead and its last transaction is
    /// complete, markers included. Looks again before every repeat: the other may have gone on.
    async fn fence(&mut self) -> Result<(), JobError> {
        let mut spell: Option<Instant> = None;
        let mut backoff = FENCE_BACKOFF_MIN;
        loop {
            self.look_first().await?;
            crash_point(Step::Looked);
            match self.producer.init_transactions().await {
                Ok(_) => return Ok(()),
                Err(ProduceError::ConcurrentTransactions { .. }) => {
                    let since = *spell.get_or_insert_with(Instant::now);
                    if since.elapsed() >= TAKEOVER_SPELL {
                        self.takeover_failed();
                        spell = None;
                    }
                }
                Err(ProduceError::Fenced { .. }) => self.takeover_failed(),
                Err(source) => return Err(self.producer_error(source)),
            }
            sleep(jittered(backoff)).await;
            backoff = (backoff * 2).min(FENCE_BACKOFF_MAX);
        }
    }

    fn takeover_failed(&mut self) {
        // An owner without a newer owner never gives up.
        if self.phase != OwnershipPhase::Owner {
            self.failed_takeovers += 1;
        }
    }

    /// R4.
    pub(super) fn decide(&self) -> Result<RecoveryPoint, JobError> {
        let local = self.directory.local();
        match decide(&self.facts(&local)) {
            Decision::CommitRecordZero(point)
            | Decision::Confirm(point)
            | Decision::Resume(point) => Ok(point),
            Decision::Fenced(reason) => Err(reason.into()),
            Decision::Stop(reason) => Err(reason.into()),
            Decision::FirstStart => Err(JobError::Bug {
                what: "META of a first start is gone although it was just written".to_owned(),
            }),
        }
    }

    pub(super) fn facts<'a>(&'a self, local: &'a millstream_checkpoint::LocalState) -> Facts<'a> {
        Facts {
            job: &self.job,
            fingerprint: self.fingerprint,
            local,
            ledger: self.ledger.last(),
            ledger_place: self.ledger.place(),
            ledger_topic_id: self.ledger.topic_id(),
            phase: self.phase,
            newer_owner: self.newer_owner,
            failed_takeovers: self.failed_takeovers,
        }
    }

    /// R5: puts aside what belongs to dead attempts, brings the store up to the confirmed checkpoint, and makes the
    /// confirmation durable.
    fn repair(&mut self, point: &RecoveryPoint) -> Result<(), JobError> {
        block_in_place(|| {
            for dead in &point.quarantine {
                self.directory.quarantine(*dead)?;
            }
            crash_point(Step::Quarantined);
            let plan =
                replay_plan(&self.directory.local(), &StoreFacts::of(&*self.store)?, point.at)?;
            replay(&self.directory, &*self.store, &plan)?;
            crash_point(Step::Replayed);
            self.layered = Arc::new(LayeredState::new(Arc::clone(&self.store))?);
            let local = self.directory.local();
            if let Some(mut meta) = local.meta
                && (meta.checkpoint != point.at.checkpoint
                    || meta.ledger_offset != point.ledger_offset
                    || self.resolution.is_some())
            {
                if self.resolution.is_some() {
                    meta = self.resolved_meta(&meta)?;
                }
                self.directory.write_meta(&Meta {
                    checkpoint: point.at.checkpoint,
                    nonce: point.at.nonce,
                    positions: point.positions.clone(),
                    watermarks: point.watermarks.clone(),
                    status: point.status,
                    ledger_offset: point.ledger_offset,
                    ..meta
                })?;
            }
            Ok(())
        })
    }

    /// R6: commits a record that repeats the confirmed checkpoint under our name. `false`: somebody else was quicker.
    async fn own(&mut self, point: &RecoveryPoint) -> Result<bool, JobError> {
        let now = wall_time_ms();
        let record = match self.ledger.last().filter(|_| self.resolution.is_none()) {
            Some(last) => last.record.owned_by(self.owner, now),
            None => {
                let meta =
                    self.directory.local().meta.ok_or_else(|| JobError::Bug {
                        what: "record 0 without META".to_owned(),
                    })?;
                match self.resolution {
                    Some(_) => self.resolved_record(&meta, point),
                    None => LedgerRecord::zero(&meta, self.owner, now),
                }
            }
        };
        let tag = point.at.checkpoint.0;
        if let Err(error) = self.producer.begin_transaction(tag) {
            return Err(self.producer_error(error));
        }
        self.ledger.append(&self.producer, &record, tag)?;
        match self.commit_owner_record(tag).await {
            Ok(offset) => {
                self.phase = OwnershipPhase::Owner;
                self.failed_takeovers = 0;
                self.resolution = None;
                self.ledger.committed(record, offset);
                crash_point(Step::Owned);
                Ok(true)
            }
            Err(error) if needs_ledger(&error) => {
                tracing::info!(%error, "the owner record was not committed, looking at the ledger again");
                self.producer.discard().await;
                self.takeover_failed();
                Ok(false)
            }
            Err(source) => Err(self.producer_error(source)),
        }
    }

    async fn commit_owner_record(&mut self, tag: u64) -> Result<i64, ProduceError> {
        let acknowledged = self.producer.flush(tag).await?;
        let offset = acknowledged.get(self.ledger.partition()).copied();
        // From here until the next read after R2 we may own the job without knowing it.
        self.phase = OwnershipPhase::MayOwn;
        crash_point(Step::OwnerVoted);
        self.producer.commit_transaction(END_TXN_LIMIT).await?;
        crash_point(Step::OwnerCommitted);
        if self.producer.needs_bump() {
            self.producer.bump_epoch().await?;
        }
        Ok(offset.unwrap_or(-1))
    }

    /// The last checkpoint that the directory knows to be committed.
    pub(crate) fn confirmed(&self) -> u64 {
        self.directory.local().confirmed().map_or(0, |at| at.checkpoint.0)
    }

    pub(crate) fn producer_error(&self, source: ProduceError) -> JobError {
        JobError::Producer { transactional_id: self.transactional_id.clone(), source }
    }
}

/// Whether an error leaves it to the ledger what became of the transaction; any other is for the user.
pub(crate) fn needs_ledger(error: &ProduceError) -> bool {
    matches!(
        error,
        ProduceError::Fenced { .. }
            | ProduceError::Abortable { .. }
            | ProduceError::UnknownOutcome { .. }
            | ProduceError::ConcurrentTransactions { .. }
            | ProduceError::TimedOut { .. }
    )
}

/// Milliseconds since the Unix epoch, for information in records; nothing depends on it.
pub(crate) fn wall_time_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Between half of `backoff` and all of it, so that two contenders do not stay in step.
fn jittered(backoff: Duration) -> Duration {
    let mut byte = [0_u8; 1];
    // Without random numbers the backoff is still right, only in step.
    let _ = getrandom::fill(&mut byte);
    backoff.mul_f64(0.5 + f64::from(byte[0]) / 510.0)
}
