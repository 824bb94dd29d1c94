//! From a state directory and a ledger to a job that may run: steps R1 to R6 of the commit protocol, and in a process that lives
//! on the soft rollback (X). What comes next is said by [`Recovery`]; here it is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{
    CheckpointId, Effect, FenceAnswer, Findings, Fingerprint, Halt, JobName, JobStatus,
    LayeredState, LineageId, LocalState, Meta, Nonce, OwnerId, OwnerRecordEnd, Positions, Recovery,
    RecoveryPoint, StateDirectory, StateStore, StoreFacts, owner_record, replay, replay_plan,
};
use millstream_protocol::TopicPartition;
use millstream_protocol_client::surroundings::{block_in_place, fill_random, wall_time_ms};
use millstream_protocol_client::{ProduceError, Producer};
use tokio::time::{Instant, sleep};

use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, decision, mutant};
use super::ledger::{Ledger, SLOT};
use super::random_id;
use crate::connector::kafka::topic_reader::ReadUntil;

/// The name of an error's variant.
pub(super) fn variant(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

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
    pub(crate) recovery: Recovery,
    pub(crate) directory: Arc<StateDirectory>,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) layered: Arc<LayeredState>,
    pub(crate) ledger: Ledger,
    pub(crate) producer: Producer,
    /// Of sinks that write at least once, if there are any. What it was given has to be acknowledged before a commit; it is
    /// not taken back by a rollback.
    pub(crate) idempotent: Option<Producer>,
    pub(crate) transactional_id: String,
}

impl Standing {
    /// R1 to R6. `first_positions` resolves the start positions of a job that has never run, `check_positions` says whether the
    /// sources can go on from those of a resolution, before it becomes the truth.
    pub(crate) async fn recover<F, C>(
        &mut self,
        first_positions: F,
        check_positions: C,
    ) -> Result<RecoveryPoint, JobError>
    where
        F: AsyncFn() -> Result<Positions, JobError>,
        C: AsyncFn(&Positions) -> Result<(), JobError>,
    {
        let mut tries = FenceTries::default();
        let mut early = None;
        let mut next = self.recovery.begin();
        loop {
            next = match next {
                Effect::Look => {
                    tries.pause().await;
                    let other_owner = self.ledger.look(ReadUntil::LastStableOffset).await?;
                    let looked = self.step(other_owner, Recovery::looked);
                    decision(|| self.row("look", &looked));
                    let looked = looked?;
                    crash_point(Step::Looked);
                    looked
                }
                Effect::WriteFirstMeta => {
                    self.write_first_meta(first_positions().await?)?;
                    self.recovery.first_meta_written()
                }
                Effect::Fence => {
                    if mutant(Mutant::ReadBeforeFence) {
                        // Decides on a ledger that an EndTxn under way may still change.
                        let mut recovery = self.recovery.clone();
                        early =
                            Some(recovery.resolved(&self.findings(&self.directory.local(), false)));
                    }
                    let answer = self.fence(&mut tries).await?;
                    self.recovery.fence_answered(answer)
                }
                Effect::Read => {
                    crash_point(Step::Fenced);
                    tries = FenceTries::default();
                    let other_owner = self.ledger.look(ReadUntil::HighWatermark).await?;
                    crash_point(Step::Resolved);
                    let decided = self.step(other_owner, Recovery::resolved);
                    decision(|| self.row("after the fence", &decided));
                    if let (Some(resolution), Some(given_up)) =
                        (self.recovery.resolution, self.recovery.given_up.take())
                    {
                        tracing::warn!("{resolution}: {given_up}");
                    }
                    let decided = early.take().unwrap_or(decided)?;
                    crash_point(Step::Decided);
                    decided
                }
                Effect::Repair(point) => {
                    if self.recovery.resolution.is_some() && point.status == JobStatus::Running {
                        check_positions(&point.positions).await?;
                    }
                    self.repair(&point)?;
                    crash_point(Step::Repaired);
                    self.recovery.repaired(point)
                }
                Effect::CommitOwnerRecord(point) => {
                    let end = self.own(&point).await?;
                    self.recovery.owner_record_ended(end, point)
                }
                Effect::Run(point) => return Ok(point),
            };
        }
    }

    /// R1 alone, for who only wants to know whether anybody else has gone on.
    pub(crate) async fn look_first(&mut self) -> Result<(), JobError> {
        let other_owner = self.ledger.look(ReadUntil::LastStableOffset).await?;
        self.step(other_owner, Recovery::looked)?;
        Ok(())
    }

