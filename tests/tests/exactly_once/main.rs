//! Exactly once on real Apache Kafka: the flights job is killed, frozen, copied and raced, and its output, read by Kafka's own
//! console consumer, must be the expected answer.
//!
//! Without further settings the tests are the shortened form that CI runs. `MILLSTREAM_KILLS` and `MILLSTREAM_FEED_SECONDS`
//! lengthen the runs with SIGKILL (50 and 90 are the full form), `MILLSTREAM_SEED` repeats one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

mod frozen_processes;
mod kills;
mod mutants;
mod stage;
