//! The side of the job's process.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::{ControlError, io_error};
use super::files::{
    ANSWER, BYTES_MAX, ControlAnswer, ControlRequest, FOLDER, RequestName, SERVER, decode_server,
    encode_server,
};
use crate::codec::FormatError;
use crate::disk::{Disk, RealDisk};
use crate::ids::Nonce;

/// After so long nobody comes for an answer any more: whoever asks looks several times a second.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(3600);

/// Takes requests and answers them, for the process that holds the lock of a state directory. Dropping it says that nobody
/// serves any more.
#[derive(Debug)]
pub struct ControlServer {
    folder: PathBuf,
    id: Nonce,
    /// What was left of earlier processes is gone.
    begun: bool,
    /// Requests that were given out and whose files are still there.
    known: BTreeSet<RequestName>,
}

/// Takes a request from who made it, once: as long as its file is there it may be withdrawn. May be sent to another thread.
#[derive(Debug)]
pub struct ControlClaim(PathBuf);

impl ControlClaim {
    pub(super) fn of(folder: &Path, name: RequestName) -> Self {
        Self(folder.join(name.request()))
    }

    /// Whether the request still stands. From then on it can not be withdrawn any more.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`] if that can not be found out.
    pub fn take(self) -> Result<bool, ControlError> {
        match RealDisk.remove(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("removing", &self.0)(error)),
            Ok(()) => Ok(true),
        }
    }
}

impl ControlServer {
    /// A server that [`requests`](Self::requests) lets begin, as soon as the folder can be written.
    ///
    /// # Errors
    ///
    /// [`ControlError::Random`].
    pub fn new(state_directory: &Path) -> Result<Self, ControlError> {
        let (folder, id) = (state_directory.join(FOLDER), Nonce::random()?);
        Ok(Self { folder, id, begun: false, known: BTreeSet::new() })
    }

    /// Begins to serve: what was left of earlier processes is removed.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`], [`ControlError::Random`], [`ControlError::Unwritable`].
    pub fn open(state_directory: &Path) -> Result<Self, ControlError> {
        let mut server = Self::new(state_directory)?;
        server.serve()?;
        Ok(server)
    }

    /// Gives the requests that have come since the last call, in no order. What is not a request is removed, and so are
    /// answers that nobody has come for. A folder or a file `SERVER` that is missing or damaged is made anew.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`]; the call may be repeated.
    pub fn requests(&mut self) -> Result<Vec<ControlRequest>, ControlError> {
        self.serve()?;
        let mut requests = Vec::new();
        let mut there = BTreeSet::new();
        for file_name in RealDisk.list(&self.folder).map_err(io_error("listing", &self.folder))? {
            let path = self.folder.join(&file_name);
            if file_name.ends_with(ANSWER) && is_old(&path) {
                remove(&path)?;
                continue;
            }
            let Some(name) = RequestName::of_request(&file_name) else { continue };
            if self.known.contains(&name) {
                there.insert(name);
                continue;
            }
            let content = read(&path)?;
            match content.map(|content| content.and_then(|bytes| ControlRequest::decode(&bytes))) {
                // Withdrawn meanwhile.
                None => continue,
                Some(Ok(request)) if request.server == self.id && request.name == name => {
                    there.insert(name);
                    requests.push(request);
                    continue;
                }
                // For a process before this one.
                Some(Ok(request)) if request.server != self.id => {}
                Some(Ok(_)) => tracing::warn!(path = %path.display(), "a request of another name"),
                Some(Err(error)) => {
                    tracing::warn!(path = %path.display(), %error, "not a request");
                }
            }
            remove(&path)?;
        }
        self.known = there;
        Ok(requests)
    }

    /// What takes the request, once it is begun to be served.
    #[must_use]
    pub fn claim(&self, request: &ControlRequest) -> ControlClaim {
        ControlClaim::of(&self.folder, request.name)
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
        write(&self.folder.join(request.name.answer()), &bytes)?;
        // Of a request that was refused before it was begun.
        remove(&self.folder.join(request.name.request()))
    }

    /// Has the file `SERVER` name this process, as it does unless somebody removed or damaged it.
    fn serve(&mut self) -> Result<(), ControlError> {
        let path = self.folder.join(SERVER);
        if self.begun {
            // One that can not be read may be replaced all the same.
            let found = read(&path).ok().flatten().and_then(Result::ok);
            if found.and_then(|bytes| decode_server(&bytes).ok()) == Some(self.id) {
                return Ok(());
            }
            tracing::debug!(path = %path.display(), "written again");
        }
        RealDisk
            .create_dir_all(&self.folder)
            .map_err(io_error("creating the folder", &self.folder))?;
        if !self.begun {
            let left = RealDisk.list(&self.folder).map_err(io_error("listing", &self.folder))?;
            left.iter().try_for_each(|name| remove(&self.folder.join(name)))?;
        }
        let bytes = encode_server(self.id).map_err(|source| ControlError::Unwritable { source })?;
        write(&path, &bytes)?;
        self.begun = true;
        Ok(())
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder.join(SERVER)) {
            tracing::debug!(%error, "not removed");
        }
    }
}

/// Whether a file has been there for longer than anybody waits for it.
fn is_old(path: &Path) -> bool {
    let written = path.metadata().and_then(|metadata| metadata.modified());
    let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    age.is_some_and(|age| age > ANSWER_AGE_MAX)
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
