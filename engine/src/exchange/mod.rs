//! Between workers: bounded channels, the partitioner that fills them and the gate that reads them.

mod barrier_aligner;
mod channel;
mod input_gate;
mod key_partitioner;
mod keyed_batch;
mod stream_element;

pub(crate) use channel::{Channel, ChannelMatrix};
pub(crate) use input_gate::{GateEvent, InputGate};
pub(crate) use key_partitioner::KeyPartitioner;
pub(crate) use keyed_batch::{KeyedBatch, KeyedElement};
pub(crate) use stream_element::StreamElement;
pub use stream_element::{CheckpointBarrier, CheckpointKind};
