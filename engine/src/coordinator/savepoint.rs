//! Savepoints of a running job: asked for from any thread, cut between two checkpoints, written off the path of both.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_checkpoint::{
    Disk, JobDescription, LayeredState, Meta, SavepointCut, SavepointId, SavepointManifest,
    SavepointTrigger, StateError, check_savepoint_target, write_savepoint,
};
use millstream_protocol_client::surroundings::{block_in_place, spawn_blocking, wall_time_ms};
use tokio::sync::Notify;

use super::error::JobError;
use super::fault::{Step, crash_point};
use super::random_id;

/// Where requests wait until the coordinator stands between two checkpoints. Requests outlive a rollback, not the job.
#[derive(Clone, Debug, Default)]
pub(crate) struct SavepointDesk {
    // Guards a short list of requests.
    waiting: Arc<Mutex<Waiting>>,
    arrived: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<SavepointRequest>,
    closed: bool,
    /// Process id of the one that holds the state directory, so that this job could not begin.
    holder: Option<String>,
}

/// What becomes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterSavepoint {
    GoOn,
    Stop,
    /// Sources end first, so that event time comes to its end and all windows fire.
    DrainAndStop,
}

impl AfterSavepoint {
    /// What `trigger` asks for. A kind that is not known stops nothing.
    pub(crate) fn of(trigger: SavepointTrigger) -> Self {
        match trigger {
            SavepointTrigger::Stop => Self::Stop,
            SavepointTrigger::Drain => Self::DrainAndStop,
            _ => Self::GoOn,
        }
    }
}

/// Somebody waits for a savepoint.
#[derive(Debug)]
pub(crate) struct SavepointRequest {
    target: PathBuf,
    pub(crate) then: AfterSavepoint,
    /// Asked when it is begun, if it may be withdrawn until then.
    claim: Option<Claim>,
    // One answer, for one thread that waits; without one it learns that the job has ended.
    answer: SyncSender<Result<SavepointManifest, JobError>>,
}

/// Tells whether a request still stands.
pub(crate) struct Claim(Box<dyn FnOnce() -> bool + Send>);

impl Claim {
    pub(crate) fn new(stands: impl FnOnce() -> bool + Send + 'static) -> Self {
        Self(Box::new(stands))
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claim")
    }
}

impl SavepointDesk {
    /// Leaves a request that stands if `claim` says so when it is begun. The answer comes through the receiver, which is
    /// disconnected if the job ends before, or if it no longer stands.
    pub(crate) fn ask_if(
        &self,
        target: &Path,
        then: AfterSavepoint,
        claim: Claim,
    ) -> Receiver<Result<SavepointManifest, JobError>> {
        self.leave(target, then, Some(claim))
    }

    /// Leaves a request that stands.
    #[cfg(feature = "simulation")]
    pub(crate) fn ask(
        &self,
        target: &Path,
        then: AfterSavepoint,
    ) -> Receiver<Result<SavepointManifest, JobError>> {
        self.leave(target, then, None)
    }

