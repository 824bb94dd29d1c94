//! A Millstream job, its client, disk and cluster in one thread under simulated time: the same seed gives the same history,
//! byte for byte.
//!
//! | module | holds |
//! | --- | --- |
//! | [`runtime`] | one history's runtime: tokio with a clock that jumps from timer to timer |
//! | [`process`] | a process that can die at any await, be stopped for a while, and start again on what its disk kept |
//! | [`job`] | the jobs under test |
//! | [`network`] | connections that are late, cut, half open or refused |
//! | [`cluster`] | brokers that die, freeze, fail over |
//! | [`history`] | what happened, line by line |
//! | [`universe`] | the network and the clocks, as processes have them |
//! | [`plan`] | what happens in one history, from its seed |
//! | [`run`] | one history |
//! | [`oracle`] | what must hold of it |
//! | [`shrink`] | the least plan that still fails |
//! | [`batch`] | many seeds, on several threads |
//! | [`coverage`] | rows and crash points that many seeds have to come by |
//! | [`random`] | more ways to draw numbers |

pub mod batch;
pub mod cluster;
pub mod coverage;
pub mod history;
pub mod job;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod process;
pub mod random;
pub mod run;
pub mod runtime;
pub mod shrink;
pub mod universe;
