//! A small Kafka-compatible broker in one process: for development, the demo and tests.
//!
//! It speaks the wire protocol to any client and refuses what a real broker refuses: idempotent sequences, fenced
//! epochs, transactions of both versions (KIP-98, KIP-890), last stable offset, fetch sessions, compaction. It has one
//! node and no groups with members, no ACLs, TLS or quotas, and nothing is ever deleted by age or size.
//!
//! [`core`] is a machine without sockets, clock or files: [`core::Cluster`]. Around it [`DevBroker`] is a thin shell of
//! TCP and, if a folder is given, append-only files.
//!
//! ```no_run
//! use millstream_dev_broker::{DevBroker, DevBrokerConfig};
//!
//! # async fn run() -> Result<(), millstream_dev_broker::StartError> {
//! let broker = DevBroker::start(DevBrokerConfig::default())?;
//! println!("bootstrap.servers={}", broker.address());
//! broker.stop().await;
//! # Ok(())
//! # }
//! ```

mod broker;
mod config;
pub mod core;
mod data_dir;
mod server;

pub use broker::{DevBroker, StartError};
pub use config::DevBrokerConfig;
pub use core::{ClusterConfig, FaultAction, FaultRule, Occurrence, topic_name_is_legal};
pub use data_dir::DataDirError;
