//! A Millstream job, its client, disk and cluster in one thread under simulated time: the same seed gives the same history,
//! byte for byte.
//!
//! | module | holds |
//! | --- | --- |
//! | [`runtime`] | one history's runtime: tokio with a clock that jumps from timer to timer |
//! | [`process`] | a process that can die at any await, be stopped for a while, and start again on what its disk kept |
//! | [`job`] | the jobs under test |

pub mod job;
pub mod process;
pub mod runtime;
