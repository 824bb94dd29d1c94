//! Typed streams, workers, exchanges, barriers, windows and the exactly-once Kafka connector.
//!
//! A job is described with Flink's words and built at compile time: every operator knows its downstream by type, so a chain
//! is one function. A worker is one thread that runs all chains for its share of splits and key groups and never blocks;
//! workers meet at `key_by`.
//!
//! ```
//! use std::time::Duration;
//! use millstream_engine::api::{Count, StreamExecutionEnvironment};
//! use millstream_engine::connector::collection::{CollectingSink, CollectionSource};
//! use millstream_engine::time::WatermarkStrategy;
//! use millstream_engine::window::TumblingEventTimeWindows;
//!
//! let landings = CollectionSource::new(vec![vec![("JFK", 1_000), ("LGA", 2_000), ("JFK", 3_000)]]);
//! let environment = StreamExecutionEnvironment::new("landings").parallelism(2);
//! environment
//!     .from_source(landings, WatermarkStrategy::for_bounded_out_of_orderness(Duration::from_secs(5)))
//!     .uid("landings")
//!     .map(|airport| airport.to_owned())
//!     .key_by(|airport: &String| airport.clone())
//!     .window(TumblingEventTimeWindows::of(Duration::from_secs(3600)))
//!     .aggregate(Count::new())
//!     .uid("landings-per-hour")
//!     .map(|result| (result.key, result.window.start, result.value))
//!     .sink_to(CollectingSink::new())
//!     .uid("output");
//! let job = environment.into_job_graph()?;
//! assert_eq!(job.operators().count(), 5);
//! # Ok::<(), millstream_engine::GraphError>(())
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`api`] | what jobs are written with, and what sources and sinks implement |
//! | [`graph`] | the job as it is run, any number of times: [`graph::JobGraph`] |
//! | [`task`] | workers, their control and their reports |
//! | [`time`], [`window`] | watermarks, idleness; tumbling windows |
//! | [`state`] | state by key as functions see it (value, list, map, reducing, aggregating), its time to live, its encoding; key groups |
//! | [`metrics`] | counters that can be read while the job runs |
//! | [`connector`] | sources and sinks |

/// The README's Rust code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

pub mod api;
pub mod connector;
mod coordinator;
mod error;
mod exchange;
pub mod graph;
pub mod metrics;
mod operator;
pub mod state;
pub mod task;
pub mod time;
pub mod window;

pub use connector::kafka;
#[cfg(feature = "fault-injection")]
pub use coordinator::fault::{crash_points, restore_crash_points, savepoint_crash_points};
pub use coordinator::{
    CheckpointStatistics, CheckpointStatus, CheckpointTrigger, Job, JobError, JobHandle,
    JobMonitor, JobSnapshot, LedgerTopicError, LedgerView, Phase, RestartHistory, RestartKind,
    RestartRecord, error_chain, exit, exit_code, ledger_topic, preview_recovery, shutdown_signal,
    view_ledger,
};
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use coordinator::{SavepointAnswer, SimulatedJob, SimulatedSavepoints, SimulatedStores};
pub use error::{Bug, Cause, GraphError, OperatorError};
pub use exchange::{CheckpointBarrier, CheckpointKind};
pub use millstream_checkpoint as checkpoint;
pub use millstream_checkpoint::{Resolution, ResolutionRefused};
pub use operator::{Collector, Output};
