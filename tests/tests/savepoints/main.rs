//! Savepoints of real jobs: what is in them, what goes on from them, what is refused, and what the tools and an independent
//! reader make of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

mod contents;
mod crashes;
mod drained;
mod fixtures;
mod guide;
mod job;
mod restored;
mod taken;
mod tools;
