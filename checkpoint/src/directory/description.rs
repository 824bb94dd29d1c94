//! The files `JOB` and `RESTORED` of a state directory.

use std::path::Path;
use std::sync::Arc;

use super::{StateDirectory, read_whole};
use crate::codec::FormatError;
use crate::disk::Disk;
use crate::error::StateError;
use crate::job_description::JobDescription;
use crate::restored::Restored;

pub(super) const JOB: &str = "JOB";
pub(super) const RESTORED: &str = "RESTORED";

impl StateDirectory {
    /// As [`open`](Self::open), for a job that is described; what changed since the state was written is named in the error.
    /// The description is kept in the directory, for tools and savepoints.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`StateError::Io`] or [`StateError::NoSpace`] if the description can not be written.
    pub fn open_described(
        disk: Arc<dyn Disk>,
        path: &Path,
        description: &JobDescription,
    ) -> Result<Self, StateError> {
        let opened =
            Self::open(Arc::clone(&disk), path, &description.job, description.fingerprint());
        let directory = match opened {
            Err(StateError::OtherFingerprint { path: file, found, expected, .. }) => {
                let known = read_description(&*disk, path);
                // One that is not of the state would tell what did not happen.
                let known = known.ok().flatten().filter(|known| known.fingerprint() == found);
                let changes = known.map(|known| known.changes_to(description).join("; "));
                let changes = changes.unwrap_or_default();
                return Err(StateError::OtherFingerprint { path: file, found, expected, changes });
            }
            opened => opened?,
        };
        directory.describe(description)?;
        Ok(directory)
    }

    /// Keeps the description, unless it is there already. A damaged one is replaced: it is of no use but to people.
    fn describe(&self, description: &JobDescription) -> Result<(), StateError> {
        if let Ok(Some(known)) = read_description(&*self.disk, &self.path)
            && known == *description
        {
            return Ok(());
        }
        let path = self.path.join(JOB);
        let bytes = description.encode();
        let bytes =
            bytes.map_err(|source| StateError::Unwritable { path: path.clone(), source })?;
        let temporary = self.path.join("JOB.tmp");
        // Its name need not be durable: a start that does not find it writes it anew.
        let write = || {
            let mut file = self.disk.create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            self.disk.rename(&temporary, &path)
        };
        write().map_err(|error| self.write_failed("writing", &path, error))
    }

    /// Begins a restore, durably: from here on, and until META is written, the directory holds no state.
    ///
    /// # Errors
    ///
    /// [`StateError::Unwritable`] if the directory holds state, [`StateError::NoSpace`], [`StateError::Io`],
    /// [`StateError::Poisoned`].
    pub fn begin_restore(&self, restored: &Restored) -> Result<(), StateError> {
        self.check_usable()?;
        let path = self.path.join(RESTORED);
        let refuse = |source| StateError::Unwritable { path: path.clone(), source };
        let local = self.local();
        if local.meta.is_some() || !local.deltas.is_empty() {
            let reason = "the directory holds state";
            return Err(refuse(FormatError::Invalid { what: RESTORED, reason }));
        }
        let bytes = restored.encode().map_err(refuse)?;
        self.replace_file(RESTORED, &bytes)?;
        self.lock().restored = Some(restored.clone());
        Ok(())
    }

    pub(super) fn load_restored(&self) -> Result<Option<Restored>, StateError> {
        read_restored(&*self.disk, &self.path)
    }
}

pub(super) fn read_restored(disk: &dyn Disk, path: &Path) -> Result<Option<Restored>, StateError> {
    let path = path.join(RESTORED);
    let next_step = "restore the directory from a copy, nothing was changed";
    let damaged = |source| StateError::Damaged { path: path.clone(), source, next_step };
    match read_whole(disk, &path, RESTORED, Restored::BYTES_MAX)? {
        None => Ok(None),
        Some(content) => content.and_then(|c| Restored::decode(&c)).map(Some).map_err(damaged),
    }
}

/// The description of the job whose state a directory holds; `None` if there is none, as in directories of earlier builds
/// and before a first start.
pub(super) fn read_description(
    disk: &dyn Disk,
    path: &Path,
) -> Result<Option<JobDescription>, StateError> {
    let path = path.join(JOB);
    let next_step = "the next start of the job writes it anew";
    let damaged = |source| StateError::Damaged { path: path.clone(), source, next_step };
    match read_whole(disk, &path, JOB, JobDescription::BYTES_MAX)? {
        None => Ok(None),
        Some(content) => {
            content.and_then(|c| JobDescription::decode(&c)).map(Some).map_err(damaged)
        }
    }
}
