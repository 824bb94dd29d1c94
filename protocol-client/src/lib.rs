//! The asynchronous Kafka client: sockets, timers and handles around the machines of `millstream-protocol`.
//!
//! Is: connections over TCP, TLS and SASL, metadata, administration, fetching of assigned partitions, membership in consumer
//! groups by both protocols, idempotent and transactional producing. Is not: automatic topic creation, anything that
//! guesses when a broker's answer is missing.
//!
//! One [`KafkaClient`] runs one task, the driver, which owns every socket and every machine. Handles are cheap, may be
//! used from any thread, and never share a lock with the driver for longer than a queue operation. No per-record work is
//! done here: record batches pass through whole.
//!
//! | module | subject |
//! | --- | --- |
//! | `config` | Kafka's property names, typed |
//! | `client` | connect, the handle, single requests |
//! | `admin` | topics, configuration, offsets, groups, transactions, permissions |
//! | `consumer` | fetched partitions for a reader |
//! | `consumer_group` | members of groups: assignment, commits |
//! | `producer` | sealed batches, transactions |
//! | `record_producer` | records: partitions, batches, acknowledgements |
//! | `driver` | the loop between sockets, machines and handles |
//! | `security` | stores, TLS, logins, tokens |
//! | `net` | names to addresses, bytes to frames |
//! | `probe` | one address, step by step |
//! | `error` | [`ClientError`]: cause, place, next step |

mod admin;
mod attempts;
mod client;
mod config;
mod consumer;
mod consumer_group;
mod driver;
mod error;
mod net;
mod probe;
mod producer;
mod record_producer;
mod security;

pub use admin::{
    AbortTransaction, Acl, AclFilter, AclOperation, AclPatternType, AclPermission, AclResourceType,
    BrokerDescription, ClusterDescription, ClusterFeature, CommittedOffset, ConfigChange,
    ConfigEntry, ConfigResource, ConfigSource, GroupDescription, GroupMemberDescription, GroupType,
    HangingTransaction, ListedGroup, ListedOffset, ListedTransaction, NewTopic, OffsetMove,
    OffsetSpec, PartitionDescription, PartitionLag, ProducerState, ResetTarget, TopicDescription,
    TransactionDescription, TransactionFilter,
};
pub use client::KafkaClient;
pub use config::{
    ClientConfig, ClientConfigBuilder, ConfigError, GroupProtocol, OffsetReset, Property,
    PropertyAlias, PropertyEffect, parse_properties, properties, property_aliases,
};
pub use consumer::PartitionConsumer;
pub use consumer_group::{
    CommitError, ConsumerEvent, ConsumerGroupMetadata, GroupConsumer, GroupConsumerError,
    PositionError,
};
pub use error::{ClientError, Recovery};
pub use millstream_protocol::fetch::{FetchError, FetchEvent, FetchStart, FetchedPartition};
pub use millstream_protocol::group::GroupError;
pub use millstream_protocol::group::assignor::Assignor;
pub use millstream_protocol::group::offsets::OffsetAndMetadata;
pub use millstream_protocol::transaction::{
    AbortCause, FatalCause, PreparedTransaction, ProduceError, TransactionMode, TransactionOutcome,
};
pub use probe::{BrokerProbe, ProbeStep, ProbedStep, offered_mechanisms, probe_broker};
pub use producer::Producer;
pub use record_producer::{Delivery, ProducerRecord, RecordMetadata, RecordProducer, SendError};
pub use security::{
    KeyStoreConfig, SaslConfig, SecurityProtocol, StoreType, TlsConfig, TlsVersion,
    TrustStoreConfig,
};
