//! From the TLS library's errors to what a user can act on.

use std::io;
use std::sync::Arc;

use millstream_protocol::network::{DisconnectReason, TlsProblem};
use rustls::{AlertDescription, CertificateError, Error};

/// Who is at the other end, and what we have shown.
#[derive(Clone, Debug)]
pub(crate) struct TlsPeer {
    pub(crate) host: Arc<str>,
    pub(crate) has_identity: bool,
}

/// What an error of a TLS stream means for the connection.
pub(crate) fn reason_of(error: &io::Error, peer: &TlsPeer) -> DisconnectReason {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(error) => DisconnectReason::TlsFailed(problem(error, peer)),
        None => crate::net::reason_of(error),
    }
}

fn problem(error: &Error, peer: &TlsPeer) -> TlsProblem {
    match error {
        Error::InvalidCertificate(certificate) => certificate_problem(certificate, peer),
        Error::AlertReceived(alert) => alert_problem(*alert, peer),
        // Kafka's own frames begin with bytes that no TLS record begins with.
        Error::InvalidMessage(_) => TlsProblem::PeerSpeaksPlaintext,
        other => TlsProblem::Other { detail: other.to_string() },
    }
}

fn certificate_problem(error: &CertificateError, peer: &TlsPeer) -> TlsProblem {
    let wrong_name = |presented: &[String]| TlsProblem::WrongHostName {
        host: peer.host.to_string(),
        // As the library prints them: DnsName("x").
        presented: presented.iter().map(|name| bare_name(name)).collect(),
    };
    match error {
        CertificateError::UnknownIssuer => TlsProblem::UnknownCa,
        CertificateError::NotValidForName => wrong_name(&[]),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(presented),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsProblem::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsProblem::NotYetValid
        }
        other => TlsProblem::BadCertificate { detail: other.to_string() },
    }
}

fn bare_name(printed: &str) -> String {
    let inside = printed.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(printed).trim_matches('"').to_owned()
}

fn alert_problem(alert: AlertDescription, peer: &TlsPeer) -> TlsProblem {
    let name = format!("{alert:?}");
    match alert {
        AlertDescription::CertificateRequired => {
            TlsProblem::ClientCertificateRequired { alert: name }
        }
        // Java's TLS says so when a certificate is required and none was sent.
        AlertDescription::BadCertificate if !peer.has_identity => {
            TlsProblem::ClientCertificateRequired { alert: name }
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
            if peer.has_identity =>
        {
            TlsProblem::ClientCertificateRefused { alert: name }
        }
        _ => TlsProblem::Alert { alert: name },
    }
}
