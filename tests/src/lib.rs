//! End-to-end tests: exactly-once, interoperability, errors, the command line. This library is their harness.
//!
//! - [`flights`]: the flights job as a process, its data, and the expected answers.
//! - [`keyed_state`]: a job with every kind of state and timers, and what it must write.
//! - [`records`]: records written and read by our client, for comparison with Java's.
//! - [`example()`]: where a built example is.
//! - [`LocalBroker`]: the development broker with the few calls that tests make.
//! - [`Topics`]: topics of any cluster.
//! - [`raw_producer`]: what no well-behaved client sends.
//! - [`setting()`]: how long a long form is.
//! - [`random`]: one seed per test, printed, taken back from the environment.
//! - [`wait`]: waiting for a condition with a deadline.
//! - [`wire`]: single requests over a socket, in a version of the caller's choice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a harness fails as the tests that use it do: at once, with the place"
)]

mod example;
pub mod flights;
mod folders;
pub mod keyed_state;
mod local_broker;
pub mod random;
pub mod raw_producer;
pub mod records;
mod settings;
mod topics;
pub mod wait;
pub mod wire;

pub use example::example;
pub use folders::copy_folder;
pub use local_broker::LocalBroker;
pub use settings::setting;
pub use topics::Topics;
