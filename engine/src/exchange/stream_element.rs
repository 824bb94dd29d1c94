//! What travels on an edge, in one order that nothing overtakes.

use crate::time::WatermarkStatus;

/// Why a barrier was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckpointKind {
    /// The job goes on after it.
    #[default]
    Checkpoint,
    /// Sources read nothing after it: the last checkpoint of a job that is being stopped.
    Suspend,
}

/// Separates the elements of one checkpoint from those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CheckpointBarrier {
    /// Number of the checkpoint that ends here.
    pub checkpoint: u64,
    /// Why it was taken.
    pub kind: CheckpointKind,
}

/// One element of an edge with batches of type `B`.
#[derive(Debug)]
pub(crate) enum StreamElement<B> {
    /// Elements with their estimated size in bytes.
    Batch { batch: B, bytes: usize },
    /// Event time has come this far (milliseconds).
    Watermark(i64),
    /// The input turned idle or active.
    WatermarkStatus(WatermarkStatus),
    /// A checkpoint ends here.
    CheckpointBarrier(CheckpointBarrier),
    /// No batch follows. Barriers still may, so that a finished job can take its last checkpoint.
    EndOfInput,
}
