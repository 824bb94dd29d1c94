//! The administration calls on real Kafka: each does what it says, refuses what the cluster refuses, and agrees with
//! Kafka's own tools.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod acls;
mod cluster_and_configs;
mod fixtures;
mod groups;
mod offsets;
mod several_brokers;
mod topics;
mod transactions;
