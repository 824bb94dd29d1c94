//! SASL: proving to a broker who we are, before the first request and again before the session ends.
//!
//! A [`SaslLogin`] holds what one authentication needs: mechanism, name, secret, a fresh nonce. A [`SaslExchange`] carries
//! it out in Kafka's frames (SaslHandshake 1, SaslAuthenticate 0 to 2); the mechanisms themselves are [`scram`], and in
//! `mechanism` PLAIN, OAUTHBEARER (RFC 7628) and AWS_MSK_IAM. [`crate::network`] runs an exchange on each new connection,
//! and once more on the same connection when a broker limits the session (KIP-368). [`jaas`] reads what Java's users paste.
//!
//! Not here on purpose: SaslHandshake 0 (brokers before 1.0), and GSSAPI, which needs a Kerberos library.

pub mod aws_msk_iam;
mod error;
mod exchange;
pub mod jaas;
mod login;
mod mechanism;
pub mod scram;
mod secret;

pub use error::SaslError;
pub use exchange::{SaslExchange, SaslProgress};
pub use login::{SaslLogin, SaslMechanism};
pub use secret::Secret;

#[cfg(test)]
mod tests;
