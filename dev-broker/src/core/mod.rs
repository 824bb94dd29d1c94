//! The broker without its sockets and files: a machine that turns request frames into response frames.

mod admin;
mod cluster;
mod config;
mod connection;
mod coordinator;
mod faults;
mod fetch;
mod fetch_session;
mod groups;
mod list_offsets;
mod log;
mod metadata;
mod nodes;
mod produce;
mod random;
mod replay;
mod storage;
mod topics;
mod transaction;

#[cfg(test)]
mod tests;

pub use cluster::{Cluster, Outgoing};
pub use config::ClusterConfig;
pub use faults::{FaultAction, FaultRule, Faults, Occurrence};
pub use nodes::{COORDINATOR_SLOTS, CoordinatorKind, CoordinatorSeat, coordinator_slot};
pub use storage::{StorageEffect, Stored, whole_batches};
pub use topics::topic_name_is_legal;
