//! What is known about the last checkpoints: how long each phase took, how much was written.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::task::BarrierTiming;

/// One checkpoint. The phases follow each other, except that delta file and output are written at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointStatistics {
    /// Its number. One that failed is taken again under the same number.
    pub checkpoint: u64,
    /// Why it was taken when it was.
    pub trigger: CheckpointTrigger,
    /// Milliseconds since 1970 at which it was triggered.
    pub triggered_at_ms: i64,
    /// What became of it.
    pub status: CheckpointStatus,
    /// From the trigger until the barrier reached the first source: what the workers were at.
    pub trigger_duration: Duration,
    /// From there until the barrier had passed the last task of the last worker.
    pub alignment_duration: Duration,
    /// From there until the changes of all workers were put together.
    pub snapshot_duration: Duration,
    /// From there until the delta file was durable.
    pub delta_duration: Duration,
    /// From the end of the snapshot until the brokers had acknowledged all output, the ledger record with it, and the delta
    /// file was durable.
    pub acknowledge_duration: Duration,
    /// From there until the commit was known.
    pub commit_duration: Duration,
    /// How long its changes took to go into the store, together with those of others; `None` until they have.
    pub apply_duration: Option<Duration>,
    /// From the trigger until the commit was known or the checkpoint had failed.
    pub end_to_end_duration: Duration,
    /// The longest time that a worker processed nothing because of it.
    pub stall: Duration,
    /// Keys that were changed since the checkpoint before.
    pub dirty_keys: u64,
    /// Bytes of those keys and their values.
    pub state_bytes: u64,
    /// Bytes of the delta file.
    pub delta_file_bytes: u64,
}

/// Why a checkpoint was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointTrigger {
    /// The interval had passed.
    Interval,
    /// Much state had changed ([`dirty_bytes_max`](crate::api::CheckpointConfig::dirty_bytes_max)).
    DirtyBytes,
    /// The transaction was a third of `transaction.timeout.ms` old.
    TransactionAge,
    /// Somebody asked for it: the last one before a stop.
    Requested,
    /// All input had ended.
    EndOfInput,
}

/// What became of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointStatus {
    /// It is under way.
    InProgress,
    /// It is committed.
    Completed,
    /// It was rolled back, or the job failed meanwhile.
    Failed {
        /// Why, in one line.
        reason: String,
    },
}

impl CheckpointStatistics {
    pub(crate) fn begin(checkpoint: u64, trigger: CheckpointTrigger, triggered_at_ms: i64) -> Self {
        Self {
            checkpoint,
            trigger,
            triggered_at_ms,
            status: CheckpointStatus::InProgress,
            trigger_duration: Duration::ZERO,
            alignment_duration: Duration::ZERO,
            snapshot_duration: Duration::ZERO,
            delta_duration: Duration::ZERO,
            acknowledge_duration: Duration::ZERO,
            commit_duration: Duration::ZERO,
            apply_duration: None,
            end_to_end_duration: Duration::ZERO,
            stall: Duration::ZERO,
            dirty_keys: 0,
            state_bytes: 0,
            delta_file_bytes: 0,
        }
    }

    /// The barrier, triggered at `triggered`, has passed everywhere; by `joined` the workers' parts are one.
    pub(crate) fn sealed(&mut self, triggered: Instant, timing: BarrierTiming, joined: Instant) {
        self.trigger_duration = timing.first.saturating_duration_since(triggered);
        self.alignment_duration = timing.last.saturating_duration_since(timing.first);
        self.snapshot_duration = joined.saturating_duration_since(timing.last);
        self.stall = timing.stall;
    }
}

impl fmt::Display for CheckpointStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_micros() as f64 / 1000.0;
        match &self.status {
            CheckpointStatus::InProgress => write!(f, "under way")?,
            CheckpointStatus::Completed => write!(f, "committed")?,
            CheckpointStatus::Failed { reason } => write!(f, "failed ({reason})")?,
        }
        write!(
            f,
            " after {:.1} ms: trigger {:.1}, alignment {:.1}, snapshot {:.1}, delta file {:.1}, acknowledged {:.1}, commit {:.1} ms; stall {:.1} ms; {} keys changed, {} bytes, {} in the file",
            ms(self.end_to_end_duration),
            ms(self.trigger_duration),
            ms(self.alignment_duration),
            ms(self.snapshot_duration),
            ms(self.delta_duration),
            ms(self.acknowledge_duration),
            ms(self.commit_duration),
            ms(self.stall),
            self.dirty_keys,
            self.state_bytes,
            self.delta_file_bytes,
        )
    }
}
