//! The running workers of a job, as the coordinator sees them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use millstream_protocol_client::surroundings::{block_in_place, is_simulated, spawn};
use tokio::time::timeout;

use super::{ControlMessage, Mailbox, ReportSender, Worker, WorkerReport};
use crate::error::OperatorError;
use crate::exchange::{CheckpointBarrier, CheckpointKind};

/// Control of all workers of one attempt. Calls never block, except [`join`](Self::join).
#[derive(Debug)]
pub struct WorkerSet {
    mailboxes: Vec<Mailbox>,
    threads: Vec<JoinHandle<()>>,
    /// In a simulation workers are tasks.
    tasks: Vec<tokio::task::JoinHandle<()>>,
    /// Disconnected once every thread has ended: each holds a sender and sends nothing.
    ended: Receiver<()>,
    alive: Option<Sender<()>>,
}

impl WorkerSet {
    pub(crate) fn new(mailboxes: Vec<Mailbox>) -> Self {
        let (alive, ended) = channel();
        Self { mailboxes, threads: Vec::new(), tasks: Vec::new(), ended, alive: Some(alive) }
    }

    /// Gives every worker a thread. A panic in a user's function is reported as a failure of that worker.
    pub(crate) fn start(&mut self, workers: Vec<Worker>, reports: &ReportSender) -> io::Result<()> {
        if is_simulated() {
            let run = |mut worker: Worker| spawn(async move { worker.run_as_task().await });
            self.tasks.extend(workers.into_iter().map(run));
            return Ok(());
        }
        for mut worker in workers {
            let reports = reports.clone();
            let index = worker.index();
            let alive = self.alive.clone();
            let thread =
                thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
                    let ended = catch_unwind(AssertUnwindSafe(|| worker.run()));
                    drop(worker);
                    if let Err(panic) = ended {
                        let error = OperatorError::new(format!("panic: {}", panic_text(&*panic)));
                        reports.send(WorkerReport::Failed { worker: index, error });
                    }
                    drop(alive);
                })?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// Number of workers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mailboxes.len()
    }

    /// Whether there is no worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mailboxes.is_empty()
    }

    /// Injects the barrier of `checkpoint` at all sources. Not before the checkpoint before it is confirmed.
    pub fn trigger_checkpoint(&self, checkpoint: u64, kind: CheckpointKind) {
        self.send(ControlMessage::TriggerCheckpoint(CheckpointBarrier { checkpoint, kind }));
    }

    /// Tells all workers that `checkpoint` is committed and that the state backend shows its changes.
    pub fn confirm_checkpoint(&self, checkpoint: u64) {
        self.send(ControlMessage::CheckpointConfirmed(checkpoint));
    }

    /// Ends all sources where they are: event time goes to its end, windows fire, and the workers report that they have
    /// finished. What was read is in the next checkpoint.
    pub fn drain(&self) {
        self.send(ControlMessage::Drain);
    }

    /// Asks all workers to drop everything and end. They do after the unit of input they are at.
    pub fn stop(&self) {
        self.send(ControlMessage::Stop);
    }

    /// Waits until all threads have ended; call [`stop`](Self::stop) before. Blocks: not on an async runtime's worker.
    pub fn join(self) {
        for thread in self.threads {
            // A panic was caught and reported inside the thread.
            let _ = thread.join();
        }
    }

    /// As [`join`](Self::join), but waits no longer than `limit`. `false`: a worker still hangs in a user's function; nothing
    /// that it can reach may be used again.
    pub(crate) async fn end_within(mut self, limit: Duration) -> bool {
        let tasks = std::mem::take(&mut self.tasks);
        if tasks.is_empty() {
            return block_in_place(|| self.join_within(limit));
        }
        let ended = async {
            for task in tasks {
                // A panic has ended the simulation.
                let _ = task.await;
            }
        };
        timeout(limit, ended).await.is_ok()
    }

    fn join_within(mut self, limit: Duration) -> bool {
        self.alive = None;
        match self.ended.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => false,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                self.join();
                true
            }
        }
    }

    fn send(&self, message: ControlMessage) {
        for mailbox in &self.mailboxes {
            mailbox.send(message);
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
