//! Kafka's wire protocol and every client state machine, without sockets or a clock.

pub mod ids;
pub mod time;

pub use ids::{IsolationLevel, NodeId, ProducerIdAndEpoch, TopicPartition};
pub use time::Timestamp;
