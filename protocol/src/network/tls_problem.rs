//! What a TLS connection failed on, in words that say what to change.

use thiserror::Error;

/// Why no TLS connection came about, or why it ended. Found by the driver, which has the TLS library.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsProblem {
    /// No certificate that is trusted here has signed the broker's.
    #[error(
        "the broker's certificate is not signed by a CA that is trusted here: set ssl.truststore.location (or ssl.truststore.certificates) to the CA's certificate"
    )]
    UnknownCa,
    /// The certificate is for other names.
    #[error(
        "the broker's certificate is not valid for '{host}'{}: connect by a name that it has, or issue one with this name (subjectAltName)",
        if presented.is_empty() { " and has no subjectAltName at all".to_owned() } else { format!(", only for {}", presented.join(", ")) }
    )]
    WrongHostName {
        /// The name connected to.
        host: String,
        /// The names it has.
        presented: Vec<String>,
    },
    /// The certificate's time is over.
    #[error(
        "the broker's certificate has expired: the broker needs a new one (or this machine's clock is wrong)"
    )]
    Expired,
    /// The certificate's time has not begun.
    #[error("the broker's certificate is not valid yet: check this machine's clock")]
    NotYetValid,
    /// Something else about the certificate.
    #[error("the broker's certificate is not accepted ({detail})")]
    BadCertificate {
        /// The TLS library's words.
        detail: String,
    },
    /// The broker wants a certificate from us, and none is configured.
    #[error(
        "the broker requires a client certificate (it answered {alert}): set ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain"
    )]
    ClientCertificateRequired {
        /// The alert received.
        alert: String,
    },
    /// The broker does not accept our certificate.
    #[error(
        "the broker does not accept this client's certificate (it answered {alert}): its truststore must have the CA that signed the certificate of ssl.keystore"
    )]
    ClientCertificateRefused {
        /// The alert received.
        alert: String,
    },
    /// The peer's first bytes are not TLS.
    #[error(
        "this client speaks TLS and the peer does not: the port may be a PLAINTEXT or SASL_PLAINTEXT listener (security.protocol)"
    )]
    PeerSpeaksPlaintext,
    /// The peer closed the connection during the handshake: what plain-text Kafka listeners do.
    #[error(
        "the peer closed the connection during the TLS handshake: the port may be a PLAINTEXT or SASL_PLAINTEXT listener (security.protocol), or it wants another protocol version"
    )]
    ClosedInHandshake,
    /// The peer said nothing that would have ended the handshake.
    #[error(
        "the TLS handshake was not answered: the port may be a PLAINTEXT or SASL_PLAINTEXT listener (security.protocol)"
    )]
    Silent,
    /// The peer ended the handshake for a reason of its own.
    #[error(
        "the peer ended TLS with the alert {alert}: protocol versions or cipher suites may differ (ssl.enabled.protocols)"
    )]
    Alert {
        /// The alert received.
        alert: String,
    },
    /// Anything else.
    #[error("TLS failed ({detail})")]
    Other {
        /// The TLS library's words.
        detail: String,
    },
}

impl TlsProblem {
    /// True if trying again can not help before a configuration changes, here or at the broker.
    #[must_use]
    pub fn is_definitive(&self) -> bool {
        // A broker that is being stopped closes connections in the middle of a handshake too.
        !matches!(self, Self::ClosedInHandshake | Self::Silent | Self::Other { .. })
    }
}
