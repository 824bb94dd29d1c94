//! A job from the outside: start it, watch it, stop it, wait for it.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::JobError;
use super::job_master::JobMaster;
use super::monitor::JobMonitor;
use super::restart::RestartRecord;
use super::restore::RestoreRequest;
use super::savepoint::{AfterSavepoint, SavepointDesk};
use super::signals::ShutdownSignals;
use super::statistics::CheckpointStatistics;
use super::stop_request::StopRequest;
use super::storage::Storage;
use crate::api::StreamExecutionEnvironment;
use crate::graph::JobGraph;
use millstream_checkpoint::SavepointManifest;

/// Threads of the runtime that does network I/O and coordination; records are processed by the workers' own threads. On a
/// small machine it is one: of two, whichever sleeps is woken whenever the other has something, to find it done.
fn io_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).clamp(1, 2))
}

/// A job with a place for its state.
#[derive(Debug)]
pub struct Job {
    graph: JobGraph,
    state_dir: PathBuf,
    stop_on_signals: bool,
    restore: Option<RestoreRequest>,
}

impl Job {
    /// The job described by `env`, with its state in `state_dir` (created if missing).
    ///
    /// # Errors
    ///
    /// [`JobError::InvalidJob`] if the description is not a job.
    pub fn new(
        env: StreamExecutionEnvironment,
        state_dir: impl Into<PathBuf>,
    ) -> Result<Self, JobError> {
        let name = env.config().job_name.clone();
        let graph = env
            .into_job_graph()
            .map_err(|error| JobError::InvalidJob { job: name, reason: error.to_string() })?;
        Ok(Self { graph, state_dir: state_dir.into(), stop_on_signals: false, restore: None })
    }

    /// Begins from a savepoint, if the state directory is empty; one that has begun from this savepoint goes on from what it
    /// holds, and any other is refused. The job may have another parallelism, other operators, and another name than the one
    /// that the savepoint was taken of. Operators that it does not know start empty.
    ///
    /// If the job's ledger stands at the savepoint's checkpoint nothing is lost or repeated. If it has gone on since, the job
    /// is refused unless [`accept_rewind`](Self::accept_rewind) was said.
    #[must_use]
    pub fn from_savepoint(mut self, savepoint: impl Into<PathBuf>) -> Self {
        self.restore_request().savepoint = savepoint.into();
        self
    }

    /// State and positions of the savepoint that the job has no operator for may be left behind (Flink's
    /// `--allowNonRestoredState`).
    #[must_use]
    pub fn allow_non_restored_state(mut self) -> Self {
        self.restore_request().allow_non_restored_state = true;
        self
    }

    /// Output that was committed after the savepoint may be computed and written again: at-least-once over that span.
    #[must_use]
    pub fn accept_rewind(mut self) -> Self {
        self.restore_request().consent.accept_rewind = true;
        self
    }

    /// The savepoint counts more than a ledger that is behind it or gone: output between the two may be lost with it.
    #[must_use]
    pub fn adopt_local(mut self) -> Self {
        self.restore_request().consent.adopt_local = true;
        self
    }

    fn restore_request(&mut self) -> &mut RestoreRequest {
        self.restore.get_or_insert_with(RestoreRequest::default)
    }

    /// On SIGINT or SIGTERM takes a last checkpoint and ends; on a second one ends the process at once.
    #[must_use]
    pub fn stop_on_signals(mut self) -> Self {
        self.stop_on_signals = true;
        self
    }

    /// Runs on threads of its own.
    ///
    /// # Errors
    ///
    /// [`JobError::System`] if a thread can not be made. Everything later comes from [`JobHandle::wait`].
    pub fn start(self) -> Result<JobHandle, JobError> {
        let monitor = JobMonitor::new(&self.graph);
        let stop = StopRequest::new();
        let savepoints = SavepointDesk::default();
        let (master_monitor, master_stop) = (monitor.clone(), stop.clone());
        let desk = savepoints.clone();
        let thread = std::thread::Builder::new()
            .name("job-master".to_owned())
            .spawn(move || {
                let ended = self.block(master_monitor, master_stop, desk.clone());
                desk.close_after(&ended);
                ended
            })
            .map_err(|source| JobError::System {
                what: "failed to start the job's thread",
                source,
            })?;
        Ok(JobHandle { thread, monitor, stop, savepoints })
    }

    /// Runs until the job has ended: a bounded one by itself, any other by SIGINT or SIGTERM.
    ///
    /// # Errors
    ///
    /// [`JobError`].
    pub fn run(self) -> Result<(), JobError> {
        self.stop_on_signals().start()?.wait()
    }

