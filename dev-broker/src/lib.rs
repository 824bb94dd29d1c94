//! A small Kafka-compatible broker in one process for development, the demo and tests.
