//! Where a job keeps its state: files and the store of confirmed state.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use millstream_checkpoint::{Disk, FjallOptions, FjallStore, RealDisk, StateStore, StoreError};

use super::fault::{faulty, faulty_savepoints};

/// Disk and store of one process.
#[derive(Clone)]
pub(crate) struct Storage {
    disk: Arc<dyn Disk>,
    open_store: Arc<OpenStore>,
    remove_store: Arc<RemoveStore>,
}

/// Opens the store whose files belong at a path.
pub(crate) type OpenStore = dyn Fn(&Path) -> Result<Arc<dyn StateStore>, StoreError> + Send + Sync;

/// Removes it with all it holds, if there is one.
pub(crate) type RemoveStore = dyn Fn(&Path) -> Result<(), StoreError> + Send + Sync;

impl Storage {
    /// The operating system's files, fjall's store.
    pub(crate) fn real() -> Self {
        let open = |path: &Path| -> Result<Arc<dyn StateStore>, StoreError> {
            Ok(Arc::new(FjallStore::open(path, FjallOptions::default())?))
        };
        Self::new(Arc::new(RealDisk), Arc::new(open), Arc::new(FjallStore::remove))
    }

    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        open_store: Arc<OpenStore>,
        remove_store: Arc<RemoveStore>,
    ) -> Self {
        Self { disk, open_store, remove_store }
    }

    /// The disk, failing where a test says.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        faulty(Arc::clone(&self.disk))
    }

    /// The same disk for savepoints, whose writing fails at places of its own.
    pub(crate) fn savepoint_disk(&self) -> Arc<dyn Disk> {
        faulty_savepoints(Arc::clone(&self.disk))
    }

    /// Blocks. The store must not be open.
    pub(crate) fn remove_store(&self, path: &Path) -> Result<(), StoreError> {
        (self.remove_store)(path)
    }

    /// Blocks.
    pub(crate) fn open_store(&self, path: &Path) -> Result<Arc<dyn StateStore>, StoreError> {
        (self.open_store)(path)
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("disk", &self.disk).finish_non_exhaustive()
    }
}
