//! Serves requests for savepoints that come from outside of the process, through files in the state directory.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream_checkpoint::{
    ControlAnswer, ControlRequest, ControlServer, SavepointTaken, SavepointTrigger, StateDirectory,
};

use millstream_protocol_client::surroundings::is_simulated;

use super::exit::error_chain;
use super::savepoint::{AfterSavepoint, SavepointDesk, wait};

/// How often the folder is looked at. A request is for people and scripts; a look costs one call of the system.
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
    /// Serves from now on. Without it the job runs as well, so what fails here is only told.
    pub(crate) fn open(directory: &StateDirectory, desk: &SavepointDesk) -> Option<Self> {
        if is_simulated() {
            // A simulated process has neither threads nor a folder that others could write to.
            return None;
        }
        let path = directory.path().to_owned();
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, "no savepoint can be asked for from outside of this process");
        };
        let server = ControlServer::open(&path).map_err(|error| failed(&error)).ok()?;
        let (running, ended) = channel();
        let requests = desk.clone();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || serve(&server, &requests, &ended))
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

fn serve(server: &ControlServer, desk: &SavepointDesk, ended: &Receiver<()>) {
    // Answers that a full disk did not take.
    let mut unanswered: Vec<(ControlRequest, ControlAnswer)> = Vec::new();
    let mut told = false;
    loop {
        let going_on = matches!(ended.recv_timeout(LOOK_INTERVAL), Err(RecvTimeoutError::Timeout));
        match server.requests() {
            Ok(requests) => {
                told = false;
                for request in requests {
                    tracing::info!(path = %request.target.display(), "a savepoint was asked for");
                    let answer = take(desk, &request);
                    unanswered.push((request, answer));
                }
            }
            Err(error) if !told => {
                told = true;
                tracing::warn!(%error, "requests from outside can not be read");
            }
            Err(_) => {}
        }
        unanswered.retain(|(request, answer)| match server.answer(request, answer) {
            Ok(()) => false,
            Err(error) => {
                tracing::warn!(%error, "a request for a savepoint can not be answered");
                true
            }
        });
        if !going_on {
            return;
        }
    }
}

fn take(desk: &SavepointDesk, request: &ControlRequest) -> ControlAnswer {
    let then = match request.trigger {
        SavepointTrigger::Stop => AfterSavepoint::Stop,
        SavepointTrigger::Drain => AfterSavepoint::DrainAndStop,
        _ => AfterSavepoint::GoOn,
    };
    match wait(&desk.ask(&request.target, then), &request.target) {
        Ok(manifest) => ControlAnswer::Taken(SavepointTaken {
            id: manifest.id,
            at: manifest.at,
            entries: manifest.entries(),
            state_bytes: manifest.state_bytes(),
            job: manifest.description.job,
        }),
        Err(error) => {
            ControlAnswer::Refused { exit_code: error.exit_code(), reason: error_chain(&error) }
        }
    }
}
