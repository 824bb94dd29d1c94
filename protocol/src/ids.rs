//! Small identifiers that every machine shares.

use std::fmt;
use std::sync::Arc;

/// One partition of one topic. Cheap to clone: the name is shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Topic name, as Kafka spells it.
    pub topic: Arc<str>,
    /// Partition index, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A broker's id (`node.id`), from 0. Below 0 it names a bootstrap address, as in Kafka's own client: -1 the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The identity under which a producer writes (KIP-98): id and epoch. The id stays for a transactional id as long as its
/// epochs, 0 to 32766, last; the highest epoch is the newest owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerIdAndEpoch {
    /// Producer id; -1 for none.
    pub producer_id: i64,
    /// Producer epoch; -1 for none.
    pub producer_epoch: i16,
}

impl ProducerIdAndEpoch {
    /// No identity: what InitProducerId carries to ask for a fresh one.
    pub const NONE: Self = Self { producer_id: -1, producer_epoch: -1 };
}

impl fmt::Display for ProducerIdAndEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "producer id {} epoch {}", self.producer_id, self.producer_epoch)
    }
}

/// Which records a reader sees (KIP-98).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IsolationLevel {
    /// Everything up to the high watermark, aborted records too.
    ReadUncommitted,
    /// Only committed records, and those outside transactions, up to the last stable offset. Our default; Kafka's is the
    /// other.
    #[default]
    ReadCommitted,
}

/// The id of a topic whose id is not known (KIP-516).
pub const NO_TOPIC_ID: [u8; 16] = [0; 16];
