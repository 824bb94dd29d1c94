//! Encodes the elements of one worker straight into the batches that go to the brokers.

use std::sync::Arc;

use millstream_protocol::TopicPartition;
use millstream_protocol::producer::partition_for_key;
use millstream_protocol::records::{Appended, BatchBuilder, RecordView};
use millstream_protocol_client::Producer;
use millstream_protocol_client::surroundings::wall_time_ms;

use super::format::RecordSerializer;
use super::sink::{DeliveryGuarantee, KafkaSinkDescription, SinkOutput};
use crate::api::{SinkContext, SinkWriter, Writer};
use crate::error::OperatorError;

/// Writes elements with the help of a serializer.
#[derive(Debug)]
pub struct KafkaSinkWriter<S> {
    batches: Batches,
    serializer: S,
    timestamps: RecordTimestamps,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Writes borrowed records as they are.
#[derive(Debug)]
pub struct RawKafkaSinkWriter {
    batches: Batches,
}

impl<S> KafkaSinkWriter<S> {
    pub(crate) fn new(
        context: SinkContext,
        description: &KafkaSinkDescription,
        serializer: S,
    ) -> Result<Self, OperatorError> {
        let batches = Batches::new(context, description)?;
        let timestamps = description.timestamps;
        Ok(Self { batches, serializer, timestamps, key: Vec::new(), value: Vec::new() })
    }

    pub(crate) fn write_element<T>(
        &mut self,
        element: &T,
        timestamp: i64,
    ) -> Result<(), OperatorError>
    where
        S: RecordSerializer<T>,
    {
        self.key.clear();
        self.value.clear();
        let keyed = self
            .serializer
            .serialize(element, &mut self.key, &mut self.value)
            .map_err(OperatorError::new)?;
        let key = keyed.then_some(self.key.as_slice());
        let timestamp = self.timestamps.of(timestamp);
        self.batches.append(key, |builder| builder.append(timestamp, key, Some(&self.value), &[]))
    }
}

impl RawKafkaSinkWriter {
    pub(crate) fn new(
        context: SinkContext,
        description: &KafkaSinkDescription,
    ) -> Result<Self, OperatorError> {
        Ok(Self { batches: Batches::new(context, description)? })
    }
}

impl<'r> SinkWriter<RecordView<'r>> for RawKafkaSinkWriter {
    fn write(&mut self, record: RecordView<'r>, _timestamp: i64) -> Result<(), OperatorError> {
        self.batches.append(record.key, |builder| builder.append_view(&record))
    }
}

impl<S: Send + 'static> Writer for KafkaSinkWriter<S> {
    fn has_capacity(&self) -> bool {
        self.batches.has_capacity()
    }

    fn on_barrier(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.batches.on_barrier(checkpoint)
    }
}

impl Writer for RawKafkaSinkWriter {
    fn has_capacity(&self) -> bool {
        self.batches.has_capacity()
    }

    fn on_barrier(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.batches.on_barrier(checkpoint)
    }
}

/// Which timestamp a written record carries.
///
/// Kafka deletes records by this timestamp (`retention.ms`, seven days by default): results about last year, stamped with their
/// event time, would be gone minutes after they were written. So the time of writing is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RecordTimestamps {
    /// When the record is written.
    #[default]
    Written,
    /// The element's event time, as Flink's sink does.
    EventTime,
}

impl RecordTimestamps {
    fn of(self, event_time: i64) -> i64 {
        match self {
            Self::EventTime => event_time.max(-1),
            Self::Written => wall_time_ms(),
        }
    }
}

/// One open batch per partition of the topic. A half-full one waits for the barrier: bigger batches are the strongest lever there
/// is on cost, and no reader of committed records could see them earlier anyway.
#[derive(Debug)]
struct Batches {
    producer: Producer,
    partitions: Vec<OpenBatch>,
    /// Checkpoint that the next record belongs to.
    checkpoint: u64,
    /// Where records without a key go; moves on with every batch that is handed over.
    sticky: usize,
}

#[derive(Debug)]
struct OpenBatch {
    topic_partition: TopicPartition,
    builder: BatchBuilder,
}

impl Batches {
    fn new(
        context: SinkContext,
        description: &KafkaSinkDescription,
    ) -> Result<Self, OperatorError> {
        let output = context.extensions.get::<SinkOutput>();
        let missing =
            || OperatorError::new(format!("the Kafka sink {:?} was not opened", context.uid));
        let output = output.as_deref().ok_or_else(missing)?;
        let count = *output.partitions.get(&description.topic).ok_or_else(missing)?;
        let topic: Arc<str> = description.topic.as_str().into();
        let compression = description.config.compression_type;
        let level = description.config.compression_level();
        let batch_bytes = usize::try_from(description.config.batch_size).unwrap_or(usize::MAX);
        let partitions = (0..count)
            .map(|partition| OpenBatch {
                topic_partition: TopicPartition::new(Arc::clone(&topic), partition),
                builder: BatchBuilder::with_level(compression, level, batch_bytes),
            })
            .collect();
        let shared = match description.guarantee {
            DeliveryGuarantee::ExactlyOnce => Some(&output.transactional),
            DeliveryGuarantee::AtLeastOnce => output.idempotent.as_ref(),
        };
        let shared = shared.ok_or_else(missing)?;
        Ok(Self {
            producer: shared.join(Arc::clone(&context.uid), context.worker, context.notifier),
            partitions,
            checkpoint: context.checkpoint,
            sticky: context.worker,
        })
    }

    fn has_capacity(&self) -> bool {
        self.producer.has_capacity(self.checkpoint)
    }

    /// Appends a record to the batch of its partition, handing that batch over first if it is full.
    fn append(
        &mut self,
        key: Option<&[u8]>,
        mut append: impl FnMut(
            &mut BatchBuilder,
        ) -> Result<Appended, millstream_protocol::records::RecordsError>,
    ) -> Result<(), OperatorError> {
        let count = self.partitions.len();
        let index = match key {
            Some(key) => partition_for_key(key, i32::try_from(count).unwrap_or(i32::MAX)) as usize,
            None => self.sticky % count.max(1),
        };
        let Some(open) = self.partitions.get_mut(index) else {
            return Err(OperatorError::new("the output topic has no partitions"));
        };
        let failed = |error, place: &TopicPartition| OperatorError::new(error).at(place);
        if let Appended::Full =
            append(&mut open.builder).map_err(|error| failed(error, &open.topic_partition))?
        {
            hand_over(&self.producer, open, self.checkpoint)?;
            if key.is_none() {
                self.sticky = self.sticky.wrapping_add(1);
            }
            append(&mut open.builder).map_err(|error| failed(error, &open.topic_partition))?;
        }
        Ok(())
    }

    fn on_barrier(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        for open in &mut self.partitions {
            hand_over(&self.producer, open, checkpoint)?;
        }
        self.checkpoint = checkpoint + 1;
        Ok(())
    }
}

fn hand_over(
    producer: &Producer,
    open: &mut OpenBatch,
    checkpoint: u64,
) -> Result<(), OperatorError> {
    let built = open.builder.build();
    let batch = built.map_err(|error| OperatorError::new(error).at(&open.topic_partition))?;
    if let Some(batch) = batch {
        producer.send_batch(open.topic_partition.clone(), batch, checkpoint);
    }
    Ok(())
}
