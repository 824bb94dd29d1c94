//! What can be wrong with a source or sink before the job runs.

use millstream_protocol::TopicPartition;
use millstream_protocol_client::ClientError;

use crate::error::Cause;

/// A record that can not become an element: the input is wrong, not the job. The operator error around it names topic,
/// partition and offset.
#[derive(Debug, thiserror::Error)]
#[error(
    "{cause}; correct the producer, and skip the record with a filter in front of the deserializer if it must stay"
)]
pub struct DataError {
    /// What the deserializer or the decoder said.
    pub cause: Cause,
}

/// A Kafka source or sink can not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectorError {
    /// The cluster could not be asked.
    #[error("failed to open {role} {uid:?}")]
    Client {
        /// "source" or "sink".
        role: &'static str,
        /// Uid of the source or sink.
        uid: String,
        /// Why.
        #[source]
        source: ClientError,
    },
    /// A topic does not exist.
    #[error(
        "topic {topic:?} of {role} {uid:?} does not exist on the cluster at {bootstrap}; create it, or correct the name (topics are never created by reading or writing them)"
    )]
    TopicMissing {
        /// "source" or "sink".
        role: &'static str,
        /// Uid of the source or sink.
        uid: String,
        /// The topic.
        topic: String,
        /// Addresses that were asked.
        bootstrap: String,
    },
    /// A partition that the state knows is gone.
    #[error(
        "{topic_partition} of source {uid:?} is in the state (next offset {offset}) but not on the cluster; the topic was deleted or made anew with fewer partitions: restore it, or start with an empty state directory and another job name"
    )]
    PartitionMissing {
        /// Uid of the source.
        uid: String,
        /// The partition.
        topic_partition: TopicPartition,
        /// Next offset to read.
        offset: i64,
    },
    /// Records that the state has not read yet are gone.
    #[error(
        "{topic_partition} of source {uid:?} begins at offset {earliest}, the state has read up to {offset}: {lost} records were deleted by retention before they were read; restore them, or start with an empty state directory and another job name"
    )]
    Gap {
        /// Uid of the source.
        uid: String,
        /// The partition.
        topic_partition: TopicPartition,
        /// Next offset to read.
        offset: i64,
        /// First offset there is.
        earliest: i64,
        /// How many are missing.
        lost: i64,
    },
}