    /// META of checkpoint 0, with the positions from which the job begins.
    fn write_first_meta(&self, positions: Positions) -> Result<(), JobError> {
        let meta = Meta {
            job: self.job.clone(),
            checkpoint: CheckpointId::ZERO,
            nonce: Nonce(random_id()?),
            positions,
            watermarks: Vec::new(),
            status: JobStatus::Running,
            ledger_partition: SLOT,
            ledger_offset: None,
            ledger_topic_id: self.ledger.topic_id(),
            lineage: LineageId(random_id()?),
            fingerprint: self.fingerprint,
        };
        block_in_place(|| self.directory.write_meta(&meta))?;
        crash_point(Step::FirstMeta);
        Ok(())
    }

    /// One InitProducerId. Once it succeeds every older producer of the job is dead and its last transaction is complete,
    /// markers included.
    async fn fence(&self, tries: &mut FenceTries) -> Result<FenceAnswer, JobError> {
        match self.producer.init_transactions().await {
            Ok(_) => Ok(FenceAnswer::Done),
            Err(ProduceError::ConcurrentTransactions { .. }) => Ok(tries.concurrent()),
            Err(ProduceError::Fenced { .. }) => Ok(tries.fenced()),
            Err(source) => Err(self.producer_error(source)),
        }
    }

    /// Gives a step of recovery what a read of the ledger brought.
    fn step(
        &mut self,
        other_owner: bool,
        step: fn(&mut Recovery, &Findings<'_>) -> Result<Effect, Halt>,
    ) -> Result<Effect, Halt> {
        let mut recovery = self.recovery.clone();
        let next = step(&mut recovery, &self.findings(&self.directory.local(), other_owner));
        self.recovery = recovery;
        next
    }

    /// The row of the decision table that an outcome comes from, for those who count.
    fn row(&self, when: &str, outcome: &Result<Effect, Halt>) -> String {
        let row = match outcome {
            Ok(Effect::Repair(_)) if self.recovery.resolution.is_some() => "resolved".to_owned(),
            Ok(Effect::Repair(point)) if self.joins_a_savepoint(point) => {
                "join a savepoint".to_owned()
            }
            Ok(Effect::Repair(_)) if self.ledger.last().is_none() => "commit record 0".to_owned(),
            Ok(Effect::Repair(point)) => {
                let known = self.directory.local().confirmed() == Some(point.at);
                if known { "resume".to_owned() } else { "confirm".to_owned() }
            }
            Ok(Effect::WriteFirstMeta) => "first start".to_owned(),
            Ok(_) => "go on".to_owned(),
            Err(Halt::Fenced(reason)) => variant(reason),
            Err(Halt::Stop(reason)) => variant(reason),
            Err(other) => variant(other),
        };
        format!("{when}: {row}")
    }

    /// Whether the history of a savepoint is about to be joined to the ledger.
    fn joins_a_savepoint(&self, point: &RecoveryPoint) -> bool {
        let found = self.ledger.last().map(|last| last.record.at());
        self.directory.local().begins_from_savepoint().is_some() && found != Some(point.at)
    }

    fn findings<'a>(&'a self, local: &'a LocalState, other_owner: bool) -> Findings<'a> {
        Findings {
            job: &self.job,
            fingerprint: self.fingerprint,
            local,
            ledger: self.ledger.last(),
            ledger_place: self.ledger.place(),
            ledger_topic_id: self.ledger.topic_id(),
            other_owner,
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
                replay_plan(&self.directory.local(), &StoreFacts::of(&*self.store)?, point.at);
            if let Err(reason) = &plan {
                decision(|| format!("repair: {}", variant(reason)));
            }
            let plan = plan?;
            if !mutant(Mutant::NoReplay) {
                replay(&self.directory, &*self.store, &plan)?;
            }
            crash_point(Step::Replayed);
            self.layered = Arc::new(LayeredState::new(Arc::clone(&self.store))?);
            let meta = self.directory.local().meta;
            let written = match meta {
                // Whatever it says already: a resolved state is of a lineage of its own.
                Some(meta) if self.recovery.resolution.is_some() => {
                    let meta = self.resolved_meta(&meta)?;
                    Some(point.meta_after_repair(&meta).unwrap_or(meta))
                }
                meta => meta.and_then(|meta| point.meta_after_repair(&meta)),
            };
            if let Some(meta) = written {
                self.directory.write_meta(&meta)?;
            }
            Ok(())
        })
    }

