//! R5: brings the store to the confirmed checkpoint.

use super::StateDirectory;
use crate::decide::ReplayPlan;
use crate::error::StateError;
use crate::ids::CheckpointId;
use crate::recovery::needed_by_replay;
use crate::store::StateStore;

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Delta files read.
    pub deltas: usize,
    /// Changes written to the store.
    pub entries: usize,
}

/// Replays the deltas of the plan, oldest first, persists the store and raises its floor. Doing it
/// again, after any crash, is harmless. One delta is in memory at a time.
///
/// # Errors
///
/// [`StateError`] if a file is damaged meanwhile or the store fails.
pub fn replay(
    directory: &StateDirectory,
    store: &dyn StateStore,
    plan: &ReplayPlan,
) -> Result<ReplayReport, StateError> {
    let mut report = ReplayReport::default();
    for at in &plan.deltas {
        let (_, delta) = directory.read_delta(*at)?;
        for state in delta.states() {
            if !needed_by_replay(store.applied(state)?, *at) {
                continue;
            }
            let mut changes = delta.changes(state).inspect(|_| report.entries += 1);
            store.ingest(state, *at, &mut changes)?;
        }
        report.deltas += 1;
    }
    if plan.target.checkpoint > CheckpointId::ZERO && store.floor()? != Some(plan.target) {
        store.persist_floor(plan.target)?;
    }
    Ok(report)
}
