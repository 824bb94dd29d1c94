//! R5: which deltas bring the store to the confirmed checkpoint.

use super::stop_reason::StopReason;
use crate::delta::StateId;
use crate::directory::LocalState;
use crate::error::StoreError;
use crate::ids::{CheckpointId, CheckpointRef};
use crate::store::StateStore;

/// What the store says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFacts {
    /// See [`StateStore::floor`].
    pub floor: Option<CheckpointRef>,
    /// See [`StateStore::applied`], of every state.
    pub applied: Vec<(StateId, CheckpointRef)>,
}

impl StoreFacts {
    /// Asks a store.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails.
    pub fn of(store: &dyn StateStore) -> Result<Self, StoreError> {
        let mut applied = Vec::new();
        for state in store.states()? {
            if let Some(at) = store.applied(&state)? {
                applied.push((state, at));
            }
        }
        Ok(Self { floor: store.floor()?, applied })
    }
}

/// Deltas to replay, oldest first; a state skips those it has applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayPlan {
    /// Where the store will stand.
    pub target: CheckpointRef,
    /// The deltas.
    pub deltas: Vec<CheckpointRef>,
}

/// Walks from `target` down by nonce (each delta names its parent's) to what the whole store has.
/// Numbers alone are not enough: an unlinked or quarantined file may be back after power loss.
///
/// # Errors
///
/// [`StopReason::MissingDelta`] and [`StopReason::ForeignStore`].
pub fn replay_plan(
    local: &LocalState,
    store: &StoreFacts,
    target: CheckpointRef,
) -> Result<ReplayPlan, StopReason> {
    let floor = store.floor.map_or(CheckpointId::ZERO, |floor| floor.checkpoint);
    let foreign = |state: Option<&StateId>, at: CheckpointRef| StopReason::ForeignStore {
        directory: local.path.clone(),
        state: state.cloned(),
        store: at,
        target,
    };
    if let Some(at) = store.floor.filter(|floor| floor.checkpoint > target.checkpoint) {
        return Err(foreign(None, at));
    }
    // chain[i] is checkpoint target - i; the last one is the floor.
    let mut chain = vec![target];
    let mut at = target;
    while at.checkpoint > floor {
        let Some(delta) = local.delta(at) else {
            let directory = local.path.clone();
            return Err(StopReason::MissingDelta { directory, missing: at, store: floor, target });
        };
        at = delta.header.parent;
        chain.push(at);
    }
    let on_chain = |mark: CheckpointRef| {
        // Below the floor nothing is left to compare with; the floor's own nonce speaks for it.
        mark.checkpoint < floor || chain.contains(&mark)
    };
    if let Some(mark) = store.floor.filter(|mark| !on_chain(*mark)) {
        return Err(foreign(None, mark));
    }
    if let Some(meta) = local.meta.as_ref().map(crate::Meta::at).filter(|meta| !on_chain(*meta)) {
        return Err(foreign(None, meta));
    }
    if let Some((state, mark)) = store.applied.iter().find(|(_, mark)| !on_chain(*mark)) {
        return Err(foreign(Some(state), *mark));
    }
    chain.pop();
    chain.reverse();
    Ok(ReplayPlan { target, deltas: chain })
}
