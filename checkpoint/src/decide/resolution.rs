//! The ways out of a stop that need somebody's word: `--adopt-local` and `--accept-rewind`.
//!
//! Each applies to its exact situation and is refused anywhere else, so that one left behind in a script does nothing. Like the
//! rest of the decision this is pure; the caller writes a new lineage into META and the record of the point onto the ledger.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::facts::{Facts, LedgerFact, LedgerPlace};
use super::{
    Decision, FencedReason, Look, RecoveryPoint, StopReason, decide, fenced, look_before_fence,
};
use crate::directory::LocalState;
use crate::ids::CheckpointRef;

/// What somebody decided about a state and a ledger that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The state directory is the truth. For a ledger topic that was deleted, emptied or made anew, or whose last record is
    /// older than what the directory knows to be committed (a restored cluster, an unclean election).
    ///
    /// The job goes on from the directory's last checkpoint. Nothing tells any more whether a later one was committed: if the
    /// directory is older than the output, records behind it are written twice. Output that the brokers lost stays lost.
    AdoptLocal,
    /// Go on from an older state. For a ledger that stands at a checkpoint of which the directory has no valid delta file.
    ///
    /// The job goes on from the last checkpoint of which the directory has the files, and computes the later ones again: what
    /// they wrote is in the output already, so it is there twice (at-least-once).
    AcceptRewind,
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AdoptLocal => "--adopt-local",
            Self::AcceptRewind => "--accept-rewind",
        })
    }
}

/// Where a job goes on by a resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The point. Its ledger offset is unknown: its record is to be written, whatever the ledger holds.
    pub point: RecoveryPoint,
    /// What it costs, for the log.
    pub given_up: GivenUp,
}

/// What a resolution gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    resolution: Resolution,
    directory: PathBuf,
    at: CheckpointRef,
    ledger: LedgerPlace,
    committed: Option<CheckpointRef>,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, at, ledger, .. } = self;
        let directory = directory.display();
        match (self.resolution, self.committed) {
            (Resolution::AdoptLocal, None) => write!(
                f,
                "the state in {directory}, checkpoint {at}, is taken as the truth, {ledger} holds nothing. Given up: the proof \
                 that no later checkpoint was committed; output behind this one, if there is any, is written again"
            ),
            (Resolution::AdoptLocal, Some(committed)) => write!(
                f,
                "the state in {directory}, checkpoint {at}, is taken as the truth, {ledger} stands at {committed}. Given up: \
                 output between the two that the brokers may have lost is not written again"
            ),
            (Resolution::AcceptRewind, _) => {
                write!(
                    f,
                    "going on from checkpoint {at} in {directory}, although {ledger} stands at "
                )?;
                match self.committed {
                    Some(committed) => write!(f, "{committed}")?,
                    None => write!(f, "nothing")?,
                }
                write!(
                    f,
                    ". Given up: exactly-once for the output behind {at}, which is written again"
                )
            }
        }
    }
}

/// A resolution was given where it does not apply.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolutionRefused {
    /// State and ledger fit together, or there is nothing to go on from.
    #[error(
        "{resolution} does not apply: {} and {ledger} show no such damage. Nothing was changed; start the job without it",
        directory.display()
    )]
    NothingToResolve {
        /// What was asked for.
        resolution: Resolution,
        /// The state directory.
        directory: PathBuf,
        /// The ledger.
        ledger: LedgerPlace,
    },
    /// The ledger is not ahead of the directory, and nobody was fenced: it may end there only because the markers of the last
    /// commit are not written yet.
    #[error(
        "{resolution} does not apply: {ledger} is not ahead of the state in {}, which stands at checkpoint {confirmed}; it shows {} so \
         far. Right after a commit that is no damage: brokers answer it before they have written its markers. Nothing was \
         changed; start the job without {resolution}: it waits for the markers, and if the ledger has lost records it says so",
        directory.display(),
        committed.map_or_else(|| "no checkpoint".to_owned(), |at| format!("checkpoint {at}"))
    )]
    LedgerNotAhead {
        /// What was asked for.
        resolution: Resolution,
        /// The state directory.
        directory: PathBuf,
        /// The checkpoint it knows to be committed.
        confirmed: CheckpointRef,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint below the last stable offset, if there is one.
        committed: Option<CheckpointRef>,
    },
    /// Something else is wrong.
    #[error("{resolution} does not apply, something else is wrong: {found}")]
    OtherDamage {
        /// What was asked for.
        resolution: Resolution,
        /// What is wrong.
        found: Box<StopReason>,
    },
}

/// Why a start with a resolution does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// See [`Decision::Fenced`].
    Fenced(FencedReason),
    /// The directory contradicts itself; no word helps.
    Stop(StopReason),
    /// The situation is not the resolution's.
    Refused(ResolutionRefused),
}

/// R1 of a start with a resolution: goes on to the fence only if the resolution seems to apply, so that a healthy owner is
/// left alone by a start with a forgotten option.
///
/// # Errors
///
/// [`Unresolved`].
pub fn look_resolving(facts: &Facts<'_>, resolution: Resolution) -> Result<(), Unresolved> {
    if let Some(reason) = fenced(facts) {
        return Err(Unresolved::Fenced(reason));
    }
    match look_before_fence(facts) {
        Look::Fenced(reason) => Err(Unresolved::Fenced(reason)),
        Look::Stop(stop) if covers(resolution, &stop) => Ok(()),
        Look::Stop(stop) => Err(refused_by(resolution, stop)),
        // A ledger that is empty or behind stops no look: markers may not be written yet. For a resolution it is a reason.
        Look::Continue => match decide(facts) {
            Decision::Stop(stop) if covers(resolution, &stop) => Ok(()),
            // Only a read behind the fence shows that records are lost; to say so here would send people to --adopt-local.
            Decision::Stop(
                StopReason::LedgerBehind { confirmed, .. }
                | StopReason::LedgerLost { confirmed, .. },
            ) => Err(Unresolved::Refused(ResolutionRefused::LedgerNotAhead {
                resolution,
                directory: facts.local.path.clone(),
                confirmed,
                ledger: facts.ledger_place.clone(),
                committed: facts.ledger.map(|ledger| ledger.record.at()),
            })),
            Decision::Stop(stop) => Err(refused_by(resolution, stop)),
            _ => Err(nothing_to_resolve(facts, resolution)),
        },
    }
}

