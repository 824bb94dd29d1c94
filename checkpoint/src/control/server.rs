//! The side of the job's process.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::error::{ControlError, io_error};
use super::files::{
    BYTES_MAX, ControlAnswer, ControlRequest, FOLDER, RequestName, SERVER, encode_server,
};
use crate::codec::FormatError;
use crate::disk::{Disk, RealDisk};
use crate::ids::Nonce;

/// Takes requests and answers them, for the process that holds the lock of a state directory. Dropping it says that nobody
/// serves any more.
#[derive(Debug)]
pub struct ControlServer {
    folder: PathBuf,
    id: Nonce,
}

impl ControlServer {
    /// Begins to serve: what was left of earlier processes is removed.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`], [`ControlError::Random`], [`ControlError::Unwritable`].
    pub fn open(state_directory: &Path) -> Result<Self, ControlError> {
        let folder = state_directory.join(FOLDER);
        RealDisk.create_dir_all(&folder).map_err(io_error("creating the folder", &folder))?;
        for name in RealDisk.list(&folder).map_err(io_error("listing", &folder))? {
            remove(&folder.join(name))?;
        }
        let id = Nonce::random()?;
        let bytes = encode_server(id).map_err(|source| ControlError::Unwritable { source })?;
        write(&folder.join(SERVER), &bytes)?;
        Ok(Self { folder, id })
    }

    /// Takes the requests that have come since the last call, in no order. What is not a request is removed.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`].
    pub fn requests(&self) -> Result<Vec<ControlRequest>, ControlError> {
        let mut requests = Vec::new();
        for file_name in RealDisk.list(&self.folder).map_err(io_error("listing", &self.folder))? {
            let Some(name) = RequestName::of_request(&file_name) else { continue };
            let path = self.folder.join(file_name);
            let content = read(&path)?;
            remove(&path)?;
            match content.map(|content| content.and_then(|bytes| ControlRequest::decode(&bytes))) {
                // Gone meanwhile, or for a process before this one.
                None => {}
                Some(Ok(request)) if request.server != self.id => {}
                Some(Ok(request)) if request.name == name => requests.push(request),
                Some(Ok(_)) => tracing::warn!(path = %path.display(), "a request of another name"),
                Some(Err(error)) => {
                    tracing::warn!(path = %path.display(), %error, "not a request");
                }
            }
        }
        Ok(requests)
    }

    /// Answers a request; nobody need wait for it any more.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`], as on a full disk; the call may be repeated.
    pub fn answer(
        &self,
        request: &ControlRequest,
        answer: &ControlAnswer,
    ) -> Result<(), ControlError> {
        let bytes = answer.encode(request.name);
        let bytes = bytes.map_err(|source| ControlError::Unwritable { source })?;
        write(&self.folder.join(request.name.answer()), &bytes)
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder.join(SERVER)) {
            tracing::debug!(%error, "not removed");
        }
    }
}

/// Writes a file that others see whole or not at all. It need not survive the machine, so nothing is synced.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), ControlError> {
    let temporary = path.with_extension("tmp");
    let written = || {
        RealDisk.create(&temporary)?.write_all(bytes)?;
        RealDisk.rename(&temporary, path)
    };
    written().map_err(io_error("writing", path))
}

/// A small file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Result<Vec<u8>, FormatError>>, ControlError> {
    let opened = RealDisk.open(path).map_err(io_error("opening", path))?;
    let Some((reader, bytes)) = opened else { return Ok(None) };
    let limit = BYTES_MAX as u64;
    if bytes > limit {
        let what = "a file of control/";
        return Ok(Some(Err(FormatError::TooLong { what, claimed: bytes, limit })));
    }
    let mut content = Vec::new();
    reader.take(limit).read_to_end(&mut content).map_err(io_error("reading", path))?;
    Ok(Some(Ok(content)))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), ControlError> {
    match RealDisk.remove(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("removing", path)(error)),
        _ => Ok(()),
    }
}
