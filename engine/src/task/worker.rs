//! One worker: its tasks, its mailbox and the loop that runs them.

use std::fmt;
use std::time::Duration;

use super::{
    ControlMessage, Mailbox, ReportSender, Snapshots, Task, TaskStatus, WorkerNotifier,
    WorkerReport,
};
use crate::error::OperatorError;

/// All chains of one worker. [`run`](Self::run) drives it on a thread of its own; a simulation calls
/// [`step`](Self::step) instead.
pub struct Worker {
    index: usize,
    tasks: Vec<Box<dyn Task>>,
    mailbox: Mailbox,
    notifier: WorkerNotifier,
    reports: ReportSender,
    snapshots: Snapshots,
    next_source: usize,
    state: WorkerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    New,
    Running,
    Finished,
    Stopped,
}

/// What one step of a worker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// It did something; there may be more to do.
    Worked,
    /// Nothing to do until its notifier is called.
    Idle,
    /// It has ended and reported how.
    Stopped,
}

impl Worker {
    /// `tasks`: downstream before upstream.
    pub(crate) fn new(
        index: usize,
        tasks: Vec<Box<dyn Task>>,
        mailbox: Mailbox,
        notifier: WorkerNotifier,
        reports: ReportSender,
    ) -> Self {
        // Gates before sources: what is in flight leaves before more is read.
        let mut tasks = tasks;
        tasks.sort_by_key(|task| task.is_source());
        let snapshots = Snapshots::new(index, tasks.len());
        Self {
            index,
            tasks,
            mailbox,
            notifier,
            reports,
            snapshots,
            next_source: 0,
            state: WorkerState::New,
        }
    }

    /// Index of the worker among those of the job.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Runs until the worker is stopped or fails; parks while there is nothing to do.
    pub fn run(&mut self) {
        loop {
            match self.step() {
                StepOutcome::Worked => {}
                StepOutcome::Idle => self.wait(),
                StepOutcome::Stopped => return,
            }
        }
    }

    /// As [`run`](Self::run), as one task among others: they come in after each step.
    pub(crate) async fn run_as_task(&mut self) {
        loop {
            match self.step() {
                StepOutcome::Worked => tokio::task::yield_now().await,
                StepOutcome::Idle => match self.wakes_in() {
                    Some(limit) => {
                        // Either way it looks again.
                        let _ = tokio::time::timeout(limit, self.notifier.notified()).await;
                    }
                    None => self.notifier.notified().await,
                },
                StepOutcome::Stopped => return,
            }
        }
    }

    /// Parks until it is notified, or until a timer is due.
    fn wait(&self) {
        match self.wakes_in() {
            Some(timeout) => self.notifier.wait_timeout(timeout),
            None => self.notifier.wait(),
        }
    }

    fn wakes_in(&self) -> Option<Duration> {
        self.tasks.iter().filter_map(|task| task.wakes_in()).min()
    }

    /// Handles all control messages, then at most one unit of input and a slice of a checkpoint's encoding. Never blocks (but for reads of the state store).
    pub fn step(&mut self) -> StepOutcome {
        if self.state == WorkerState::Stopped {
            return StepOutcome::Stopped;
        }
        match self.try_step() {
            Ok(outcome) => outcome,
            Err(error) => {
                self.end();
                self.reports.send(WorkerReport::Failed { worker: self.index, error });
                StepOutcome::Stopped
            }
        }
    }

    fn try_step(&mut self) -> Result<StepOutcome, OperatorError> {
        if self.state == WorkerState::New {
            self.state = WorkerState::Running;
            self.tasks.iter_mut().try_for_each(|task| task.open())?;
        }
        let mut outcome = StepOutcome::Idle;
        while let Some(message) = self.mailbox.take() {
            outcome = StepOutcome::Worked;
            match message {
                ControlMessage::TriggerCheckpoint(barrier) => {
                    let Self { tasks, snapshots, .. } = self;
                    tasks.iter_mut().try_for_each(|task| task.trigger(barrier, snapshots))?;
                }
                ControlMessage::CheckpointConfirmed(checkpoint) => {
                    self.tasks
                        .iter_mut()
                        .try_for_each(|task| task.on_checkpoint_confirmed(checkpoint))?;
                }
                ControlMessage::Drain => self.tasks.iter_mut().for_each(|task| task.drain()),
                ControlMessage::Stop => {
                    self.end();
                    self.reports.send(WorkerReport::Stopped { worker: self.index });
                    return Ok(StepOutcome::Stopped);
                }
            }
        }
        if self.poll_tasks()? == TaskStatus::Worked {
            outcome = StepOutcome::Worked;
        }
        let Self { tasks, snapshots, .. } = self;
        for task in tasks {
            if task.seal(snapshots)? == TaskStatus::Worked {
                outcome = StepOutcome::Worked;
            }
        }
        for sealed in self.snapshots.take_sealed() {
            self.reports.send(WorkerReport::Sealed(sealed));
        }
        if self.state == WorkerState::Running && self.tasks.iter().all(|task| task.is_ended()) {
            self.state = WorkerState::Finished;
            self.reports.send(WorkerReport::Finished { worker: self.index });
        }
        Ok(outcome)
    }

    /// One unit of input: of the most downstream gate that has one, else of the next source in turn.
    fn poll_tasks(&mut self) -> Result<TaskStatus, OperatorError> {
        let Self { tasks, snapshots, next_source, .. } = self;
        let gates = tasks.iter().take_while(|task| !task.is_source()).count();
        let (gates, sources) = tasks.split_at_mut(gates);
        for task in gates {
            if task.poll(snapshots)? == TaskStatus::Worked {
                return Ok(TaskStatus::Worked);
            }
        }
        for _ in 0..sources.len() {
            *next_source = (*next_source + 1) % sources.len();
            if let Some(task) = sources.get_mut(*next_source)
                && task.poll(snapshots)? == TaskStatus::Worked
            {
                return Ok(TaskStatus::Worked);
            }
        }
        Ok(TaskStatus::Idle)
    }

    /// Readers and writers are dropped here, on the worker's thread, so that a join is enough to know they are gone.
    fn end(&mut self) {
        self.state = WorkerState::Stopped;
        self.tasks.clear();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("index", &self.index)
            .field("tasks", &self.tasks.len())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
