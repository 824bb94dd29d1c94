//! Configuration by Kafka's property names, with typed fields behind them.
//!
//! Every name is either honoured, accepted without effect and listed by [`ClientConfig::ignored`], or refused with the
//! reason. Nothing is dropped silently: a property that looks like it works and does not has cost jobs their data.

mod aliases;
mod builder;
mod error;
mod group;
mod librdkafka_properties;
mod properties;
mod properties_file;
mod provider;
mod security_properties;
mod value;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::bounded_file;
use crate::security::{SaslConfig, SecurityProtocol, TlsConfig};
pub use aliases::{PropertyAlias, property_aliases};
pub use builder::ClientConfigBuilder;
pub use error::ConfigError;
pub use group::GroupProtocol;
use millstream_protocol::IsolationLevel;
use millstream_protocol::backoff::ExponentialBackoff;
use millstream_protocol::fetch::FetchConfig;
use millstream_protocol::group::assignor::Assignor;
use millstream_protocol::network::NetworkConfig;
use millstream_protocol::producer::ProducerConfig;
use millstream_protocol::records::Compression;
pub use properties::{Property, PropertyEffect, properties};
pub use properties_file::parse_properties;

/// What a [`KafkaClient`](crate::KafkaClient) is told: addresses, timeouts, bounds. Start with [`ClientConfig::new`], then
/// set fields, or properties by their Java names with [`ClientConfig::set`].
///
/// By name, durations are whole milliseconds and sizes whole bytes, from 0 or 1 to 2^31 - 1 (`buffer.memory`, `max.block.ms`,
/// `metadata.max.age.ms` and `connections.max.idle.ms` beyond that); what is out of range is refused with the range. Fields
/// are taken as they are: [`validate`](Self::validate) looks at what contradicts. A client keeps the
/// configuration that it was made with.
///
/// ```
/// # use millstream_protocol_client::ClientConfig;
/// let mut config = ClientConfig::new("broker-1:9092,broker-2:9092");
/// config.set("request.timeout.ms", "20000")?;
/// let error = config.set("request.timeout.m", "20000").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown property 'request.timeout.m': did you mean 'request.timeout.ms'?"
/// );
/// # Ok::<(), millstream_protocol_client::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConfig {
    /// `bootstrap.servers`: addresses `host:port` or `[v6]:port`, at least one; the other brokers are learnt from the first
    /// that answers. All addresses of a name are tried. Asked again when no known broker answers (KIP-899).
    pub bootstrap_servers: Vec<String>,
    /// `client.id`, sent with each request as it is; brokers log it and count quotas by it. Default empty.
    pub client_id: String,
    /// `request.timeout.ms`: how long a broker may take to answer one request; a Fetch may take `fetch.max.wait.ms` longer.
    /// The connection of a late answer is closed. Default 30 s.
    pub request_timeout: Duration,
    /// `default.api.timeout.ms`: how long one call repeats its request, and how long a reader bears an unknown topic. The
    /// first connection is given 8 s, unless this was set to anything else, or by name. Default 60 s.
    pub default_api_timeout: Duration,
    /// `socket.connection.setup.timeout.ms`: first limit for connecting, TLS and negotiating; authenticating has
    /// `request.timeout.ms`. Default 10 s.
    pub connection_setup_timeout: Duration,
    /// `socket.connection.setup.timeout.max.ms`: what it grows to, doubled with each failure. Default 30 s.
    pub connection_setup_timeout_max: Duration,
    /// `reconnect.backoff.ms`: pause before the next connection to a broker after a failure, ±20 %. Default 50 ms.
    pub reconnect_backoff: Duration,
    /// `reconnect.backoff.max.ms`: what it grows to, doubled with each failure (KIP-144). Default 1 s.
    pub reconnect_backoff_max: Duration,
    /// `retry.backoff.ms`: pause before a request is repeated, ±20 %. Default 100 ms.
    pub retry_backoff: Duration,
    /// `retry.backoff.max.ms`: what it grows to, doubled with each failure (KIP-580). Default 1 s.
    pub retry_backoff_max: Duration,
    /// `metadata.max.age.ms`: metadata of the topics in use are asked for again after so long, sooner if an answer shows that
    /// they are old. Also how soon new partitions and replicas nearby are noticed. Default 5 min.
    pub metadata_max_age: Duration,
    /// `connections.max.idle.ms`: a connection without requests is closed after so long. Default 9 min, a minute less than a
    /// broker's.
    pub connections_max_idle: Duration,
    /// `send.buffer.bytes`: the socket's send buffer; `None` (-1) leaves it to the system. Default `None`; Kafka's own is
    /// 128 KiB.
    pub send_buffer_bytes: Option<u32>,
    /// `receive.buffer.bytes`: the socket's receive buffer; `None` (-1) leaves it to the system, which grows it as needed.
    /// Default `None`; Kafka's own is 32 or 64 KiB.
    pub receive_buffer_bytes: Option<u32>,
    /// `max.response.frame.bytes` (ours): the longest answer accepted in bytes, by name from 1024; a longer one closes the
    /// connection. At least the largest batch of any topic, which a broker sends whole (KIP-74), and `fetch.max.bytes`.
    /// Default 128 MiB.
    pub max_response_frame_bytes: usize,

    /// `client.rack`: where this client is. Partitions are then read from a replica nearby, if the brokers choose one
    /// (KIP-392, `replica.selector.class`). Default none.
    pub client_rack: Option<String>,
    /// `group.id`: the group that [`group_consumer`](crate::KafkaClient::group_consumer) makes a member of. Default none.
    pub group_id: Option<String>,
    /// `group.instance.id`: makes a member static (KIP-345), so that it keeps its partitions over a restart. Default none.
    pub group_instance_id: Option<String>,
    /// `group.protocol`: who assigns partitions, the members (`classic`) or the broker (`consumer`, KIP-848). Default
    /// classic.
    pub group_protocol: GroupProtocol,
    /// `group.remote.assignor`: the broker's assignor, for `group.protocol=consumer`. Default the broker's first.
    pub group_remote_assignor: Option<String>,
    /// `partition.assignment.strategy`: the members' assignors, the preferred first, for `group.protocol=classic`. Default
    /// range and cooperative-sticky, as Java's.
    pub partition_assignment_strategy: Vec<Assignor>,
    /// `session.timeout.ms`: a member that is not heard for so long loses its partitions (classic; brokers bound it by
    /// `group.min.session.timeout.ms` and `group.max.session.timeout.ms`). Default 45 s.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`, below the session timeout, at best a third of it (classic). Default 3 s.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`: a member whose reader takes longer between two events leaves the group. Also how long the
    /// others wait for it in a rebalance. Default 5 min.
    pub max_poll_interval: Duration,
    /// `enable.auto.commit`: members commit what is processed, now and then and before they give up partitions. Default true.
    pub enable_auto_commit: bool,
    /// `auto.commit.interval.ms`: between two of these commits. Default 5 s.
    pub auto_commit_interval: Duration,
    /// `auto.offset.reset`: where a member of a group starts without a committed position, or with one outside the log.
    /// Default latest.
    pub auto_offset_reset: OffsetReset,
    /// `isolation.level`: which records members of groups see (KIP-98); a job of the engine takes `read_committed` only.
    /// Default `read_committed`; Kafka's own is `read_uncommitted`.
    pub isolation_level: IsolationLevel,
    /// `fetch.min.bytes`: bytes that let a broker answer before `fetch.max.wait.ms` is over. Default 1.
    pub fetch_min_bytes: u32,
    /// `fetch.max.bytes`: limit of one fetch answer; a single larger batch is sent all the same (KIP-74). Default 50 MiB.
    pub fetch_max_bytes: u32,
    /// `fetch.max.wait.ms`: how long a broker may hold a fetch while there is too little. Default 500 ms.
    pub fetch_max_wait: Duration,
    /// `max.partition.fetch.bytes`: limit of one partition in one answer, a single larger batch excepted. A partition with as
    /// many bytes that its reader has not taken is not asked for. Default 1 MiB.
    pub max_partition_fetch_bytes: u32,
    /// `exclude.internal.topics`. Without effect: topics are subscribed to by name. Default true.
    pub exclude_internal_topics: bool,

    /// `transaction.timeout.ms`: the broker aborts a transaction that is open for longer. At most the broker's
    /// `transaction.max.timeout.ms` (15 min by default). Default 60 s.
    pub transaction_timeout: Duration,
    /// `delivery.timeout.ms`: how long a batch may take from its sealing (in a transaction that is not open yet, from its
    /// begin) to its acknowledgement, an answer that is under way excepted (KIP-91). At least `linger.ms` and
    /// `request.timeout.ms` together. Default 120 s.
    pub delivery_timeout: Duration,
    /// `batch.size`: bytes of a record batch before compression; a larger record has a batch of its own, and with 0 every record. Default 1 MiB;
    /// Kafka's own is 16 KiB.
    pub batch_size: u32,
    /// `linger.ms`: how long a batch may wait for more records. Default 20 ms; Kafka's own is 5.
    pub linger: Duration,
    /// `buffer.memory`: bytes of sealed batches that wait for their acknowledgement, per producer; for later transactions
    /// once more. Default 32 MiB.
    pub buffer_memory: usize,
    /// `max.block.ms`: how long a record may wait for room or its topic, and an identity or an abort for its answer. Default
    /// 60 s.
    pub max_block: Duration,
    /// `max.request.size`: limit of the batches in one produce request, and of one record of a
    /// [`RecordProducer`](crate::RecordProducer); one batch always fits. Default 8 MiB, so that batches of several
    /// partitions share a request; Kafka's own is 1 MiB.
    pub max_request_size: u32,
    /// `max.in.flight.requests.per.connection`, 1 to 5: a broker knows five batches of a producer again (KIP-98). Default 5.
    pub max_in_flight: u32,
    /// `compression.type` of a [`RecordProducer`](crate::RecordProducer)'s batches; a
    /// [`Producer`](crate::Producer)'s are sealed already. Default none.
    pub compression_type: Compression,
    /// `compression.gzip.level`, 0 to 9 (KIP-390); `None` (-1) is the codec's default. Default `None`.
    pub compression_gzip_level: Option<i32>,
    /// `compression.zstd.level`, -131072 to 22 (KIP-390); `None` is the codec's default (3). Default `None`.
    pub compression_zstd_level: Option<i32>,
    /// `partitioner.ignore.keys`: records with a key are spread like those without (KIP-794). Default false.
    pub partitioner_ignore_keys: bool,

    /// `security.protocol`: how connections are protected. Default PLAINTEXT.
    pub security_protocol: SecurityProtocol,
    /// `ssl.*`, of effect with SSL and SASL_SSL, and for an OAuth token endpoint.
    pub tls: TlsConfig,
    /// `sasl.*`, of effect with SASL_PLAINTEXT and SASL_SSL.
    pub sasl: SaslConfig,

    ignored: BTreeSet<&'static str>,
    explicit: BTreeSet<&'static str>,
    /// Those of `explicit` that only another client's name has set.
    by_alias: BTreeSet<&'static str>,
    /// Other clients' names that were set beside Kafka's.
    overruled: BTreeSet<&'static str>,
}

