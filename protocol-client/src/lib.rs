//! The asynchronous Kafka client: sockets, timers and handles around the machines of [`millstream_protocol`].
//!
//! Is: connections over TCP, TLS and SASL, metadata, administration, fetching of assigned partitions, membership in
//! consumer groups by both protocols, idempotent and transactional producing. Is not: automatic topic creation,
//! subscription by pattern, share groups, Kerberos, anything that guesses when a broker's answer is missing.
//!
//! ```no_run
//! use millstream_protocol_client::{ClientConfig, KafkaClient, ProducerRecord};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = KafkaClient::connect(ClientConfig::new("localhost:9092")).await?;
//!     let producer = client.record_producer(None);
//!     let record = ProducerRecord::to("flights", b"on time").key(b"UA1545");
//!     let written = producer.send(&record).await?.wait().await?;
//!     println!("{} at offset {:?}", written.topic_partition, written.offset);
//!     producer.close().await?;
//!     client.close().await;
//!     Ok(())
//! }
//! ```
//!
//! Names that several crates share ([`TopicPartition`](millstream_protocol::TopicPartition),
//! [`IsolationLevel`](millstream_protocol::IsolationLevel), [`ErrorCode`](millstream_protocol::ErrorCode),
//! [`records`](millstream_protocol::records)) come from `millstream-protocol`: depend on both.
//!
//! # Contents
//!
//! | to | use | section |
//! | --- | --- | --- |
//! | connect | [`ClientConfig`], [`KafkaClient::connect`] | [Connect](#connect) |
//! | set properties, read files of Java's clients | [`ClientConfig::set`], [`parse_properties`], [`properties`] | [Connect](#connect) |
//! | read partitions from positions of your own | [`KafkaClient::partition_consumer`] | [Read partitions](#read-partitions) |
//! | read as a member of a group | [`KafkaClient::group_consumer`] | [Read in a group](#read-in-a-group) |
//! | write records | [`KafkaClient::record_producer`] | [Write records](#write-records) |
//! | write batches that you build yourself | [`KafkaClient::producer`] | [Write batches](#write-batches) |
//! | write all or nothing | either producer with a transactional id | [Transactions](#transactions) |
//! | read, process, write exactly once | [`RecordProducer::send_offsets_to_transaction`] | [Read, process, write](#read-process-write) |
//! | end another process's transaction | [`KafkaClient::finish_transaction`] | [Resume and finish](#resume-and-finish) |
//! | look after topics, groups, transactions | [`KafkaClient`]'s other methods | [Administer](#administer) |
//! | encrypt, authenticate | [`SecurityProtocol`], [`TlsConfig`], [`SaslConfig`] | [Security](#security) |
//! | know what to do about an error | [`ClientError`], [`ProduceError`] and others | [Errors](#errors) |
//! | call from threads, drop futures | | [Tasks, threads, cancellation](#tasks-threads-cancellation) |
//! | know what it takes, and see how it is | | [Memory](#memory), [Watching it](#watching-it) |
//! | find out why nothing connects | [`probe_broker`] | [Errors](#errors) |
//!
//! # What it guarantees
//!
//! - Writing is always idempotent with `acks=all` (KIP-98): records of one partition are written in the order they were
//!   given, each once, or their sender is told of an error. An error after `delivery.timeout.ms` means "not known to be
//!   written". One exception is logged: without a transaction, a partition whose leader has lost what it knew of the producer
//!   (its log was cut or expired) may get records twice.
//! - A commit is told as committed, as not committed, or as unknown ([`ProduceError::UnknownOutcome`]); never as a guess.
//! - A position moves over what was handed out and over what no reader may see, over nothing else. Records that retention
//!   deleted, a log that was truncated (KIP-320), a topic that was made anew end the partition with a [`FetchError`] that
//!   says which; of these a group's `auto.offset.reset` covers offsets outside the log.
//! - Readers see committed records only (`isolation.level=read_committed`) unless told otherwise. Kafka's own default
//!   differs.
//! - No length that a peer names is believed before it is held against a bound. TLS certificates are always verified, with
//!   their names unless `ssl.endpoint.identification.algorithm` is empty.
//! - Passwords, keys and tokens stand in no error, no `Debug` text and no log.
//!
//! # Connect
//!
//! A [`KafkaClient`] is a handle; clone it at will. [`connect`](KafkaClient::connect) returns once a broker has been
//! reached at the address that it advertises.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use millstream_protocol_client::{ClientConfig, ClientError, KafkaClient};
//! # async fn connect() -> Result<(), ClientError> {
//! let config = ClientConfig::builder("broker-1:9092,broker-2:9092")
//!     .client_id("orders")
//!     .request_timeout(Duration::from_secs(20))
//!     .property("default.api.timeout.ms", "30000")
//!     .build()?;
//! let client = KafkaClient::connect(config).await?;
//! println!("{} brokers", client.broker_count());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Properties have Kafka's names, defaults and units; librdkafka's names are taken too. A name that no Kafka client knows is
//! refused with the nearest one, a known one without effect here is listed by [`ClientConfig::ignored`].
//! [`parse_properties`] reads files of Java's clients.
//!
//! # Read partitions
//!
//! A [`PartitionConsumer`] reads partitions from explicit offsets and commits nothing. Records are borrowed views into the
//! answer that the broker sent, or into the decompressed batch: nothing is allocated per record.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use millstream_protocol::records::DecodeLimits;
//! use millstream_protocol::{IsolationLevel, TopicPartition};
//! use millstream_protocol_client::{FetchEvent, FetchStart, KafkaClient, OffsetSpec};
//!
//! # async fn read(client: KafkaClient) -> Result<(), Box<dyn std::error::Error>> {
//! let topic_partition = TopicPartition::new("flights", 0);
//! let isolation = IsolationLevel::ReadCommitted;
//! let asked = [(topic_partition.clone(), OffsetSpec::Earliest)];
//! let offset = client.list_offsets(&asked, isolation).await?[&topic_partition].offset;
//! let start = FetchStart { topic_partition, offset, leader_epoch: -1 };
//! let mut consumer = client.partition_consumer(vec![start], isolation, Arc::new(|| {}));
//! while let Some(event) = consumer.next().await {
//!     match event {
//!         FetchEvent::Records(fetched) => {
//!             for batch in fetched.visible_batches(DecodeLimits::default()) {
//!                 let Some(records) = batch?.records else { continue };
//!                 for record in &records {
//!                     let record = record?;
//!                     println!("{}: {:?}", record.offset, record.value);
//!                 }
//!             }
//!         }
//!         // At the end, for now.
//!         FetchEvent::Progress { position, last_stable_offset, .. } if position == last_stable_offset => break,
//!         FetchEvent::Progress { .. } => {}
//!         FetchEvent::Failed { topic_partition, error } => {
//!             return Err(format!("failed to read {topic_partition}: {error}").into());
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Read in a group
//!
//! A [`GroupConsumer`] is a member of `group.id`, by the classic protocol or by KIP-848 (`group.protocol`). Asking for the
//! next event says that the last one is processed: only what is processed is committed, and a partition that others are to
//! have is given up only then.
//!
//! ```no_run
//! use millstream_protocol_client::{ClientConfig, ConsumerEvent, KafkaClient, OffsetReset};
//!
//! # async fn read() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ClientConfig::builder("localhost:9092")
//!     .group_id("billing".to_owned())
//!     .enable_auto_commit(false)
//!     .auto_offset_reset(OffsetReset::Earliest)
//!     .build()?;
//! let client = KafkaClient::connect(config).await?;
//! let mut consumer = client.group_consumer()?;
//! consumer.subscribe(["orders"]);
//! loop {
//!     match consumer.next().await? {
//!         ConsumerEvent::Records(fetched) => {
//!             for batch in fetched.visible_batches(Default::default()) {
//!                 let Some(records) = batch?.records else { continue };
//!                 for record in &records {
//!                     println!("{:?}", record?.value);
//!                 }
//!             }
//!             consumer.commit().await?;
//!         }
//!         ConsumerEvent::Failed { topic_partition, error } => {
//!             return Err(format!("failed to read {topic_partition}: {error}").into());
//!         }
//!         other => println!("{other:?}"),
//!     }
//! }
//! # }
//! ```
//!
//! # Write records
//!
//! A [`RecordProducer`] gathers records into batches by `batch.size` and `linger.ms`, places them as Java's producer does,
//! and gives a [`Delivery`] for each, which may be awaited later or dropped.
//!
//! ```no_run
//! # use millstream_protocol_client::{KafkaClient, ProducerRecord};
//! # async fn write(client: KafkaClient) -> Result<(), Box<dyn std::error::Error>> {
//! let producer = client.record_producer(None);
//! let mut deliveries = Vec::new();
//! for number in 0..1000_u32 {
//!     let value = number.to_string();
//!     deliveries.push(producer.send(&ProducerRecord::to("numbers", value.as_bytes())).await?);
//! }
//! producer.flush().await?;
//! for delivery in deliveries {
//!     println!("{:?}", delivery.wait().await?.offset);
//! }
//! producer.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Write batches
//!
//! A [`Producer`] takes batches that its caller has sealed with a
//! [`BatchBuilder`](millstream_protocol::records::BatchBuilder), each with the number (tag) of the transaction it belongs to.
//! It never blocks: [`has_capacity`](Producer::has_capacity) is for the caller to ask.
//!
//! ```no_run
//! use millstream_protocol::TopicPartition;
//! use millstream_protocol::records::{BatchBuilder, Compression};
//!
//! # async fn write(client: millstream_protocol_client::KafkaClient) -> Result<(), Box<dyn std::error::Error>> {
//! let producer = client.producer(None);
//! let mut builder = BatchBuilder::new(Compression::Lz4, 1 << 20);
//! builder.append(1_357_017_420_000, None, Some(b"on time"), &[])?;
//! if let Some(batch) = builder.build()? {
//!     producer.send_batch(TopicPartition::new("flights", 0), batch, 0);
//! }
//! let last_offsets = producer.flush(0).await?;
//! println!("{last_offsets:?}");
//! # Ok(())
//! # }
//! ```
//!
//! # Transactions
//!
//! A producer with a transactional id first becomes the id's newest owner
//! ([`init_transactions`](RecordProducer::init_transactions)); from then on every older one is fenced. Nothing of a
//! transaction is visible to committed readers before it commits.
//!
//! ```no_run
//! # use millstream_protocol_client::{KafkaClient, ProduceError, ProducerRecord, SendError};
//! # async fn write(client: KafkaClient) -> Result<(), Box<dyn std::error::Error>> {
//! let producer = client.record_producer(Some("invoices-1"));
//! producer.init_transactions().await?;
//! producer.begin_transaction().await?;
//! producer.send(&ProducerRecord::to("invoices", b"7")).await?;
//! producer.send(&ProducerRecord::to("ledger", b"7")).await?;
//! match producer.commit_transaction().await {
//!     Ok(()) => {}
//!     // Nothing of it counts: write it again in another one.
//!     Err(SendError::Producer(ProduceError::Abortable { .. })) => producer.abort_transaction().await?,
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Who commits often and has more to write meanwhile calls
//! [`commit_and_begin_transaction`](RecordProducer::commit_and_begin_transaction): what is sent while the brokers commit
//! belongs to the next transaction.
//!
//! Which rules of KIP-890 hold is found out by itself: `transaction.version` 2 where the cluster has finalized it, else those
//! of older brokers. The broker aborts a transaction that is open for longer than `transaction.timeout.ms` (60 s).
//!
//! # Read, process, write
//!
//! What was read and what was written count together if the offsets are committed inside the transaction (KIP-98), in the
//! name of the member that read them (KIP-447).
//!
//! ```no_run
//! use std::collections::BTreeMap;
//!
//! use millstream_protocol_client::{ConsumerEvent, KafkaClient, OffsetAndMetadata, ProducerRecord};
//!
//! // `client` has a group.id, and enable.auto.commit=false.
//! # async fn copy(client: KafkaClient) -> Result<(), Box<dyn std::error::Error>> {
//! let producer = client.record_producer(Some("copier-1"));
//! producer.init_transactions().await?;
//! let mut consumer = client.group_consumer()?;
//! consumer.subscribe(["in"]);
//! loop {
//!     let ConsumerEvent::Records(fetched) = consumer.next().await? else { continue };
//!     producer.begin_transaction().await?;
//!     for batch in fetched.visible_batches(Default::default()) {
//!         let Some(block) = batch?.records else { continue };
//!         for record in &block {
//!             let value = record?.value.unwrap_or_default();
//!             producer.send(&ProducerRecord::to("out", value)).await?;
//!         }
//!     }
//!     let position = OffsetAndMetadata::new(fetched.next_offset, fetched.leader_epoch);
//!     let offsets = BTreeMap::from([(fetched.topic_partition.clone(), position)]);
//!     let group = consumer.group_metadata();
//!     producer.send_offsets_to_transaction(&group, offsets).await?;
//!     producer.commit_transaction().await?;
//! }
//! # }
//! ```
//!
//! # Resume and finish
//!
//! A transaction whose batches are acknowledged can be ended by another process, which needs no more than a
//! [`PreparedTransaction`]: keep its three fields where a crash does not reach them, and hand them over before
//! `transaction.timeout.ms` is over. The answer is what became of it, also if it was ended before.
//!
//! ```no_run
//! # use millstream_protocol_client::{KafkaClient, Producer, TransactionOutcome};
//! # async fn finish(client: KafkaClient, producer: Producer) -> Result<(), Box<dyn std::error::Error>> {
//! // The first process, in the transaction of tag 1:
//! producer.flush(1).await?;
//! let Some(prepared) = producer.prepared_transaction() else { return Ok(()) };
//! // The second, with a client of its own:
//! match client.finish_transaction(&prepared, true).await? {
//!     TransactionOutcome::Committed => println!("it counts"),
//!     TransactionOutcome::Aborted => println!("it does not count: write it again"),
//!     unknown => println!("look at the output: {unknown:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Administer
//!
//! Calls about several things give a result for each. Every call is tried again where that may help, until
//! `default.api.timeout.ms` is over; requests that change something are repeated so that a lost answer does not make a
//! success look like a failure.
//!
//! ```no_run
//! # use millstream_protocol::IsolationLevel;
//! # use millstream_protocol_client::{KafkaClient, NewTopic};
//! # async fn look_after(client: KafkaClient) -> Result<(), Box<dyn std::error::Error>> {
//! client.create_topic(NewTopic::new("flights", 3, 1)).await?;
//! for group in client.list_groups().await? {
//!     println!("{} {}", group.group_id, group.state);
//!     for (partition, lag) in client.group_lag(&group.group_id, IsolationLevel::ReadCommitted).await? {
//!         println!("  {partition}: {:?} behind", lag.offsets_behind());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | subject | methods of [`KafkaClient`] |
//! | --- | --- |
//! | topics | [`list_topics`](KafkaClient::list_topics), [`describe_topic`](KafkaClient::describe_topic), [`create_topic`](KafkaClient::create_topic), [`delete_topic`](KafkaClient::delete_topic), [`create_partitions`](KafkaClient::create_partitions), [`delete_records`](KafkaClient::delete_records), [`list_offsets`](KafkaClient::list_offsets) |
//! | properties of topics and brokers | [`describe_configs`](KafkaClient::describe_configs), [`describe_config_entries`](KafkaClient::describe_config_entries), [`alter_configs`](KafkaClient::alter_configs) |
//! | groups | [`list_groups`](KafkaClient::list_groups), [`describe_groups`](KafkaClient::describe_groups), [`delete_groups`](KafkaClient::delete_groups) |
//! | offsets of groups | [`fetch_offsets`](KafkaClient::fetch_offsets), [`fetch_all_offsets`](KafkaClient::fetch_all_offsets), [`group_lag`](KafkaClient::group_lag), [`commit_offsets`](KafkaClient::commit_offsets), [`plan_offset_reset`](KafkaClient::plan_offset_reset), [`alter_group_offsets`](KafkaClient::alter_group_offsets), [`delete_group_offsets`](KafkaClient::delete_group_offsets) |
//! | transactions | [`list_transactions`](KafkaClient::list_transactions), [`list_open_transactions`](KafkaClient::list_open_transactions), [`describe_transactions`](KafkaClient::describe_transactions), [`describe_producers`](KafkaClient::describe_producers), [`find_hanging_transactions`](KafkaClient::find_hanging_transactions), [`abort_transaction`](KafkaClient::abort_transaction), [`finish_transaction`](KafkaClient::finish_transaction) |
//! | cluster, permissions | [`describe_cluster`](KafkaClient::describe_cluster), [`list_acls`](KafkaClient::list_acls) |
//!
//! # Security
//!
//! `security.protocol` SSL, SASL_PLAINTEXT and SASL_SSL; TLS 1.2 and 1.3 by rustls; stores in JKS, PKCS#12 and PEM; PLAIN,
//! SCRAM-SHA-256 and -512, OAUTHBEARER (a token, a file, client credentials) and AWS_MSK_IAM, with JAAS texts as Java's users
//! have them. Files of certificates are read anew when they change; logins are renewed on the same connection (KIP-368).
//!
//! ```
//! # use millstream_protocol_client::{ClientConfig, SecurityProtocol};
//! let config = ClientConfig::new("broker-1:9094").with([
//!     "security.protocol=SASL_SSL",
//!     "ssl.truststore.location=/etc/kafka/ca.pem",
//!     "sasl.mechanism=SCRAM-SHA-512",
//!     r#"sasl.jaas.config=ScramLoginModule required username="alice" password="secret";"#,
//! ])?;
//! assert_eq!(config.security_protocol, SecurityProtocol::SaslSsl);
//! # Ok::<(), millstream_protocol_client::ConfigError>(())
//! ```
//!
//! # Errors
//!
//! Each operation has an enum of its own. A text says what was to be done, what happened where, and the way out if there is
//! one; variants carry the same as data.
//!
//! | from | error | what it asks for |
//! | --- | --- | --- |
//! | configuration | [`ConfigError`] | another value: it says which |
//! | [`KafkaClient`]'s calls | [`ClientError`] | [`ClientError::recovery`] says |
//! | a partition | [`FetchError`], in a group [`PositionError`] | a new position (`assign`, `seek`), or an end |
//! | a group's membership, its commits | [`GroupConsumerError`], [`CommitError`] | a new consumer; [`CommitError::is_retriable`] |
//! | producers | [`ProduceError`], for a record not taken [`SendError`] | see the table below |
//!
//! | [`ProduceError`] | what to do |
//! | --- | --- |
//! | `Abortable` | in a transaction: abort, write it again in another. Without: the batch is not known to be written |
//! | `UnknownOutcome` | `init_transactions`, then look at the output before writing anything again |
//! | `Fenced` | stop: another process owns the transactional id (or the broker timed the transaction out) |
//! | `ConcurrentTransactions`, `TimedOut` | call again; after offsets of a group, abort first |
//! | `BumpRequired`, `EpochExhausted` | [`Producer::bump_epoch`] |
//! | `InvalidTransactionTimeout`, `InvalidState` | change the configuration, or the order of calls |
//! | `Fatal` | mend the cause, which it names, before anything else is written |
//!
//! Why an address does not serve is told by [`probe_broker`], step by step.
//!
//! # Tasks, threads, cancellation
//!
//! One [`KafkaClient`] runs one tokio task, the driver, which owns every socket and every machine; each group consumer and
//! record producer adds a small task. The runtime needs I/O and time enabled; on a runtime of one thread the driver moves
//! only while other tasks await. Handles may be used from any thread and never share a lock with the driver for longer than a
//! queue operation; `try_next`, `try_send` and `send_batch` may be called from threads without a runtime. Records are
//! decompressed and decoded on the reader's thread, encoded and compressed on the writer's (or, when `linger.ms` is over, in
//! the producer's task). Batches pass through the driver whole; it opens one only to split it after MESSAGE_TOO_LARGE.
//!
//! Every future may be dropped. Nothing that was handed out or taken gets lost by it, and nothing that was sent is taken
//! back:
//!
//! | dropped future | effect |
//! | --- | --- |
//! | `next` of either consumer | none; call it again |
//! | [`RecordProducer::send`] | the record was not taken |
//! | [`Delivery::wait`] | the record is written all the same |
//! | `flush`, commits, `init_transactions` and other verbs of producers | they go on; the same verb called meanwhile hears how they end |
//! | a call of [`KafkaClient`] | is not tried again; a request that is under way may still take effect |
//!
//! A client ends with its last handle, a consumer or producer with its own last one. [`RecordProducer::close`],
//! [`GroupConsumer::close`] and [`KafkaClient::close`] end in an orderly way and say when they are done.
//!
//! # Memory
//!
//! | what | bound |
//! | --- | --- |
//! | one answer | `max.response.frame.bytes` (128 MiB); room grows with the bytes that arrive |
//! | a connection | 64 KiB, the answer that is arriving, and up to 16 MiB kept for the next large ones |
//! | fetched, not taken | per partition `max.partition.fetch.bytes` (1 MiB) and one answer's share beyond it; per consumer 64 MiB, beyond which only partitions without unread records are asked for |
//! | taken by a reader | what it holds: a slice keeps the whole answer that it came in, up to `fetch.max.bytes` (50 MiB). Copy what lives long |
//! | decompressed | one batch per [`VisibleBatches`](millstream_protocol::records::VisibleBatches), 256 MiB by default ([`DecodeLimits`](millstream_protocol::records::DecodeLimits)) |
//! | written, not acknowledged | `buffer.memory` (32 MiB), of the open transaction and once more of later ones; [`RecordProducer`] beside it one open batch (`batch.size`, 1 MiB) per partition |
//!
//! # Watching it
//!
//! There is no registry of metrics and nothing is pushed to brokers (KIP-714). [`GroupConsumer::lag`],
//! [`KafkaClient::group_lag`], [`KafkaClient::broker_count`] and the [`FetchEvent::Progress`] events say how things stand;
//! what an operator must know is logged by `tracing`.
//!
//! # Brokers and platforms
//!
//! Versions are negotiated per connection (KIP-35) and reach from Apache Kafka 2.5 to 4.4; tests run on 3.9 and 4.3. Rust
//! 1.95 or later. Developed and tested on Linux; names are resolved by the hosts file and the name servers of
//! `resolv.conf`, not by the C library.
//!
//! # Inside
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
//! | `surroundings` | what comes from outside: connections, time of day, random numbers, tasks; a simulation gives its own |
//! | `error` | [`ClientError`]: cause, place, next step |

mod admin;
mod attempts;
mod bounded_file;
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
#[doc(hidden)]
pub mod surroundings;

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
pub use record_producer::{
    Committing, Delivery, ProducerRecord, RecordMetadata, RecordProducer, SendError,
};
pub use security::{
    KeyStoreConfig, SaslConfig, SecurityProtocol, StoreType, TlsConfig, TlsVersion,
    TrustStoreConfig,
};
