//! Writes records to a topic without a job around it: loading input for demos, tests and benchmarks.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_protocol::TopicPartition;
use millstream_protocol::records::{Appended, BatchBuilder, Compression, RecordsError};
use millstream_protocol_client::{KafkaClient, ProduceError, Producer};
use thiserror::Error;

/// Records of one batch, in bytes before compression.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// All batches of a writer carry this tag: there is no checkpoint to wait for.
const TAG: u64 = 0;

/// Writing failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A record does not fit into a batch.
    #[error("failed to encode a record for {topic_partition}")]
    Encode {
        /// Where.
        topic_partition: TopicPartition,
        /// Why.
        #[source]
        source: RecordsError,
    },
    /// The brokers refused it.
    #[error("failed to write to {topic:?}")]
    Produce {
        /// Topic.
        topic: String,
        /// Why.
        #[source]
        source: ProduceError,
    },
}

/// An idempotent writer of one topic, batching by partition.
#[derive(Debug)]
pub struct TopicWriter {
    producer: Producer,
    topic: Arc<str>,
    compression: Compression,
    builders: BTreeMap<i32, BatchBuilder>,
}

impl TopicWriter {
    /// A writer of `topic`.
    #[must_use]
    pub fn new(client: &KafkaClient, topic: &str, compression: Compression) -> Self {
        let producer = client.producer(None);
        Self { producer, topic: topic.into(), compression, builders: BTreeMap::new() }
    }

    /// Adds a record; sends the partition's batch when it is full.
    ///
    /// # Errors
    ///
    /// [`WriteError::Encode`] if the record alone is larger than a batch may be.
    pub fn append(
        &mut self,
        partition: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), WriteError> {
        let compression = self.compression;
        let topic_partition = || TopicPartition::new(Arc::clone(&self.topic), partition);
        let failed = |source| WriteError::Encode { topic_partition: topic_partition(), source };
        let builder = self
            .builders
            .entry(partition)
            .or_insert_with(|| BatchBuilder::new(compression, BATCH_BYTES_MAX));
        if let Appended::Full = builder.append(timestamp, key, value, &[]).map_err(failed)? {
            if let Some(batch) = builder.build().map_err(failed)? {
                self.producer.send_batch(topic_partition(), batch, TAG);
            }
            builder.append(timestamp, key, value, &[]).map_err(failed)?;
        }
        Ok(())
    }

    /// Sends what is left and waits until the brokers have acknowledged everything.
    ///
    /// # Errors
    ///
    /// [`WriteError::Produce`] if a batch was refused or not acknowledged within `delivery.timeout.ms`.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        for (partition, builder) in &mut self.builders {
            let topic_partition = TopicPartition::new(Arc::clone(&self.topic), *partition);
            let batch = builder.build().map_err(|source| WriteError::Encode {
                topic_partition: topic_partition.clone(),
                source,
            })?;
            if let Some(batch) = batch {
                self.producer.send_batch(topic_partition, batch, TAG);
            }
        }
        self.producer
            .flush(TAG)
            .await
            .map(|_| ())
            .map_err(|source| WriteError::Produce { topic: self.topic.to_string(), source })
    }
}
