//! The flights job as a process: fed, killed, stopped, and its output held against the expected answers.

mod expected;
mod feed;
mod job;

pub use expected::{Expected, OutputRecord};
pub use feed::{Feed, PARTITIONS, SteadyFeed, input_lines};
pub use job::{FlightsCommand, FlightsJob, Query};
