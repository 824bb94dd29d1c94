//! How a job may end: with a named error only where a fault of the plan explains it, and never by a panic.

use millstream_checkpoint::{FencedReason, StateError, StopReason, StoreError};
use millstream_engine::{JobError, error_chain};

use super::{Oracle, Violation};
use crate::plan::{FaultKind, Plan};

/// What an ending means for whoever supervises the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to stop, and has.
    Stopped,
    /// Something outside was in its way: start it again.
    Again(String),
    /// Another process owns the job, or its directory is not the newest: leave it.
    Fenced(String),
    /// It does not trust its files.
    Damaged(String),
    /// An option was given that does not apply.
    Refused(String),
    /// State or ledger are of a job of another shape.
    OtherShape(String),
    /// It had been stopped with drain, and has nothing more to do.
    Finished(String),
    /// It did not go on from its savepoint.
    Unrestored(Unrestored, String),
}

/// Why a job does not go on from its savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrestored {
    /// The directory holds a part of it, or nothing, and the start did not name it.
    Unfinished,
    /// The ledger has gone on behind it.
    Rewinds,
    /// The ledger does not hold it.
    WithoutLedger,
    /// The ledger has gone on since it was restored.
    Overtaken,
}

/// Exit codes of the README.
const STATE: u8 = 73;
const FENCED: u8 = 76;
const UNAVAILABLE: u8 = 69;
const FAILED: u8 = 1;

/// Judges an ending. `restoring`: the job was started from a savepoint, then or before.
///
/// # Errors
///
/// A named stop that nothing in the plan explains, or an error that must not happen.
pub fn judge(
    result: Result<(), JobError>,
    plan: &Plan,
    restoring: bool,
) -> Result<Ending, Violation> {
    let error = match result {
        Ok(()) => return Ok(Ending::Stopped),
        Err(error) => error,
    };
    let text = error_chain(&error);
    match cause(&error) {
        JobError::State(StateError::OtherFingerprint { .. })
        | JobError::Stop(StopReason::OtherFingerprint { .. })
            if plan.other_shape().is_some() =>
        {
            return Ok(Ending::OtherShape(text));
        }
        JobError::Resolution(_) if plan.allows_refusal() => {
            return Ok(Ending::Refused(text));
        }
        JobError::Fenced(FencedReason::TakeoverFailed { .. }) if plan.has_rival() => {
            return Ok(Ending::Fenced(text));
        }
        JobError::AlreadyFinished { .. } if plan.drains() => return Ok(Ending::Finished(text)),
        JobError::Stop(StopReason::ForeignRecord { .. }) if restoring && plan.spoils_ledger() => {
            return Ok(Ending::Damaged(text));
        }
        JobError::Stop(reason) if restoring => {
            if let Some(why) = unrestored(reason) {
                return Ok(Ending::Unrestored(why, text));
            }
        }
        _ => {}
    }
    match error.exit_code() {
        UNAVAILABLE | FAILED => Ok(Ending::Again(text)),
        FENCED if plan.allows_takeover() => Ok(Ending::Fenced(text)),
        STATE if disk_error_is_planned(&error, plan) => Ok(Ending::Again(text)),
        STATE if plan.allows_damage() => Ok(Ending::Damaged(text)),
        STATE if plan.allows_takeover() => Ok(Ending::Fenced(text)),
        code => Err(Violation::new(Oracle::Endings, format!("exit code {code}: {text}"))),
    }
}

/// Whether a stop is about a savepoint.
fn unrestored(reason: &StopReason) -> Option<Unrestored> {
    match reason {
        StopReason::RestoreUnfinished { .. } | StopReason::NoLocalState { .. } => {
            Some(Unrestored::Unfinished)
        }
        StopReason::RestoreRewinds { .. } => Some(Unrestored::Rewinds),
        StopReason::RestoreWithoutLedger { .. } => Some(Unrestored::WithoutLedger),
        StopReason::RestoreOvertaken { .. } => Some(Unrestored::Overtaken),
        _ => None,
    }
}

/// The last failure.
fn cause(error: &JobError) -> &JobError {
    match error {
        JobError::GaveUp { source, .. } => cause(source),
        other => other,
    }
}

/// A full disk may end a process that has only begun, a failed fsync any.
fn disk_error_is_planned(error: &JobError, plan: &Plan) -> bool {
    let plans = |wanted: fn(&FaultKind) -> bool| plan.faults.iter().any(|f| wanted(&f.kind));
    let full = plans(|kind| matches!(kind, FaultKind::DiskFull { .. }));
    let fails = plans(|kind| matches!(kind, FaultKind::SyncFails { .. }));
    match error {
        JobError::State(error) => {
            (full && error.is_no_space())
                || (fails && matches!(error, StateError::Io { .. } | StateError::Poisoned { .. }))
        }
        JobError::Store(StoreError::NoSpace { .. }) | JobError::StopOnFullDisk { .. } => full,
        JobError::GaveUp { source, .. } => disk_error_is_planned(source, plan),
        _ => false,
    }
}
