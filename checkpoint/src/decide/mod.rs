//! The decision of recovery: what the directory says, what the ledger says, and what follows (R1, R4, R5).
//!
//! Everything here is pure. `look_before_fence` may only stop; only [`decide`], called after fencing
//! (R2) and a read of the ledger up to its high watermark (R3), may go on.

mod facts;
mod replay_plan;
mod resolution;
mod restore;
mod stop_reason;

pub use facts::{Facts, LedgerFact, LedgerPlace, MAX_FAILED_TAKEOVERS, OwnershipPhase};
pub use replay_plan::{ReplayPlan, StoreFacts, replay_plan};
use resolution::covers;
pub use resolution::{
    GivenUp, Resolution, ResolutionRefused, Resolved, Unresolved, look_resolving, resolve,
};
pub use restore::{RestoreConsent, RestoreFacts, decide_restore};
pub use stop_reason::StopReason;

use crate::delta::{DeltaDigest, DeltaSummary};
use crate::directory::LocalState;
use crate::ids::{CheckpointId, CheckpointRef, TopicId};
use crate::meta::Meta;
use crate::positions::{JobStatus, Positions, Watermarks};

/// What a process does after R3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing exists anywhere. Resolve the start positions, write META for checkpoint 0 with a new
    /// nonce, fence (R2), then commit [`LedgerRecord::zero`](crate::LedgerRecord::zero).
    FirstStart,
    /// META exists, the ledger holds nothing of its history: commit its first record, made from META
    /// ([`LocalState::first_record`]), then run from it. Record 0, or the first one after a restore from a savepoint.
    CommitRecordZero(RecoveryPoint),
    /// The ledger committed a checkpoint whose confirmation the directory does not show yet.
    Confirm(RecoveryPoint),
    /// The ledger stands where the directory stands.
    Resume(RecoveryPoint),
    /// Another process took the job over: exit, leave it alone, and do not start again by itself.
    Fenced(FencedReason),
    /// Going on could lose or repeat output: stop and say why.
    Stop(StopReason),
}

/// Where a job goes on: quarantine first, then the replay plan (R5), then the owner record (R6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPoint {
    /// The confirmed checkpoint.
    pub at: CheckpointRef,
    /// Source positions to seek to.
    pub positions: Positions,
    /// Watermarks of operators to restore.
    pub watermarks: Watermarks,
    /// A finished job has nothing left to do.
    pub status: JobStatus,
    /// Offset of the ledger record that says so; `None` only for record 0 not yet committed.
    pub ledger_offset: Option<i64>,
    /// Digest of its delta file, `None` for checkpoint 0.
    pub delta_digest: Option<DeltaDigest>,
    /// Delta files of later, dead attempts, to be quarantined before anything else.
    pub quarantine: Vec<CheckpointRef>,
}

/// Why a process is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FencedReason {
    /// A ledger record of another owner stands behind the last one this process read or wrote.
    #[error(
        "FENCED: another process took this job over; it goes on there. Start this one again only \
         after stopping the other"
    )]
    NewerOwner,
    /// A starter lost against a living owner too often.
    #[error(
        "FENCED: the job is running elsewhere, {failed} tries to take it over failed. Stop the \
         other process first"
    )]
    TakeoverFailed {
        /// Tries that failed.
        failed: u32,
    },
}

/// What R1 says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing speaks against fencing. It is not a decision to go on.
    Continue,
    /// See [`Decision::Fenced`].
    Fenced(FencedReason),
    /// See [`Decision::Stop`]; nobody was fenced.
    Stop(StopReason),
}

