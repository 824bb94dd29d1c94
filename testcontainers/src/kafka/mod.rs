//! Real Apache Kafka: from its jars where there is a JVM, from its image where there is a Docker engine.

mod builder;
mod class_archive;
mod cluster;
mod docker;
mod error;
mod jars;
mod java_client;
mod kept_logs;
mod links;
mod node;
mod properties;
mod ready;
mod tools;

pub use builder::{DEFAULT_VERSION, KafkaClusterBuilder, OLDER_VERSION};
pub use cluster::KafkaCluster;
pub use error::ClusterError;
pub use jars::{KafkaJars, java_program, keytool};
pub use java_client::{
    Codec, Isolation, JavaAssignment, JavaClient, JavaGroupMember, JavaHeader, JavaRecord,
    JavaTransaction, ProduceOptions, ProducedRecord, TransactionEnd,
};
pub use tools::{ConsoleRecord, ConsumeEnd, ListedTransaction, ToolOutput};
