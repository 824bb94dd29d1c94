//! A record on its way out, and where it went.

use millstream_protocol::TopicPartition;

/// A record to be written. All parts are borrowed: they are copied once, into the batch that is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord<'a> {
    /// The topic. It is never created by writing to it.
    pub topic: &'a str,
    /// The partition, from 0; `None` lets the key decide (murmur2, as Java's producer), and without a key (or with
    /// `partitioner.ignore.keys`) the producer (KIP-794).
    pub partition: Option<i32>,
    /// Milliseconds since 1970, not negative; `None` for the time of the call. Topics with
    /// `message.timestamp.type=LogAppendTime` replace it; others refuse one too far ahead (`message.timestamp.after.max.ms`).
    pub timestamp: Option<i64>,
    /// The key; `None` and empty are different things.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone, which deletes the key in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// Headers in their order (KIP-82); names may repeat.
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

impl<'a> ProducerRecord<'a> {
    /// A record without a key, for any partition, with the time of the call.
    #[must_use]
    pub const fn to(topic: &'a str, value: &'a [u8]) -> Self {
        Self {
            topic,
            partition: None,
            timestamp: None,
            key: None,
            value: Some(value),
            headers: &[],
        }
    }

    /// The same with a key.
    #[must_use]
    pub const fn key(self, key: &'a [u8]) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The same for a partition.
    #[must_use]
    pub const fn partition(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// The same with a timestamp in milliseconds since 1970.
    #[must_use]
    pub const fn timestamp(self, timestamp: i64) -> Self {
        Self { timestamp: Some(timestamp), ..self }
    }

    /// The same with headers.
    #[must_use]
    pub const fn headers(self, headers: &'a [(&'a [u8], Option<&'a [u8]>)]) -> Self {
        Self { headers, ..self }
    }
}

/// Where a record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The record's offset; `None` if the broker had its batch already (a lost answer, KIP-98) and does not say where.
    pub offset: Option<i64>,
    /// The broker's time of writing in milliseconds since 1970, for topics with `message.timestamp.type=LogAppendTime`.
    pub log_append_time_ms: Option<i64>,
}
