//! Typed values one after the other, checked once at the end.

use std::time::Duration;

use millstream_protocol::IsolationLevel;
use millstream_protocol::group::assignor::Assignor;
use millstream_protocol::records::Compression;

use super::{ClientConfig, ConfigError, GroupProtocol, OffsetReset};
use crate::security::{SaslConfig, SecurityProtocol, TlsConfig};

/// Builds a [`ClientConfig`]. Each method sets the field of its name, which is documented there with unit and default.
///
/// ```
/// # use std::time::Duration;
/// # use millstream_protocol_client::ClientConfig;
/// let config = ClientConfig::builder("broker-1:9092,broker-2:9092")
///     .client_id("orders")
///     .request_timeout(Duration::from_secs(10))
///     .property("isolation.level", "read_uncommitted")
///     .build()?;
/// assert_eq!(config.client_id, "orders");
/// # Ok::<(), millstream_protocol_client::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "the configuration comes from `build`"]
pub struct ClientConfigBuilder {
    config: ClientConfig,
    /// The first property that was refused.
    refused: Option<ConfigError>,
}

/// A method for each field.
macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {
        $(
            #[doc = concat!("Sets [`ClientConfig::", stringify!($field), "`](field@ClientConfig::", stringify!($field), ").")]
            pub fn $field(mut self, $field: impl Into<$type>) -> Self {
                self.config.$field = $field.into();
                self
            }
        )*
    };
}

impl ClientConfigBuilder {
    pub(super) fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self { config: ClientConfig::new(bootstrap_servers), refused: None }
    }

    setters! {
        client_id: String,
        request_timeout: Duration,
        default_api_timeout: Duration,
        connection_setup_timeout: Duration,
        connection_setup_timeout_max: Duration,
        reconnect_backoff: Duration,
        reconnect_backoff_max: Duration,
        retry_backoff: Duration,
        retry_backoff_max: Duration,
        metadata_max_age: Duration,
        connections_max_idle: Duration,
        send_buffer_bytes: Option<u32>,
        receive_buffer_bytes: Option<u32>,
        max_response_frame_bytes: usize,
        client_rack: Option<String>,
        group_id: Option<String>,
        group_instance_id: Option<String>,
        group_protocol: GroupProtocol,
        group_remote_assignor: Option<String>,
        partition_assignment_strategy: Vec<Assignor>,
        session_timeout: Duration,
        heartbeat_interval: Duration,
        max_poll_interval: Duration,
        enable_auto_commit: bool,
        auto_commit_interval: Duration,
        auto_offset_reset: OffsetReset,
        isolation_level: IsolationLevel,
        fetch_min_bytes: u32,
        fetch_max_bytes: u32,
        fetch_max_wait: Duration,
        max_partition_fetch_bytes: u32,
        exclude_internal_topics: bool,
        transaction_timeout: Duration,
        delivery_timeout: Duration,
        batch_size: u32,
        linger: Duration,
        buffer_memory: usize,
        max_block: Duration,
        max_request_size: u32,
        max_in_flight: u32,
        compression_type: Compression,
        compression_gzip_level: Option<i32>,
        compression_zstd_level: Option<i32>,
        partitioner_ignore_keys: bool,
        security_protocol: SecurityProtocol,
        tls: TlsConfig,
        sasl: SaslConfig,
    }

    /// Sets a property by name, as [`ClientConfig::set`]; the first that is refused is told by [`build`](Self::build).
    pub fn property(mut self, name: &str, value: &str) -> Self {
        if let Err(error) = self.config.set(name, value) {
            self.refused.get_or_insert(error);
        }
        self
    }

    /// The configuration.
    ///
    /// # Errors
    ///
    /// The [`ConfigError`] of the first property that was refused, else that of [`ClientConfig::validate`].
    pub fn build(self) -> Result<ClientConfig, ConfigError> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        self.config.validate()?;
        Ok(self.config)
    }
}
