//! The asynchronous Kafka client: sockets, timers and handles around millstream-protocol.
//!
//! CONTRACT STUB, replaced by the real thing: signatures are what the engine programs against.
#![allow(missing_docs, missing_debug_implementations, unused_variables, clippy::todo, clippy::all)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{IsolationLevel, ProducerIdAndEpoch, TopicPartition};

/// Client configuration by Kafka's property names; unknown names are refused with the nearest match.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub bootstrap_servers: Vec<String>,
    pub client_id: String,
    pub request_timeout: Duration,
    /// How long one call may take altogether (`default.api.timeout.ms`); also for finding any broker.
    pub default_api_timeout: Duration,
    pub transaction_timeout: Duration,
    // + every other typed property (fetch.*, batch.size, compression.type, linger.ms, buffer.memory …)
}
impl ClientConfig {
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        todo!()
    }
    /// Sets one property by its Java name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        todo!()
    }
}
/// `unknown property 'transaction.timeout.m': did you mean 'transaction.timeout.ms'?`
#[derive(Clone, Debug, thiserror::Error)]
#[error("config")]
pub struct ConfigError {}

/// What went wrong in a call: cause, place, next step. `NoBrokerReachable{address, cause}` and friends (TLS/HTTP port named), topic missing, …
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    #[error("no broker")]
    NoBrokerReachable {},
}

/// Cheap to clone. One driver task on the current tokio runtime owns all sockets and machines.
#[derive(Clone)]
pub struct KafkaClient {}

pub enum OffsetSpec {
    Earliest,
    /// Last stable offset under read_committed, else the high watermark.
    Latest,
}
pub struct ListedOffset {
    pub offset: i64,
    pub leader_epoch: i32,
    pub timestamp: i64,
}
pub struct TopicDescription {
    pub name: Arc<str>,
    /// All zero if the broker gives none.
    pub topic_id: [u8; 16],
    pub partitions: Vec<PartitionDescription>,
}
pub struct PartitionDescription {
    pub partition: i32,
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
}
pub struct NewTopic {
    pub name: String,
    pub partitions: i32,
    pub replication_factor: i16,
    pub configs: BTreeMap<String, String>,
}
pub enum ConfigResource {
    Topic(String),
    Broker(i32),
}

impl KafkaClient {
    /// Resolves, connects, negotiates versions and reads metadata; fails within `default_api_timeout` naming each address tried and why.
    pub async fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        todo!()
    }
    pub fn config(&self) -> &ClientConfig {
        todo!()
    }
    pub async fn close(&self) {
        todo!()
    }
    pub fn broker_count(&self) -> usize {
        todo!()
    }
    /// Finalized `transaction.version` (0 if the cluster has none).
    pub fn transaction_version(&self) -> i16 {
        todo!()
    }
    /// Never auto-creates. A missing topic is `None` (after the short retry that a just-created topic needs).
    pub async fn describe_topic(&self, name: &str) -> Result<Option<TopicDescription>, ClientError> {
        todo!()
    }
    /// `Ok(false)` if it already existed. Returns once every partition has a leader.
    pub async fn create_topic(&self, topic: NewTopic) -> Result<bool, ClientError> {
        todo!()
    }
    pub async fn delete_topic(&self, name: &str) -> Result<(), ClientError> {
        todo!()
    }
    pub async fn describe_configs(&self, resource: ConfigResource, names: &[&str]) -> Result<BTreeMap<String, String>, ClientError> {
        todo!()
    }
    pub async fn list_offsets(
        &self,
        partitions: &[(TopicPartition, OffsetSpec)],
        isolation: IsolationLevel,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, ClientError> {
        todo!()
    }
    pub async fn commit_offsets(&self, group: &str, offsets: &[(TopicPartition, i64, i32)]) -> Result<(), ClientError> {
        todo!()
    }
    pub async fn fetch_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, Option<i64>>, ClientError> {
        todo!()
    }
    /// `ListTransactions` (3.0+): ids of open transactions that start with `prefix`.
    pub async fn list_open_transactions(&self, prefix: &str) -> Result<Vec<String>, ClientError> {
        todo!()
    }
    /// Starts fetching from explicit positions. `notify` is called (from the driver) whenever an event became available, so a
    /// worker thread without tokio can park and be unparked.
    pub fn partition_consumer(
        &self,
        positions: Vec<FetchStart>,
        isolation: IsolationLevel,
        notify: Arc<dyn Fn() + Send + Sync>,
    ) -> PartitionConsumer {
        todo!()
    }
    /// Plain idempotent producer (`transactional_id: None`) or the transactional one. No RPC until `init_transactions` / first send.
    pub fn producer(&self, transactional_id: Option<&str>) -> Producer {
        todo!()
    }
}

