//! Reads the splits of one worker: fetched bytes in, elements out.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_checkpoint::{SourcePosition, TopicId};
use millstream_protocol::records::{DecodeLimits, Decompressor, RecordView, VisibleBatches};
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{FetchEvent, FetchStart, FetchedPartition, PartitionConsumer};
use tokio::time::Instant;

use super::error::DataError;
use super::format::RecordDeserializer;
use super::pace::ReadPace;
use super::source::OpenedSources;
use crate::api::{
    RawSourceReader, SourceContext, SourceOutput, SourceReader, SourceStatus, SplitOutput,
    SplitReader,
};
use crate::error::{Cause, OperatorError};

/// Reads elements.
#[derive(Debug)]
pub struct KafkaSourceReader<D> {
    splits: Splits,
    deserializer: D,
    /// Records that the deserializer gave nothing for.
    left_out: u64,
}

/// Reads borrowed records.
#[derive(Debug)]
pub struct RawKafkaSourceReader {
    splits: Splits,
}

impl<D> KafkaSourceReader<D> {
    pub(crate) fn new(context: SourceContext, deserializer: D) -> Result<Self, OperatorError> {
        Ok(Self { splits: Splits::new(context)?, deserializer, left_out: 0 })
    }
}

impl RawKafkaSourceReader {
    pub(crate) fn new(context: SourceContext) -> Result<Self, OperatorError> {
        Ok(Self { splits: Splits::new(context)? })
    }
}

impl<D: RecordDeserializer> SplitReader for KafkaSourceReader<D> {
    fn split_count(&self) -> usize {
        self.splits.list.len()
    }

    fn position(&self, split: usize) -> SourcePosition {
        self.splits.position(split)
    }

    fn on_barrier(&mut self) {
        self.splits.on_barrier();
    }
}

impl SplitReader for RawKafkaSourceReader {
    fn split_count(&self) -> usize {
        self.splits.list.len()
    }

    fn position(&self, split: usize) -> SourcePosition {
        self.splits.position(split)
    }

    fn on_barrier(&mut self) {
        self.splits.on_barrier();
    }
}

impl<D: RecordDeserializer> SourceReader for KafkaSourceReader<D> {
    type Item = D::Item;

    fn poll_next<O>(&mut self, output: &mut O) -> Result<SourceStatus, OperatorError>
    where
        O: SourceOutput<D::Item>,
    {
        let Self { splits, deserializer, left_out } = self;
        splits.poll_next(output, |output, split, topic_partition, record| {
            let element = deserializer
                .deserialize(&record)
                .map_err(|cause| OperatorError::new(DataError::Deserialize(cause)))?;
            match element {
                Some(element) => output.emit(split, element, record.timestamp),
                None => {
                    *left_out += 1;
                    // A topic may be full of them: ever fewer are told of.
                    if *left_out <= 10 || left_out.is_power_of_two() {
                        tracing::warn!(
                            "{topic_partition} offset {}: record left out by its deserializer ({left_out} so far)",
                            record.offset
                        );
                    }
                    Ok(())
                }
            }
        })
    }
}

impl RawSourceReader for RawKafkaSourceReader {
    fn poll_next<O>(&mut self, output: &mut O) -> Result<SourceStatus, OperatorError>
    where
        O: for<'r> SourceOutput<RecordView<'r>>,
    {
        self.splits.poll_next(output, |output, split, _, record| {
            output.emit(split, record, record.timestamp)
        })
    }
}

fn corrupt(cause: impl Into<Cause>) -> OperatorError {
    OperatorError::new(DataError::Corrupt(cause.into()))
}

/// One partition of this worker.
#[derive(Debug)]
struct Split {
    topic_partition: TopicPartition,
    position: SourcePosition,
    /// Where it ends, if it does.
    end: Option<i64>,
    finished: bool,
}

/// The partitions of this worker and what was fetched for them.
#[derive(Debug)]
struct Splits {
    list: Vec<Split>,
    by_partition: BTreeMap<TopicPartition, usize>,
    consumer: PartitionConsumer,
    /// Of a source that waits for records, not of one that has them all.
    pace: Option<ReadPace>,
    bounded: bool,
    limits: DecodeLimits,
    decompressor: Option<Decompressor>,
    /// Splits that were at their end before anything was read are told of once.
    told_finished: bool,
}

impl Splits {
    fn new(context: SourceContext) -> Result<Self, OperatorError> {
        let sources = context.extensions.get::<OpenedSources>();
        let opened = sources
            .as_deref()
            .and_then(|sources| sources.0.get(&context.uid))
            .cloned()
            .ok_or_else(|| {
                OperatorError::new(format!("the Kafka source {:?} was not opened", context.uid))
            })?;
        let list: Vec<Split> = context
            .positions
            .into_iter()
            .map(|position| {
                let topic_partition =
                    TopicPartition::new(Arc::clone(&position.topic), position.partition);
                let end = opened
                    .ends
                    .as_ref()
                    .map(|ends| ends.get(&topic_partition).copied().unwrap_or(0));
                let finished = end.is_some_and(|end| position.offset >= end);
                Split { topic_partition, position, end, finished }
            })
            .collect();
        let starts = list.iter().filter(|split| !split.finished).map(|split| FetchStart {
            topic_partition: split.topic_partition.clone(),
            offset: split.position.offset,
            leader_epoch: split.position.leader_epoch,
        });
        let notifier = context.notifier;
        let consumer = opened.client.partition_consumer(
            starts.collect(),
            IsolationLevel::ReadCommitted,
            Arc::new(move || notifier.notify()),
        );
        let by_partition = list
            .iter()
            .enumerate()
            .map(|(index, split)| (split.topic_partition.clone(), index))
            .collect();
        let pace = ReadPace::new(context.checkpoint_interval, opened.client.config());
        Ok(Self {
            list,
            by_partition,
            consumer,
            pace: pace.filter(|_| opened.ends.is_none()),
            bounded: opened.ends.is_some(),
            limits: DecodeLimits::default(),
            decompressor: None,
            told_finished: false,
        })
    }

