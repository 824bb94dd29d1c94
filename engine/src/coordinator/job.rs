//! A job from the outside: start it, watch it, stop it, wait for it.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::JobError;
use super::job_master::JobMaster;
use super::monitor::JobMonitor;
use super::restart::RestartRecord;
use super::signals::ShutdownSignals;
use super::statistics::CheckpointStatistics;
use super::stop_request::StopRequest;
use super::storage::Storage;
use crate::api::StreamExecutionEnvironment;
use crate::graph::JobGraph;

/// Threads of the runtime that does network I/O and coordination; records are processed by the workers' own threads.
const IO_THREADS: usize = 2;

/// A job with a place for its state.
#[derive(Debug)]
pub struct Job {
    graph: JobGraph,
    state_dir: PathBuf,
    stop_on_signals: bool,
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
        Ok(Self { graph, state_dir: state_dir.into(), stop_on_signals: false })
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
        let (master_monitor, master_stop) = (monitor.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("job-master".to_owned())
            .spawn(move || self.block(master_monitor, master_stop))
            .map_err(|source| JobError::System {
                what: "failed to start the job's thread",
                source,
            })?;
        Ok(JobHandle { thread, monitor, stop })
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
    pub(super) fn into_parts(self) -> (JobGraph, PathBuf) {
        (self.graph, self.state_dir)
    }

    fn block(self, monitor: JobMonitor, stop: StopRequest) -> Result<(), JobError> {
        let system = |what| move |source| JobError::System { what, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
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
            let storage = Storage::real();
            JobMaster::new(self.graph, self.state_dir, storage, monitor, stop).run().await
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
