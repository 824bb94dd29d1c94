//! C7, off the path of any checkpoint: confirmed changes go into the store, META follows, old delta files go away.

use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{CheckpointId, LayeredState, Meta, StateDirectory};
use millstream_protocol_client::surroundings::{interleave, spawn_blocking_loop};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, mutant};
use super::monitor::JobMonitor;

/// Bytes of changes that go into the store in one ingestion.
const APPLY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Confirmed changes of this size are applied at once, to bound what is held in memory. Fewer wait for the next time that
/// the store is persisted: of a key that changed in ten checkpoints one change is written, and until then a restart would
/// read their delta files again in any case.
const PENDING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Persisting the store and writing META cost an fsync each; between two of them only delta files pile up, which a restart
/// reads again.
const PERSIST_INTERVAL: Duration = Duration::from_secs(1);

/// The background half of a running attempt.
#[derive(Debug)]
pub(crate) struct Maintenance {
    confirmed: mpsc::UnboundedSender<Meta>,
    task: JoinHandle<Result<(), JobError>>,
}

impl Maintenance {
    /// `retained`: of how many of the last checkpoints the delta files stay although nothing needs them.
    pub(crate) fn start(
        directory: Arc<StateDirectory>,
        layered: Arc<LayeredState>,
        monitor: JobMonitor,
        retained: u64,
    ) -> Self {
        let (confirmed, mut incoming) = mpsc::unbounded_channel::<Meta>();
        let task = spawn_blocking_loop(async move {
            let mut persisted = Instant::now();
            let mut waiting: Option<Meta> = None;
            while let Some(meta) = incoming.recv().await {
                // Only the newest counts; a checkpoint that comes meanwhile is merged into the same ingestion.
                let mut newest = meta;
                while let Ok(meta) = incoming.try_recv() {
                    newest = meta;
                }
                let due = persisted.elapsed() >= PERSIST_INTERVAL;
                if due || layered.pending_bytes().0 >= PENDING_BYTES_MAX {
                    apply(&layered, &monitor).await?;
                }
                if due {
                    persist(&directory, &layered, &newest, retained).await?;
                    persisted = Instant::now();
                    waiting = None;
                } else {
                    waiting = Some(newest);
                }
            }
            if let Some(meta) = waiting
                && !mutant(Mutant::NoMetaAtEnd)
            {
                apply(&layered, &monitor).await?;
                persist(&directory, &layered, &meta, retained).await?;
            }
            Ok(())
        });
        Self { confirmed, task }
    }

    /// `meta` describes a checkpoint whose commit is known and whose changes are confirmed in the layered state.
    pub(crate) fn confirmed(&self, meta: Meta) {
        // If the task has ended by an error, `failed` or `finish` says so.
        let _ = self.confirmed.send(meta);
    }

    /// Whether it has ended by itself, which only an error makes it do.
    pub(crate) fn has_failed(&self) -> bool {
        self.task.is_finished()
    }

    /// Lets it do what is left, and waits.
    pub(crate) async fn finish(self) -> Result<(), JobError> {
        drop(self.confirmed);
        self.task.await.unwrap_or_else(|panic| {
            Err(JobError::Bug { what: format!("maintenance ended: {panic}") })
        })
    }
}

/// Everything confirmed goes into the store.
async fn apply(layered: &LayeredState, monitor: &JobMonitor) -> Result<(), JobError> {
    let mut begun = Instant::now();
    interleave().await;
    while let Some(step) = layered.apply_confirmed(APPLY_BYTES_MAX)? {
        monitor.applied(step.up_to.checkpoint.0, begun.elapsed());
        begun = Instant::now();
        interleave().await;
    }
    crash_point(Step::Applied);
    Ok(())
}

/// The store first, then META, then the files that neither needs any more.
async fn persist(
    directory: &StateDirectory,
    layered: &LayeredState,
    meta: &Meta,
    retained: u64,
) -> Result<(), JobError> {
    let floor = layered.persist()?;
    crash_point(Step::StorePersisted);
    interleave().await;
    directory.write_meta(meta)?;
    crash_point(Step::MetaWritten);
    interleave().await;
    if let Some(floor) = floor {
        directory.delete_applied(CheckpointId(floor.checkpoint.0.saturating_sub(retained)))?;
        crash_point(Step::Deleted);
    }
    Ok(())
}
