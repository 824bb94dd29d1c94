//! A job without threads of its own, for a simulation.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use millstream_checkpoint::{Disk, StateStore, StoreError};

use super::error::JobError;
use super::job::Job;
use super::job_master::JobMaster;
use super::monitor::JobMonitor;
use super::savepoint::SavepointDesk;
use super::stop_request::StopRequest;
use super::storage::Storage;

/// A job as a future: to be polled inside of simulated surroundings, where its workers are tasks.
pub struct SimulatedJob {
    /// Runs until the job has ended. Stays on its thread: users' functions need not be shared between threads.
    pub run: Pin<Box<dyn Future<Output = Result<(), JobError>>>>,
    /// Tells how the job stands.
    pub monitor: JobMonitor,
    stop: StopRequest,
}

impl Job {
    /// The job on a disk and a store that the caller made. `open_store` is called at the start, and again after the store
    /// was full.
    #[must_use]
    pub fn simulate(
        self,
        disk: Arc<dyn Disk>,
        open_store: impl Fn(&Path) -> Result<Arc<dyn StateStore>, StoreError> + Send + Sync + 'static,
    ) -> SimulatedJob {
        let (graph, state_dir, restore) = self.into_parts();
        let monitor = JobMonitor::new(&graph);
        let stop = StopRequest::new();
        let storage = Storage::new(disk, Arc::new(open_store));
        let desk = SavepointDesk::default();
        let (seen, asked) = (monitor.clone(), stop.clone());
        let master = JobMaster::new(graph, state_dir, storage, seen, asked, desk, restore);
        SimulatedJob { run: Box::pin(master.run()), monitor, stop }
    }
}

impl SimulatedJob {
    /// Makes a last checkpoint be taken when it is called, as SIGTERM does; may be called at any time.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let stop = self.stop.clone();
        move || stop.request()
    }
}

impl std::fmt::Debug for SimulatedJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedJob").field("monitor", &self.monitor).finish_non_exhaustive()
    }
}
