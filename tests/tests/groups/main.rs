//! Members of ours and Java's in one consumer group on real Apache Kafka, through joins, leaves, kills and a restart of the
//! coordinator: no partition is owned twice, none stays without an owner for longer than the session timeout plus 10 s, every
//! record is read, and what is committed at the end is the end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

mod assignors_agree_with_javas;
mod members;
mod mixed_groups;
mod offsets_in_transactions;
mod oracle;
