//! Drives the worker and does what the coordinator does with its snapshots.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millstream_checkpoint::{
    CheckpointId, CheckpointRef, DeltaHeader, Fingerprint, FjallOptions, FjallStore, FrozenDelta,
    JobName, JobStatus, LayeredState, LineageId, Meta, Nonce, Positions, RealDisk, StateDirectory,
    StateStore, TopicId, replay, replay_plan,
};
use millstream_engine::CheckpointKind;
use millstream_engine::graph::RestoreContext;
use millstream_engine::task::{SealedSnapshot, StepOutcome, Worker, WorkerReport, WorkerSet};
use rustix::time::{ClockId, clock_gettime};

use super::job::{Feed, graph, positions};
use crate::BenchError;

/// What one checkpoint took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checkpoint {
    /// Keys that had changed.
    pub(super) keys: u64,
    /// The longest time between two units of input from the barrier until the snapshot was sealed.
    pub(super) stall: Duration,
    /// The same in processor time of the worker's thread: what neighbours on the machine do not add to.
    pub(super) stall_cpu: Duration,
    /// The time between two units on average.
    pub(super) unit: Duration,
    /// From the barrier until the delta file was durable.
    pub(super) wall: Duration,
    pub(super) encode_cpu: Duration,
    pub(super) sort_cpu: Duration,
    pub(super) write_cpu: Duration,
    pub(super) apply_cpu: Duration,
    delta_bytes: u64,
    ingested_bytes: u64,
    all_bytes: u64,
}

impl Checkpoint {
    pub(super) fn cpu_us_per_key(&self) -> f64 {
        let cpu = self.encode_cpu + self.sort_cpu + self.write_cpu;
        cpu.as_secs_f64() * 1e6 / self.keys.max(1) as f64
    }

    pub(super) fn written_per_byte(&self, value_bytes: usize) -> f64 {
        (self.delta_bytes + self.ingested_bytes) as f64 / self.dirty_bytes(value_bytes)
    }

    pub(super) fn all_per_byte(&self, value_bytes: usize) -> f64 {
        self.all_bytes as f64 / self.dirty_bytes(value_bytes)
    }

    fn dirty_bytes(&self, value_bytes: usize) -> f64 {
        self.keys.max(1) as f64 * (16 + value_bytes) as f64
    }
}

/// The job and its state directory.
pub(super) struct Run {
    folder: PathBuf,
    value_bytes: usize,
    feed: Arc<Feed>,
    directory: StateDirectory,
    layered: Arc<LayeredState>,
    worker: Worker,
    workers: WorkerSet,
    reports: Arc<Mutex<Vec<WorkerReport>>>,
    confirmed: CheckpointRef,
}

const JOB: &str = "state";

/// Longer than the compaction after one checkpoint takes, as a rule.
const SETTLE_MAX: Duration = Duration::from_secs(15);

impl Run {
    /// Begins with no state in `folder`.
    pub(super) fn start(folder: &Path, value_bytes: usize) -> Result<Self, BenchError> {
        let feed = Arc::new(Feed::default());
        let directory = open_directory(folder)?;
        let confirmed = CheckpointRef::new(CheckpointId::ZERO, Nonce([1; 16]));
        directory.write_meta(&meta(confirmed)?)?;
        let store = open_store(&directory)?;
        let layered = Arc::new(LayeredState::new(store)?);
        let (worker, workers, reports) = build(&feed, value_bytes, &layered, confirmed)?;
        let folder = folder.to_owned();
        Ok(Self {
            folder,
            value_bytes,
            feed,
            directory,
            layered,
            worker,
            workers,
            reports,
            confirmed,
        })
    }

    /// Adds keys until there are `total`, in checkpoints of `dirty` keys.
    pub(super) fn fill(&mut self, total: u64, dirty: u64) -> Result<Duration, BenchError> {
        let begun = Instant::now();
        let mut there = self.feed.keys.load(Ordering::Relaxed);
        while there < total {
            let more = dirty.min(total - there);
            // The source counts elements; the next keys are those behind the last ones.
            self.feed.keys.store(u64::MAX, Ordering::Relaxed);
            self.feed.stride.store(1, Ordering::Relaxed);
            self.feed.emitted.store(there, Ordering::Relaxed);
            self.feed.limit.store(there + more, Ordering::Relaxed);
            self.drain()?;
            self.checkpoint(0)?;
            there += more;
        }
        self.feed.keys.store(total, Ordering::Relaxed);
        Ok(begun.elapsed())
    }

    /// Writes `dirty` keys, spread over all there are.
    pub(super) fn change(&mut self, dirty: u64) -> Result<(), BenchError> {
        let keys = self.feed.keys.load(Ordering::Relaxed);
        let stride = scattered(keys);
        self.feed.stride.store(stride, Ordering::Relaxed);
        let updated = self.feed.updated.load(Ordering::Relaxed);
        let emitted = self.feed.emitted.load(Ordering::Relaxed);
        self.feed.limit.store(emitted + dirty.min(keys), Ordering::Relaxed);
        self.drain()?;
        let updated = self.feed.updated.load(Ordering::Relaxed) - updated;
        if updated != dirty.min(keys) {
            return Err(format!("of {dirty} keys only {updated} had a value").into());
        }
        Ok(())
    }

