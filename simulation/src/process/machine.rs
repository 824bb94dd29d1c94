//! What stays when a process dies: its machine's disk and store.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_checkpoint::{CrashMode, MemoryStore, SimulatedDisk, StateStore};
use millstream_engine::{Job, SimulatedJob};

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
        Self { name: name.into(), world, random, disk: SimulatedDisk::new(), store, starts: 0 }
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
        let store = Arc::clone(&self.store);
        let open = move |_: &Path| -> Result<Arc<dyn StateStore>, _> {
            Ok(Arc::clone(&*store.lock().unwrap_or_else(PoisonError::into_inner)) as _)
        };
        (process, job.simulate(Arc::new(disk), open))
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
