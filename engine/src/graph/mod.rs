//! From a described job to workers: nodes, uids, and the graph that can be run any number of times.

mod build_context;
mod extensions;
mod job_graph;
mod node;

pub use build_context::BuildContext;
pub use extensions::Extensions;
pub use job_graph::Connectors;
pub(crate) use job_graph::{AttachPipeline, Pipeline};
pub use job_graph::{ConnectorDescription, JobGraph, RestoreContext};
pub(crate) use node::OperatorInfo;
pub use node::{OperatorDescription, RawStreamNode, StateDescription, Stream};