    /// R6: commits a record that repeats the confirmed checkpoint under our name, or the first one of the directory's history:
    /// the ledger is empty, or a savepoint goes on behind what it holds.
    async fn own(&mut self, point: &RecoveryPoint) -> Result<OwnerRecordEnd, JobError> {
        let (local, now) = (self.directory.local(), wall_time_ms());
        let last = self.ledger.last().filter(|last| last.record.at() == point.at);
        let record = match (self.recovery.resolution, &local.meta, last) {
            (Some(_), Some(meta), _) => Some(self.resolved_record(meta, point)),
            (_, _, Some(_)) => owner_record(self.owner, last, None, now),
            (_, _, None) => local.first_record(self.owner, now),
        };
        let Some(record) = record else {
            return Err(JobError::Bug { what: "record 0 without META".to_owned() });
        };
        let tag = point.at.checkpoint.0;
        if let Err(error) = self.producer.begin_transaction(tag) {
            return Err(self.producer_error(error));
        }
        self.ledger.append(&self.producer, &record, tag)?;
        match self.commit_owner_record(tag).await {
            Ok(offset) => {
                self.ledger.committed(record, offset);
                crash_point(Step::Owned);
                Ok(OwnerRecordEnd::Committed)
            }
            Err(error) if needs_ledger(&error) => {
                tracing::info!(%error, "the owner record was not committed, looking at the ledger again");
                self.producer.discard().await;
                Ok(match error {
                    ProduceError::UnknownOutcome { .. } | ProduceError::TimedOut { .. } => {
                        OwnerRecordEnd::Unknown
                    }
                    _ => OwnerRecordEnd::Lost,
                })
            }
            Err(source) => Err(self.producer_error(source)),
        }
    }

    async fn commit_owner_record(&mut self, tag: u64) -> Result<i64, ProduceError> {
        let acknowledged = self.producer.flush(tag).await?;
        let offset = acknowledged.get(self.ledger.partition()).copied();
        self.recovery.owner_record_sent();
        crash_point(Step::OwnerVoted);
        self.producer.commit_transaction(END_TXN_LIMIT).await?;
        crash_point(Step::OwnerCommitted);
        if self.producer.needs_bump() {
            self.producer.bump_epoch().await?;
        }
        Ok(offset.unwrap_or(-1))
    }

    /// Waits until all output of the checkpoint `tag` is acknowledged. Gives the last offsets of what its transaction holds.
    pub(crate) async fn flush_output(
        &self,
        tag: u64,
    ) -> Result<BTreeMap<TopicPartition, i64>, ProduceError> {
        let at_least_once = async {
            match &self.idempotent {
                Some(producer) => producer.flush(tag).await.map(|_| ()),
                None => Ok(()),
            }
        };
        let (offsets, at_least_once) = tokio::join!(self.producer.flush(tag), at_least_once);
        let offsets = offsets?;
        at_least_once.map(|()| offsets)
    }

    /// The last checkpoint that the directory knows to be committed.
    pub(crate) fn confirmed(&self) -> u64 {
        self.directory.local().confirmed().map_or(0, |at| at.checkpoint.0)
    }

    pub(crate) fn producer_error(&self, source: ProduceError) -> JobError {
        JobError::Producer { transactional_id: self.transactional_id.clone(), source }
    }
}

/// What a fence has been answered so far, for the pace of its repeats.
#[derive(Debug, Default)]
struct FenceTries {
    failed: u32,
    last: Option<Instant>,
}

impl FenceTries {
    fn concurrent(&mut self) -> FenceAnswer {
        let since_last = self.last.map_or(Duration::ZERO, |last| last.elapsed());
        self.last = Some(Instant::now());
        self.failed += 1;
        FenceAnswer::Concurrent { since_last }
    }

    fn fenced(&mut self) -> FenceAnswer {
        self.failed += 1;
        FenceAnswer::Fenced
    }

    /// Before the look that comes before a repeat.
    async fn pause(&self) {
        if let Some(repeats) = self.failed.checked_sub(1) {
            let backoff =
                FENCE_BACKOFF_MIN.saturating_mul(1_u32.checked_shl(repeats).unwrap_or(u32::MAX));
            sleep(jittered(backoff.min(FENCE_BACKOFF_MAX))).await;
        }
    }
}

impl From<Halt> for JobError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Fenced(reason) => reason.into(),
            Halt::Stop(reason) => reason.into(),
            Halt::Refused(reason) => reason.into(),
            other => Self::Bug { what: other.to_string() },
        }
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

/// Between half of `backoff` and all of it, so that two contenders do not stay in step.
fn jittered(backoff: Duration) -> Duration {
    let mut byte = [0_u8; 1];
    // Without random numbers the backoff is still right, only in step.
    let _ = fill_random(&mut byte);
    backoff.mul_f64(0.5 + f64::from(byte[0]) / 510.0)
}
