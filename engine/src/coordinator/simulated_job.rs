//! A job without threads of its own, for a simulation.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use millstream_checkpoint::{Disk, SavepointManifest, SavepointTrigger, StateStore, StoreError};

use super::error::JobError;
use super::job::Job;
use super::job_master::JobMaster;
use super::monitor::JobMonitor;
use super::savepoint::{AfterSavepoint, SavepointDesk};
use super::stop_request::StopRequest;
use super::storage::Storage;

/// A job as a future: to be polled inside of simulated surroundings, where its workers are tasks.
pub struct SimulatedJob {
    /// Runs until the job has ended. Stays on its thread: users' functions need not be shared between threads.
    pub run: Pin<Box<dyn Future<Output = Result<(), JobError>>>>,
    /// Tells how the job stands.
    pub monitor: JobMonitor,
    stop: StopRequest,
    savepoints: SavepointDesk,
}

/// Where a simulated job keeps its state: what [`Job::simulate`] is given in place of the operating system's files and fjall.
pub trait SimulatedStores: Send + Sync + 'static {
    /// The store whose files would be at `path`. Called at the start, and again after the store was full.
    ///
    /// # Errors
    ///
    /// As the store says.
    fn open(&self, path: &Path) -> Result<Arc<dyn StateStore>, StoreError>;

    /// Removes it with all it holds. Called before a savepoint is restored.
    ///
    /// # Errors
    ///
    /// As the store says.
    fn remove(&self, path: &Path) -> Result<(), StoreError>;
}

impl Job {
    /// The job on a disk and a store that the caller made. Savepoints are written to that disk and restored from it, too.
    #[must_use]
    pub fn simulate(self, disk: Arc<dyn Disk>, stores: impl SimulatedStores) -> SimulatedJob {
        let (graph, state_dir, restore) = self.into_parts();
        let monitor = JobMonitor::new(&graph);
        let stop = StopRequest::new();
        let stores = Arc::new(stores);
        let opened = Arc::clone(&stores);
        let storage = Storage::new(
            disk,
            Arc::new(move |path: &Path| opened.open(path)),
            Arc::new(move |path: &Path| stores.remove(path)),
        );
        let desk = SavepointDesk::default();
        let (seen, asked, served) = (monitor.clone(), stop.clone(), desk.clone());
        let master = JobMaster::new(graph, state_dir, storage, seen, asked, desk, restore);
        let savepoints = served.clone();
        let run = Box::pin(async move {
            let ended = master.run().await;
            served.close();
            ended
        });
        SimulatedJob { run, monitor, stop, savepoints }
    }
}

impl SimulatedJob {
    /// Makes a last checkpoint be taken when it is called, as SIGTERM does; may be called at any time.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let stop = self.stop.clone();
        move || stop.request()
    }

    /// Asks for savepoints; may be kept for longer than the job.
    #[must_use]
    pub fn savepoints(&self) -> SimulatedSavepoints {
        SimulatedSavepoints(self.savepoints.clone())
    }
}

impl std::fmt::Debug for SimulatedJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedJob").field("monitor", &self.monitor).finish_non_exhaustive()
    }
}

/// Asks a simulated job for savepoints.
#[derive(Clone, Debug)]
pub struct SimulatedSavepoints(SavepointDesk);

impl SimulatedSavepoints {
    /// Leaves a request, as [`JobHandle::savepoint`](crate::JobHandle::savepoint) and
    /// [`JobHandle::stop_with_savepoint`](crate::JobHandle::stop_with_savepoint) do; served once the job runs.
    #[must_use]
    pub fn ask(&self, target: &Path, trigger: SavepointTrigger) -> SavepointAnswer {
        let then = AfterSavepoint::of(trigger);
        SavepointAnswer { answered: self.0.ask(target, then), target: target.to_owned() }
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub struct SavepointAnswer {
    answered: Receiver<Result<SavepointManifest, JobError>>,
    target: PathBuf,
}

impl SavepointAnswer {
    /// The answer, once; `None` while there is none. A process that has died never answers.
    pub fn poll(&self) -> Option<Result<SavepointManifest, JobError>> {
        match self.answered.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let target = self.target.clone();
                Some(Err(JobError::SavepointNotTaken { target, holder: None }))
            }
        }
    }
}
