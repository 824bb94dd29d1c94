//! TLS connections.

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::network::{DisconnectReason, TlsProblem};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::tls_error::{TlsPeer, reason_of};
use super::{TlsConfig, TlsVersion, identity, roots};
use crate::ConfigError;

/// Makes TLS connections with one configuration.
#[derive(Clone, Debug)]
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
    has_identity: bool,
}

/// A connection and what its errors need to be understood.
#[derive(Debug)]
pub(crate) struct TlsConnection {
    pub(crate) stream: TlsStream<TcpStream>,
    pub(crate) peer: TlsPeer,
}

impl TlsConnector {
    /// As `ssl.*` says.
    pub(super) fn for_brokers(config: &TlsConfig) -> Result<Self, ConfigError> {
        let trusted = roots::configured(&config.truststore)?;
        let roots = match &trusted {
            Some(certificates) => Arc::new(roots::store_of(certificates)?),
            None => roots::system(),
        };
        Self::new(config, roots, trusted.unwrap_or_default(), config.endpoint_identification)
    }

    /// For the endpoint that gives tokens: it may have a public certificate while the brokers' are private, or the reverse,
    /// so both are trusted. Its name is always checked.
    pub(super) fn for_token_endpoint(config: &TlsConfig) -> Result<Self, ConfigError> {
        let trusted = roots::configured(&config.truststore)?.unwrap_or_default();
        let mut roots = RootCertStore::clone(&roots::system());
        roots.extend(roots::store_of(&trusted)?.roots);
        Self::new(config, Arc::new(roots), trusted, true)
    }

    fn new(
        config: &TlsConfig,
        roots: Arc<RootCertStore>,
        trusted: Vec<Vec<u8>>,
        check_name: bool,
    ) -> Result<Self, ConfigError> {
        let provider = Arc::new(provider(&config.cipher_suites)?);
        let versions: Vec<&'static SupportedProtocolVersion> = config
            .enabled_versions
            .iter()
            .map(|version| match version {
                TlsVersion::V1_2 => &rustls::version::TLS12,
                TlsVersion::V1_3 => &rustls::version::TLS13,
            })
            .collect();
        let unusable = |error: rustls::Error| ConfigError::Invalid {
            name: "ssl.enabled.protocols",
            value: format!("{:?}", config.enabled_versions),
            expected: format!("versions that the cipher suites allow ({error})"),
        };
        let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let chain = chain.build().map_err(|error| ConfigError::Invalid {
            name: "ssl.truststore.location",
            value: "…".to_owned(),
            expected: format!("certificates to trust ({error})"),
        })?;
        let verifier = Arc::new(BrokerVerifier { chain, trusted, check_name });
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(unusable)?
            // Only wraps the library's own verifier: see `BrokerVerifier`.
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let identity = identity::configured(&config.keystore)?;
        let has_identity = identity.is_some();
        let config =
            match identity {
                None => builder.with_no_client_auth(),
                Some(identity) => builder
                    .with_client_auth_cert(identity.chain, identity.key)
                    .map_err(|error| ConfigError::Invalid {
                        name: "ssl.keystore.location",
                        value: "…".to_owned(),
                        expected: format!("a key and a certificate that belong together ({error})"),
                    })?,
            };
        Ok(Self { config: Arc::new(config), has_identity })
    }

    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }

    /// Shakes hands with `host`, whose name the certificate must have.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsConnection, DisconnectReason> {
        let peer = TlsPeer { host: Arc::from(host), has_identity: self.has_identity };
        let failed = |problem| DisconnectReason::TlsFailed(problem);
        let name = ServerName::try_from(host.trim_end_matches('.').to_owned()).map_err(|_| {
            failed(TlsProblem::Other { detail: format!("'{host}' is no name for a certificate") })
        })?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.config));
        match timeout(HANDSHAKE_LIMIT, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(TlsConnection { stream, peer }),
            Ok(Err(error)) => Err(match reason_of(&error, &peer) {
                DisconnectReason::Closed => failed(TlsProblem::ClosedInHandshake),
                reason => reason,
            }),
            Err(_) => Err(failed(TlsProblem::Silent)),
        }
    }
}

/// Ring's algorithms, with only the named suites if some are named.
fn provider(suites: &[String]) -> Result<CryptoProvider, ConfigError> {
    let mut provider = rustls::crypto::ring::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites.retain(|suite| {
            let name = suite.suite().as_str().unwrap_or_default().replace("TLS13_", "TLS_");
            suites.iter().any(|wanted| wanted.eq_ignore_ascii_case(&name))
        });
        if provider.cipher_suites.is_empty() {
            let known = rustls::crypto::ring::default_provider().cipher_suites;
            let known = known.iter().filter_map(|suite| suite.suite().as_str());
            let known: Vec<_> = known.map(|name| name.replace("TLS13_", "TLS_")).collect();
            return Err(ConfigError::Invalid {
                name: "ssl.cipher.suites",
                value: suites.join(","),
                expected: format!("at least one of {}", known.join(", ")),
            });
        }
    }
    Ok(provider)
}

/// The TLS library's verifier of chain, time and name, with two of Java's habits: the name check can be left out, and a
/// broker's own certificate in the truststore is trusted even if it calls itself a CA.
#[derive(Debug)]
struct BrokerVerifier {
    chain: Arc<WebPkiServerVerifier>,
    trusted: Vec<Vec<u8>>,
    check_name: bool,
}

impl ServerCertVerifier for BrokerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let verified = match verified {
            // Time is checked before this, so only chain and name are open.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
                if other.to_string().contains("CaUsedAsEndEntity")
                    && self.trusted.iter().any(|known| known.as_slice() == end_entity.as_ref()) =>
            {
                let parsed = rustls::server::ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&parsed, server_name)
                    .map(|()| ServerCertVerified::assertion())
            }
            other => other,
        };
        match verified {
            // The name is checked last: the chain is good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.check_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// A plain-text listener may wait for the rest of what it takes for a frame: without this limit that would look like a
/// broker that does not answer.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
