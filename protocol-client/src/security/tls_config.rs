//! The `ssl.*` properties, typed.

use std::path::PathBuf;

use millstream_protocol::sasl::Secret;

use super::StoreType;

/// TLS as configured (`ssl.*`). Used if [`SecurityProtocol::uses_tls`](super::SecurityProtocol::uses_tls), and for an OAuth
/// token endpoint, which may also be of whom the system trusts. Files are read by [`connect`](crate::KafkaClient::connect),
/// and anew for later connections when they change; one that can not be used any more is logged, and what was read before
/// stays in use.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsConfig {
    /// `ssl.enabled.protocols` and `ssl.protocol`. Older versions are passed over beside these, and refused alone. Default
    /// both.
    pub enabled_versions: Vec<TlsVersion>,
    /// `ssl.cipher.suites`, IANA's names, of those that rustls has with ring; empty for its own choice. Default empty.
    pub cipher_suites: Vec<String>,
    /// `ssl.endpoint.identification.algorithm`: whether the certificate must name the host. `https` is true, empty is false.
    /// Default true. False is logged as a warning.
    pub endpoint_identification: bool,
    /// Whom to trust (`ssl.truststore.*`).
    pub truststore: TrustStoreConfig,
    /// What this client shows (`ssl.keystore.*`, mTLS). Default nothing.
    pub keystore: KeyStoreConfig,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            enabled_versions: vec![TlsVersion::V1_2, TlsVersion::V1_3],
            cipher_suites: Vec::new(),
            endpoint_identification: true,
            truststore: TrustStoreConfig::default(),
            keystore: KeyStoreConfig::default(),
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLSv1.2.
    V1_2,
    /// TLSv1.3.
    V1_3,
}

/// Whom to trust (`ssl.truststore.*`). Nothing set: the system's certificates, else Mozilla's, which are built in. A file and
/// certificates together are refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrustStoreConfig {
    /// `ssl.truststore.type`; `None` looks at the file. A file of another type than named is read as what it is.
    pub store_type: Option<StoreType>,
    /// `ssl.truststore.location`: a file of at most 16 MiB.
    pub location: Option<PathBuf>,
    /// `ssl.truststore.password`. A JKS store may be read without it; its integrity is then not checked.
    pub password: Option<Secret>,
    /// `ssl.truststore.certificates`: PEM, instead of a file (KIP-651).
    pub certificates: Option<String>,
}

/// What this client shows (`ssl.keystore.*`). Nothing set: no certificate. Either a file, or key and chain together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyStoreConfig {
    /// `ssl.keystore.type`; `None` looks at the file.
    pub store_type: Option<StoreType>,
    /// `ssl.keystore.location`: a file of at most 16 MiB, whose first key is taken; a PEM file has the key and the chain, the
    /// client's certificate first.
    pub location: Option<PathBuf>,
    /// `ssl.keystore.password`: of the file.
    pub password: Option<Secret>,
    /// `ssl.keystore.key`: PEM (KIP-651), PKCS#8 (also encrypted, with `ssl.key.password`), PKCS#1 or SEC1.
    pub key: Option<Secret>,
    /// `ssl.keystore.certificate.chain`: PEM, the client's certificate first.
    pub certificate_chain: Option<String>,
    /// `ssl.key.password`: of the key inside, if it differs from the store's.
    pub key_password: Option<Secret>,
}
