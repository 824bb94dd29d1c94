//! Typed streams, workers, exchanges, barriers, windows and the exactly-once Kafka connector.

pub mod api;
pub mod connector;
mod error;
mod exchange;
pub mod graph;
pub mod metrics;
mod operator;
pub mod state;
pub mod task;
pub mod time;
pub mod window;

pub use error::{Bug, Cause, GraphError, OperatorError};
pub use exchange::{CheckpointBarrier, CheckpointKind};
pub use operator::{Collector, Output};
