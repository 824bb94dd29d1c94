//! What can be wrong with a source or sink before the job runs.

use millstream_checkpoint::TopicId;
use millstream_protocol::TopicPartition;
use millstream_protocol_client::ClientError;

use crate::error::Cause;

/// A record that can not become an element: the input is wrong, not the job. The operator error around it names topic,
/// partition and offset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The deserializer refused it.
    #[error(
        "{0}; correct the producer, and to leave such records out start the job again with a deserializer that gives none for them (json_ignoring_parse_errors)"
    )]
    Deserialize(Cause),
    /// The bytes are not what Kafka's format says.
    #[error("{0}; the batch is damaged on the broker or was written by a faulty client")]
    Corrupt(Cause),
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
    /// The state was made from other topics.
    #[error(
        "the state of source {uid:?} is of topic {topic:?}, the job reads {topics}; start with the topics of the state, or with an empty state directory and another job name"
    )]
    OtherTopics {
        /// Uid of the source.
        uid: String,
        /// A topic in the state that the job does not read.
        topic: String,
        /// The topics that the job reads.
        topics: String,
    },
    /// The topic was deleted and made anew since the state was written.
    #[error(
        "{topic_partition} of source {uid:?} was read up to offset {offset} in a topic that was deleted and made anew since (id {old_id}, now {new_id}): its offsets mean nothing there; to read the new topic from its beginning start with an empty state directory and another job name"
    )]
    TopicRecreated {
        /// Uid of the source.
        uid: String,
        /// The partition.
        topic_partition: TopicPartition,
        /// Next offset to read, in the old topic.
        offset: i64,
        /// Id of the topic that the state is about.
        old_id: TopicId,
        /// Id of the topic that bears the name now.
        new_id: TopicId,
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
