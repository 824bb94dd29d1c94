//! What reads bytes from a peer or a person, each as a function of bytes that panics if a promise is broken.
//!
//! The same functions are run by libFuzzer (`fuzz/`, `cargo xtask fuzz`) and by the replay of the inputs kept in `corpus/`
//! (`tests/replay.rs`, an ordinary test). Beside them is what a hostile broker is made of: [`Broker`] gives the answer that
//! an honest one would give to any request of the client, [`damage()`] spoils it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a target fails by panicking, as tests do"
)]

mod broker;
pub mod corpus;
mod damage;
mod samples;
mod seeds;
mod targets;

pub use broker::Broker;
pub use damage::{Damage, Random, damage, seal_as_one_batch};
pub use samples::sample_request;
pub use seeds::seeds;
pub use targets::{TARGETS, Target, target};
