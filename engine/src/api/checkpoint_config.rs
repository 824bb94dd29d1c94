//! When checkpoints are taken, how long they may take, and what is kept of them.

use std::time::Duration;

/// Settings of checkpoints beside their interval. Flink's words; the option of each is named in
/// [`StreamExecutionEnvironment::option`](super::StreamExecutionEnvironment::option).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointConfig {
    /// How long a checkpoint may take from its trigger until everything is ready to be committed; one that takes longer
    /// fails. Default: 10 minutes.
    pub timeout: Duration,
    /// Time between the end of a checkpoint and the start of the next. A transaction that would become too old meanwhile is
    /// committed before. Default: none.
    pub min_pause: Duration,
    /// How many checkpoints in a row may fail (transaction died, disk full, timeout). Each of them is rolled back and
    /// replayed; one more is a failure of the job, about which the [`RestartStrategy`](super::RestartStrategy) decides.
    /// Flink's default is 0, because a failed checkpoint of an external sink may have lost its transaction there. Here it
    /// costs a replay, so the default is any number (`u32::MAX`).
    pub tolerable_failed_checkpoints: u32,
    /// A checkpoint is taken early once this many bytes of state were changed since the last one. Each worker counts in steps
    /// of 16 KiB for each state, so a smaller limit works as that. Default: 64 MiB.
    pub dirty_bytes_max: usize,
    /// Of how many of the last checkpoints the delta files are kept, at least 1. What a recovery may need is kept in any
    /// case; more of them serve tools and copies, and lengthen a start, which verifies each file. Default: 1.
    pub num_retained: usize,
    /// Of how many of the last checkpoints the statistics are kept in memory. Default: 10.
    pub history_size: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            tolerable_failed_checkpoints: u32::MAX,
            dirty_bytes_max: 64 << 20,
            num_retained: 1,
            history_size: 10,
        }
    }
}

impl CheckpointConfig {
    /// What is wrong with the settings, as the end of a sentence about the job.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.timeout.is_zero() {
            return Some("its checkpoint timeout is zero".to_owned());
        }
        if self.dirty_bytes_max == 0 {
            return Some("it would begin a checkpoint after 0 changed bytes".to_owned());
        }
        if self.num_retained == 0 {
            return Some("it retains 0 checkpoints; the last one has to be kept".to_owned());
        }
        None
    }
}
