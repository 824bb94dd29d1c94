//! Where every source split stands, and what its watermark generator knew there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::{FormatError, Reader, Writer};
use crate::ids::TopicId;

/// The position of one split of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// Topic.
    pub topic: Arc<str>,
    /// Id of the topic, another after each re-creation, when offsets begin anew.
    pub topic_id: TopicId,
    /// Partition.
    pub partition: i32,
    /// Offset of the next record to read.
    pub offset: i64,
    /// Leader epoch of the last record read, -1 if unknown (KIP-320: finds truncation).
    pub leader_epoch: i32,
    /// Largest event time seen, in milliseconds: the state of the split's watermark generator.
    pub max_event_time: Option<i64>,
    /// A bounded split that was read to its end.
    pub finished: bool,
}

/// Positions of all splits of all sources, in the order of (source uid, topic, partition).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    splits: BTreeMap<(Arc<str>, Arc<str>, i32), SourcePosition>,
}

impl Positions {
    /// No split at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the position of a split; gives the one it had.
    pub fn insert(
        &mut self,
        source_uid: impl Into<Arc<str>>,
        position: SourcePosition,
    ) -> Option<SourcePosition> {
        let key = (source_uid.into(), Arc::clone(&position.topic), position.partition);
        self.splits.insert(key, position)
    }

    /// The position of a split.
    #[must_use]
    pub fn get(&self, source_uid: &str, topic: &str, partition: i32) -> Option<&SourcePosition> {
        // A borrowed key would need a wrapper type; a lookup happens once per split and start.
        self.splits.get(&(source_uid.into(), topic.into(), partition))
    }

    /// All splits in order: source uid and position.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &SourcePosition)> {
        self.splits.iter().map(|((uid, _, _), position)| (uid, position))
    }

    /// The splits of one source.
    pub fn of_source<'a>(
        &'a self,
        source_uid: &'a str,
    ) -> impl Iterator<Item = &'a SourcePosition> + 'a {
        self.iter().filter(move |(uid, _)| &***uid == source_uid).map(|(_, position)| position)
    }

    /// Number of splits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.splits.len()
    }

    /// Whether there is no split.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.splits.is_empty()
    }

    /// Takes over every split of `other`, which wins where both have one.
    pub fn extend(&mut self, other: Self) {
        self.splits.extend(other.splits);
    }

    pub(crate) fn encode(&self, to: &mut Writer) -> Result<(), FormatError> {
        to.length("positions", self.splits.len())?;
        for (uid, position) in self.iter() {
            to.string("source uid", uid)?;
            to.string("topic", &position.topic)?;
            to.id(position.topic_id.0);
            to.i32(position.partition);
            to.i64(position.offset);
            to.i32(position.leader_epoch);
            to.option_i64(position.max_event_time);
            to.u8(u8::from(position.finished));
        }
        Ok(())
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let count = from.count(POSITION_BYTES_MIN)?;
        let mut positions = Self::new();
        for _ in 0..count {
            let uid = from.string()?;
            let position = SourcePosition {
                topic: from.string()?,
                topic_id: TopicId(from.id()?),
                partition: from.i32()?,
                offset: from.i64()?,
                leader_epoch: from.i32()?,
                max_event_time: from.option_i64()?,
                finished: from.boolean()?,
            };
            if positions.insert(uid, position).is_some() {
                return Err(from.invalid("a split has two positions"));
            }
        }
        Ok(positions)
    }
}

/// Two empty strings, topic id, partition, offset, leader epoch, event time, flag.
const POSITION_BYTES_MIN: usize = 4 + 4 + 16 + 4 + 8 + 4 + 9 + 1;

/// Watermarks of operators, in milliseconds of event time: (operator uid, watermark).
pub type Watermarks = Vec<(String, i64)>;

pub(crate) fn encode_watermarks(marks: &Watermarks, to: &mut Writer) -> Result<(), FormatError> {
    to.length("watermarks", marks.len())?;
    for (uid, mark) in marks {
        to.string("operator uid", uid)?;
        to.i64(*mark);
    }
    Ok(())
}

pub(crate) fn decode_watermarks(from: &mut Reader<'_>) -> Result<Watermarks, FormatError> {
    let count = from.count(4 + 8)?;
    let mut marks = Vec::with_capacity(count);
    for _ in 0..count {
        marks.push((from.string()?.as_ref().to_owned(), from.i64()?));
    }
    Ok(marks)
}

/// Whether a job goes on after a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobStatus {
    /// It goes on.
    #[default]
    Running,
    /// A bounded job whose last checkpoint this is; starting it again does nothing.
    Finished,
}

impl JobStatus {
    pub(crate) fn encode(self, to: &mut Writer) {
        to.u8(match self {
            Self::Running => 0,
            Self::Finished => 1,
        });
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        match from.u8()? {
            0 => Ok(Self::Running),
            1 => Ok(Self::Finished),
            _ => Err(from.invalid("the job status is unknown")),
        }
    }
}
