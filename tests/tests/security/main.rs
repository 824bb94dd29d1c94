//! TLS and SASL against real Apache Kafka: each way to authenticate, each way to get it wrong, and what the error says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod certificates;
mod cluster;
mod oauth;
mod reauthentication;
mod sasl;
mod secrets_stay_secret;
mod stores;
mod tls;
mod token_endpoint;
