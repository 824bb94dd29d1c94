//! Why an authentication failed.

use thiserror::Error;

use super::SaslMechanism;
use super::scram::ScramError;
use crate::ErrorCode;

/// Why a broker and this client did not come to trust each other. Never holds a secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslError {
    /// The listener knows other mechanisms.
    #[error(
        "the broker does not offer {mechanism} on this listener; it offers {}: set sasl.mechanism to one of them, or use another port",
        if offered.is_empty() { "none".to_owned() } else { offered.join(", ") }
    )]
    MechanismNotOffered {
        /// What was asked for.
        mechanism: SaslMechanism,
        /// What the broker names.
        offered: Vec<String>,
    },
    /// The broker does not believe us: SASL_AUTHENTICATION_FAILED.
    #[error("{mechanism}: the broker refused the credentials ({message})")]
    Refused {
        /// The mechanism used.
        mechanism: SaslMechanism,
        /// The broker's words.
        message: String,
    },
    /// The broker did not accept the token, and says why in RFC 7628's form.
    #[error(
        "OAUTHBEARER: the broker refused the token with status {status}{}{}",
        scope.as_ref().map(|s| format!(", it wants the scope '{s}'")).unwrap_or_default(),
        openid_configuration.as_ref().map(|c| format!(" (see {c})")).unwrap_or_default()
    )]
    TokenRefused {
        /// Such as `invalid_token`, `insufficient_scope`.
        status: String,
        /// Scope that a token needs.
        scope: Option<String>,
        /// Where the authorization server describes itself.
        openid_configuration: Option<String>,
    },
    /// The listener does not use SASL at all.
    #[error(
        "this listener does not use SASL: set security.protocol to PLAINTEXT or SSL, or use the port of a SASL listener"
    )]
    NotASaslListener,
    /// The broker answered with another error.
    #[error("{mechanism}: the broker answered {code}{}", if message.is_empty() { String::new() } else { format!(" ({message})") })]
    Broker {
        /// The mechanism used.
        mechanism: SaslMechanism,
        /// The broker's error.
        code: ErrorCode,
        /// The broker's explanation; may be empty.
        message: String,
    },
    /// The broker does not speak SaslHandshake 1 and SaslAuthenticate.
    #[error(
        "the broker is too old for SASL in Kafka's own frames (KIP-152): upgrade it to 1.0 or later"
    )]
    BrokerTooOld,
    /// SCRAM: the broker's messages are wrong, or it can not prove that it knows the password.
    #[error("{mechanism}: {source}")]
    Scram {
        /// The mechanism used.
        mechanism: SaslMechanism,
        /// What was wrong.
        source: ScramError,
    },
    /// A message that the mechanism does not have at this place.
    #[error("{mechanism}: the broker's answer does not belong to the mechanism ({detail})")]
    Unexpected {
        /// The mechanism used.
        mechanism: SaslMechanism,
        /// What was wrong.
        detail: &'static str,
    },
    /// The login can not be put into the mechanism's message.
    #[error("{mechanism}: {detail}")]
    InvalidLogin {
        /// The mechanism used.
        mechanism: SaslMechanism,
        /// What is wrong with it.
        detail: &'static str,
    },
}
