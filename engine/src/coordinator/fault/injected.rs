//! What the feature `fault-injection` adds.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_checkpoint::{Disk, DiskFile, LockOutcome, OpenedFile};

#[cfg(feature = "simulation")]
use millstream_protocol_client::surroundings;

use super::{Mutant, Step};

/// Places inside the writing of META and delta files, named `<file><operation>`: the process dies before the operation.
const DISK_STEPS: [&str; 10] = [
    "DeltaCreate",
    "DeltaWrite",
    "DeltaSync",
    "DeltaRename",
    "DeltaSyncDir",
    "DeltaRemove",
    "MetaCreate",
    "MetaSync",
    "MetaRename",
    "MetaSyncDir",
];

/// Places inside the writing of a savepoint, in their order; the folder is synced before the rename and its parent after it.
const SAVEPOINT_STEPS: [&str; 8] = [
    "SavepointCut",
    "SavepointCreate",
    "SavepointWrite",
    "SavepointSync",
    "SavepointSyncDir",
    "SavepointRename",
    "SavepointSyncDir:2",
    "SavepointWritten",
];

/// Places inside a restore, in their order.
const RESTORE_STEPS: [&str; 6] = [
    "RestoredCreate",
    "RestoredSync",
    "RestoredRename",
    "RestoreBegun",
    "RestoreStored",
    "RestoreWritten",
];

/// Names of all places of a job without savepoints at which `MILLSTREAM_CRASH_AT` lets the process die.
#[must_use]
pub fn crash_points() -> Vec<&'static str> {
    let others = [&SAVEPOINT_STEPS[..], &RESTORE_STEPS[..]].concat();
    let own = Step::NAMES.iter().filter(|step| !others.contains(step));
    own.chain(&DISK_STEPS).copied().collect()
}

/// Those inside the writing of a savepoint.
#[must_use]
pub fn savepoint_crash_points() -> Vec<&'static str> {
    SAVEPOINT_STEPS.to_vec()
}

/// Those inside a restore from a savepoint.
#[must_use]
pub fn restore_crash_points() -> Vec<&'static str> {
    RESTORE_STEPS.to_vec()
}

/// `MILLSTREAM_CRASH_AT=Step` or `Step:n` ends the process at the n-th passage of that step, as SIGKILL would.
pub(crate) fn crash_point(step: Step) {
    crash_at(&format!("{step:?}"));
}

fn crash_at(step: &str) {
    #[cfg(feature = "simulation")]
    if let Some(around) = surroundings::current() {
        return around.passed(step);
    }
    let Ok(wanted) = std::env::var("MILLSTREAM_CRASH_AT") else { return };
    let (name, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if name == step && Some(passage("crash")) == count.parse().ok() {
        std::process::abort();
    }
}

/// A row of the decision table was taken. Simulations count them.
pub(crate) fn decision(row: impl FnOnce() -> String) {
    #[cfg(feature = "simulation")]
    if let Some(around) = surroundings::current() {
        return around.passed(&format!("decision {}", row()));
    }
    drop(row);
}

/// Whether `MILLSTREAM_MUTANT` names this variant.
pub(crate) fn mutant(mutant: Mutant) -> bool {
    #[cfg(feature = "simulation")]
    if let Some(around) = surroundings::current() {
        return around.has_mutant(&format!("{mutant:?}"));
    }
    std::env::var("MILLSTREAM_MUTANT").is_ok_and(|name| name == format!("{mutant:?}"))
}

/// The error of `MILLSTREAM_DISK_FAULT=<step>:<from>-<to>:<io|full>`, at those passages of a disk step.
fn disk_fault(step: &str) -> io::Result<()> {
    #[cfg(feature = "simulation")]
    if let Some(around) = surroundings::current() {
        return around.disk_fault(step);
    }
    let Ok(wanted) = std::env::var("MILLSTREAM_DISK_FAULT") else { return Ok(()) };
    let mut parts = wanted.split(':');
    let (Some(name), Some(range), Some(kind)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(io::Error::other(format!("MILLSTREAM_DISK_FAULT={wanted} is no fault")));
    };
    if name != step {
        return Ok(());
    }
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let passage = passage("disk");
    let within = from.parse().is_ok_and(|from: u64| passage >= from)
        && to.parse().is_ok_and(|to: u64| passage <= to);
    match kind {
        _ if !within => Ok(()),
        "full" => Err(io::Error::new(ErrorKind::StorageFull, "injected: no space left")),
        _ => Err(io::Error::other("injected: the disk failed")),
    }
}

/// Counts passages, from 1.
fn passage(of: &'static str) -> u64 {
    // Guards a few counters in test builds.
    static PASSED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    let count = passed.entry(of).or_default();
    *count += 1;
    *count
}

/// A disk that fails where a test says.
pub(crate) fn faulty(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk { disk, kind })
}

/// The same for the files of savepoints.
pub(crate) fn faulty_savepoints(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk { disk, kind: |_| "Savepoint" })
}

#[derive(Debug)]
struct FaultyDisk {
    disk: Arc<dyn Disk>,
    /// Which of our files a path is.
    kind: fn(&Path) -> &'static str,
}

#[derive(Debug)]
struct FaultyFile {
    kind: &'static str,
    file: Box<dyn DiskFile>,
}

fn before(kind: &str, operation: &str) -> io::Result<()> {
    let step = format!("{kind}{operation}");
    crash_at(&step);
    disk_fault(&step)
}

/// Which of our files a path is.
fn kind(path: &Path) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.starts_with("META") {
        "Meta"
    } else if name.starts_with("delta-") || name == "deltas" {
        "Delta"
    } else if name.starts_with("RESTORED") {
        "Restored"
    } else if name.starts_with("JOB") {
        "Job"
    } else {
        // The state directory itself: its names are synced for META's sake.
        "Meta"
    }
}

impl DiskFile for FaultyFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.file.write_all(first)?;
        before(self.kind, "Write")?;
        self.file.write_all(rest)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        before(self.kind, "Sync")?;
        self.file.sync_all()
    }
}

impl Disk for FaultyDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Option<OpenedFile>> {
        self.disk.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let kind = (self.kind)(path);
        before(kind, "Create")?;
        Ok(Box::new(FaultyFile { kind, file: self.disk.create(path)? }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        before((self.kind)(from), "Rename")?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        before((self.kind)(path), "Remove")?;
        self.disk.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        before((self.kind)(dir), "SyncDir")?;
        self.disk.sync_dir(dir)
    }

    fn try_lock(&self, path: &Path) -> io::Result<LockOutcome> {
        self.disk.try_lock(path)
    }
}