/// R1, and the look of C5 and X: reads the ledger only up to the last stable offset, before every
/// InitProducerId. A ledger behind the directory says nothing here, since EndTxn is answered before
/// its markers are written.
#[must_use]
pub fn look_before_fence(facts: &Facts<'_>) -> Look {
    if let Some(fenced) = fenced(facts) {
        return Look::Fenced(fenced);
    }
    if let Some(stop) = guard(facts) {
        return Look::Stop(stop);
    }
    // Who owns or may own has written the ledger itself: what it finds there is for R4.
    let (OwnershipPhase::Starter, Some(ledger)) = (facts.phase, facts.ledger) else {
        return Look::Continue;
    };
    let Some(confirmed) = facts.local.confirmed().filter(|_| facts.local.meta.is_some()) else {
        return Look::Stop(StopReason::no_local_state(facts, ledger));
    };
    let behind = ledger.record.checkpoint < confirmed.checkpoint;
    if behind && !went_on_behind(facts, ledger, confirmed) {
        return Look::Continue;
    }
    if let Some(restored) = facts.local.begins_from_savepoint()
        && ledger.record.at() != confirmed
    {
        // Committed since the restore looked: it is no other attempt at what was restored, and no later one.
        return Look::Stop(StopReason::restore_overtaken(facts, ledger, restored));
    }
    match compare(facts, ledger, confirmed) {
        Ok(_) => Look::Continue,
        Err(stop) => Look::Stop(stop),
    }
}

/// R4. `facts.ledger` must be the last committed record below the high watermark that was taken after
/// R2 succeeded.
#[must_use]
pub fn decide(facts: &Facts<'_>) -> Decision {
    if let Some(fenced) = fenced(facts) {
        return Decision::Fenced(fenced);
    }
    if let Some(stop) = guard(facts) {
        return Decision::Stop(stop);
    }
    let local = facts.local;
    let (Some(meta), Some(confirmed)) = (&local.meta, local.confirmed()) else {
        return match facts.ledger {
            None => Decision::FirstStart,
            Some(ledger) => Decision::Stop(StopReason::no_local_state(facts, ledger)),
        };
    };
    let begins = local.begins_from_savepoint();
    let found = facts.ledger.map(|ledger| ledger.record.at());
    if begins.is_some_and(|restored| restored.ledger == found) {
        return Decision::CommitRecordZero(first_point(local, meta));
    }
    let Some(ledger) = facts.ledger else {
        let known = local.ledger_was_seen();
        if confirmed.checkpoint > CheckpointId::ZERO || known {
            return Decision::Stop(StopReason::ledger_lost(facts, confirmed));
        }
        return Decision::CommitRecordZero(first_point(local, meta));
    };
    if let Some(restored) = begins
        && ledger.record.at() != confirmed
    {
        return Decision::Stop(StopReason::restore_overtaken(facts, ledger, restored));
    }
    match compare(facts, ledger, confirmed) {
        Ok(Standing::Equal) => Decision::Resume(resume_point(local, ledger)),
        Ok(Standing::OneAhead(delta)) => Decision::Confirm(RecoveryPoint {
            at: delta.header.at,
            positions: delta.header.positions.clone(),
            watermarks: delta.header.watermarks.clone(),
            status: delta.header.status,
            ledger_offset: Some(ledger.offset),
            delta_digest: Some(delta.digest),
            quarantine: others_after(local, confirmed.checkpoint, delta.header.at),
        }),
        Err(stop) => Decision::Stop(stop),
    }
}

