//! Writes a savepoint: never over anything, and never half of one that looks whole.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::manifest::{SavedState, SavepointManifest, state_file_name};
use super::state_file::{StateFileHeader, StateFileWriter, WriteError};
use super::{SAVEPOINT_FILE, SavepointError};
use crate::delta::StateId;
use crate::disk::Disk;
use crate::store::StoreScan;

/// What goes into a savepoint.
pub struct SavepointCut {
    /// Everything but the states, which are those of `description`.
    pub manifest: SavepointManifest,
    /// The entries of every state that has any, all as of the same checkpoint.
    pub scans: Vec<(StateId, StoreScan)>,
}

impl std::fmt::Debug for SavepointCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavepointCut")
            .field("manifest", &self.manifest)
            .field("states", &self.scans.len())
            .finish_non_exhaustive()
    }
}

/// Writes a savepoint into the new folder `target`; folders above it are made if need be. All of it is durable when this returns.
/// Blocks on the disk for as long as it takes to write all state; the caller's scans hold what they began with.
///
/// # Errors
///
/// [`SavepointError`]; what was written until then has been removed again as far as the disk allowed, and is in any case
/// under another name than `target`.
pub fn write_savepoint(
    disk: &dyn Disk,
    target: &Path,
    cut: SavepointCut,
) -> Result<SavepointManifest, SavepointError> {
    let (parent, partial) = partial_path(target, &cut)?;
    refuse_existing(disk, target)?;
    let writer = Writer { disk, folder: partial.clone() };
    let written = writer.write(cut).and_then(|manifest| {
        disk.rename(&partial, target).map_err(io_error("renaming to", target))?;
        disk.sync_dir(parent).map_err(io_error("syncing the folder", parent))?;
        Ok(manifest)
    });
    if written.is_err() {
        writer.discard();
    }
    written
}

/// Name of the folder in which a savepoint is written before it is renamed: `.<name>.<id>.partial`.
fn partial_path<'a>(
    target: &'a Path,
    cut: &SavepointCut,
) -> Result<(&'a Path, PathBuf), SavepointError> {
    let name = target.file_name().and_then(|name| name.to_str());
    let Some((name, parent)) = name.zip(target.parent()) else {
        return Err(SavepointError::NotAName { path: target.to_owned() });
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let partial = format!(".{name}.{}{PARTIAL}", cut.manifest.id);
    Ok((parent, parent.join(partial)))
}

/// End of the name of a savepoint that is being written.
pub(super) const PARTIAL: &str = ".partial";

fn refuse_existing(disk: &dyn Disk, target: &Path) -> Result<(), SavepointError> {
    match disk.list(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A file of that name can not be listed either, nor can what would be below a file.
        Err(error) if error.kind() == ErrorKind::NotADirectory => match disk.open(target) {
            Err(_) => Err(io_error("creating the folder", target)(error)),
            Ok(_) => Err(SavepointError::AlreadyExists { path: target.to_owned() }),
        },
        Err(error) => Err(io_error("looking at", target)(error)),
        Ok(_) => Err(SavepointError::AlreadyExists { path: target.to_owned() }),
    }
}

struct Writer<'a> {
    disk: &'a dyn Disk,
    folder: PathBuf,
}

impl Writer<'_> {
    fn write(&self, cut: SavepointCut) -> Result<SavepointManifest, SavepointError> {
        let SavepointCut { mut manifest, scans } = cut;
        let mut scans: BTreeMap<StateId, StoreScan> = scans.into_iter().collect();
        let mut states: Vec<StateId> = Vec::new();
        for operator in &manifest.description.operators {
            let ids = operator.states.iter();
            states.extend(ids.map(|state| StateId::new(operator.uid.clone(), state.name.clone())));
        }
        states.sort();
        if let Some(state) = scans.keys().find(|state| states.binary_search(state).is_err()) {
            return Err(SavepointError::NotDescribed { state: state.clone() });
        }
        let folder = &self.folder;
        self.disk.create_dir_all(folder).map_err(io_error("creating the folder", folder))?;
        manifest.states = Vec::new();
        for (index, state) in states.into_iter().enumerate() {
            let scan = scans.remove(&state).unwrap_or_else(|| Box::new(std::iter::empty()));
            let saved = self.write_state(&manifest, index, state, scan)?;
            manifest.states.push(saved);
        }
        // Last, although nothing looks for it before the rename: it vouches for the other files.
        let path = folder.join(SAVEPOINT_FILE);
        let bytes = manifest
            .encode()
            .map_err(|source| SavepointError::Manifest { path: path.clone(), source })?;
        let write = || {
            let mut file = self.disk.create(&path)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            self.disk.sync_dir(folder)
        };
        write().map_err(io_error("writing", &path))?;
        Ok(manifest)
    }

    fn write_state(
        &self,
        manifest: &SavepointManifest,
        index: usize,
        state: StateId,
        scan: StoreScan,
    ) -> Result<SavedState, SavepointError> {
        let path = self.folder.join(state_file_name(index));
        let failed = |error| match error {
            WriteError::Io(error) => io_error("writing", &path)(error),
            WriteError::Format(source) => {
                SavepointError::Unwritable { state: state.clone(), source }
            }
        };
        let header = StateFileHeader {
            savepoint: manifest.id,
            state: state.clone(),
            key_groups: manifest.description.max_parallelism,
        };
        let mut file = self.disk.create(&path).map_err(io_error("creating", &path))?;
        let mut writer = StateFileWriter::new(&mut *file, &header).map_err(failed)?;
        for entry in scan {
            let (key, value) = entry?;
            writer.entry(key, &value).map_err(failed)?;
        }
        let written = writer.end().map_err(failed)?;
        file.sync_all().map_err(io_error("syncing", &path))?;
        let (entries, file_bytes, sha256) = (written.entries, written.file_bytes, written.sha256);
        Ok(SavedState { state, entries, file_bytes, sha256 })
    }

    /// Makes room again. What can not be removed is named as unfinished by its folder's name.
    fn discard(&self) {
        let remove = || {
            for name in self.disk.list(&self.folder)? {
                self.disk.remove(&self.folder.join(name))?;
            }
            self.disk.remove_dir(&self.folder)
        };
        if let Err(error) = remove() {
            tracing::debug!(path = %self.folder.display(), %error, "not removed");
        }
    }
}

pub(super) fn io_error(
    operation: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> SavepointError {
    let path = path.to_owned();
    move |source| match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            SavepointError::NoSpace { path: path.clone() }
        }
        _ => SavepointError::Io { operation, path: path.clone(), source },
    }
}
