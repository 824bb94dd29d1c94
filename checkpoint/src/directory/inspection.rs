//! What a state directory holds, looked at from outside: nothing is locked, created, renamed or removed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::description::{read_description, read_restored};
use super::file_names::{is_temporary, parse_delta_name, parse_quarantined_name};
use super::{LocalState, META, QuarantinedFile, io_error, read_delta_file, read_whole};
use crate::delta::{DeltaError, DeltaSummary};
use crate::disk::Disk;
use crate::error::StateError;
use crate::ids::CheckpointRef;
use crate::job_description::JobDescription;
use crate::meta::Meta;
use crate::restored::Restored;

/// A file that may be there, and may be damaged.
pub type Inspected<T> = Result<Option<T>, StateError>;

/// Everything that a state directory says about itself. A running job goes on changing it meanwhile.
#[derive(Debug)]
pub struct Inspection {
    /// The directory.
    pub path: PathBuf,
    /// META.
    pub meta: Inspected<Meta>,
    /// What the job's state looks like.
    pub description: Inspected<JobDescription>,
    /// How the directory began, if from a savepoint.
    pub restored: Inspected<Restored>,
    /// Delta files in the order of their names, each read and verified.
    pub deltas: Vec<InspectedDelta>,
    /// Files that were put aside.
    pub quarantined: Vec<QuarantinedFile>,
    /// Files that were not finished; the next start of the job removes them.
    pub temporary: Vec<PathBuf>,
}

/// One delta file.
#[derive(Debug)]
pub struct InspectedDelta {
    /// The file.
    pub path: PathBuf,
    /// The checkpoint its name says.
    pub at: CheckpointRef,
    /// What it holds, or what is wrong with it.
    pub content: Result<DeltaSummary, DeltaError>,
}

impl Inspection {
    /// Reads a directory: META and all deltas, with every checksum.
    ///
    /// # Errors
    ///
    /// [`StateError::Io`] if there is no such folder, or it can not be read. What is wrong with a single file stands at it.
    pub fn of(disk: &dyn Disk, path: &Path) -> Result<Self, StateError> {
        let mut inspection = Self {
            path: path.to_owned(),
            meta: inspect_meta(disk, path),
            description: read_description(disk, path),
            restored: read_restored(disk, path),
            deltas: Vec::new(),
            quarantined: Vec::new(),
            temporary: Vec::new(),
        };
        disk.list(path).map_err(io_error("listing", path))?;
        let deltas = path.join("deltas");
        let names = match disk.list(&deltas) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(io_error("listing", &deltas))?,
        };
        for name in names {
            let path = deltas.join(&name);
            if is_temporary(&name) {
                inspection.temporary.push(path);
            } else if let Some(at) = parse_quarantined_name(&name) {
                inspection.quarantined.push(QuarantinedFile { path, at, reason: None });
            } else if let Some(at) = parse_delta_name(&name) {
                let content = match read_delta_file(disk, &path, at, |_, _| {}) {
                    // Of a running job, which had passed it.
                    Ok(None) => continue,
                    Ok(Some(content)) => content,
                    Err(error) => return Err(error),
                };
                inspection.deltas.push(InspectedDelta { path, at, content });
            }
        }
        Ok(inspection)
    }

    /// What recovery would see; `None` if META, RESTORED or a delta of a known version is damaged in a way that it stops at.
    #[must_use]
    pub fn local_state(&self) -> Option<LocalState> {
        let (Ok(meta), Ok(restored)) = (&self.meta, &self.restored) else { return None };
        let mut local = LocalState {
            path: self.path.clone(),
            meta: meta.clone(),
            restored: restored.clone(),
            deltas: Vec::new(),
            quarantined: self.quarantined.clone(),
        };
        for delta in &self.deltas {
            match &delta.content {
                Ok(summary) => local.deltas.push(summary.clone()),
                Err(reason) => local.quarantined.push(QuarantinedFile {
                    path: delta.path.clone(),
                    at: delta.at,
                    reason: Some(reason.clone()),
                }),
            }
        }
        local.deltas.sort_by_key(|delta| delta.header.at);
        Some(local)
    }
}

fn inspect_meta(disk: &dyn Disk, path: &Path) -> Inspected<Meta> {
    let path = path.join(META);
    let damaged = |source| StateError::MetaDamaged { path: path.clone(), source };
    match read_whole(disk, &path, META, Meta::BYTES_MAX)? {
        None => Ok(None),
        Some(content) => content.and_then(|c| Meta::decode(&c)).map(Some).map_err(damaged),
    }
}