/// R4 for a job without a Kafka sink: the fsync of the delta is the decision, so every valid delta on the
/// chain is confirmed. Gives [`Decision::FirstStart`], [`Decision::Resume`] from what META and deltas
/// already call confirmed, [`Decision::Confirm`] from a later delta, or [`Decision::Stop`].
#[must_use]
pub fn decide_local(local: &LocalState) -> Decision {
    if let Some(stop) = local.contradiction() {
        return Decision::Stop(stop);
    }
    let (Some(meta), Some(confirmed)) = (&local.meta, local.confirmed()) else {
        return Decision::FirstStart;
    };
    let mut at = confirmed;
    loop {
        let mut next = local.deltas.iter().filter(|d| d.header.parent == at).map(|d| d.header.at);
        match (next.next(), next.next()) {
            (None, _) => break,
            (Some(one), None) => at = one,
            (Some(one), Some(other)) => {
                let directory = local.path.clone();
                return Decision::Stop(StopReason::ContradictingFiles { directory, one, other });
            }
        }
    }
    let quarantine = local.after(at.checkpoint);
    let point = match local.delta(at) {
        Some(delta) => RecoveryPoint {
            at,
            positions: delta.header.positions.clone(),
            watermarks: delta.header.watermarks.clone(),
            status: delta.header.status,
            ledger_offset: None,
            delta_digest: Some(delta.digest),
            quarantine,
        },
        None if meta.at() == at => RecoveryPoint {
            at,
            positions: meta.positions.clone(),
            watermarks: meta.watermarks.clone(),
            status: meta.status,
            ledger_offset: None,
            delta_digest: None,
            quarantine,
        },
        None => {
            let (directory, store) = (local.path.clone(), meta.checkpoint);
            let missing = StopReason::MissingDelta { directory, missing: at, store, target: at };
            return Decision::Stop(missing);
        }
    };
    if at == confirmed { Decision::Resume(point) } else { Decision::Confirm(point) }
}

/// The checkpoint that META describes, of which the ledger holds no record yet.
fn first_point(local: &LocalState, meta: &Meta) -> RecoveryPoint {
    RecoveryPoint {
        at: meta.at(),
        positions: meta.positions.clone(),
        watermarks: meta.watermarks.clone(),
        status: meta.status,
        ledger_offset: None,
        delta_digest: None,
        quarantine: local.after(meta.checkpoint),
    }
}

/// How a ledger that may be gone on from stands to the directory.
enum Standing<'a> {
    Equal,
    OneAhead(&'a DeltaSummary),
}

/// The table of R4 for a directory with META and a ledger with a record.
fn compare<'a>(
    facts: &Facts<'a>,
    ledger: &LedgerFact,
    confirmed: CheckpointRef,
) -> Result<Standing<'a>, StopReason> {
    let record = &ledger.record;
    let local = facts.local;
    if record.checkpoint < confirmed.checkpoint {
        return Err(match went_on_behind(facts, ledger, confirmed) {
            true => StopReason::lineage_split(facts, ledger, confirmed),
            false => StopReason::ledger_behind(facts, ledger, confirmed),
        });
    }
    if record.checkpoint == confirmed.checkpoint {
        if record.nonce != confirmed.nonce {
            return Err(StopReason::lineage_split(facts, ledger, confirmed));
        }
        return Ok(Standing::Equal);
    }
    let damaged = local.quarantined.iter().find(|file| file.at == record.at());
    if let (None, Some(file)) = (local.delta(record.at()), damaged) {
        return Err(StopReason::damaged_delta(facts, ledger, file, confirmed));
    }
    let one_ahead = record.checkpoint == confirmed.checkpoint.next();
    let Some(delta) = local.delta(record.at()).filter(|_| one_ahead) else {
        return Err(StopReason::stale(facts, ledger, confirmed));
    };
    if delta.header.parent != confirmed || record.parent != Some(confirmed) {
        return Err(StopReason::lineage_split(facts, ledger, confirmed));
    }
    if record.delta_digest != Some(delta.digest) {
        return Err(StopReason::digest_mismatch(facts, ledger, delta));
    }
    Ok(Standing::OneAhead(delta))
}

