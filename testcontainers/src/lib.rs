//! One call gives a cluster: the dev broker, or real Apache Kafka from its jars.
//!
//! - [`KafkaCluster`]: real Apache Kafka of one or three nodes, from its jars (a JVM and Maven) or its image (a Docker engine).
//!   Brokers can be killed, stopped, frozen and started again; none outlives the test process, however that ends.
//! - [`DevCluster`]: the dev broker, and [`Cluster`]: either of the two.
//! - [`FaultProxy`]: holds, delays and loses frames between a client and a broker, by API.
//! - [`JavaClient`]: Kafka's own producer, consumer and admin client behind typed calls.
//! - [`GuardedProcess`]: a child process under the same guard as the brokers.
//!
//! ```no_run
//! use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
//!
//! # fn main() -> Result<(), millstream_testcontainers::ClusterError> {
//! if !real_kafka_or_skip("records_arrive") {
//!     return Ok(());
//! }
//! let cluster = KafkaCluster::builder().brokers(3).transaction_version(0).start()?;
//! cluster.create_topic("flights", 4, &[])?;
//! cluster.kill_broker(0)?;
//! # Ok(())
//! # }
//! ```

mod availability;
mod cache;
mod cluster;
mod fault_proxy;
mod kafka;
mod ports;
mod process;

pub use availability::{Availability, availability, real_kafka_or_skip, skip, skip_report};
pub use cache::cache_dir;
pub use cluster::{Cluster, DevCluster};
pub use fault_proxy::{FaultHandle, FaultProxy, FaultRule, api_key};
pub use kafka::{
    ClusterError, Codec, ConsoleRecord, ConsumeEnd, DEFAULT_VERSION, Isolation, JavaAssignment,
    JavaClient, JavaGroupMember, JavaHeader, JavaRecord, JavaTransaction, KafkaCluster,
    KafkaClusterBuilder, KafkaJars, ListedTransaction, OLDER_VERSION, ProduceOptions,
    ProducedRecord, ToolOutput, TransactionEnd, java_program, keytool,
};
pub use process::{GuardedCommand, GuardedProcess, Signal, shell_quoted};
