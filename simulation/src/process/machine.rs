//! What stays when a process dies: its machine's disk and store.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_checkpoint::{CrashMode, Disk, MemoryStore, SimulatedDisk, StateStore, StoreError};
use millstream_engine::{Job, SimulatedJob, SimulatedStores};

use super::disk::ProcessDisk;
use super::{Fate, Habits, Process, World};
use crate::runtime::Random;

/// How a process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crash {
    /// The process alone: the operating system still has what was written.
    #[default]
    Process,
    /// Power was lost: nothing that was not synced is there.
    PowerLost,
    /// Power was lost in the middle of writing: of what was not synced any part may be there, blocks may be garbage.
    Torn,
}

/// Folder of the savepoints on every machine's disk; the jobs' state directories lie elsewhere.
pub const SAVEPOINTS: &str = "/savepoints";

/// A machine with a disk and a store of state.
#[derive(Debug)]
pub struct Machine {
    name: Arc<str>,
    world: Arc<dyn World>,
    random: Random,
    disk: SimulatedDisk,
    // Shared with the process that runs: a store that is opened again is another one.
    store: Arc<Mutex<Arc<MemoryStore>>>,
    starts: u64,
}

impl Machine {
    /// An empty machine.
    #[must_use]
    pub fn new(name: &str, world: Arc<dyn World>, random: Random) -> Self {
        let store = Arc::new(Mutex::new(Arc::new(MemoryStore::new())));
        let disk = SimulatedDisk::new();
        // A disk without faults makes every folder.
        let _ = disk.create_dir_all(Path::new(SAVEPOINTS));
        Self { name: name.into(), world, random, disk, store, starts: 0 }
    }

    /// A machine with nothing but a copy of the savepoints on this one, as they are now.
    ///
    /// # Errors
    ///
    /// If a file can not be copied: a defect of the simulation.
    pub fn with_savepoints_only(&mut self, name: &str) -> io::Result<Self> {
        let fresh = Self::new(name, Arc::clone(&self.world), self.random.fork());
        for path in self.disk.files() {
            let Some(folder) = path.parent().filter(|folder| folder.starts_with(SAVEPOINTS)) else {
                continue;
            };
            let Some((mut file, _)) = self.disk.open(&path)? else { continue };
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            fresh.disk.create_dir_all(folder)?;
            let mut copy = fresh.disk.create(&path)?;
            copy.write_all(&content)?;
            copy.sync_all()?;
            fresh.disk.sync_dir(folder)?;
        }
        Ok(fresh)
    }

    /// A machine with a copy of everything on this one, as it is now; what the copy was made of need not be at rest.
    #[must_use]
    pub fn copy(&mut self, name: &str) -> Self {
        let store = Arc::new(self.store().after_crash(|_| true));
        Self {
            name: name.into(),
            world: Arc::clone(&self.world),
            random: self.random.fork(),
            disk: self.disk.copy(),
            store: Arc::new(Mutex::new(store)),
            starts: 0,
        }
    }

    /// Its name, which is that of its processes too.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its disk, to look at and to damage.
    #[must_use]
    pub fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// Its files are those of an older copy again; the store is not.
    pub fn put_back_files(&mut self, older: &Self) {
        self.disk = older.disk.copy();
    }

    /// A process that runs `job`, whose state is on this machine. It begins when its future is awaited: see
    /// [`Process::run`].
    pub fn start(&mut self, job: Job, habits: Habits, fate: Fate) -> (Process, SimulatedJob) {
        self.starts += 1;
        self.world.note(&self.name, format_args!("start {}", self.starts));
        let (name, world) = (Arc::clone(&self.name), Arc::clone(&self.world));
        let process = Process::new(name, world, self.random.fork(), habits, fate);
        let disk = ProcessDisk { disk: self.disk.clone(), process: Arc::clone(&process.shared) };
        (process, job.simulate(Arc::new(disk), Stores(Arc::clone(&self.store))))
    }

    /// What the next process finds after this one has died or ended.
    pub fn crashed(&mut self, crash: Crash) {
        self.world.note(&self.name, format_args!("left as after {crash:?}"));
        let mode = match crash {
            Crash::Process => CrashMode::KeepUnsynced,
            Crash::PowerLost => CrashMode::LoseUnsynced,
            Crash::Torn => CrashMode::Torn(self.random.next()),
        };
        self.disk = self.disk.after_crash(mode);
        // What the store has not persisted may be lost with the process already: it may be in memory.
        let random = &mut self.random;
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let store = store.after_crash(|_| random.one_in(2));
        self.store = Arc::new(Mutex::new(Arc::new(store)));
    }

    fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The machine's store, as a job opens it.
struct Stores(Arc<Mutex<Arc<MemoryStore>>>);

impl SimulatedStores for Stores {
    fn open(&self, _: &Path) -> Result<Arc<dyn StateStore>, StoreError> {
        Ok(Arc::clone(&*self.0.lock().unwrap_or_else(PoisonError::into_inner)) as _)
    }

    fn remove(&self, _: &Path) -> Result<(), StoreError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(MemoryStore::new());
        Ok(())
    }
}
