//! What a [`NetworkClient`](super::NetworkClient) is told once.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::ExponentialBackoff;

/// Addresses, timeouts and bounds of a [`NetworkClient`](super::NetworkClient). The defaults are those of Kafka 4.x.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// `host` and `port` of each bootstrap server, in the order configured; at least one.
    pub bootstrap_servers: Vec<(Arc<str>, u16)>,
    /// `client.id`, sent in each request header; brokers log it and count quotas by it.
    pub client_id: String,
    /// How long a broker may take to answer (`request.timeout.ms`). A fetch may take `max_wait_ms` longer.
    /// Default 30 s.
    pub request_timeout: Duration,
    /// First time allowed for TCP connect and version negotiation together (`socket.connection.setup.timeout.ms`).
    /// Default 10 s.
    pub connection_setup_timeout: Duration,
    /// What that time grows to with each failure (`socket.connection.setup.timeout.max.ms`). Default
    /// 30 s.
    pub connection_setup_timeout_max: Duration,
    /// Delay between connection attempts to one broker (`reconnect.backoff.ms`, `reconnect.backoff.max.ms`). Default 50 ms
    /// to 1 s.
    pub reconnect_backoff: ExponentialBackoff,
    /// Delay between repeated requests (`retry.backoff.ms`, `retry.backoff.max.ms`). Default 100 ms to 1 s.
    pub retry_backoff: ExponentialBackoff,
    /// How old the metadata may become (`metadata.max.age.ms`). Default 5 min.
    pub metadata_max_age: Duration,
    /// A connection without requests is closed after this time (`connections.max.idle.ms`). Default 9 min.
    pub connections_max_idle: Duration,
    /// True if each connection must authenticate before its first request (`security.protocol` SASL_*): the machine then
    /// asks for a login by [`NetworkOutput::Login`](super::NetworkOutput::Login).
    pub authenticate: bool,
    /// Requests of one connection that may await answers (`max.in.flight.requests.per.connection`), at least 1.
    /// Default 5.
    pub max_in_flight: usize,
}

impl NetworkConfig {
    /// Kafka's defaults for these bootstrap servers.
    #[must_use]
    pub fn new(bootstrap_servers: Vec<(Arc<str>, u16)>) -> Self {
        Self {
            bootstrap_servers,
            client_id: String::new(),
            request_timeout: Duration::from_secs(30),
            connection_setup_timeout: Duration::from_secs(10),
            connection_setup_timeout_max: Duration::from_secs(30),
            reconnect_backoff: ExponentialBackoff::new(
                Duration::from_millis(50),
                Duration::from_secs(1),
            ),
            retry_backoff: ExponentialBackoff::new(
                Duration::from_millis(100),
                Duration::from_secs(1),
            ),
            metadata_max_age: Duration::from_secs(300),
            connections_max_idle: Duration::from_secs(540),
            authenticate: false,
            max_in_flight: 5,
        }
    }
}