/// Whether the ledger's lower checkpoint was written after the one that the directory calls committed: somebody went on from an
/// older state (`--accept-rewind`, `--adopt-local`), and the directory is of the history that was given up.
fn went_on_behind(facts: &Facts<'_>, ledger: &LedgerFact, confirmed: CheckpointRef) -> bool {
    let Some(meta) = &facts.local.meta else { return false };
    // Offsets of another topic say nothing.
    let kept = meta.ledger_topic_id;
    if kept == TopicId::UNKNOWN || kept != facts.ledger_topic_id {
        return false;
    }
    let offset = match meta.at() == confirmed {
        true => meta.ledger_offset,
        false => {
            let named = facts.local.deltas.iter().find(|delta| delta.header.parent == confirmed);
            named.and_then(|delta| delta.header.parent_ledger_offset)
        }
    };
    // A record that was acknowledged without its offset is kept with the offset of the one before, behind which an owner record
    // of that one may stand. Before the fence one transaction at most may lack its markers, so that one step back proves nothing.
    let steps = confirmed.checkpoint.0 - ledger.record.checkpoint.0;
    steps > 1 && offset.is_some_and(|offset| ledger.offset > offset)
}

/// The owner rule, which comes before everything else.
fn fenced(facts: &Facts<'_>) -> Option<FencedReason> {
    if facts.newer_owner && facts.phase != OwnershipPhase::Starter {
        return Some(FencedReason::NewerOwner);
    }
    // Only what shows that the EndTxn of its owner record can not commit any more counts as a failed try, so that who may own
    // gives up as well: two contenders whose records never commit would fence each other for ever.
    let failed = facts.failed_takeovers;
    let gives_up = facts.phase != OwnershipPhase::Owner && failed >= MAX_FAILED_TAKEOVERS;
    gives_up.then_some(FencedReason::TakeoverFailed { failed })
}

/// Checks that hold whatever the numbers say: another job's or program's record, a topic that was
/// created anew, a directory that contradicts itself.
fn guard(facts: &Facts<'_>) -> Option<StopReason> {
    if let Some(stop) = facts.local.contradiction() {
        return Some(stop);
    }
    let kept = facts.local.meta.as_ref().map(|meta| meta.ledger_topic_id);
    if let Some(stop) = kept.and_then(|kept| StopReason::topic_recreated(facts, kept)) {
        // What stands there may rule out that the directory is taken as the truth: then that is what is wrong.
        return Some(match decide(&facts.of_any_topic()) {
            Decision::Stop(found) if !covers(Resolution::AdoptLocal, &found) => found,
            _ => stop,
        });
    }
    let ledger = facts.ledger?;
    if ledger.record.job != *facts.job {
        return Some(StopReason::foreign_record(facts, ledger));
    }
    // A savepoint may be restored into a job with other operators, behind the record of the one before.
    let before = facts.local.begins_from_savepoint().and_then(|restored| restored.ledger);
    if ledger.record.fingerprint != facts.fingerprint && before != Some(ledger.record.at()) {
        return Some(StopReason::other_fingerprint(facts, ledger));
    }
    None
}

/// The directory's own copy of the positions if it still has one, else the ledger's: the record is the
/// same checkpoint of the same attempt.
fn resume_point(local: &LocalState, ledger: &LedgerFact) -> RecoveryPoint {
    let record = &ledger.record;
    let (positions, watermarks, status) = match (&local.meta, local.delta(record.at())) {
        (Some(meta), _) if meta.at() == record.at() => {
            (&meta.positions, &meta.watermarks, meta.status)
        }
        (_, Some(delta)) => {
            (&delta.header.positions, &delta.header.watermarks, delta.header.status)
        }
        (_, None) => (&record.positions, &record.watermarks, record.status),
    };
    RecoveryPoint {
        at: record.at(),
        positions: positions.clone(),
        watermarks: watermarks.clone(),
        status,
        ledger_offset: Some(ledger.offset),
        delta_digest: record.delta_digest,
        quarantine: local.after(record.checkpoint),
    }
}

/// Deltas above `confirmed` that are not the one just confirmed.
fn others_after(
    local: &LocalState,
    confirmed: CheckpointId,
    keep: CheckpointRef,
) -> Vec<CheckpointRef> {
    local.after(confirmed).into_iter().filter(|at| *at != keep).collect()
}

#[cfg(test)]
mod tests;
