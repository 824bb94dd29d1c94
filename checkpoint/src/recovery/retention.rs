//! Which files nothing needs any more, and which changes the store lacks.

use crate::directory::LocalState;
use crate::ids::{CheckpointId, CheckpointRef};

/// C7: delta files up to here may be deleted, quarantined ones too. `floor` is what the store holds in every state and has
/// persisted ([`StateStore::floor`](crate::StateStore::floor)); META itself must have passed them as well, for a delta also
/// says that its parent is confirmed. `None`: not one.
#[must_use]
pub(crate) fn passed(local: &LocalState, floor: CheckpointId) -> Option<CheckpointId> {
    Some(floor.min(local.meta.as_ref()?.checkpoint))
}

impl LocalState {
    /// C7: the deltas that may be deleted once the store has persisted every state up to `floor`.
    #[must_use]
    pub fn deletable(&self, floor: CheckpointId) -> Vec<CheckpointRef> {
        let Some(passed) = passed(self, floor) else { return Vec::new() };
        let all = self.deltas.iter().map(|delta| delta.header.at);
        all.filter(|at| at.checkpoint <= passed).collect()
    }
}

/// R5: whether a state whose changes are applied up to `applied` lacks those of the delta `at`. States go ahead of each other,
/// because an ingestion is atomic for one state only.
#[must_use]
pub fn needed_by_replay(applied: Option<CheckpointRef>, at: CheckpointRef) -> bool {
    applied.is_none_or(|applied| applied.checkpoint < at.checkpoint)
}
