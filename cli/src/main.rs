//! Exactly-once stream processing on Kafka in one static binary.

fn main() {}
