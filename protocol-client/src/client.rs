//! The client's handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millstream_protocol::fetch::{FetchConfig, FetchStart};
use millstream_protocol::messages::kp::MetadataResponse;
use millstream_protocol::network::{
    AddressFailure, ConnectionClass, Destination, NetworkClient, RequestError, metadata_request,
};
use millstream_protocol::producer as machine;
use millstream_protocol::{IsolationLevel, NodeId, Request, Response};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::attempts::Attempts;
use crate::consumer::ConsumerShared;
use crate::driver::{ClusterView, Command, Driver, RequestCommand};
use crate::net::SocketOptions;
use crate::producer::ProducerShared;
use crate::security::Security;
use crate::surroundings::{seed, spawn};
use crate::{ClientConfig, ClientError, PartitionConsumer, Producer};

/// A client of one cluster. Cheap to clone: all clones share one driver task on the runtime that
/// [`connect`](Self::connect) was called on, and its connections. The driver ends when the last clone and the last
/// consumer and producer made from them are gone, or with [`close`](Self::close).
///
/// # Calls
///
/// An asynchronous call repeats its request, with pauses by `retry.backoff.ms`, until there is an answer that decides it or
/// `default.api.timeout.ms` is over; the request that is under way then may take `request.timeout.ms` more. A dropped
/// future repeats nothing any more, and takes nothing back that was sent. Calls about several things share one limit.
///
/// # Errors of any call
///
/// Beside what a call says itself:
///
/// - [`ClientError::TimedOut`] and [`ClientError::NoBrokerReachable`]: no answer in time, with the last reason;
/// - [`ClientError::Security`]: at once, if certificate or credentials are not accepted;
/// - [`ClientError::Broker`]: a refusal that would be repeated, mostly a missing permission;
/// - [`ClientError::Unsupported`]: the brokers lack the API or the version that the call needs;
/// - [`ClientError::Request`]: the answer can not be read, or the request can not be written in the broker's version;
/// - [`ClientError::Closed`]: the client was closed, or its runtime ended.
#[derive(Clone, Debug)]
pub struct KafkaClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ClientConfig,
    commands: mpsc::UnboundedSender<Command>,
    view: Arc<ClusterView>,
    /// Numbers of consumers and producers; consumers' are lanes too, so they start above the fixed ones.
    next_handle: AtomicU32,
    /// The origin of the driver's time.
    started: Instant,
}

