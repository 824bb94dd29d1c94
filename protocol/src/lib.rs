//! Kafka's wire protocol and every client state machine, without sockets or a clock.
//!
//! Is: frames, headers and messages of the APIs in [`ApiKey`], both ways; record batches with all five codecs; machines
//! for connections and metadata, fetching, idempotent and transactional producing, membership in groups by both protocols,
//! SASL. Is not: a client by itself. `millstream-protocol-client` puts sockets, TLS and timers around the machines; use
//! this crate to read and write Kafka's bytes, to drive the machines from a runtime of your own, or under a simulation.
//!
//! ```
//! use millstream_protocol::IsolationLevel;
//! use millstream_protocol::records::{BatchBuilder, Compression, DecodeLimits, VisibleBatches};
//!
//! let mut builder = BatchBuilder::new(Compression::Lz4, 16 * 1024);
//! builder.append(1_357_017_420_000, None, Some(b"on time"), &[])?;
//! builder.append(1_357_017_421_000, None, Some(b"late"), &[])?;
//! let mut values = Vec::new();
//! if let Some(batch) = builder.build()? {
//!     let (bytes, isolation) = (batch.into_bytes(), IsolationLevel::ReadCommitted);
//!     for batch in VisibleBatches::new(bytes, 0, Vec::new(), isolation, DecodeLimits::default()) {
//!         let Some(records) = batch?.records else { continue };
//!         for record in &records {
//!             // A view: nothing is allocated for a record.
//!             values.push(record?.value.unwrap_or_default().to_vec());
//!         }
//!     }
//! }
//! assert_eq!(values, [&b"on time"[..], b"late"]);
//! # Ok::<(), millstream_protocol::records::RecordsError>(())
//! ```
//!
//! # Contents
//!
//! | to | use |
//! | --- | --- |
//! | cut a byte stream into frames | [`frame::FrameDecoder`] |
//! | write and read requests and responses | [`Request`], [`Response`], [`wire::RequestHeader`], [`wire::ResponseHeader`] |
//! | know which versions are spoken | [`ApiKey`] |
//! | read what a stranger sent, before a decoder that trusts lengths | [`guard::check`] |
//! | read, write, compress, filter record batches | [`records`] |
//! | keep connections, versions, metadata, coordinators | [`network::NetworkClient`] |
//! | fetch partitions | [`fetch::Fetcher`] |
//! | write batches, in transactions or not | [`producer::Producer`], [`transaction`] |
//! | place records on partitions as Java's producer does | [`producer::partition_for_key`], [`producer::StickyPartitioner`] |
//! | be a member of a group, assign partitions, commit | [`group::GroupMember`], [`group::assignor`], [`group::offsets`] |
//! | log in | [`sasl::SaslExchange`], [`sasl::jaas`] |
//! | read a broker's answer to something | [`ErrorCode`], and the error enum of each machine |
//!
//! # What it guarantees
//!
//! - Every length and count is held against the bytes at hand before memory is taken for it; decompression has a cap.
//!   Malformed bytes from a peer are an error, never a panic.
//! - No sockets, files, threads or clocks: the same calls with the same times and seeds give the same outputs.
//! - Record bytes are not copied: decoded messages hold slices of the frame, encoded ones carry them as chunks of their own.
//! - A version is a number that the caller passes; what it can not express is refused ([`EncodeError`]), never left out.
//!
//! # Messages
//!
//! ```
//! use millstream_protocol::network::metadata_request;
//! use millstream_protocol::{ApiKey, Request};
//!
//! let request = Request::Metadata(metadata_request(&[]));
//! let frame = request.encode(12, 7, "example").map_err(|error| error.to_string())?;
//! // As a broker reads it: behind the size, which is 4 bytes.
//! let (header, read) = Request::decode(frame.to_bytes().slice(4..)).map_err(|error| error.to_string())?;
//! assert_eq!((header.api_key, header.api_version, header.correlation_id), (ApiKey::Metadata, 12, 7));
//! assert_eq!(read.api_key(), ApiKey::Metadata);
//! # Ok::<(), String>(())
//! ```
//!
//! # Machines
//!
//! All have the same verbs. `handle_*` tells a machine what happened and when ([`Timestamp`], microseconds of a clock that
//! the driver chooses); then `poll_request` (or `poll_output`), `poll_event` and the like are asked until they give `None`,
//! and `poll_timeout` once more. When that time comes, `handle_timeout`. Answers find their machine by the
//! [`RequestToken`](network::RequestToken) of the request. No call blocks; none may be left out.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use millstream_protocol::Timestamp;
//! use millstream_protocol::network::{NetworkClient, NetworkConfig, NetworkEvent, NetworkOutput};
//!
//! let config = NetworkConfig::new(vec![(Arc::from("localhost"), 9092)]);
//! let mut network = NetworkClient::new(config, 42);
//! network.request_metadata_update(Timestamp::ZERO);
//! while let Some(output) = network.poll_output() {
//!     match output {
//!         // Open a socket; then handle_connected, handle_frame, handle_disconnected.
//!         NetworkOutput::Connect { connection, host, port } => println!("{connection:?}: {host}:{port}"),
//!         NetworkOutput::Transmit { frame, .. } => println!("{} bytes to write", frame.byte_len()),
//!         NetworkOutput::Login { .. } | NetworkOutput::Close { .. } => {}
//!     }
//! }
//! while let Some(event) = network.poll_event() {
//!     if let NetworkEvent::MetadataChanged = event {
//!         println!("{} brokers", network.metadata().brokers().len());
//!     }
//! }
//! println!("next at {:?}", network.poll_timeout());
//! ```
//!
//! | machine | is told | gives |
//! | --- | --- | --- |
//! | [`network::NetworkClient`] | requests, frames, ends of connections, logins | connections to make, frames to write, answers |
//! | [`fetch::Fetcher`] | positions, answers, metadata | Fetch requests, [`fetch::FetchEvent`] |
//! | [`producer::Producer`] | sealed batches, verbs of transactions, answers, metadata | Produce and coordinator requests, [`producer::ProducerEvent`] |
//! | [`transaction::TransactionManager`] | the same verbs, without batches | coordinator requests, [`transaction::TransactionEvent`] |
//! | [`group::GroupMember`] | subscription, polls, numbers of partitions, answers | requests to the coordinator, [`group::GroupEvent`] |
//! | [`sasl::SaslExchange`] | a login, answers | SaslHandshake and SaslAuthenticate |
//!
//! # Bounds
//!
//! | what | bound |
//! | --- | --- |
//! | a frame | the limit given to [`frame::FrameDecoder::new`]; at most [`frame::EAGER_BYTES`] for a size alone |
//! | a message | a small multiple of its bytes ([`guard`]) |
//! | a decompressed batch | [`records::DecodeLimits`], 256 MiB by default |
//! | fetched, not released | [`fetch::FetchConfig::prefetch_bytes`], [`fetch::FetchConfig::partition_prefetch_bytes`] |
//! | written, not acknowledged | [`producer::ProducerConfig::buffer_memory`], for its caller to ask by [`has_capacity`](producer::Producer::has_capacity) |
//! | a throttle time, SCRAM rounds | five minutes; [`sasl::scram::MAX_ITERATIONS`] |
//!
//! # Brokers and platforms
//!
//! Client versions reach from Apache Kafka 2.5 to 4.4. Rust 1.95 or later; zstd is C, all else Rust.

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
