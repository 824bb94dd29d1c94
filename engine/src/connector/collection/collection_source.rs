//! A bounded source that reads lists.

use std::sync::Arc;

use millstream_checkpoint::{Positions, SourcePosition, TopicId};
use millstream_protocol::records::{Headers, RecordView};

use crate::api::{
    RawSourceReader, Source, SourceContext, SourceOutput, SourceReader, SourceStatus, SplitReader,
};
use crate::error::OperatorError;

/// Reads some lists of elements, each a split, to their ends. A restored reader goes on where its positions say.
#[derive(Clone, Debug)]
pub struct CollectionSource<T> {
    splits: Arc<Vec<Vec<(T, i64)>>>,
    chunk_elements: usize,
}

/// An element that is read as a borrowed record.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedRecord {
    /// Key, if any.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
}

impl<T> CollectionSource<T> {
    /// A source of `splits`: elements with their record timestamps in milliseconds.
    #[must_use]
    pub fn new(splits: Vec<Vec<(T, i64)>>) -> Self {
        Self { splits: Arc::new(splits), chunk_elements: 64 }
    }

    /// How many elements one unit has at most. Default: 64.
    #[must_use]
    pub fn chunk_elements(mut self, elements: usize) -> Self {
        self.chunk_elements = elements.max(1);
        self
    }

    /// Positions before the first element of every split, for a source named `uid`.
    #[must_use]
    pub fn start_positions(&self, uid: &str) -> Positions {
        let mut positions = Positions::new();
        let topic: Arc<str> = "collection".into();
        for (partition, _) in (0..).zip(self.splits.iter()) {
            positions.insert(
                uid,
                SourcePosition {
                    topic: Arc::clone(&topic),
                    topic_id: TopicId::UNKNOWN,
                    partition,
                    offset: 0,
                    leader_epoch: -1,
                    max_event_time: None,
                    finished: false,
                },
            );
        }
        positions
    }
}

impl<T: Clone + Send + Sync + 'static> Source for CollectionSource<T> {
    type Reader = CollectionReader<T>;

    fn create_reader(&self, context: SourceContext) -> Result<Self::Reader, OperatorError> {
        Ok(CollectionReader {
            splits: Arc::clone(&self.splits),
            chunk_elements: self.chunk_elements,
            positions: context.positions,
            next: 0,
        })
    }
}

/// Reader of a [`CollectionSource`]: a chunk of one split per unit, splits in turn.
#[derive(Debug)]
pub struct CollectionReader<T> {
    splits: Arc<Vec<Vec<(T, i64)>>>,
    chunk_elements: usize,
    positions: Vec<SourcePosition>,
    next: usize,
}

impl<T> CollectionReader<T> {
    fn read<O>(
        &mut self,
        output: &mut O,
        emit: impl Fn(&mut O, usize, i64, &(T, i64)) -> Result<(), OperatorError>,
        finish: impl Fn(&mut O, usize),
    ) -> Result<SourceStatus, OperatorError> {
        for _ in 0..self.positions.len() {
            let split = self.next;
            self.next = (self.next + 1) % self.positions.len();
            let Some(position) = self.positions.get_mut(split).filter(|split| !split.finished)
            else {
                continue;
            };
            let list = usize::try_from(position.partition).ok().and_then(|i| self.splits.get(i));
            let rest = list.zip(usize::try_from(position.offset).ok());
            let rest = rest.and_then(|(list, offset)| list.get(offset..)).unwrap_or_default();
            for element in rest.iter().take(self.chunk_elements) {
                emit(output, split, position.offset, element).map_err(|error| {
                    error.at(format!("list {}, element {}", position.partition, position.offset))
                })?;
                position.offset += 1;
            }
            if rest.len() <= self.chunk_elements {
                position.finished = true;
                finish(output, split);
            }
            return Ok(SourceStatus::Emitted);
        }
        Ok(SourceStatus::Finished)
    }
}

impl<T: Send + Sync + 'static> SplitReader for CollectionReader<T> {
    fn split_count(&self) -> usize {
        self.positions.len()
    }

    fn position(&self, split: usize) -> SourcePosition {
        let unknown = || SourcePosition {
            topic: "collection".into(),
            topic_id: TopicId::UNKNOWN,
            partition: -1,
            offset: 0,
            leader_epoch: -1,
            max_event_time: None,
            finished: false,
        };
        self.positions.get(split).cloned().unwrap_or_else(unknown)
    }
}

impl<T: Clone + Send + Sync + 'static> SourceReader for CollectionReader<T> {
    type Item = T;

    fn poll_next<O>(&mut self, output: &mut O) -> Result<SourceStatus, OperatorError>
    where
        O: SourceOutput<T>,
    {
        self.read(
            output,
            |output, split, _, (element, timestamp)| {
                output.emit(split, element.clone(), *timestamp)
            },
            |output, split| output.finish_split(split),
        )
    }
}

impl RawSourceReader for CollectionReader<OwnedRecord> {
    fn poll_next<O>(&mut self, output: &mut O) -> Result<SourceStatus, OperatorError>
    where
        O: for<'r> SourceOutput<RecordView<'r>>,
    {
        self.read(
            output,
            |output, split, offset, (record, timestamp)| {
                let view = RecordView {
                    offset,
                    timestamp: *timestamp,
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    headers: Headers::default(),
                };
                output.emit(split, view, *timestamp)
            },
            |output, split| output.finish_split(split),
        )
    }
}