    /// Waits until the store has compacted what earlier checkpoints brought: a job that changes so much with every checkpoint
    /// takes them less often than that takes.
    pub(super) fn settle(&self) {
        const LOOK: Duration = Duration::from_millis(100);
        let begun = Instant::now();
        while begun.elapsed() < SETTLE_MAX {
            let before = cpu_time();
            std::thread::sleep(LOOK);
            if cpu_time() - before < LOOK / 20 {
                return;
            }
        }
    }

    /// One checkpoint of what has changed, confirmed and applied. Until it is sealed up to `more` elements go on coming.
    pub(super) fn checkpoint(&mut self, more: u64) -> Result<Checkpoint, BenchError> {
        let number = self.confirmed.checkpoint.next();
        let mut measured = Checkpoint::default();
        let processed = self.feed.processed.load(Ordering::Relaxed);
        let emitted = self.feed.emitted.load(Ordering::Relaxed);
        self.feed.limit.store(emitted.saturating_add(more), Ordering::Relaxed);
        let written = written_bytes()?;
        let (begun, cpu) = (Instant::now(), cpu_time());
        self.workers.trigger_checkpoint(number.0, CheckpointKind::Checkpoint);
        let mut last = (Instant::now(), thread_cpu_time());
        let mut processed_last = processed;
        let mut gaps = 0_u32;
        let sealed = loop {
            self.step()?;
            let now = (Instant::now(), thread_cpu_time());
            let processed = self.feed.processed.load(Ordering::Relaxed);
            if more == 0 || processed > processed_last {
                measured.stall = measured.stall.max(now.0 - last.0);
                measured.stall_cpu = measured.stall_cpu.max(now.1 - last.1);
                gaps += 1;
                last = now;
                processed_last = processed;
            }
            if let Some(sealed) = self.take_sealed()? {
                break sealed;
            }
        };
        measured.encode_cpu = cpu_time() - cpu;
        measured.unit = begun.elapsed() / gaps.max(1);
        let cpu = cpu_time();
        let delta = Arc::new(FrozenDelta::from_parts(sealed.states)?);
        measured.sort_cpu = cpu_time() - cpu;
        measured.keys = delta.entries() as u64;
        let cpu = cpu_time();
        let at = CheckpointRef::new(number, Nonce([1; 16]));
        let header = header(at, self.confirmed, sealed.positions)?;
        self.directory.write_delta(&header, &delta)?;
        measured.write_cpu = cpu_time() - cpu;
        measured.wall = begun.elapsed();
        let local = self.directory.local();
        measured.delta_bytes = local.deltas.last().map_or(0, |delta| delta.file_bytes);
        self.layered.push_frozen(at, delta)?;
        self.layered.confirm(at)?;
        self.confirmed = at;
        self.workers.confirm_checkpoint(number.0);
        // What came meanwhile belongs to the next checkpoint.
        self.feed.limit.store(self.feed.emitted.load(Ordering::Relaxed), Ordering::Relaxed);
        self.drain()?;
        let tables = self.table_files()?;
        let cpu = cpu_time();
        while self.layered.apply_confirmed(8 << 20)?.is_some() {}
        let new = self.table_files()?.into_iter().filter(|(path, _)| !tables.contains_key(path));
        measured.ingested_bytes = new.map(|(_, bytes)| bytes).sum();
        let floor = self.layered.persist()?;
        measured.apply_cpu = cpu_time() - cpu;
        self.directory.write_meta(&meta(at)?)?;
        if let Some(floor) = floor {
            self.directory.delete_applied(floor.checkpoint)?;
        }
        measured.all_bytes = written_bytes()? - written;
        Ok(measured)
    }

