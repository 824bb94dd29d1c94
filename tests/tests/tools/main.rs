//! The tools of the binary, run as a user runs them: against real Kafka, and the development broker where it serves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod dev_broker;
mod doctor;
mod failures;
mod fixtures;
mod groups;
mod records;
mod tool;
mod topics;
mod transactions;
