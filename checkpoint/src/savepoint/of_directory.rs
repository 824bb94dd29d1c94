//! A savepoint of a state directory whose job does not run.

use std::path::Path;
use std::sync::Arc;

use super::writer::{SavepointCut, write_savepoint};
use super::{SavepointError, SavepointManifest, SavepointTrigger, check_savepoint_target};
use crate::decide::{StoreFacts, replay_plan};
use crate::directory::{Inspection, LocalState, StateDirectory, replay};
use crate::disk::RealDisk;
use crate::error::StateError;
use crate::ids::CheckpointRef;
use crate::layered_state::LayeredState;
use crate::store::{FjallOptions, FjallStore, StateStore};

/// Takes a savepoint of the last committed checkpoint in a state directory, as the next start of its job would find it: the
/// directory is locked meanwhile, and delta files are replayed into the store. `committed` is the ledger's last checkpoint,
/// if it was asked; it is needed if the directory can not know by itself, as after a crash.
///
/// # Errors
///
/// [`SavepointError`]: a job holds the directory, it holds no state, it can not be decided what counts, or the savepoint can
/// not be written.
pub fn savepoint_of_directory(
    path: &Path,
    target: &Path,
    created_ms: i64,
    committed: Option<CheckpointRef>,
) -> Result<SavepointManifest, SavepointError> {
    check_savepoint_target(path, target)?;
    let no_state = |reason| SavepointError::NoState { directory: path.to_owned(), reason };
    // A look before anything is created or locked.
    let inspection = Inspection::of(&RealDisk, path)?;
    let meta = inspection.meta?.ok_or_else(|| no_state("there is no file META"))?;
    let description = inspection.description?.ok_or_else(|| {
        no_state("there is no file JOB, which says what the state looks like; starting the job once writes it")
    })?;
    if description.fingerprint() != meta.fingerprint || description.job != meta.job {
        return Err(no_state(
            "its file JOB describes another job than META is of; starting the job once writes it anew",
        ));
    }
    let directory =
        StateDirectory::open(Arc::new(RealDisk), path, &meta.job, description.fingerprint())?;
    let local = directory.local();
    if let Some(stop) = local.contradiction() {
        return Err(StateError::from(stop).into());
    }
    let at = choose(&local, committed)?;
    let meta = local.meta_at(at);
    let meta = meta.ok_or_else(|| no_state("the delta file of its last checkpoint is gone"))?;
    let store: Arc<dyn StateStore> =
        Arc::new(FjallStore::open(&directory.store_path(), FjallOptions::default())?);
    let plan = replay_plan(&local, &StoreFacts::of(&*store)?, at).map_err(StateError::from)?;
    replay(&directory, &*store, &plan)?;
    let snapshot = LayeredState::new(store)?.snapshot()?;
    let trigger = SavepointTrigger::Directory;
    let manifest = SavepointManifest::of(&meta, description, trigger, created_ms)?;
    write_savepoint(&RealDisk, target, SavepointCut { manifest, scans: snapshot.scans })
}

/// The checkpoint that counts.
fn choose(
    local: &LocalState,
    committed: Option<CheckpointRef>,
) -> Result<CheckpointRef, SavepointError> {
    let directory = || local.path.clone();
    let Some(confirmed) = local.confirmed() else {
        let reason = "there is no file META";
        return Err(SavepointError::NoState { directory: directory(), reason });
    };
    let next = local.after(confirmed.checkpoint);
    let Some(committed) = committed else {
        return match next.first() {
            None => Ok(confirmed),
            Some(undecided) => Err(SavepointError::Undecided {
                directory: directory(),
                confirmed,
                undecided: *undecided,
            }),
        };
    };
    let follows = local.delta(committed).is_some_and(|delta| delta.header.parent == confirmed);
    // The first record of a history that was begun from a savepoint may not be on the ledger yet.
    let begins = local.begins_from_savepoint().is_some_and(|r| r.ledger == Some(committed));
    if committed == confirmed || begins {
        Ok(confirmed)
    } else if follows {
        Ok(committed)
    } else {
        Err(SavepointError::OtherThanLedger { directory: directory(), confirmed, committed })
    }
}