/// Where reading starts when there is no position (`auto.offset.reset`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record that still exists.
    Earliest,
    /// After the last record.
    #[default]
    Latest,
    /// At the first record whose timestamp is at most so old (KIP-1106; `by_duration:PnDTnHnMnS`), or after the last if none
    /// is. Parts of a millisecond are cut.
    ByDuration(Duration),
    /// Nowhere: the partition is not read, and [`PositionError`](crate::PositionError) says why.
    None,
}

impl ClientConfig {
    pub(crate) const DEFAULT_API_TIMEOUT: Duration = Duration::from_secs(60);

    /// Kafka's defaults (ours where a field says so) for `bootstrap_servers`, a comma-separated list of `host:port`.
    /// The addresses are checked by [`validate`](Self::validate), which [`connect`](crate::KafkaClient::connect) calls.
    #[must_use]
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self {
            bootstrap_servers: value::list(&bootstrap_servers.into()),
            client_id: String::new(),
            request_timeout: Duration::from_secs(30),
            default_api_timeout: Self::DEFAULT_API_TIMEOUT,
            connection_setup_timeout: Duration::from_secs(10),
            connection_setup_timeout_max: Duration::from_secs(30),
            reconnect_backoff: Duration::from_millis(50),
            reconnect_backoff_max: Duration::from_secs(1),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_secs(300),
            connections_max_idle: Duration::from_secs(540),
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            max_response_frame_bytes: 128 * MIB,
            client_rack: None,
            group_id: None,
            group_instance_id: None,
            group_protocol: GroupProtocol::Classic,
            group_remote_assignor: None,
            partition_assignment_strategy: vec![Assignor::Range, Assignor::CooperativeSticky],
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            max_poll_interval: Duration::from_secs(300),
            enable_auto_commit: true,
            auto_commit_interval: Duration::from_secs(5),
            auto_offset_reset: OffsetReset::Latest,
            isolation_level: IsolationLevel::ReadCommitted,
            fetch_min_bytes: 1,
            fetch_max_bytes: 50 << 20,
            fetch_max_wait: Duration::from_millis(500),
            max_partition_fetch_bytes: 1 << 20,
            exclude_internal_topics: true,
            transaction_timeout: Duration::from_secs(60),
            delivery_timeout: Duration::from_secs(120),
            batch_size: 1 << 20,
            linger: Duration::from_millis(20),
            buffer_memory: 32 * MIB,
            max_block: Duration::from_secs(60),
            max_request_size: 8 << 20,
            max_in_flight: 5,
            compression_type: Compression::None,
            compression_gzip_level: None,
            compression_zstd_level: None,
            partitioner_ignore_keys: false,
            security_protocol: SecurityProtocol::Plaintext,
            tls: TlsConfig::default(),
            sasl: SaslConfig::default(),
            ignored: BTreeSet::new(),
            explicit: BTreeSet::new(),
            by_alias: BTreeSet::new(),
            overruled: BTreeSet::new(),
        }
    }

    /// A builder of typed values and properties, checked at its end. `bootstrap_servers` as for [`new`](Self::new).
    pub fn builder(bootstrap_servers: impl Into<String>) -> ClientConfigBuilder {
        ClientConfigBuilder::new(bootstrap_servers)
    }

    /// The level for [`compression_type`](Self::compression_type); `None` is the codec's default.
    #[must_use]
    pub const fn compression_level(&self) -> Option<i32> {
        match self.compression_type {
            Compression::Gzip => self.compression_gzip_level,
            Compression::Zstd => self.compression_zstd_level,
            Compression::None | Compression::Snappy | Compression::Lz4 => None,
        }
    }

    /// Sets one property by its Java name, or by librdkafka's ([`property_aliases`]), over which Java's wins. A later value
    /// replaces an earlier one. `${env:NAME}` and `${file:PATH:KEY}` in the value are replaced (KIP-297; the file has Java's
    /// properties format and at most 1 MiB, and is read in the call).
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the name is unknown (with the nearest known one), known but not supported (with the reason), the
    /// value is not of its type or range, or leads nowhere. The configuration is then unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        properties::set(self, name, value)
    }

    /// Sets several properties.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set); all properties before the first bad one are set.
    pub fn set_all<'a>(
        &mut self,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), ConfigError> {
        properties.into_iter().try_for_each(|(name, value)| self.set(name, value))
    }

    /// With properties given as `key=value`, as on a command line. The first `=` separates; blanks around both are dropped.
    ///
    /// # Errors
    ///
    /// [`ConfigError::NotKeyValue`], else as [`set`](Self::set).
    pub fn with(
        mut self,
        properties: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, ConfigError> {
        for property in properties {
            let text = property.as_ref();
            let (name, value) = text.split_once('=').ok_or_else(|| {
                let shown = if properties::is_like_a_name(text) { text } else { "…" };
                ConfigError::NotKeyValue { text: shown.to_owned() }
            })?;
            self.set(name.trim(), value.trim())?;
        }
        Ok(self)
    }

    /// With the properties of a file in Java's format, as `--command-config` of Kafka's own tools takes it.
    ///
    /// # Errors
    ///
    /// [`ConfigError::File`]; [`ConfigError::Line`] with the place of what [`set`](Self::set) refuses.
    pub fn with_file(mut self, path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let shown = || path.as_ref().display().to_string();
        let text = bounded_file::read_text(path.as_ref())
            .map_err(|error| ConfigError::File { path: shown(), reason: error.to_string() })?;
        for (line, name, value) in properties_file::numbered_properties(&text) {
            self.set(&name, &value).map_err(|source| ConfigError::Line {
                path: shown(),
                line,
                source: Box::new(source),
            })?;
        }
        Ok(self)
    }

    /// Properties that were set by name and have no effect here, with the reason. Worth telling the user once; the client
    /// does not.
    #[must_use]
    pub fn ignored(&self) -> Vec<(&'static str, &'static str)> {
        let overruled = self
            .overruled
            .iter()
            .map(|name| (*name, "Kafka's own name for it is set too and wins"));
        properties()
            .iter()
            .filter(|property| self.ignored.contains(property.name))
            .filter_map(|property| match property.effect {
                PropertyEffect::Ignored(reason) => Some((property.name, reason)),
                _ => None,
            })
            .chain(overruled)
            .collect()
    }

    /// True if the property, by Kafka's name, was set by name. A field that was set directly does not count.
    #[must_use]
    pub fn is_explicit(&self, name: &str) -> bool {
        self.explicit.contains(name)
    }

    /// Checks what no single property shows. [`connect`](crate::KafkaClient::connect) does it first.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] for a missing or malformed address, and if `delivery.timeout.ms` is below `linger.ms` and
    /// `request.timeout.ms` together. Members of groups need [`validate_group`](Self::validate_group) besides.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.bootstrap_addresses()?;
        if self.delivery_timeout < self.linger + self.request_timeout {
            return Err(ConfigError::Invalid {
                name: "delivery.timeout.ms",
                value: self.delivery_timeout.as_millis().to_string(),
                expected: "at least linger.ms + request.timeout.ms".to_owned(),
            });
        }
        Ok(())
    }

    pub(crate) fn network_config(&self) -> Result<NetworkConfig, ConfigError> {
        let mut network = NetworkConfig::new(self.bootstrap_addresses()?);
        network.client_id.clone_from(&self.client_id);
        network.request_timeout = self.request_timeout;
        network.connection_setup_timeout = self.connection_setup_timeout;
        network.connection_setup_timeout_max = self.connection_setup_timeout_max;
        network.reconnect_backoff =
            ExponentialBackoff::new(self.reconnect_backoff, self.reconnect_backoff_max);
        network.retry_backoff = self.retry_backoff();
        network.metadata_max_age = self.metadata_max_age;
        network.connections_max_idle = self.connections_max_idle;
        network.authenticate = self.security_protocol.uses_sasl();
        network.max_in_flight = usize::try_from(self.max_in_flight).unwrap_or(5);
        Ok(network)
    }

    pub(crate) fn fetch_config(&self) -> FetchConfig {
        let bound = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
        FetchConfig {
            isolation_level: self.isolation_level,
            max_wait: self.fetch_max_wait,
            min_bytes: bound(self.fetch_min_bytes),
            max_bytes: bound(self.fetch_max_bytes),
            max_partition_bytes: bound(self.max_partition_fetch_bytes),
            partition_prefetch_bytes: usize::try_from(self.max_partition_fetch_bytes)
                .unwrap_or(usize::MAX),
            request_timeout: self.request_timeout,
            retry_backoff: self.retry_backoff(),
            patience: self.default_api_timeout,
            rack_id: self.client_rack.as_deref().unwrap_or_default().into(),
            read_replica_lease: self.metadata_max_age,
            ..FetchConfig::default()
        }
    }

    pub(crate) fn producer_config(&self, transactional_id: Option<&str>) -> ProducerConfig {
        let size = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut config = ProducerConfig::new(transactional_id.map(Arc::from));
        config.transaction.transaction_timeout = self.transaction_timeout;
        config.transaction.request_timeout = self.request_timeout;
        config.transaction.retry_backoff = self.retry_backoff();
        config.transaction.max_block = self.max_block;
        config.buffer_memory = self.buffer_memory;
        config.max_request_size = size(self.max_request_size);
        config.max_in_flight = size(self.max_in_flight);
        config.delivery_timeout = self.delivery_timeout;
        config.request_timeout = self.request_timeout;
        config.retry_backoff = self.retry_backoff();
        config
    }

    pub(crate) fn retry_backoff(&self) -> ExponentialBackoff {
        ExponentialBackoff::new(self.retry_backoff, self.retry_backoff_max)
    }

    fn bootstrap_addresses(&self) -> Result<Vec<(Arc<str>, u16)>, ConfigError> {
        if self.bootstrap_servers.is_empty() {
            return Err(ConfigError::Invalid {
                name: "bootstrap.servers",
                value: String::new(),
                expected: "at least one address host:port".to_owned(),
            });
        }
        let addresses: Result<Vec<_>, _> =
            self.bootstrap_servers.iter().map(|text| value::address(text)).collect();
        addresses.map_err(|expected| ConfigError::Invalid {
            name: "bootstrap.servers",
            value: self.bootstrap_servers.join(","),
            expected,
        })
    }
}

/// One address `host:port`.
pub(crate) fn address_of(text: &str) -> Result<(Arc<str>, u16), ConfigError> {
    value::address(text).map_err(|expected| ConfigError::Invalid {
        name: "bootstrap.servers",
        value: text.to_owned(),
        expected,
    })
}

const MIB: usize = 1 << 20;

#[cfg(test)]
mod tests;
