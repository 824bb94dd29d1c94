//! The `sasl.*` properties, typed.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_protocol::sasl::jaas::JaasModule;
use millstream_protocol::sasl::{SaslMechanism, Secret};

/// SASL as configured (`sasl.*`). Used if [`SecurityProtocol::uses_sasl`](super::SecurityProtocol::uses_sasl).
///
/// Name and secret come from `sasl.jaas.config`, or from the fields beside it; fields that are set win.
#[derive(Clone, Debug, PartialEq)]
pub struct SaslConfig {
    /// `sasl.mechanism`. `None`: inferred from the login module where that leaves no choice. Kafka's own default is GSSAPI.
    pub mechanism: Option<SaslMechanism>,
    /// `sasl.jaas.config`.
    pub jaas: Option<JaasModule>,
    /// `sasl.username`, librdkafka's name.
    pub username: Option<String>,
    /// `sasl.password`, librdkafka's name.
    pub password: Option<Secret>,
    /// `sasl.oauthbearer.token.endpoint.url`: `https:` for client credentials, `file:` for a token that someone else renews.
    pub token_endpoint_url: Option<String>,
    /// `sasl.oauthbearer.client.credentials.client.id`.
    pub client_id: Option<String>,
    /// `sasl.oauthbearer.client.credentials.client.secret`.
    pub client_secret: Option<Secret>,
    /// `sasl.oauthbearer.scope`.
    pub scope: Option<String>,
    /// `sasl.oauthbearer.header.urlencode`: whether id and secret are URL-encoded in the Authorization header. Default false.
    pub header_urlencode: bool,
    /// `sasl.oauthbearer.token` (ours): a token that is used as it is.
    pub token: Option<Secret>,
    /// `sasl.oauthbearer.extensions`, librdkafka's name: SASL extensions (KIP-342).
    pub extensions: BTreeMap<String, String>,
    /// Set by `sasl.login.callback.handler.class` of Amazon's library: OAUTHBEARER tokens are signed with Amazon credentials.
    pub aws_bearer_token: bool,
    /// `sasl.login.connect.timeout.ms`. Default 10 s.
    pub login_connect_timeout: Duration,
    /// `sasl.login.read.timeout.ms`. Default 10 s.
    pub login_read_timeout: Duration,
    /// `sasl.login.retry.backoff.ms`. Default 100 ms.
    pub login_retry_backoff: Duration,
    /// `sasl.login.retry.backoff.max.ms`: the longest pause, and for how long the endpoint is tried for one login. Default
    /// 10 s.
    pub login_retry_backoff_max: Duration,
    /// `sasl.login.refresh.window.factor`: the part of a token's life after which a new one is asked for. Default 0.8.
    pub refresh_window_factor: f64,
    /// `sasl.login.refresh.window.jitter`: how much later at random, as a part of its life. Default 0.05.
    pub refresh_window_jitter: f64,
    /// `sasl.login.refresh.min.period.seconds`: no new token before. Default 60 s.
    pub refresh_min_period: Duration,
    /// `sasl.login.refresh.buffer.seconds`: a new token at the latest so long before the old one ends. Default 300 s.
    pub refresh_buffer: Duration,
}

impl Default for SaslConfig {
    fn default() -> Self {
        Self {
            mechanism: None,
            jaas: None,
            username: None,
            password: None,
            token_endpoint_url: None,
            client_id: None,
            client_secret: None,
            scope: None,
            header_urlencode: false,
            token: None,
            extensions: BTreeMap::new(),
            aws_bearer_token: false,
            login_connect_timeout: Duration::from_secs(10),
            login_read_timeout: Duration::from_secs(10),
            login_retry_backoff: Duration::from_millis(100),
            login_retry_backoff_max: Duration::from_secs(10),
            refresh_window_factor: 0.8,
            refresh_window_jitter: 0.05,
            refresh_min_period: Duration::from_secs(60),
            refresh_buffer: Duration::from_secs(300),
        }
    }
}
