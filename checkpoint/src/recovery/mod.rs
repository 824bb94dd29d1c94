//! Recovery as steps over facts: what a process that starts, or whose transaction died, does next (R1 to R6, X).
//!
//! Every step takes what was found or answered and gives the next [`Effect`]. Who drives it has the broker, the disk and the
//! clock, performs the effect and comes back with the outcome; nothing is chosen there. The model in
//! `tests/ledger_model/` drives the same steps through every order of events.
//!
//! ```text
//!          nothing exists anywhere
//! Look ──────────────────────────> WriteFirstMeta ─> Look
//!   │ may go on
//!   v        fenced                                    lost it, or its end is not known
//! Fence ─────────────> Look        ┌──────────────────────────────────────────> Look
//!   │ newest producer              │
//!   v        R4                    │   committed
//! Read ─────────────> Repair ─> CommitOwnerRecord ─> Run
//!                        └─ owns already ──────────> Run
//! ```

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::decide::{
    Decision, Facts, FencedReason, GivenUp, LedgerFact, LedgerPlace, Look, OwnershipPhase,
    RecoveryPoint, Resolution, ResolutionRefused, Resolved, StopReason, Unresolved, decide,
    look_before_fence, look_resolving, resolve,
};
use crate::directory::LocalState;
use crate::ids::{Fingerprint, JobName, OwnerId, TopicId};
use crate::ledger_record::LedgerRecord;
use crate::meta::Meta;

mod retention;

pub use retention::needed_by_replay;
pub(crate) use retention::passed;

/// How long InitProducerId is answered with CONCURRENT_TRANSACTIONS until that counts as one failed try to take over.
///
/// The broker says it both when it met an open transaction and while the markers of one that ended are being written, which
/// takes milliseconds, or as long as a partition has no leader. An owner that lives is met between its transactions long
/// before this; and who counted what only a broker owes would give up with the job standing still everywhere.
pub const TAKEOVER_SPELL: Duration = Duration::from_secs(30);

/// What the process has to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// R1: read the ledger up to the last stable offset, without waiting; then [`Recovery::looked`].
    Look,
    /// Resolve the start positions and make META of checkpoint 0 durable with them; then [`Recovery::first_meta_written`].
    WriteFirstMeta,
    /// R2: InitProducerId(-1, -1), once; then [`Recovery::fence_answered`].
    Fence,
    /// R3: read the ledger up to its high watermark, read_committed; then [`Recovery::resolved`].
    Read,
    /// R5: put the dead attempts aside, replay, make [`RecoveryPoint::meta_after_repair`] durable; then
    /// [`Recovery::repaired`].
    Repair(RecoveryPoint),
    /// R6: commit [`owner_record`] in a transaction of its own. [`Recovery::owner_record_sent`] before its EndTxn, then
    /// [`Recovery::owner_record_ended`].
    CommitOwnerRecord(RecoveryPoint),
    /// Start the operators from here.
    Run(RecoveryPoint),
}

/// What a look at the directory and a read of the ledger brought.
#[derive(Clone, Copy, Debug)]
pub struct Findings<'a> {
    /// The job being started.
    pub job: &'a JobName,
    /// What its operators and states look like now.
    pub fingerprint: Fingerprint,
    /// The state directory.
    pub local: &'a LocalState,
    /// The ledger's last record, `None` if it holds none for this job.
    pub ledger: Option<&'a LedgerFact>,
    /// Where the ledger is.
    pub ledger_place: &'a LedgerPlace,
    /// Id of the ledger topic as the brokers give it now.
    pub ledger_topic_id: TopicId,
    /// A record of another owner is among those that this read brought ([`Facts::is_newer_owner`]): those behind the last
    /// one that this process had read or written.
    pub other_owner: bool,
}

/// The coordinator's answer to InitProducerId(-1, -1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceAnswer {
    /// This process holds the newest epoch, and the transaction before is complete, markers included.
    Done,
    /// CONCURRENT_TRANSACTIONS.
    Concurrent {
        /// Time since the answer before in this fence, zero if it is the first.
        since_last: Duration,
    },
    /// PRODUCER_FENCED or a code that means the same.
    Fenced,
}

/// How the transaction of an owner record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerRecordEnd {
    /// The commit is known and, where the brokers' rules ask for one (C6), the next epoch taken.
    Committed,
    /// Another producer fenced this one, or the transaction was aborted.
    Lost,
    /// No answer within the limit: brokers that do not answer say nothing about another process.
    Unknown,
}

