//! Kafka as a source and as a sink, under Flink's names.

mod error;
mod format;
mod markers;
mod offsets_initializer;
mod pace;
mod sink;
mod sink_writer;
mod source;
mod source_reader;
pub(crate) mod topic_reader;
mod topic_writer;

pub use error::{ConnectorError, DataError};
pub use format::{JsonDeserializer, JsonSerializer, RecordDeserializer, RecordSerializer};
pub use markers::{ControlMarker, control_markers};
pub use millstream_protocol::records::{Compression, RecordView};
pub use millstream_protocol::{IsolationLevel, TopicPartition};
pub use millstream_protocol_client::{
    ClientConfig, ClientError, ConfigError, KafkaClient, NewTopic, OffsetSpec, ProduceError,
};
pub use offsets_initializer::OffsetsInitializer;
pub use sink::{DeliveryGuarantee, KafkaSink, RawKafkaSink};
pub(crate) use sink::{KafkaSinkDescription, SharedProducer, SinkOutput};
pub use sink_writer::KafkaSinkWriter;
pub use source::{KafkaSource, RawKafkaSource};
pub(crate) use source::{KafkaSourceDescription, OpenedSource, OpenedSources};
pub use source_reader::KafkaSourceReader;
pub use topic_reader::{ReadError, ReadUntil, read_fetches, read_topic};
pub use topic_writer::{TopicWriter, WriteError};
