//! The side of the one who asks.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{ControlError, io_error};
use super::files::{ControlAnswer, ControlRequest, FOLDER, RequestName, SERVER, decode_server};
use super::server::{ControlClaim, read, remove, write};
use crate::disk::RealDisk;
use crate::ids::Nonce;
use crate::savepoint::SavepointTrigger;

/// A request on its way. Dropping it leaves the request to the process, which serves it nevertheless; see
/// [`withdraw`](Self::withdraw).
#[derive(Debug)]
pub struct ControlClient {
    directory: PathBuf,
    folder: PathBuf,
    pub(super) request: ControlRequest,
    /// Since when no file SERVER that can be read is there.
    unserved_since: Cell<Option<Instant>>,
}

/// A process that lives writes a file SERVER that is missing or damaged again within a part of this time.
const UNSERVED_MAX: Duration = Duration::from_secs(2);

impl ControlClient {
    /// Asks the process that holds a state directory for a savepoint in the new folder `target`, which is taken as one of
    /// this process's paths.
    ///
    /// # Errors
    ///
    /// [`ControlError`]; [`ControlError::NotRunning`] if no process holds the directory.
    pub fn ask(
        directory: &Path,
        trigger: SavepointTrigger,
        target: &Path,
    ) -> Result<Self, ControlError> {
        let target = std::path::absolute(target).map_err(io_error("resolving", target))?;
        let folder = directory.join(FOLDER);
        let Some(process) = holder(directory)? else {
            return Err(ControlError::NotRunning { directory: directory.to_owned() });
        };
        let Some(server) = server(&folder)? else {
            return Err(ControlError::NotServing { directory: directory.to_owned(), process });
        };
        let name = RequestName(Nonce::random()?);
        let request = ControlRequest { name, server, trigger, target };
        let bytes = request.encode().map_err(|source| ControlError::Unwritable { source })?;
        write(&folder.join(name.request()), &bytes)?;
        let directory = directory.to_owned();
        Ok(Self { directory, folder, request, unserved_since: Cell::default() })
    }

    /// The answer, if it is there. Ask again and again, with pauses: a savepoint takes as long as it takes to write it.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`] if the process that was asked is gone, [`ControlError::Damaged`], [`ControlError::Io`].
    pub fn poll(&self) -> Result<Option<ControlAnswer>, ControlError> {
        // Before the answer is looked for, so that one that was written last is not overlooked.
        let lives = self.is_held_and_served()?;
        let path = self.folder.join(self.request.name.answer());
        if let Some(content) = read(&path)? {
            let answer = content.and_then(|bytes| ControlAnswer::decode(&bytes, self.request.name));
            let answer =
                answer.map_err(|source| ControlError::Damaged { path: path.clone(), source })?;
            remove(&path)?;
            return Ok(Some(answer));
        }
        if lives {
            return Ok(None);
        }
        // Nobody will serve it; a later process would remove it unread.
        remove(&self.folder.join(self.request.name.request()))?;
        let (directory, target) = (self.directory.clone(), self.request.target.clone());
        Err(ControlError::Ended { directory, target })
    }
}

impl ControlClient {
    /// Takes the request back. `false` if the process has begun to serve it, or has ended: an answer may come, or be there.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`] if the request could not be removed, so that it still stands.
    pub fn withdraw(&self) -> Result<bool, ControlError> {
        ControlClaim::of(&self.folder, self.request.name).take()
    }

    /// Whether the request waits for the process to begin with it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.folder.join(self.request.name.request()).exists()
    }

    /// Process id of the process that was asked, or "unknown"; `None` if it is gone.
    ///
    /// # Errors
    ///
    /// [`ControlError::Io`].
    pub fn process(&self) -> Result<Option<String>, ControlError> {
        holder(&self.directory)
    }

    fn is_held_and_served(&self) -> Result<bool, ControlError> {
        if self.process()?.is_none() {
            return Ok(false);
        }
        let served_by = match server(&self.folder) {
            Err(ControlError::Damaged { .. }) => None,
            found => found?,
        };
        if served_by.is_some() {
            self.unserved_since.set(None);
            return Ok(served_by == Some(self.request.server));
        }
        let since = self.unserved_since.get().unwrap_or_else(Instant::now);
        self.unserved_since.set(Some(since));
        Ok(since.elapsed() < UNSERVED_MAX)
    }
}

/// Who holds the lock of a state directory.
fn holder(directory: &Path) -> Result<Option<String>, ControlError> {
    let lock = directory.join("LOCK");
    RealDisk::lock_holder(&lock).map_err(io_error("looking at the lock", &lock))
}

/// The process that serves requests.
fn server(folder: &Path) -> Result<Option<Nonce>, ControlError> {
    let path = folder.join(SERVER);
    let Some(content) = read(&path)? else { return Ok(None) };
    let server = content.and_then(|bytes| decode_server(&bytes));
    server.map(Some).map_err(|source| ControlError::Damaged { path, source })
}