    fn leave(
        &self,
        target: &Path,
        then: AfterSavepoint,
        claim: Option<Claim>,
    ) -> Receiver<Result<SavepointManifest, JobError>> {
        let (answer, answered) = sync_channel(1);
        // The job's process may have another folder than the thread that asks, one day.
        let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.requests.push_back(SavepointRequest { target, then, claim, answer });
        }
        drop(waiting);
        self.arrived.notify_one();
        answered
    }

    /// The next request. May be dropped while it waits.
    pub(crate) async fn next(&self) -> SavepointRequest {
        loop {
            if let Some(request) = self.lock().requests.pop_front() {
                return request;
            }
            self.arrived.notified().await;
        }
    }

    /// The transaction died before the request was served: it is the first of the next attempt.
    pub(crate) fn put_back(&self, request: SavepointRequest) {
        self.lock().requests.push_front(request);
        self.arrived.notify_one();
    }

    /// The job has ended: whoever waits, or asks later, is told so.
    pub(crate) fn close(&self) {
        self.close_with(None);
    }

    /// The same of a job that may have ended because another process holds its state directory.
    pub(crate) fn close_after(&self, ended: &Result<(), JobError>) {
        self.close_with(match ended {
            Err(JobError::State(StateError::InUse { holder, .. })) => Some(holder.clone()),
            _ => None,
        });
    }

    fn close_with(&self, holder: Option<String>) {
        let mut waiting = self.lock();
        waiting.holder = holder.or(waiting.holder.take());
        waiting.closed = true;
        waiting.requests.clear();
    }

    /// Asks, and waits for the answer.
    pub(crate) fn take(
        &self,
        target: &Path,
        then: AfterSavepoint,
    ) -> Result<SavepointManifest, JobError> {
        self.leave(target, then, None).recv().unwrap_or_else(|_| Err(self.not_taken(target)))
    }

    /// The answer of a job that has ended without one.
    pub(crate) fn not_taken(&self, target: &Path) -> JobError {
        JobError::SavepointNotTaken {
            target: target.to_owned(),
            holder: self.lock().holder.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SavepointRequest {
    /// Before anything is done for it: one that can not be served is answered here, and `None` is given.
    pub(crate) fn begin(mut self, state_directory: &Path) -> Option<Self> {
        if let Some(Claim(stands)) = self.claim.take()
            && !block_in_place(stands)
        {
            return None;
        }
        match block_in_place(|| check_savepoint_target(state_directory, &self.target)) {
            Ok(()) => Some(self),
            Err(error) => {
                self.answer(Err(error.into()));
                None
            }
        }
    }

    /// Cuts the state as it is confirmed now, at the checkpoint of `meta`, and writes it; gives whether that succeeded, once
    /// it did. The one who asked is answered in any case.
    pub(crate) async fn take(
        self,
        layered: &LayeredState,
        meta: &Meta,
        (description, disk): (&JobDescription, &Arc<dyn Disk>),
    ) -> bool {
        match self.cut(layered, meta, description) {
            Ok(cut) => self.write(cut, Arc::clone(disk)).await,
            Err(error) => self.answer(Err(error)),
        }
    }

    /// As [`take`](Self::take), but only cuts; the writing goes on while the job does.
    pub(crate) fn take_in_background(
        self,
        layered: &LayeredState,
        meta: &Meta,
        (description, disk): (&JobDescription, &Arc<dyn Disk>),
    ) {
        match self.cut(layered, meta, description) {
            // The runtime waits for blocking work when it ends.
            Ok(cut) => drop(self.write(cut, Arc::clone(disk))),
            Err(error) => {
                self.answer(Err(error));
            }
        }
    }

    fn cut(
        &self,
        layered: &LayeredState,
        meta: &Meta,
        description: &JobDescription,
    ) -> Result<SavepointCut, JobError> {
        let trigger = match self.then {
            AfterSavepoint::GoOn => SavepointTrigger::Live,
            AfterSavepoint::Stop => SavepointTrigger::Stop,
            AfterSavepoint::DrainAndStop => SavepointTrigger::Drain,
        };
        let snapshot = block_in_place(|| layered.snapshot())?;
        if let Some(at) = snapshot.at.filter(|at| *at != meta.at()) {
            let what = format!("a savepoint of {} met the state of {at}", meta.at());
            return Err(JobError::Bug { what });
        }
        let mut manifest =
            SavepointManifest::of(meta, description.clone(), trigger, wall_time_ms())?;
        // From the surroundings, as all random numbers of a job.
        manifest.id = SavepointId(random_id()?);
        Ok(SavepointCut { manifest, scans: snapshot.scans })
    }

    fn write(
        self,
        cut: SavepointCut,
        disk: Arc<dyn Disk>,
    ) -> impl Future<Output = bool> + Send + use<> {
        let written = spawn_blocking(move || {
            crash_point(Step::SavepointCut);
            let written = write_savepoint(&*disk, &self.target, cut);
            crash_point(Step::SavepointWritten);
            // From here, so that whoever asked is told also if the job has ended meanwhile.
            self.answer(written.map_err(JobError::from))
        });
        async move {
            written.await.unwrap_or_else(|error| {
                tracing::error!(%error, "a savepoint was not written");
                false
            })
        }
    }

    fn answer(self, answer: Result<SavepointManifest, JobError>) -> bool {
        let path = self.target.display();
        let well = match &answer {
            Ok(manifest) => {
                let entries = manifest.entries();
                tracing::info!(
                    "savepoint of checkpoint {} in {path}: {entries} entr{}",
                    manifest.at.checkpoint,
                    if entries == 1 { "y" } else { "ies" }
                );
                true
            }
            Err(error) => {
                tracing::error!(%error, "no savepoint was written to {path}");
                false
            }
        };
        // Whoever asked may have gone.
        let _ = self.answer.send(answer);
        well
    }
}
