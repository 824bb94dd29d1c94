//! What a job is written with: environment, streams, functions, sources and sinks.

mod checkpoint_config;
mod data_stream;
mod fold;
mod functions;
mod keyed_stream;
mod options;
mod process_function;
mod raw_stream;
mod restart_strategy;
mod sink;
mod source;
mod stream_execution_environment;
mod windowed_stream;

pub use checkpoint_config::CheckpointConfig;
pub use data_stream::{DataStream, DataStreamSink};
pub use fold::{Fold, fold};
pub use functions::{AggregateFunction, Count, Keyed};
pub use keyed_stream::KeyedStream;
pub use options::OptionError;
pub use process_function::{
    KeyedProcessFunction, OutputCollector, ProcessContext, TimeDomain, TimerService,
};
pub use raw_stream::RawStream;
pub use restart_strategy::RestartStrategy;
pub use sink::{Sink, SinkContext, SinkWriter, Writer};
pub use source::{
    RawSourceReader, Source, SourceContext, SourceOutput, SourceReader, SourceStatus, SplitOutput,
    SplitReader,
};
pub use stream_execution_environment::{ExecutionConfig, StreamExecutionEnvironment};
pub use windowed_stream::WindowedStream;