pub struct FetchStart {
    pub topic_partition: TopicPartition,
    pub offset: i64,
    /// Leader epoch of the record before `offset`; -1 if not known.
    pub leader_epoch: i32,
}

/// Events of the fetcher machine, in order per partition. Bounded: the driver stops fetching a partition that has unread data.
pub struct PartitionConsumer {}
impl PartitionConsumer {
    /// Never blocks. `None`: nothing now.
    pub fn try_next(&mut self) -> Option<FetchEvent> {
        todo!()
    }
    pub async fn next(&mut self) -> FetchEvent {
        todo!()
    }
    pub fn pause(&self, partition: &TopicPartition) {
        todo!()
    }
    pub fn resume(&self, partition: &TopicPartition) {
        todo!()
    }
}

// FetchEvent, FetchedPartition, FetchError come from millstream_protocol::fetch and are re-exported here.
pub enum FetchEvent {
    Stub,
}

/// Transactional or idempotent producer. Batches are sealed by the caller (workers encode straight into `BatchBuilder`s) and tagged with
/// the checkpoint they belong to; the producer sends those of the open transaction and keeps later ones until theirs is begun.
#[derive(Clone)]
pub struct Producer {}
impl Producer {
    /// InitProducerId(-1,-1) until success (fence); also clears everything queued or in flight and any error state.
    /// `before_retry` semantics: returns `ProduceError::ConcurrentTransactions` after ONE try that met an open transaction, so that the
    /// caller can look at the ledger before it repeats (engine-design R1/R2). Other retriable codes are retried inside.
    pub async fn init_transactions(&self) -> Result<ProducerIdAndEpoch, ProduceError> {
        todo!()
    }
    /// InitProducerId with the current id and epoch (KIP-360): TV1's bump before the next transaction, and the walk past epoch exhaustion.
    pub async fn bump_epoch(&self) -> Result<ProducerIdAndEpoch, ProduceError> {
        todo!()
    }
    pub fn identity(&self) -> Option<ProducerIdAndEpoch> {
        todo!()
    }
    /// Opens the transaction of `tag` (a checkpoint id): batches tagged with it may go out. No RPC.
    pub fn begin_transaction(&self, tag: u64) -> Result<(), ProduceError> {
        todo!()
    }
    /// Queues a sealed batch; never blocks. Batches for one partition keep their order. After a failure of the transaction further
    /// batches of it are dropped (the caller learns from `flush`).
    pub fn send_batch(&self, partition: TopicPartition, batch: SealedBatchStub, tag: u64) {
        todo!()
    }
    /// True while queued bytes of `tag` are below the bound (`buffer.memory`, counted apart for the open transaction and for later ones).
    pub fn has_capacity(&self, tag: u64) -> bool {
        todo!()
    }
    /// `notify` is called when `has_capacity` turns true again.
    pub fn on_capacity(&self, notify: Arc<dyn Fn() + Send + Sync>) {
        todo!()
    }
    /// Waits until every batch of `tag` is acknowledged; the first failure of the transaction otherwise. Returns per partition the last offset written.
    pub async fn flush(&self, tag: u64) -> Result<BTreeMap<TopicPartition, i64>, ProduceError> {
        todo!()
    }
    /// EndTxn(commit) until a definite answer or `limit`; the SAME request is repeated. TV2 adopts the identity of the answer.
    pub async fn commit_transaction(&self, limit: Duration) -> Result<(), ProduceError> {
        todo!()
    }
    /// EndTxn(abort); for clients other than the engine (the engine rolls back by fencing).
    pub async fn abort_transaction(&self) -> Result<(), ProduceError> {
        todo!()
    }
    /// Drops every queued batch and waits for in-flight requests to be answered or their connections closed.
    pub async fn discard(&self) {
        todo!()
    }
}
pub struct SealedBatchStub;

/// Classified by (api, version, code), never by code alone (protocol.md §5.2).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProduceError {
    /// Another producer took over: PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, …
    #[error("fenced")]
    Fenced {},
    /// The transaction can not be committed any more (expired, aborted, INVALID_TXN_STATE, delivery timeout …).
    #[error("aborted")]
    Abortable {},
    /// EndTxn met no definite answer within the limit.
    #[error("unknown outcome")]
    UnknownOutcome {},
    /// InitProducerId met an open transaction of this id.
    #[error("concurrent")]
    ConcurrentTransactions {},
    /// `transaction.timeout.ms` above the broker's `transaction.max.timeout.ms`.
    #[error("timeout too large")]
    InvalidTransactionTimeout {},
    /// Authorization, unknown topic, too large … : cause, place, next step.
    #[error("fatal")]
    Fatal {},
}
