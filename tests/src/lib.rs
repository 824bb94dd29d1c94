//! End-to-end tests: exactly-once, interoperability, errors, the command line.

pub mod flights;
mod local_broker;

pub use local_broker::LocalBroker;
