//! Where a job keeps its state: files and the store of confirmed state.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use millstream_checkpoint::{Disk, FjallOptions, FjallStore, RealDisk, StateStore, StoreError};

use super::fault::faulty;

/// Disk and store of one process.
#[derive(Clone)]
pub(crate) struct Storage {
    disk: Arc<dyn Disk>,
    open_store: Arc<OpenStore>,
}

/// Opens the store whose files belong at a path.
pub(crate) type OpenStore = dyn Fn(&Path) -> Result<Arc<dyn StateStore>, StoreError> + Send + Sync;

impl Storage {
    /// The operating system's files, fjall's store.
    pub(crate) fn real() -> Self {
        let open = |path: &Path| -> Result<Arc<dyn StateStore>, StoreError> {
            Ok(Arc::new(FjallStore::open(path, FjallOptions::default())?))
        };
        Self::new(Arc::new(RealDisk), Arc::new(open))
    }

    pub(crate) fn new(disk: Arc<dyn Disk>, open_store: Arc<OpenStore>) -> Self {
        Self { disk, open_store }
    }

    /// The disk, failing where a test says.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        faulty(Arc::clone(&self.disk))
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