    /// Ends and starts again; the time until the first element has read and written its state.
    pub(super) fn restart(self) -> Result<Duration, BenchError> {
        let Self {
            folder, value_bytes, feed, directory, layered, worker, workers, confirmed, ..
        } = self;
        drop((worker, workers, layered, directory));
        let begun = Instant::now();
        let directory = open_directory(&folder)?;
        let store = open_store(&directory)?;
        let facts = millstream_checkpoint::StoreFacts::of(&*store)?;
        let plan = replay_plan(&directory.local(), &facts, confirmed)?;
        replay(&directory, &*store, &plan)?;
        let layered = Arc::new(LayeredState::new(store)?);
        let (mut worker, _workers, _reports) = build(&feed, value_bytes, &layered, confirmed)?;
        let (processed, updated) = (&feed.processed, &feed.updated);
        let before = (processed.load(Ordering::Relaxed), updated.load(Ordering::Relaxed));
        feed.limit.store(feed.emitted.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        while processed.load(Ordering::Relaxed) == before.0 {
            if worker.step() == StepOutcome::Stopped {
                return Err("the worker stopped".into());
            }
        }
        if updated.load(Ordering::Relaxed) == before.1 {
            return Err("the first key has no value after the restart".into());
        }
        Ok(begun.elapsed())
    }

    /// Steps until nothing is left to do.
    fn drain(&mut self) -> Result<(), BenchError> {
        while self.step()? {}
        Ok(())
    }

    fn step(&mut self) -> Result<bool, BenchError> {
        match self.worker.step() {
            StepOutcome::Worked => Ok(true),
            StepOutcome::Idle => Ok(false),
            StepOutcome::Stopped => {
                let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
                Err(format!("the worker stopped: {reports:?}").into())
            }
        }
    }

    fn take_sealed(&self) -> Result<Option<SealedSnapshot>, BenchError> {
        let report = self.reports.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match report {
            None => Ok(None),
            Some(WorkerReport::Sealed(sealed)) => Ok(Some(sealed)),
            Some(other) => Err(format!("unexpected: {other:?}").into()),
        }
    }

    /// Tables of the store with their lengths.
    fn table_files(&self) -> Result<BTreeMap<PathBuf, u64>, BenchError> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.directory.store_path()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                // Compaction may remove it meanwhile.
                let Ok(metadata) = path.metadata() else { continue };
                let in_tables = path.parent().is_some_and(|parent| parent.ends_with("tables"));
                if metadata.is_dir() {
                    folders.push(path);
                } else if in_tables {
                    found.insert(path, metadata.len());
                }
            }
        }
        Ok(found)
    }
}

/// A step through `keys` that meets each once, far from the one before: in the order in which they were made, or every third,
/// they would lie next to each other in memory, the fewer there are the more so.
fn scattered(keys: u64) -> u64 {
    let golden = (keys as f64 * 0.618_033_988_75) as u64;
    (golden.max(1)..).find(|step| common_divisor(*step, keys) == 1).unwrap_or(1)
}

fn common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

type Built = (Worker, WorkerSet, Arc<Mutex<Vec<WorkerReport>>>);

fn build(
    feed: &Arc<Feed>,
    value_bytes: usize,
    layered: &Arc<LayeredState>,
    confirmed: CheckpointRef,
) -> Result<Built, BenchError> {
    let reports: Arc<Mutex<Vec<WorkerReport>>> = Arc::default();
    let receiver = Arc::clone(&reports);
    let restore = RestoreContext {
        state: Arc::clone(layered),
        positions: positions(),
        first_checkpoint: confirmed.checkpoint.next().0,
        ..RestoreContext::empty()?
    };
    let graph = graph(feed, value_bytes)?;
    let (workers, set) = graph.build_workers(&restore, move |report| {
        receiver.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    })?;
    let worker = workers.into_iter().next().ok_or("no worker")?;
    Ok((worker, set, reports))
}

fn open_directory(folder: &Path) -> Result<StateDirectory, BenchError> {
    let job = JobName::new(JOB)?;
    Ok(StateDirectory::open(Arc::new(RealDisk), folder, &job, Fingerprint([0; 16]))?)
}

fn open_store(directory: &StateDirectory) -> Result<Arc<dyn StateStore>, BenchError> {
    Ok(Arc::new(FjallStore::open(&directory.store_path(), FjallOptions::default())?))
}

fn meta(at: CheckpointRef) -> Result<Meta, BenchError> {
    Ok(Meta {
        job: JobName::new(JOB)?,
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        positions: positions(),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset: None,
        ledger_topic_id: TopicId::UNKNOWN,
        lineage: LineageId([1; 16]),
        fingerprint: Fingerprint([0; 16]),
    })
}

fn header(
    at: CheckpointRef,
    parent: CheckpointRef,
    positions: Positions,
) -> Result<DeltaHeader, BenchError> {
    Ok(DeltaHeader {
        job: JobName::new(JOB)?,
        at,
        parent,
        parent_ledger_offset: None,
        positions,
        watermarks: Vec::new(),
        status: JobStatus::Running,
        fingerprint: Fingerprint([0; 16]),
        producer: None,
    })
}

/// User and system time of all threads of this process.
fn cpu_time() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// User and system time of this thread.
fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Bytes that this process has had written to disks.
fn written_bytes() -> Result<u64, BenchError> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    Ok(line.ok_or("no write_bytes in /proc/self/io")?.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scattered_order_meets_every_key_once() {
        for keys in [1_u64, 2, 7, 1000, 1024] {
            let step = scattered(keys);
            let met: std::collections::BTreeSet<u64> =
                (0..keys).map(|at| at * step % keys).collect();
            assert_eq!(met.len() as u64, keys, "{keys} keys");
        }
    }
}