    fn position(&self, split: usize) -> SourcePosition {
        self.list.get(split).map_or_else(
            || SourcePosition {
                topic: "".into(),
                topic_id: TopicId::UNKNOWN,
                partition: -1,
                offset: -1,
                leader_epoch: -1,
                max_event_time: None,
                finished: false,
            },
            |split| split.position.clone(),
        )
    }

    /// What is read from here on is seen with the next commit.
    fn on_barrier(&mut self) {
        if let Some(pace) = self.pace {
            self.consumer.pace(Instant::now() + pace.calm, pace.min_bytes, pace.max_wait);
        }
    }

    /// Takes what one fetch brought for one split and gives its records to `emit`.
    fn poll_next<O: SplitOutput>(
        &mut self,
        output: &mut O,
        emit: impl FnMut(&mut O, usize, &TopicPartition, RecordView<'_>) -> Result<(), OperatorError>,
    ) -> Result<SourceStatus, OperatorError> {
        if !self.told_finished {
            self.told_finished = true;
            for (index, split) in self.list.iter().enumerate() {
                if split.finished {
                    output.finish_split(index);
                }
            }
        }
        // A worker without a split of a bounded source has finished too.
        if self.bounded && self.list.iter().all(|split| split.finished) {
            return Ok(SourceStatus::Finished);
        }
        match self.consumer.try_next() {
            None => Ok(SourceStatus::Pending),
            Some(FetchEvent::Records(fetched)) => {
                if let Some(&index) = self.by_partition.get(&fetched.topic_partition) {
                    self.take(index, fetched, output, emit)?;
                }
                Ok(SourceStatus::Emitted)
            }
            Some(FetchEvent::Progress { topic_partition, position, high_watermark, .. }) => {
                if let Some(&index) = self.by_partition.get(&topic_partition) {
                    self.progress(index, position, high_watermark, output);
                }
                Ok(SourceStatus::Emitted)
            }
            Some(FetchEvent::Failed { topic_partition, error }) => {
                Err(OperatorError::new(error).at(&topic_partition))
            }
        }
    }

    fn take<O: SplitOutput>(
        &mut self,
        index: usize,
        fetched: FetchedPartition,
        output: &mut O,
        mut emit: impl FnMut(
            &mut O,
            usize,
            &TopicPartition,
            RecordView<'_>,
        ) -> Result<(), OperatorError>,
    ) -> Result<(), OperatorError> {
        let Some(split) = self.list.get_mut(index) else { return Ok(()) };
        if split.finished {
            return Ok(());
        }
        let topic_partition = fetched.topic_partition;
        let mut batches = VisibleBatches::new(
            fetched.records,
            fetched.fetch_offset.max(split.position.offset),
            fetched.aborted_transactions,
            fetched.isolation_level,
            self.limits,
        );
        if let Some(decompressor) = self.decompressor.take() {
            batches = batches.with_decompressor(decompressor);
        }
        let end = split.end.unwrap_or(i64::MAX);
        for batch in batches.by_ref() {
            let batch = batch.map_err(|error| {
                corrupt(error)
                    .at(format_args!("{topic_partition} offset {}", split.position.offset))
            })?;
            if let Some(block) = &batch.records {
                for record in block.iter() {
                    let record = record.map_err(|error| corrupt(error).at(&topic_partition))?;
                    if record.offset >= end {
                        break;
                    }
                    let offset = record.offset;
                    emit(output, index, &topic_partition, record).map_err(|error| {
                        error.at(format_args!("{topic_partition} offset {offset}"))
                    })?;
                }
                split.position.leader_epoch = block.header().partition_leader_epoch;
            }
            split.position.offset = batch.next_offset.min(end);
            if split.position.offset >= end {
                break;
            }
        }
        self.decompressor = Some(batches.into_decompressor());
        self.progress(index, fetched.next_offset, fetched.high_watermark, output);
        Ok(())
    }

    /// The position moved, or was found to be at the end of what there is.
    fn progress(
        &mut self,
        index: usize,
        position: i64,
        high_watermark: i64,
        output: &mut impl SplitOutput,
    ) {
        let Some(split) = self.list.get_mut(index) else { return };
        let end = split.end.unwrap_or(i64::MAX);
        // Markers and compacted gaps at the end of the log move the position without any record.
        split.position.offset = split.position.offset.max(position.min(end));
        if split.position.offset >= end {
            split.finished = true;
            self.consumer.pause(&split.topic_partition);
            output.finish_split(index);
        } else if split.position.offset >= high_watermark {
            output.caught_up(index);
        }
    }
}
