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

/// One element of an edge.
#[derive(Debug)]
pub(crate) enum StreamElement<E> {
    /// Elements with their estimated size in bytes.
    Batch { elements: Vec<E>, bytes: usize },
    /// Event time has come this far (milliseconds).
    Watermark(i64),
    /// The input turned idle or active.
    WatermarkStatus(WatermarkStatus),
    /// A checkpoint ends here.
    CheckpointBarrier(CheckpointBarrier),
    /// No batch follows. Barriers still may, so that a finished job can take its last checkpoint.
    EndOfInput,
}

/// An element on its way to the worker that owns its key.
#[derive(Debug)]
pub(crate) struct KeyedElement<K, T> {
    pub(crate) key: K,
    pub(crate) key_group: u16,
    pub(crate) element: T,
    pub(crate) timestamp: i64,
}
