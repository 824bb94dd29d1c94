//! The `sasl.*` properties, typed.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_protocol::sasl::jaas::JaasModule;
use millstream_protocol::sasl::{SaslMechanism, Secret};

/// SASL as configured (`sasl.*`). Used if [`SecurityProtocol::uses_sasl`](super::SecurityProtocol::uses_sasl).
///
/// Name and secret come from `sasl.jaas.config`, or from the fields beside it; fields that are set win. What does not fit
/// together is refused by [`connect`](crate::KafkaClient::connect) with [`ConfigError`](crate::ConfigError). Connections are
/// authenticated again on the same connection before the broker's `connections.max.reauth.ms` is over (KIP-368).
#[derive(Clone, Debug, PartialEq)]
pub struct SaslConfig {
    /// `sasl.mechanism`. `None`: inferred from the login module where that leaves no choice. Kafka's own default is GSSAPI.
    pub mechanism: Option<SaslMechanism>,
    /// `sasl.jaas.config`: one login module of Java's, told by the last part of its class: PlainLoginModule, ScramLoginModule
    /// (`tokenauth` too, KIP-48), OAuthBearerLoginModule, IAMLoginModule. An option that is not known is refused.
    pub jaas: Option<JaasModule>,
    /// `sasl.username`, librdkafka's name.
    pub username: Option<String>,
    /// `sasl.password`, librdkafka's name.
    pub password: Option<Secret>,
    /// `sasl.oauthbearer.token.endpoint.url`: `https:` for client credentials, `file:` for a token that someone else
    /// renews, read for every login (KIP-768).
    pub token_endpoint_url: Option<String>,
    /// `sasl.oauthbearer.client.credentials.client.id` (Kafka 4.1), or `clientId` in the login module.
    pub client_id: Option<String>,
    /// `sasl.oauthbearer.client.credentials.client.secret`, or `clientSecret` in the login module.
    pub client_secret: Option<Secret>,
    /// `sasl.oauthbearer.scope`, or `scope` in the login module. Default none.
    pub scope: Option<String>,
    /// `sasl.oauthbearer.header.urlencode`: whether id and secret are URL-encoded in the Authorization header. Default false.
    pub header_urlencode: bool,
    /// `sasl.oauthbearer.token` (ours), or `token` in the login module: a token that is used as it is, and never renewed.
    pub token: Option<Secret>,
    /// `sasl.oauthbearer.extensions`, librdkafka's name: SASL extensions (KIP-342).
    pub extensions: BTreeMap<String, String>,
    /// Set by `sasl.login.callback.handler.class` of Amazon's library: OAUTHBEARER tokens are signed with Amazon credentials,
    /// those of the login module (`awsAccessKeyId`, `awsSecretAccessKey`) or of the environment (`AWS_ACCESS_KEY_ID`, …).
    /// Profiles and roles are not read. Default false.
    pub aws_bearer_token: bool,
    /// `sasl.login.connect.timeout.ms`: connecting to the token endpoint, TLS included. Default 10 s; Kafka's own is none.
    pub login_connect_timeout: Duration,
    /// `sasl.login.read.timeout.ms`: one answer of the token endpoint. Default 10 s; Kafka's own is none.
    pub login_read_timeout: Duration,
    /// `sasl.login.retry.backoff.ms`: the first pause before it is asked again, doubled each time. Default 100 ms.
    pub login_retry_backoff: Duration,
    /// `sasl.login.retry.backoff.max.ms`: the longest pause, and for how long the endpoint is tried for one login. Default
    /// 10 s.
    pub login_retry_backoff_max: Duration,
    /// `sasl.login.refresh.window.factor`: the part of a token's life after which a new one is asked for, with
    /// the next login. By name 0.5 to 1. Default 0.8.
    pub refresh_window_factor: f64,
    /// `sasl.login.refresh.window.jitter`: how much later at random, as a part of its life. By name 0 to 0.25. Default 0.05.
    pub refresh_window_jitter: f64,
    /// `sasl.login.refresh.min.period.seconds`: no new token before. By name 0 to 900 s. Default 60 s.
    pub refresh_min_period: Duration,
    /// `sasl.login.refresh.buffer.seconds`: a new token at the latest so long before the old one ends. A life that is shorter
    /// than this and the minimum together goes by neither. By name 0 to 3600 s. Default 300 s.
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
