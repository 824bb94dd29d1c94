//! Exactly once on real Apache Kafka: the flights job is killed, frozen, copied and raced, and its output, read by Kafka's own
//! console consumer, must be the expected answer.
//!
//! Without further settings the tests are the shortened form that CI runs. The long form:
//!
//! | setting | of | CI | long |
//! | --- | --- | --- | --- |
//! | `MILLSTREAM_KILLS`, `MILLSTREAM_FEED_SECONDS` | SIGKILL at random moments | 8, 15 | 50, 90 |
//! | `MILLSTREAM_CRASH_ROUNDS`, `MILLSTREAM_BROKERS` | every named crash point; those of savepoints are in `savepoints/crashes.rs` | 1, 1 | 20, 3 |
//! | `MILLSTREAM_CRASH_POINTS` | only these, separated by commas | all | |
//! | `MILLSTREAM_RACE_SECONDS` | the loser restarted on copies of the winner's directory | 10 | 300 |
//! | `MILLSTREAM_BROKER_KILLS` | SIGKILL of leader and coordinator during a commit | 2 | 20 |
//! | `MILLSTREAM_CHECKPOINTS` | checkpoints until epochs run out (`--ignored`) | | 33,500 |
//! | `-- --ignored` | epochs run out, a full disk, 30 s without a network, the other half of the matrix | | |
//!
//! `MILLSTREAM_SEED` repeats a random run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

mod broker_faults;
mod crash_points;
mod disks;
mod epochs;
mod frozen_processes;
mod keyed_state;
mod kills;
mod mutants;
mod races;
mod savepoints;
mod stage;
mod transaction_versions;
mod ways_out;
