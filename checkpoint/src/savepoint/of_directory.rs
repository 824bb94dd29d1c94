//! A savepoint of a state directory whose job does not run.

use std::path::Path;
use std::sync::Arc;

use super::writer::{SavepointCut, write_savepoint};
use super::{SavepointError, SavepointManifest, SavepointTrigger, check_savepoint_target};
use crate::decide::{StoreFacts, replay_plan};
use crate::directory::{DirectoryCopy, Inspection, LocalState, StateDirectory, replay};
use crate::disk::RealDisk;
use crate::error::StateError;
use crate::ids::CheckpointRef;
use crate::layered_state::LayeredState;
use crate::store::{FjallOptions, FjallStore, StateStore};

/// Takes a savepoint of the last committed checkpoint in a state directory, as the next start of its job would find it. Nothing
/// there is changed: a [copy](DirectoryCopy) is worked on, into whose store delta files are replayed; a job can not begin while
/// it is made. `committed` is the ledger's last checkpoint,
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
    // Known to be wrong here, so that its error names the directory and not the copy.
    inspection.restored?;
    let copy = DirectoryCopy::of(path)?;
    let (disk, fingerprint) = (Arc::new(RealDisk), description.fingerprint());
    let directory = StateDirectory::open(disk, copy.path(), &meta.job, fingerprint)?;
    let local = directory.local();
    if let Some(stop) = local.contradiction() {
        return Err(StateError::from(stop).into());
    }
    let at = choose(path, &local, committed)?;
    let meta = local.meta_at(at);
    let meta = meta.ok_or_else(|| no_state("the delta file of its last checkpoint is gone"))?;
    let store: Arc<dyn StateStore> =
        match FjallStore::open(&directory.store_path(), FjallOptions::default()) {
            Ok(store) => Arc::new(store),
            Err(error) => return Err(error.of_copy(&path.join("store")).into()),
        };
    let plan = replay_plan(&local, &StoreFacts::of(&*store)?, at).map_err(StateError::from)?;
    replay(&directory, &*store, &plan)?;
    let snapshot = LayeredState::new(store)?.snapshot()?;
    let trigger = SavepointTrigger::Directory;
    let manifest = SavepointManifest::of(&meta, description, trigger, created_ms)?;
    write_savepoint(&RealDisk, target, SavepointCut { manifest, scans: snapshot.scans })
}

/// The checkpoint that counts.
fn choose(
    path: &Path,
    local: &LocalState,
    committed: Option<CheckpointRef>,
) -> Result<CheckpointRef, SavepointError> {
    let directory = || path.to_owned();
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
