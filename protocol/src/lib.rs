//! Kafka's wire protocol and every client state machine, without sockets or a clock.

pub mod backoff;
pub mod error_code;
pub mod fetch;
pub mod frame;
pub mod group;
pub mod guard;
pub mod ids;
pub mod messages;
pub mod network;
pub mod producer;
pub mod records;
pub mod sasl;
mod stale_metadata;
#[cfg(test)]
mod test_metadata;
pub mod time;
pub mod transaction;
pub mod wire;

pub use error_code::ErrorCode;
pub use ids::{IsolationLevel, NO_TOPIC_ID, NodeId, ProducerIdAndEpoch, TopicPartition};
pub use messages::{ApiKey, Request, Response};
pub use stale_metadata::StaleMetadata;
pub use time::Timestamp;
pub use wire::{EncodeError, EncodedFrame, WireError};