/// R4 of a start with a resolution; `facts` as for [`decide`].
///
/// # Errors
///
/// [`Unresolved`].
pub fn resolve(facts: &Facts<'_>, resolution: Resolution) -> Result<Resolved, Unresolved> {
    match decide(facts) {
        Decision::Fenced(reason) => Err(Unresolved::Fenced(reason)),
        Decision::Stop(StopReason::LedgerTopicRecreated { .. })
            if resolution == Resolution::AdoptLocal =>
        {
            match decide(&facts.of_any_topic()) {
                Decision::Stop(stop) if covers(resolution, &stop) => local_point(facts, resolution),
                Decision::Stop(stop) => Err(refused_by(resolution, stop)),
                Decision::Fenced(reason) => Err(Unresolved::Fenced(reason)),
                Decision::CommitRecordZero(point)
                | Decision::Confirm(point)
                | Decision::Resume(point) => Ok(resolved(facts, resolution, point)),
                Decision::FirstStart => Err(nothing_to_resolve(facts, resolution)),
            }
        }
        Decision::Stop(stop) if covers(resolution, &stop) => local_point(facts, resolution),
        Decision::Stop(stop) => Err(refused_by(resolution, stop)),
        _ => Err(nothing_to_resolve(facts, resolution)),
    }
}

/// The exact situations.
pub(super) fn covers(resolution: Resolution, stop: &StopReason) -> bool {
    match resolution {
        Resolution::AdoptLocal => matches!(
            stop,
            StopReason::LedgerLost { .. }
                | StopReason::LedgerBehind { .. }
                | StopReason::LedgerTopicRecreated { .. }
        ),
        Resolution::AcceptRewind => matches!(
            stop,
            StopReason::StaleLocalState { .. }
                | StopReason::DamagedDelta { .. }
                | StopReason::DigestMismatch { .. }
        ),
    }
}

/// The checkpoint from which a resolution goes on: the last one that is known to be committed and of which the directory has
/// all it takes. `None` without META.
pub(super) fn resolution_point(
    local: &LocalState,
    ledger: Option<&LedgerFact>,
) -> Option<CheckpointRef> {
    let meta = local.meta.as_ref()?.at();
    let confirmed = local.confirmed()?;
    // A later delta may name a parent whose own file is gone; then META's is the last one with positions.
    if confirmed != meta && local.delta(confirmed).is_none() {
        return Some(meta);
    }
    // The record names its parent by nonce: that one was committed too, although the delta file whose header would say so is
    // missing or damaged.
    let proven = ledger.and_then(|ledger| ledger.record.parent).filter(|parent| {
        local.delta(*parent).is_some_and(|delta| delta.header.parent == confirmed)
    });
    Some(proven.unwrap_or(confirmed))
}

/// The point of a resolution, with what the directory says about it.
fn local_point(facts: &Facts<'_>, resolution: Resolution) -> Result<Resolved, Unresolved> {
    let local = facts.local;
    let (Some(meta), Some(at)) = (&local.meta, resolution_point(local, facts.ledger)) else {
        return Err(nothing_to_resolve(facts, resolution));
    };
    let delta = local.delta(at).filter(|_| meta.at() != at);
    let (positions, watermarks, status) = match delta {
        Some(delta) => (&delta.header.positions, &delta.header.watermarks, delta.header.status),
        None => (&meta.positions, &meta.watermarks, meta.status),
    };
    let point = RecoveryPoint {
        at,
        positions: positions.clone(),
        watermarks: watermarks.clone(),
        status,
        ledger_offset: None,
        delta_digest: local.delta(at).map(|delta| delta.digest),
        quarantine: local.after(at.checkpoint),
    };
    Ok(resolved(facts, resolution, point))
}

fn resolved(facts: &Facts<'_>, resolution: Resolution, point: RecoveryPoint) -> Resolved {
    let given_up = GivenUp {
        resolution,
        directory: facts.local.path.clone(),
        at: point.at,
        ledger: facts.ledger_place.clone(),
        committed: facts.ledger.map(|ledger| ledger.record.at()),
    };
    Resolved { point: RecoveryPoint { ledger_offset: None, ..point }, given_up }
}

fn refused_by(resolution: Resolution, stop: StopReason) -> Unresolved {
    match stop {
        StopReason::ContradictingFiles { .. }
        | StopReason::MetaMissing { .. }
        | StopReason::RestoreUnfinished { .. } => Unresolved::Stop(stop),
        found => {
            let found = Box::new(found);
            Unresolved::Refused(ResolutionRefused::OtherDamage { resolution, found })
        }
    }
}

fn nothing_to_resolve(facts: &Facts<'_>, resolution: Resolution) -> Unresolved {
    Unresolved::Refused(ResolutionRefused::NothingToResolve {
        resolution,
        directory: facts.local.path.clone(),
        ledger: facts.ledger_place.clone(),
    })
}