    #[cfg(feature = "simulation")]
    pub(super) fn into_parts(self) -> (JobGraph, PathBuf, Option<RestoreRequest>) {
        (self.graph, self.state_dir, self.restore)
    }

    fn block(
        self,
        monitor: JobMonitor,
        stop: StopRequest,
        savepoints: SavepointDesk,
    ) -> Result<(), JobError> {
        let system = |what| move |source| JobError::System { what, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(io_threads())
            .thread_name("millstream-io")
            .enable_all()
            .build()
            .map_err(system("failed to start the I/O threads"))?;
        runtime.block_on(async move {
            if self.stop_on_signals {
                let mut signals =
                    ShutdownSignals::listen().map_err(system("failed to receive signals"))?;
                let stop = stop.clone();
                tokio::spawn(async move {
                    signals.next().await;
                    tracing::info!("stopping: one last checkpoint (a second signal ends at once)");
                    stop.request();
                    let exit_code = signals.next_after(ONE_SIGNAL).await;
                    tracing::warn!("second signal: ending without a last checkpoint");
                    stop.abandon().await;
                    std::process::exit(exit_code);
                });
            }
            let restore = self.restore.filter(|request| !request.savepoint.as_os_str().is_empty());
            let storage = Storage::real();
            let (graph, state_dir) = (self.graph, self.state_dir);
            JobMaster::new(graph, state_dir, storage, monitor, stop, savepoints, restore)
                .run()
                .await
        })
    }
}

/// What comes within this time of a signal is the same one: a shell and a supervisor may both pass on what they get.
const ONE_SIGNAL: Duration = Duration::from_millis(100);

/// A started job. Dropping it leaves the job running.
#[derive(Debug)]
pub struct JobHandle {
    thread: JoinHandle<Result<(), JobError>>,
    monitor: JobMonitor,
    stop: StopRequest,
    savepoints: SavepointDesk,
}

impl JobHandle {
    /// Tells how the job stands, from any thread.
    #[must_use]
    pub fn monitor(&self) -> JobMonitor {
        self.monitor.clone()
    }

    /// Statistics of the last checkpoints, oldest first.
    #[must_use]
    pub fn checkpoints(&self) -> Vec<CheckpointStatistics> {
        self.monitor.checkpoints()
    }

    /// Why and when the job went back to its last committed checkpoint, oldest first.
    #[must_use]
    pub fn restarts(&self) -> Vec<RestartRecord> {
        self.monitor.restarts()
    }

    /// Asks the job to take a last checkpoint and end. Does not wait.
    pub fn stop(&self) {
        self.stop.request();
    }

    /// Takes a savepoint into the new folder `target` while the job runs, and waits until all of it is durable. It holds a
    /// checkpoint that is committed; processing does not wait for it to be written. A transaction that dies meanwhile only
    /// delays it.
    ///
    /// # Errors
    ///
    /// [`JobError::Savepoint`] if it could not be written, which does not hurt the job; [`JobError::SavepointNotTaken`] if the
    /// job ended before it came to it.
    pub fn savepoint(&self, target: impl AsRef<Path>) -> Result<SavepointManifest, JobError> {
        self.savepoints.take(target.as_ref(), AfterSavepoint::GoOn)
    }

    /// Takes a last checkpoint, writes it as a savepoint into the new folder `target`, ends the job, and waits until all of
    /// it is durable; [`wait`](Self::wait) then waits for the end of the job. A job that goes on from it with the same name
    /// neither loses nor repeats anything.
    ///
    /// With `drain` the sources end first, as if nothing came any more: event time goes to its end, all windows fire, and the
    /// job has finished (Flink's `stop --drain`). A job that goes on from such a savepoint may give a second result for a
    /// window that fired early.
    ///
    /// # Errors
    ///
    /// As [`savepoint`](Self::savepoint). If the savepoint can not be written the job goes on, unless it was drained: then it
    /// has finished, and its state directory has all that the savepoint would.
    pub fn stop_with_savepoint(
        &self,
        target: impl AsRef<Path>,
        drain: bool,
    ) -> Result<SavepointManifest, JobError> {
        let then = if drain { AfterSavepoint::DrainAndStop } else { AfterSavepoint::Stop };
        self.savepoints.take(target.as_ref(), then)
    }

    /// Whether the job has ended, so that [`wait`](Self::wait) would not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the job has ended.
    ///
    /// # Errors
    ///
    /// [`JobError`] if it did not end well.
    pub fn wait(self) -> Result<(), JobError> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(JobError::Bug { what: "the job's thread panicked".to_owned() }))
    }
}
