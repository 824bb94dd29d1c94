//! Why a record was not taken.

use std::time::Duration;

use millstream_protocol::TopicPartition;
use millstream_protocol::records::RecordsError;
use millstream_protocol::transaction::ProduceError;
use thiserror::Error;

use crate::ClientError;

/// A record was not taken: nothing of it will be written. From verbs of the producer: why they did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// As many bytes as `buffer.memory` wait for their acknowledgement. Only from
    /// [`try_send`](super::RecordProducer::try_send).
    #[error(
        "{topic_partition}: buffer.memory ({buffer_memory} bytes) is full; wait for acknowledgements, or use send()"
    )]
    Full {
        /// Where the record was to go.
        topic_partition: TopicPartition,
        /// The bound in bytes.
        buffer_memory: usize,
    },
    /// No room within `max.block.ms`. Only from [`send`](super::RecordProducer::send).
    #[error(
        "topic '{topic}': no room in buffer.memory within {after:?} (max.block.ms): the brokers acknowledge more slowly than records come"
    )]
    NoRoom {
        /// The topic.
        topic: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The partitions of the topic are not known yet. Only from [`try_send`](super::RecordProducer::try_send); call
    /// [`prepare`](super::RecordProducer::prepare) first.
    #[error("topic '{topic}' was not prepared: its partitions are not known yet")]
    NotPrepared {
        /// The topic.
        topic: String,
    },
    /// There is no such partition; [`send`](super::RecordProducer::send) has asked the brokers once more before.
    #[error(
        "topic '{topic}' has {partitions} partition{}, there is no partition {partition}",
        if *partitions == 1 { "" } else { "s" }
    )]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition that was named.
        partition: i32,
        /// How many there are.
        partitions: i32,
    },
    /// The record alone is larger than a request may be. What the topic takes (`max.message.bytes`) is for the broker to
    /// say: see [`FatalCause::RecordTooLarge`](millstream_protocol::transaction::FatalCause::RecordTooLarge).
    #[error(
        "{topic_partition}: a record of {bytes} bytes is larger than max.request.size ({max_request_size} bytes)"
    )]
    RecordTooLarge {
        /// Where it was to go.
        topic_partition: TopicPartition,
        /// Its size in a batch of its own, before compression.
        bytes: usize,
        /// The bound in bytes.
        max_request_size: usize,
    },
    /// The record can not be encoded: a timestamp below -1, or more than 2^31 - 1 bytes. From a flush: its batch can not be
    /// compressed, and stays.
    #[error("{topic_partition}: {source}")]
    Encode {
        /// Where it was to go.
        topic_partition: TopicPartition,
        /// Why.
        #[source]
        source: RecordsError,
    },
    /// The topic can not be found out about: it does not exist, or no broker answers.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The producer is in no state to write: no transaction is open, or the open one has failed. From a flush or commit:
    /// the first failure.
    #[error(transparent)]
    Producer(#[from] ProduceError),
}
