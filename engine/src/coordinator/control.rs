//! Serves requests for savepoints that come from outside of the process, through files in the state directory.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream_checkpoint::{
    ControlAnswer, ControlError, ControlRequest, ControlServer, SavepointManifest, SavepointTaken,
    StateDirectory,
};

use millstream_protocol_client::surroundings::is_simulated;

use super::error::JobError;
use super::exit::{STATE, error_chain};
use super::savepoint::{AfterSavepoint, Claim, SavepointDesk};

/// How often the folder is looked at. A request is for people and scripts; a look costs a few calls of the system.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// A thread that passes requests on to the coordinator, and its answers back, one after the other. Dropping it ends it: who
/// waits then is told that the job has ended.
#[derive(Debug)]
pub(crate) struct ControlDesk {
    desk: SavepointDesk,
    // Hung up to end the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ControlDesk {
    /// Serves from now on, or as soon as the folder can be written. Without it the job runs as well, so what fails here is only
    /// told.
    pub(crate) fn open(directory: &StateDirectory, desk: &SavepointDesk) -> Option<Self> {
        if is_simulated() {
            // A simulated process has neither threads nor a folder that others could write to.
            return None;
        }
        Self::serve(directory.path(), desk)
    }

    fn serve(path: &Path, desk: &SavepointDesk) -> Option<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, "no savepoint can be asked for from outside of this process");
        };
        let server = ControlServer::new(path).map_err(|error| failed(&error)).ok()?;
        let (running, ended) = channel();
        let mut service = Service {
            server,
            desk: desk.clone(),
            waiting: VecDeque::new(),
            asked: None,
            unanswered: Vec::new(),
            told: Told::default(),
        };
        // Whoever sees the job run can ask at once.
        service.look();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || service.run(&ended))
            .map_err(|error| failed(&error))
            .ok()?;
        Some(Self { desk: desk.clone(), running: Some(running), thread: Some(thread) })
    }
}

impl Drop for ControlDesk {
    fn drop(&mut self) {
        self.desk.close();
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been told already.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Service {
    server: ControlServer,
    desk: SavepointDesk,
    /// Not yet passed on.
    waiting: VecDeque<ControlRequest>,
    /// With the coordinator.
    asked: Option<Asked>,
    /// Answers that a full disk did not take.
    unanswered: Vec<(ControlRequest, ControlAnswer)>,
    told: Told,
}

/// What does not work just now and was told already.
#[derive(Debug, Default)]
struct Told {
    look: bool,
    answer: bool,
}

struct Asked {
    request: ControlRequest,
    /// Why it was not begun: it was withdrawn, or that can not be found out.
    not_begun: Arc<OnceLock<Option<ControlError>>>,
    answer: Receiver<Result<SavepointManifest, JobError>>,
}

impl Service {
    fn run(mut self, ended: &Receiver<()>) {
        loop {
            let going_on = self.wait(ended);
            self.look();
            if !going_on {
                // The desk is closed: none of these waits for anything but a savepoint that is being written.
                while self.asked.is_some() || !self.waiting.is_empty() {
                    self.pass_on();
                    let answer = self.asked.as_ref().map(|asked| asked.answer.recv().ok());
                    self.answered(answer.flatten());
                }
            }
            self.pass_on();
            self.write_answers();
            if !going_on {
                return;
            }
        }
    }

    /// Until the next look, or until there is an answer; gives whether the job goes on.
    fn wait(&mut self, ended: &Receiver<()>) -> bool {
        let Some(asked) = &self.asked else {
            return matches!(ended.recv_timeout(LOOK_INTERVAL), Err(RecvTimeoutError::Timeout));
        };
        match asked.answer.recv_timeout(LOOK_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            answer => self.answered(answer.ok()),
        }
        matches!(ended.try_recv(), Err(TryRecvError::Empty))
    }

    fn look(&mut self) {
        match self.server.requests() {
            Ok(requests) => {
                if std::mem::take(&mut self.told.look) {
                    tracing::info!(
                        "savepoints can be asked for again from outside of this process"
                    );
                }
                self.waiting.extend(requests);
            }
            Err(error) if !self.told.look => {
                self.told.look = true;
                tracing::warn!(%error, "no savepoint can be asked for from outside of this process until this is mended");
            }
            Err(_) => {}
        }
    }

    /// Passes the next request on to the coordinator, if it is free.
    fn pass_on(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let Some(request) = self.waiting.pop_front() else { return };
        tracing::info!(path = %request.target.display(), "a savepoint was asked for");
        let then = AfterSavepoint::of(request.trigger);
        let not_begun = Arc::new(OnceLock::new());
        let (claim, why) = (self.server.claim(&request), Arc::clone(&not_begun));
        let claim = Claim::new(move || {
            let why_not = match claim.take() {
                Ok(true) => return true,
                Ok(false) => None,
                Err(error) => Some(error),
            };
            // Nobody else sets it.
            let _ = why.set(why_not);
            false
        });
        let answer = self.desk.ask_if(&request.target, then, claim);
        self.asked = Some(Asked { request, not_begun, answer });
    }

    /// The coordinator's answer, or `None` if there will be none.
    fn answered(&mut self, answer: Option<Result<SavepointManifest, JobError>>) {
        let Some(Asked { request, not_begun, .. }) = self.asked.take() else { return };
        let answer = answer.unwrap_or_else(|| Err(self.desk.not_taken(&request.target)));
        let answer = match (not_begun.get(), answer) {
            (Some(None), _) => {
                let path = request.target.display();
                tracing::info!(%path, "the request for a savepoint was withdrawn");
                return;
            }
            (Some(Some(error)), _) => {
                ControlAnswer::Refused { exit_code: STATE, reason: error.to_string() }
            }
            (None, Ok(manifest)) => ControlAnswer::Taken(SavepointTaken {
                id: manifest.id,
                at: manifest.at,
                entries: manifest.entries(),
                state_bytes: manifest.state_bytes(),
                job: manifest.description.job,
            }),
            (None, Err(error)) => {
                ControlAnswer::Refused { exit_code: error.exit_code(), reason: error_chain(&error) }
            }
        };
        self.unanswered.push((request, answer));
    }

    fn write_answers(&mut self) {
        let (server, told) = (&self.server, &mut self.told.answer);
        self.unanswered.retain(|(request, answer)| match server.answer(request, answer) {
            Ok(()) => {
                *told = false;
                false
            }
            Err(error) => {
                if !std::mem::replace(told, true) {
                    tracing::warn!(%error, "a request for a savepoint can not be answered yet");
                }
                true
            }
        });
    }
}

#[cfg(test)]
mod tests;