/// Recovery came to an end that is not a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Halt {
    /// Another process owns the job.
    #[error(transparent)]
    Fenced(#[from] FencedReason),
    /// Going on could lose or repeat output.
    #[error(transparent)]
    Stop(#[from] StopReason),
    /// The operator's word does not fit what was found.
    #[error(transparent)]
    Refused(#[from] ResolutionRefused),
    /// Somebody removed it while the process fenced.
    #[error(
        "META of checkpoint 0 is gone from {} although it was just written; nobody else may change the directory while a \
         job runs. Start again",
        directory.display()
    )]
    FirstMetaGone {
        /// The state directory.
        directory: PathBuf,
    },
}

/// What a process knows about who owns the job, from its start to its end.
///
/// All fields are facts that only the methods change; they are open for tests that build every state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// This process.
    pub owner: OwnerId,
    /// How far it has come.
    pub phase: OwnershipPhase,
    /// It owned or may have owned the job, and met a record of another owner since.
    pub newer_owner: bool,
    /// Tries to take over that failed since the last that did not.
    pub failed_takeovers: u32,
    /// For how long the coordinator has said "concurrent transactions" since that last counted as a failed try.
    pub concurrent_for: Duration,
    /// The operator's word, until it has become the truth.
    pub resolution: Option<Resolution>,
    /// What that word gave up, once R4 has taken it.
    pub given_up: Option<GivenUp>,
}

impl Recovery {
    /// A process that has just started.
    #[must_use]
    pub fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            phase: OwnershipPhase::Starter,
            newer_owner: false,
            failed_takeovers: 0,
            concurrent_for: Duration::ZERO,
            resolution: None,
            given_up: None,
        }
    }

    /// Begins a recovery: after the start of the process, and after every transaction that died or whose end is not known
    /// (X). There is no EndTxn(abort) on either way: R2 aborts, with a new epoch in the markers.
    #[must_use]
    pub fn begin(&mut self) -> Effect {
        self.concurrent_for = Duration::ZERO;
        Effect::Look
    }

    /// R1, before every InitProducerId.
    ///
    /// # Errors
    ///
    /// [`Halt::Fenced`] and [`Halt::Stop`]; nobody was fenced by that.
    pub fn looked(&mut self, findings: &Findings<'_>) -> Result<Effect, Halt> {
        self.note(findings);
        if let Some(resolution) = self.resolution {
            look_resolving(&self.facts(findings), resolution)?;
            return Ok(Effect::Fence);
        }
        match look_before_fence(&self.facts(findings)) {
            Look::Fenced(reason) => return Err(reason.into()),
            Look::Stop(reason) => return Err(reason.into()),
            Look::Continue => {}
        }
        let local = findings.local;
        if local.meta.is_none() && local.deltas.is_empty() && findings.ledger.is_none() {
            // Durable before anything is fenced or written, so that a crash finds nothing or where the job began.
            return Ok(Effect::WriteFirstMeta);
        }
        Ok(Effect::Fence)
    }

    /// META of checkpoint 0 is durable. Resolving the start positions may have taken long, so it looks again.
    #[must_use]
    pub fn first_meta_written(&self) -> Effect {
        Effect::Look
    }

    /// R2. Looks again before every repeat: the other may have gone on.
    #[must_use]
    pub fn fence_answered(&mut self, answer: FenceAnswer) -> Effect {
        match answer {
            FenceAnswer::Done => {
                self.concurrent_for = Duration::ZERO;
                return Effect::Read;
            }
            FenceAnswer::Concurrent { since_last } => {
                self.concurrent_for = self.concurrent_for.saturating_add(since_last);
                if self.concurrent_for >= TAKEOVER_SPELL {
                    self.concurrent_for = Duration::ZERO;
                    self.takeover_failed();
                }
            }
            FenceAnswer::Fenced => self.takeover_failed(),
        }
        Effect::Look
    }

    /// R3 and R4. `findings.ledger` must be the last committed record below the high watermark that was taken after R2.
    ///
    /// # Errors
    ///
    /// [`Halt`].
    pub fn resolved(&mut self, findings: &Findings<'_>) -> Result<Effect, Halt> {
        self.note(findings);
        if let Some(resolution) = self.resolution {
            let Resolved { point, given_up } = resolve(&self.facts(findings), resolution)?;
            self.phase = self.phase.after_read(true, false);
            self.given_up = Some(given_up);
            return Ok(Effect::Repair(point));
        }
        let decision = decide(&self.facts(findings));
        // After R2 the ledger is definite: an owner record of ours that is not there never will be.
        self.phase = self.phase.after_read(true, self.is_last_owner(findings));
        match decision {
            Decision::CommitRecordZero(point)
            | Decision::Confirm(point)
            | Decision::Resume(point) => Ok(Effect::Repair(point)),
            Decision::Fenced(reason) => Err(reason.into()),
            Decision::Stop(reason) => Err(reason.into()),
            Decision::FirstStart => {
                Err(Halt::FirstMetaGone { directory: findings.local.path.clone() })
            }
        }
    }

    /// R5 is durable.
    #[must_use]
    pub fn repaired(&self, point: RecoveryPoint) -> Effect {
        match self.phase {
            // Its record is the last one already; another one would say nothing new.
            OwnershipPhase::Owner => Effect::Run(point),
            OwnershipPhase::Starter | OwnershipPhase::MayOwn => Effect::CommitOwnerRecord(point),
        }
    }

    /// EndTxn of the owner record is about to be sent: from here until the next read after R2 the process may own the job
    /// without knowing it.
    pub fn owner_record_sent(&mut self) {
        self.phase = OwnershipPhase::MayOwn;
    }

    /// R6 has ended.
    #[must_use]
    pub fn owner_record_ended(&mut self, end: OwnerRecordEnd, point: RecoveryPoint) -> Effect {
        match end {
            OwnerRecordEnd::Committed => {
                self.phase = OwnershipPhase::Owner;
                self.failed_takeovers = 0;
                self.resolution = None;
                return Effect::Run(point);
            }
            OwnerRecordEnd::Lost => self.takeover_failed(),
            OwnerRecordEnd::Unknown => {}
        }
        self.begin()
    }

    /// What was read changes what this process is.
    fn note(&mut self, findings: &Findings<'_>) {
        // A starter takes over; only who owned or may have owned before this read gives way.
        self.newer_owner |= findings.other_owner && self.phase != OwnershipPhase::Starter;
        if self.is_last_owner(findings) {
            self.phase = OwnershipPhase::Owner;
            // The record that puts it on the ledger was committed, although we may not have been told.
            self.resolution = None;
        }
    }

    fn is_last_owner(&self, findings: &Findings<'_>) -> bool {
        findings.ledger.is_some_and(|last| last.record.owner == self.owner)
    }

    fn takeover_failed(&mut self) {
        // An owner without a newer owner never gives up.
        if self.phase != OwnershipPhase::Owner {
            self.failed_takeovers += 1;
        }
    }

    fn facts<'a>(&self, findings: &Findings<'a>) -> Facts<'a> {
        Facts {
            job: findings.job,
            fingerprint: findings.fingerprint,
            local: findings.local,
            ledger: findings.ledger,
            ledger_place: findings.ledger_place,
            ledger_topic_id: findings.ledger_topic_id,
            phase: self.phase,
            newer_owner: self.newer_owner,
            failed_takeovers: self.failed_takeovers,
        }
    }
}