impl KafkaClient {
    /// Resolves, connects, negotiates versions, authenticates and reads metadata; then reaches one broker at the address
    /// that it advertises. Must be called on a tokio runtime with I/O and time enabled, where the driver then runs; it
    /// panics elsewhere. Stores of certificates are read from disk in the call. Dropped, it leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`ClientError::Config`] for a configuration that contradicts itself, or a store that can not be used.
    /// [`ClientError::NoBrokerReachable`] after 8 s, or `default.api.timeout.ms` if that was set,
    /// naming each address tried and why it failed; at once if every address speaks something else than Kafka.
    /// [`ClientError::TimedOut`] in the same time if something answers and is not ready. [`ClientError::Security`] at once
    /// for a certificate or credentials that are not accepted.
    pub async fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        config.validate()?;
        // Stores are read from disk; that a runtime's thread waits for it once does no harm.
        let security = Arc::new(Security::new(&config)?);
        let network = NetworkClient::new(config.network_config()?, seed());
        let (commands, inbox) = mpsc::unbounded_channel();
        let view = Arc::new(ClusterView::default());
        let options = SocketOptions {
            send_buffer_bytes: config.send_buffer_bytes,
            receive_buffer_bytes: config.receive_buffer_bytes,
        };
        let max_frame_bytes = config.max_response_frame_bytes;
        let started = Instant::now();
        let driver = Driver::new(
            network,
            inbox,
            Arc::clone(&view),
            options,
            security,
            max_frame_bytes,
            started,
        );
        // The loop keeps itself alive through its command channel, not through a handle.
        spawn(driver.run());
        let next_handle = AtomicU32::new(SLOW_LANE + 1);
        let shared = Shared { config, commands, view, next_handle, started };
        let client = Self { shared: Arc::new(shared) };
        client.reach_cluster().await?;
        Ok(client)
    }

    /// Reads metadata from a bootstrap server, then reaches a broker at the address it advertises: an address that only
    /// works inside the brokers' network shows here, by name, and not as calls that never end.
    async fn reach_cluster(&self) -> Result<(), ClientError> {
        let config = &self.shared.config;
        let is_default = config.default_api_timeout == ClientConfig::DEFAULT_API_TIMEOUT;
        let limit = if is_default && !config.is_explicit("default.api.timeout.ms") {
            CONNECT_LIMIT
        } else {
            config.default_api_timeout
        };
        let mut attempts =
            Attempts::new("connect".to_owned(), limit, config.retry_backoff(), seed());
        loop {
            let metadata = self.cluster_metadata(&mut attempts, &[]).await?;
            let mut last = String::from("the cluster names no brokers");
            for broker in metadata.brokers {
                let request = Request::Metadata(metadata_request(&[]));
                let ask = Ask::new(Destination::Node(NodeId(broker.node_id.0)), request);
                match self.request(ask, attempts.remaining()).await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.is_retriable() => last = error.to_string(),
                    Err(error) => return Err(ClientError::of_request("connect", error)),
                }
            }
            if let Err(timed_out) = attempts.pause(&last).await {
                let failures = self.address_failures().await;
                return Err(if failures.is_empty() {
                    timed_out
                } else {
                    ClientError::NoBrokerReachable { failures, after: limit }
                });
            }
        }
    }

    async fn address_failures(&self) -> Vec<AddressFailure> {
        let (reply, failures) = oneshot::channel();
        if self.shared.commands.send(Command::AddressFailures { reply }).is_err() {
            return Vec::new();
        }
        failures.await.unwrap_or_default()
    }

    /// The configuration the client was made with.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.shared.config
    }

    /// Closes the connections and ends the driver, for all clones. Calls under way fail with [`ClientError::Closed`];
    /// consumers end once what was fetched is read; batches that are not acknowledged are dropped, and whoever waits for
    /// them is told so. Groups are not left and nothing is committed: close their consumers first. A second call returns
    /// at once; a dropped one closes all the same.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.shared.commands.send(Command::Close { done }).is_ok() {
            // An error means that the driver is gone already.
            let _ = closed.await;
        }
    }

    /// How many brokers the cluster has, as last seen (Metadata). Asks nobody.
    #[must_use]
    pub fn broker_count(&self) -> usize {
        self.shared.view.broker_count.load(Ordering::Relaxed)
    }

    /// Finalized `transaction.version` (ApiVersions 3, KIP-584, KIP-890), as last seen: 2 or higher means that a commit takes
    /// the next epoch by itself. 0 if the cluster has none. Asks nobody.
    #[must_use]
    pub fn transaction_version(&self) -> i16 {
        self.shared.view.transaction_version.load(Ordering::Relaxed)
    }

    /// Starts fetching from explicit positions, in the background and at once, by the `fetch.*` properties; `isolation` takes
    /// the place of `isolation.level`. Further partitions come by [`assign`](PartitionConsumer::assign). Nothing can fail
    /// here: a topic that does not exist is told by an event, a closed client by the end of events.
    ///
    /// `notify` is called from the driver's task whenever events became available, and once at the end, so that a worker
    /// thread without tokio can park and be unparked. It must not block; a task that awaits
    /// [`next`](PartitionConsumer::next) needs none: `Arc::new(|| {})`.
    pub fn partition_consumer(
        &self,
        positions: Vec<FetchStart>,
        isolation: IsolationLevel,
        notify: Arc<dyn Fn() + Send + Sync>,
    ) -> PartitionConsumer {
        let consumer = self.shared.next_handle.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(ConsumerShared::new(notify));
        let config =
            FetchConfig { isolation_level: isolation, ..self.shared.config.fetch_config() };
        let open = Command::OpenConsumer {
            consumer,
            starts: positions,
            config,
            shared: Arc::clone(&shared),
        };
        if self.shared.commands.send(open).is_err() {
            shared.close();
        }
        PartitionConsumer::new(consumer, shared, self.shared.commands.clone())
    }

    /// A producer of sealed batches: plain idempotent (`None`), which takes an identity with its first batch, or
    /// transactional, which takes it by [`init_transactions`](Producer::init_transactions). No broker is asked before.
    /// Each call makes another producer; two with one transactional id fence each other.
    #[must_use]
    pub fn producer(&self, transactional_id: Option<&str>) -> Producer {
        let producer = self.shared.next_handle.fetch_add(1, Ordering::Relaxed);
        let config = self.shared.config.producer_config(transactional_id);
        let machine = machine::Producer::new(config, seed());
        let shared = Arc::new(ProducerShared::new(machine, self.shared.started));
        let open = Command::OpenProducer { producer, shared: Arc::clone(&shared) };
        if self.shared.commands.send(open).is_err() {
            shared.close();
        }
        Producer::new(producer, shared, self.shared.commands.clone())
    }

    pub(crate) fn attempts(&self, operation: impl Into<String>) -> Attempts {
        let config = &self.shared.config;
        Attempts::new(operation.into(), config.default_api_timeout, config.retry_backoff(), seed())
    }

    /// One request, and its answer of whatever kind. `limit`: how long it may wait to be sent.
    pub(crate) async fn request(
        &self,
        ask: Ask,
        limit: Duration,
    ) -> Result<Response, RequestError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Request(RequestCommand {
            destination: ask.destination,
            class: ConnectionClass::Control,
            lane: ask.lane,
            request: ask.request,
            max_version: ask.max_version,
            timeout: limit,
            reply,
        });
        self.shared.commands.send(command).map_err(|_| RequestError::Closed)?;
        answer.await.map_err(|_| RequestError::Closed)?
    }

    /// A number for connections that nobody else uses.
    pub(crate) fn new_lane(&self) -> u32 {
        self.shared.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// Closes the control connections of a lane.
    pub(crate) fn close_lane(&self, lane: u32) {
        // A closed client has closed them already.
        let _ = self.shared.commands.send(Command::CloseLane { lane });
    }

    pub(crate) fn refresh_metadata(&self) {
        // A closed client says so to the next request.
        let _ = self.shared.commands.send(Command::RefreshMetadata);
    }

    /// Metadata of these topics from any broker, repeated until there is an answer.
    pub(crate) async fn cluster_metadata(
        &self,
        attempts: &mut Attempts,
        topics: &[Arc<str>],
    ) -> Result<MetadataResponse, ClientError> {
        loop {
            let request = Request::Metadata(metadata_request(topics));
            let ask = Ask::new(Destination::AnyBroker, request);
            match self.request(ask, attempts.remaining()).await {
                Ok(Response::Metadata(metadata)) if !metadata.brokers.is_empty() => {
                    return Ok(metadata);
                }
                // A broker that is still starting knows of none.
                Ok(_) => attempts.pause("the broker names no brokers yet").await?,
                Err(error) => attempts.after(error).await?,
            }
        }
    }
}

/// A request of a call.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) destination: Destination,
    pub(crate) request: Request,
    max_version: Option<i16>,
    lane: u32,
}

impl Ask {
    pub(crate) fn new(destination: Destination, request: Request) -> Self {
        Self { destination, request, max_version: None, lane: 0 }
    }

    /// Not above this version.
    pub(crate) fn up_to(mut self, version: i16) -> Self {
        self.max_version = Some(version);
        self
    }

    /// Over a connection of its own (see [`KafkaClient::new_lane`]).
    pub(crate) fn on_lane(mut self, lane: u32) -> Self {
        self.lane = lane;
        self
    }

    /// Over a connection where a long answer holds up nobody.
    pub(crate) fn slow(mut self) -> Self {
        self.lane = SLOW_LANE;
        self
    }
}

/// Someone who waits for a first connection wants to hear of a wrong address sooner than a running client gives up; an
/// explicit `default.api.timeout.ms` counts instead.
const CONNECT_LIMIT: Duration = Duration::from_secs(8);

/// The lane of calls that a broker may take long for.
const SLOW_LANE: u32 = 1;
