//! Brings the states of a savepoint into an empty store.

use super::{RestorePlan, Savepoint, SavepointError};
use crate::ids::CheckpointRef;
use crate::store::StateStore;

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// States written.
    pub states: usize,
    /// Entries written.
    pub entries: u64,
}

/// Writes the states of the plan into `store`, which has to be empty, as of `at`, and makes them durable. If it fails the
/// store holds a part and must be removed: the caller writes META only after this.
///
/// # Errors
///
/// [`SavepointError`] if a file is not what was written, or the store fails.
pub fn restore_states(
    savepoint: &Savepoint,
    plan: &RestorePlan,
    store: &dyn StateStore,
    at: CheckpointRef,
) -> Result<RestoreReport, SavepointError> {
    let mut report = RestoreReport::default();
    for &index in &plan.states {
        let Some(saved) = savepoint.manifest().states.get(index) else { continue };
        let mut failed = None;
        let mut entries = savepoint.entries(index)?;
        let mut entries = std::iter::from_fn(|| match entries.next()? {
            Ok((key, value)) => Some((key, Some(value))),
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        store.ingest(&saved.state, at, &mut entries)?;
        if let Some(error) = failed {
            return Err(error);
        }
        report.states += 1;
        report.entries += saved.entries;
    }
    // Also for a savepoint without state: it is what tells a store that was restored from one that was lost.
    store.persist_floor(at)?;
    Ok(report)
}