/// The record of R6: what the ledger says last, or record 0 made from META, under our name. `None` without either.
#[must_use]
pub fn owner_record(
    owner: OwnerId,
    last: Option<&LedgerFact>,
    meta: Option<&Meta>,
    wall_time_ms: i64,
) -> Option<LedgerRecord> {
    match last {
        Some(last) => Some(last.record.owned_by(owner, wall_time_ms)),
        None => meta.map(|meta| LedgerRecord::zero(meta, owner, wall_time_ms)),
    }
}

impl From<Unresolved> for Halt {
    fn from(reason: Unresolved) -> Self {
        match reason {
            Unresolved::Fenced(reason) => reason.into(),
            Unresolved::Stop(reason) => reason.into(),
            Unresolved::Refused(reason) => reason.into(),
        }
    }
}

impl RecoveryPoint {
    /// R5: the META that has to be made durable, `None` if `now` says the same already.
    #[must_use]
    pub fn meta_after_repair(&self, now: &Meta) -> Option<Meta> {
        let same = now.at() == self.at && now.ledger_offset == self.ledger_offset;
        (!same).then(|| Meta {
            checkpoint: self.at.checkpoint,
            nonce: self.at.nonce,
            positions: self.positions.clone(),
            watermarks: self.watermarks.clone(),
            status: self.status,
            ledger_offset: self.ledger_offset,
            ..now.clone()
        })
    }
}

#[cfg(test)]
mod tests;
