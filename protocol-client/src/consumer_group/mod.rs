//! A member of a consumer group: subscribes, is given partitions, reads them, commits.
//!
//! [`GroupConsumer`] is the reader's end. Behind it one task per consumer carries the member machine's requests, looks up
//! start positions and commits, so that heartbeats go on while the reader works. The task never sees records: they come
//! from a [`PartitionConsumer`](crate::PartitionConsumer), whose positions follow the assignment.

mod commits;
mod consumer;
mod error;
mod event;
mod positions;
mod shared;
mod task;

pub use consumer::GroupConsumer;
pub use error::{CommitError, GroupConsumerError};
pub use event::{ConsumerEvent, ConsumerGroupMetadata, PositionError};
