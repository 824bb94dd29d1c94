//! Typed streams, workers, exchanges, barriers, windows and the exactly-once Kafka connector.
