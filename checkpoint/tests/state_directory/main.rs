//! State directories on a real disk with the real store: attacked, and written by earlier versions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

mod attacks;
mod cost;
mod fixtures;
mod job;
