//! TLS and SASL: from properties to encrypted, authenticated connections.
//!
//! TLS is rustls with the ring provider. Without a truststore the system's certificates are trusted and, where there are
//! none (a scratch image), Mozilla's, which are built in: a static binary must work in both places. Verification of chain,
//! time and name is always on; only the name check can be switched off, by Kafka's own property, and it is logged.

mod aws;
mod ec_key;
mod http;
mod identity;
mod jks;
mod login;
mod oauth;
mod pem;
mod roots;
mod rotation;
mod sasl_config;
mod store;
mod tls;
mod tls_config;
mod tls_error;
mod token_cache;

use std::sync::Arc;

use millstream_protocol::network::DisconnectReason;
use millstream_protocol::sasl::SaslLogin;
use tokio::net::TcpStream;

pub use sasl_config::SaslConfig;
pub use store::StoreType;
pub use tls_config::{KeyStoreConfig, TlsConfig, TlsVersion, TrustStoreConfig};

use crate::net::Stream;
use crate::{ClientConfig, ConfigError};
pub(crate) use login::names as mechanism_names;
pub(crate) use tls::TlsConnection;
pub(crate) use tls_error::reason_of as tls_reason_of;

use login::LoginSource;
use rotation::RotatingTls;

/// How a connection is protected (`security.protocol`). There is no falling back from one to another.
///
/// ```
/// # use millstream_protocol_client::{ClientConfig, SecurityProtocol};
/// let config = ClientConfig::new("broker-1:9094").with([
///     "security.protocol=SASL_SSL",
///     "sasl.mechanism=SCRAM-SHA-512",
///     // `${env:…}` and `${file:…:…}` keep the password out of the configuration.
///     r#"sasl.jaas.config=ScramLoginModule required username="alice" password="secret";"#,
///     "ssl.truststore.location=/etc/kafka/truststore.jks",
/// ])?;
/// assert_eq!(config.security_protocol, SecurityProtocol::SaslSsl);
/// # Ok::<(), millstream_protocol_client::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Not at all.
    #[default]
    Plaintext,
    /// TLS 1.2 or 1.3; the client may prove itself by a certificate (`ssl.keystore.*`).
    Ssl,
    /// The client authenticates by SASL (KIP-152); anyone on the way can read and change what is sent. Logged as a warning
    /// for mechanisms that show the secret itself.
    SaslPlaintext,
    /// TLS, and inside it the client authenticates by SASL.
    SaslSsl,
}

impl SecurityProtocol {
    /// True for SSL and SASL_SSL.
    #[must_use]
    pub const fn uses_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// True for SASL_PLAINTEXT and SASL_SSL.
    #[must_use]
    pub const fn uses_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }

    /// Kafka's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(text.trim()))
    }
}

/// What connections are protected with: stores read, properties understood.
#[derive(Clone, Debug)]
pub(crate) struct Security {
    tls: Option<RotatingTls>,
    login: Option<Arc<LoginSource>>,
}

impl Security {
    /// Reads the stores and checks that mechanism, login module and options fit together.
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, ConfigError> {
        let protocol = config.security_protocol;
        let tls = if protocol.uses_tls() {
            if !config.tls.endpoint_identification {
                tracing::warn!(
                    "ssl.endpoint.identification.algorithm is empty: any host with a trusted certificate passes for a broker"
                );
            }
            Some(RotatingTls::new(&config.tls)?)
        } else {
            None
        };
        let login = if protocol.uses_sasl() {
            let source = LoginSource::new(&config.sasl, &config.tls)?;
            if tls.is_none() && source.mechanism().reveals_secret() {
                tracing::warn!(
                    mechanism = %source.mechanism(),
                    "security.protocol is SASL_PLAINTEXT: anyone on the way to the brokers can read the credentials"
                );
            }
            Some(Arc::new(source))
        } else {
            None
        };
        Ok(Self { tls, login })
    }

    /// Puts TLS over a connection, if it is configured.
    pub(crate) async fn protect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<Stream, DisconnectReason> {
        match &self.tls {
            None => Ok(Stream::Plain(stream)),
            Some(tls) => Ok(Stream::Tls(Box::new(tls.connector().connect(host, stream).await?))),
        }
    }

    /// What one authentication with the broker `host` needs.
    pub(crate) async fn login(&self, host: &str) -> Result<SaslLogin, DisconnectReason> {
        match &self.login {
            Some(source) => source.login(host).await,
            None => Err(DisconnectReason::LoginFailed {
                detail: "security.protocol has no SASL".to_owned(),
                retriable: false,
            }),
        }
    }
}
