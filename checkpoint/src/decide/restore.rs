//! Where the history of a restored savepoint is joined to the ledger: decided once, before anything is written.

use std::path::PathBuf;

use super::facts::{LedgerFact, LedgerPlace};
use super::stop_reason::StopReason;
use crate::ids::{CheckpointRef, JobName, Nonce};
use crate::restored::Restored;
use crate::savepoint::SavepointManifest;

/// What [`decide_restore`] looks at.
#[derive(Clone, Debug)]
pub struct RestoreFacts<'a> {
    /// The job that the savepoint is restored into.
    pub job: &'a JobName,
    /// The savepoint.
    pub savepoint: &'a SavepointManifest,
    /// Where it is, for texts.
    pub savepoint_path: PathBuf,
    /// The last committed record of the job on the ledger, `None` if there is none.
    pub ledger: Option<&'a LedgerFact>,
    /// Where the ledger is.
    pub ledger_place: &'a LedgerPlace,
    /// What the operator has agreed to.
    pub consent: RestoreConsent,
}

/// What may be lost or repeated because somebody said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreConsent {
    /// Output that was committed after the savepoint may be written again (`--accept-rewind`).
    pub accept_rewind: bool,
    /// The savepoint counts more than the ledger, which is behind it or gone (`--adopt-local`).
    pub adopt_local: bool,
}

/// How a savepoint's history goes on from the ledger, under a new `nonce`.
///
/// | ledger | decision |
/// | --- | --- |
/// | the savepoint's checkpoint | goes on from it: nothing is lost or repeated |
/// | none, and the savepoint is of another job name | begins |
/// | a later checkpoint, or another attempt at this one | a rewind: needs [`RestoreConsent::accept_rewind`] |
/// | none, or an earlier checkpoint, of the same job | the ledger lost records: needs [`RestoreConsent::adopt_local`] |
///
/// A ledger of another job name than the savepoint's tells nothing about the savepoint's history: to go on from it is
/// always a rewind.
///
/// # Errors
///
/// [`StopReason::RestoreRewinds`], [`StopReason::RestoreWithoutLedger`], [`StopReason::ForeignRecord`].
pub fn decide_restore(facts: &RestoreFacts<'_>, nonce: Nonce) -> Result<Restored, StopReason> {
    let savepoint = facts.savepoint;
    let same_job = savepoint.description.job == *facts.job;
    let parent = match facts.ledger {
        None => {
            // One whose ledger never held a record has nothing to lose.
            if same_job && savepoint.ledger_offset.is_some() && !facts.consent.adopt_local {
                return Err(StopReason::restore_without_ledger(facts, None));
            }
            savepoint.at
        }
        Some(ledger) => {
            let record = &ledger.record;
            if record.job != *facts.job {
                return Err(StopReason::ForeignRecord {
                    ledger: facts.ledger_place.clone(),
                    offset: ledger.offset,
                    found: record.job.clone(),
                    expected: facts.job.clone(),
                });
            }
            let continues = record.at() == savepoint.at;
            let behind = same_job && record.checkpoint < savepoint.at.checkpoint;
            if behind && !facts.consent.adopt_local {
                return Err(StopReason::restore_without_ledger(facts, Some(ledger)));
            }
            if !behind && !continues && !facts.consent.accept_rewind {
                return Err(StopReason::restore_rewinds(facts, ledger));
            }
            later(record.at(), savepoint.at)
        }
    };
    Ok(Restored {
        savepoint: savepoint.id,
        savepoint_job: savepoint.description.job.clone(),
        savepoint_at: savepoint.at,
        // Above both, so that neither a directory nor a reader of the ledger meets one number twice.
        at: CheckpointRef::new(parent.checkpoint.next(), nonce),
        parent,
        ledger: facts.ledger.map(|ledger| ledger.record.at()),
    })
}

/// The one with the higher number; of two attempts at one checkpoint the ledger's.
fn later(ledger: CheckpointRef, savepoint: CheckpointRef) -> CheckpointRef {
    if ledger.checkpoint >= savepoint.checkpoint { ledger } else { savepoint }
}

#[cfg(test)]
mod tests;
