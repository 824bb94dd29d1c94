//! What Kafka's Java client writes is read identically by ours, and the reverse, on the dev broker and on real Kafka.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod fixtures;
mod librdkafka_reads_and_writes_alike;
mod messages_of_old_formats_are_read;
mod records_are_read_identically;
mod records_go_where_javas_go;
mod replicas_nearby_are_read;
mod transactions_are_seen_alike;
