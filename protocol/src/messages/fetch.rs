//! Fetch: read record batches. Schema versions 4 to 12 with topics by name, 13 with topics by id (KIP-516).
//!
//! Record bytes of a decoded response are slices of the frame; of an encoded one, chunks of their own.

use std::sync::Arc;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::ids::{IsolationLevel, NO_TOPIC_ID};
use crate::messages::{ApiKey, LeaderIdAndEpoch};
use crate::wire::{Direction, EncodeError, ReadError, ReadProblem, Reader, Writer};

pub use crate::records::AbortedTransaction;

/// Fetch request of a consumer, versions 4 to 13.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Milliseconds the broker may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Bytes that let the broker answer early.
    pub min_bytes: i32,
    /// Bytes after which the broker stops adding batches; the first batch comes whole all the same (KIP-74).
    pub max_bytes: i32,
    /// Which records may be returned.
    pub isolation_level: IsolationLevel,
    /// Version 7+. 0 to ask for a session.
    pub session_id: i32,
    /// Version 7+. 0 starts a session, -1 asks for none, others continue one (KIP-227).
    pub session_epoch: i32,
    /// Partitions to fetch; in a session only those that changed.
    pub topics: Vec<FetchTopic>,
    /// Version 7+. Partitions to drop from the session.
    pub forgotten_topics: Vec<ForgottenTopic>,
    /// Version 11+. Rack of the consumer (KIP-392); empty for none.
    pub rack_id: String,
}

impl Default for FetchRequest {
    fn default() -> Self {
        Self {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: IsolationLevel::ReadUncommitted,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            forgotten_topics: Vec::new(),
            rack_id: String::new(),
        }
    }
}

/// Partitions of one topic to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    /// Below version 13. Topic name.
    pub topic: Arc<str>,
    /// Version 13+. Topic id.
    pub topic_id: [u8; 16],
    /// The partitions.
    pub partitions: Vec<FetchPartition>,
}

/// One partition to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Partition index.
    pub partition: i32,
    /// Version 9+. The leader epoch we know (KIP-320); -1 for none.
    pub current_leader_epoch: i32,
    /// First offset wanted.
    pub fetch_offset: i64,
    /// Version 12+. Leader epoch of the last record fetched; -1 for none.
    pub last_fetched_epoch: i32,
    /// Version 5+. Only for followers; consumers send -1.
    pub log_start_offset: i64,
    /// Bytes after which the broker stops for this partition; its first batch comes whole all the same.
    pub partition_max_bytes: i32,
}

impl Default for FetchPartition {
    fn default() -> Self {
        Self {
            partition: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 0,
        }
    }
}

/// Partitions of one topic to drop from a fetch session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenTopic {
    /// Below version 13. Topic name.
    pub topic: Arc<str>,
    /// Version 13+. Topic id.
    pub topic_id: [u8; 16],
    /// Partition indexes.
    pub partitions: Vec<i32>,
}

/// Fetch response, versions 4 to 13.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchResponse {
    /// Milliseconds the request was throttled.
    pub throttle_time_ms: i32,
    /// Version 7+. Error of the whole request.
    pub error_code: ErrorCode,
    /// Version 7+. Session the broker opened or continued; 0 for none.
    pub session_id: i32,
    /// Answers by topic; in a session only those with news.
    pub topics: Vec<FetchTopicResponse>,
}

/// Answers for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopicResponse {
    /// Below version 13. Topic name.
    pub topic: Arc<str>,
    /// Version 13+. Topic id.
    pub topic_id: [u8; 16],
    /// Answers by partition.
    pub partitions: Vec<FetchPartitionResponse>,
}

/// Answer for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartitionResponse {
    /// Partition index.
    pub partition: i32,
    /// The outcome.
    pub error_code: ErrorCode,
    /// Offset after the last replicated record; -1 if unknown.
    pub high_watermark: i64,
    /// Offset below which every transaction is decided; -1 if unknown.
    pub last_stable_offset: i64,
    /// Version 5+. First offset of the partition; -1 if unknown.
    pub log_start_offset: i64,
    /// Version 12+. Where our log and the leader's part (KIP-595); a truncation.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// Version 12+. The leader, if the request went to another broker (KIP-951).
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// Aborted transactions within the returned batches, as sent: not necessarily sorted. `None` with READ_UNCOMMITTED.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// Version 11+. Replica to fetch from instead (KIP-392); -1 for none.
    pub preferred_read_replica: i32,
    /// Record batches, the last one possibly cut. A slice of the frame; empty also for null.
    pub records: Bytes,
}

impl Default for FetchPartitionResponse {
    fn default() -> Self {
        Self {
            partition: 0,
            error_code: ErrorCode::NONE,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
            records: Bytes::new(),
        }
    }
}

/// The end of a leader epoch in a log (KIP-320, KIP-595).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochEndOffset {
    /// Largest epoch both logs share; -1 if none.
    pub epoch: i32,
    /// Offset after that epoch's last record; -1 if none.
    pub end_offset: i64,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { epoch: -1, end_offset: -1 }
    }
}

impl FetchTopic {
    /// Partitions of a topic by name.
    #[must_use]
    pub fn by_name(topic: impl Into<Arc<str>>, partitions: Vec<FetchPartition>) -> Self {
        Self { topic: topic.into(), topic_id: NO_TOPIC_ID, partitions }
    }
}

impl ForgottenTopic {
    /// Partitions of a topic by name.
    #[must_use]
    pub fn by_name(topic: impl Into<Arc<str>>, partitions: Vec<i32>) -> Self {
        Self { topic: topic.into(), topic_id: NO_TOPIC_ID, partitions }
    }
}

impl FetchTopicResponse {
    /// Answers of a topic by name.
    #[must_use]
    pub fn by_name(topic: impl Into<Arc<str>>, partitions: Vec<FetchPartitionResponse>) -> Self {
        Self { topic: topic.into(), topic_id: NO_TOPIC_ID, partitions }
    }
}

impl FetchRequest {
    pub(super) fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        let flexible = is_flexible(version);
        writer.i32(CONSUMER_REPLICA_ID);
        writer.i32(self.max_wait_ms);
        writer.i32(self.min_bytes);
        writer.i32(self.max_bytes);
        writer.i8(match self.isolation_level {
            IsolationLevel::ReadUncommitted => 0,
            IsolationLevel::ReadCommitted => 1,
        });
        if version >= 7 {
            writer.i32(self.session_id);
            writer.i32(self.session_epoch);
        }
        writer.array_length(Some(self.topics.len()), flexible)?;
        for topic in &self.topics {
            write_topic(writer, version, &topic.topic, topic.topic_id)?;
            writer.array_length(Some(topic.partitions.len()), flexible)?;
            for partition in &topic.partitions {
                partition.write(version, writer);
            }
            writer.no_tags(flexible);
        }
        if version >= 7 {
            writer.array_length(Some(self.forgotten_topics.len()), flexible)?;
            for topic in &self.forgotten_topics {
                write_topic(writer, version, &topic.topic, topic.topic_id)?;
                writer.array_length(Some(topic.partitions.len()), flexible)?;
                for partition in &topic.partitions {
                    writer.i32(*partition);
                }
                writer.no_tags(flexible);
            }
        } else if !self.forgotten_topics.is_empty() {
            return Err(EncodeError::not_in_version(
                ApiKey::Fetch,
                Direction::Request,
                version,
                "forgotten_topics",
            ));
        }
        if version >= 11 {
            writer.string(&self.rack_id, flexible)?;
        }
        writer.no_tags(flexible);
        Ok(())
    }

    pub(super) fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let flexible = is_flexible(version);
        let _replica_id = reader.i32()?;
        let mut request = Self {
            max_wait_ms: reader.i32()?,
            min_bytes: reader.i32()?,
            max_bytes: reader.i32()?,
            isolation_level: read_isolation_level(reader)?,
            ..Self::default()
        };
        if version >= 7 {
            request.session_id = reader.i32()?;
            request.session_epoch = reader.i32()?;
        }
        request.topics = reader.elements(flexible, TOPIC_BYTES, |reader| {
            let (topic, topic_id) = read_topic(reader, version)?;
            let partitions = reader.elements(flexible, REQUEST_PARTITION_BYTES, |reader| {
                FetchPartition::read(reader, version)
            })?;
            reader.skip_tags(flexible)?;
            Ok(FetchTopic { topic, topic_id, partitions })
        })?;
        if version >= 7 {
            request.forgotten_topics = reader.elements(flexible, TOPIC_BYTES, |reader| {
                let (topic, topic_id) = read_topic(reader, version)?;
                let partitions = reader.elements(flexible, 4, Reader::i32)?;
                reader.skip_tags(flexible)?;
                Ok(ForgottenTopic { topic, topic_id, partitions })
            })?;
        }
        if version >= 11 {
            request.rack_id = reader.string(flexible)?.to_owned();
        }
        reader.skip_tags(flexible)?;
        Ok(request)
    }
}

impl FetchPartition {
    fn write(&self, version: i16, writer: &mut Writer) {
        writer.i32(self.partition);
        if version >= 9 {
            writer.i32(self.current_leader_epoch);
        }
        writer.i64(self.fetch_offset);
        if version >= 12 {
            writer.i32(self.last_fetched_epoch);
        }
        if version >= 5 {
            writer.i64(self.log_start_offset);
        }
        writer.i32(self.partition_max_bytes);
        writer.no_tags(is_flexible(version));
    }

    fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let partition = Self {
            partition: reader.i32()?,
            current_leader_epoch: if version >= 9 { reader.i32()? } else { -1 },
            fetch_offset: reader.i64()?,
            last_fetched_epoch: if version >= 12 { reader.i32()? } else { -1 },
            log_start_offset: if version >= 5 { reader.i64()? } else { -1 },
            partition_max_bytes: reader.i32()?,
        };
        reader.skip_tags(is_flexible(version))?;
        Ok(partition)
    }
}

impl FetchResponse {
    pub(super) fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        let flexible = is_flexible(version);
        writer.i32(self.throttle_time_ms);
        if version >= 7 {
            writer.i16(self.error_code.0);
            writer.i32(self.session_id);
        }
        writer.array_length(Some(self.topics.len()), flexible)?;
        for topic in &self.topics {
            write_topic(writer, version, &topic.topic, topic.topic_id)?;
            writer.array_length(Some(topic.partitions.len()), flexible)?;
            for partition in &topic.partitions {
                partition.write(version, writer)?;
            }
            writer.no_tags(flexible);
        }
        writer.no_tags(flexible);
        Ok(())
    }

    pub(super) fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let flexible = is_flexible(version);
        let mut response = Self { throttle_time_ms: reader.i32()?, ..Self::default() };
        if version >= 7 {
            response.error_code = ErrorCode(reader.i16()?);
            response.session_id = reader.i32()?;
        }
        response.topics = reader.elements(flexible, TOPIC_BYTES, |reader| {
            let (topic, topic_id) = read_topic(reader, version)?;
            let partitions = reader.elements(flexible, RESPONSE_PARTITION_BYTES, |reader| {
                FetchPartitionResponse::read(reader, version)
            })?;
            reader.skip_tags(flexible)?;
            Ok(FetchTopicResponse { topic, topic_id, partitions })
        })?;
        reader.skip_tags(flexible)?;
        Ok(response)
    }
}

impl FetchPartitionResponse {
    fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        let flexible = is_flexible(version);
        writer.i32(self.partition);
        writer.i16(self.error_code.0);
        writer.i64(self.high_watermark);
        writer.i64(self.last_stable_offset);
        if version >= 5 {
            writer.i64(self.log_start_offset);
        }
        writer.array_length(self.aborted_transactions.as_ref().map(Vec::len), flexible)?;
        for aborted in self.aborted_transactions.iter().flatten() {
            writer.i64(aborted.producer_id);
            writer.i64(aborted.first_offset);
            writer.no_tags(flexible);
        }
        if version >= 11 {
            writer.i32(self.preferred_read_replica);
        }
        writer.spliced_bytes(self.records.clone(), flexible)?;
        if !flexible {
            return Ok(());
        }
        let (diverging, leader) = (self.diverging_epoch, self.current_leader);
        writer.unsigned_varint(u32::from(diverging.is_some()) + u32::from(leader.is_some()));
        if let Some(diverging) = diverging {
            writer.tagged(TAG_DIVERGING_EPOCH, |writer| {
                writer.i32(diverging.epoch);
                writer.i64(diverging.end_offset);
                writer.no_tags(true);
                Ok(())
            })?;
        }
        if let Some(leader) = leader {
            writer.tagged(TAG_CURRENT_LEADER, |writer| {
                leader.write(writer);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let flexible = is_flexible(version);
        let mut partition = Self {
            partition: reader.i32()?,
            error_code: ErrorCode(reader.i16()?),
            high_watermark: reader.i64()?,
            last_stable_offset: reader.i64()?,
            log_start_offset: if version >= 5 { reader.i64()? } else { -1 },
            ..Self::default()
        };
        partition.aborted_transactions =
            reader.nullable_elements(flexible, ABORTED_TRANSACTION_BYTES, |reader| {
                let aborted =
                    AbortedTransaction { producer_id: reader.i64()?, first_offset: reader.i64()? };
                reader.skip_tags(flexible)?;
                Ok(aborted)
            })?;
        if version >= 11 {
            partition.preferred_read_replica = reader.i32()?;
        }
        partition.records = reader.nullable_bytes(flexible)?.unwrap_or_default();
        reader.tags(flexible, |reader, tag| {
            match tag {
                TAG_DIVERGING_EPOCH => {
                    partition.diverging_epoch =
                        Some(EpochEndOffset { epoch: reader.i32()?, end_offset: reader.i64()? });
                    reader.skip_tags(true)?;
                }
                TAG_CURRENT_LEADER => {
                    partition.current_leader = Some(LeaderIdAndEpoch::read(reader)?);
                }
                // Among them 2, snapshot_id, which only raft followers read.
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(partition)
    }
}

fn write_topic(
    writer: &mut Writer,
    version: i16,
    topic: &str,
    topic_id: [u8; 16],
) -> Result<(), EncodeError> {
    if version < FIRST_FETCH_BY_ID {
        return writer.string(topic, is_flexible(version));
    }
    writer.uuid(topic_id);
    Ok(())
}

fn read_topic(reader: &mut Reader, version: i16) -> Result<(Arc<str>, [u8; 16]), ReadError> {
    if version < FIRST_FETCH_BY_ID {
        return Ok((reader.string(is_flexible(version))?.into(), NO_TOPIC_ID));
    }
    Ok((Arc::from(""), reader.uuid()?))
}

fn read_isolation_level(reader: &mut Reader) -> Result<IsolationLevel, ReadError> {
    let position = reader.position();
    match reader.i8()? {
        0 => Ok(IsolationLevel::ReadUncommitted),
        1 => Ok(IsolationLevel::ReadCommitted),
        other => Err(ReadError::new(position, ReadProblem::InvalidValue(other.into()))),
    }
}

const fn is_flexible(version: i16) -> bool {
    ApiKey::Fetch.is_flexible(version)
}

/// The version of Fetch from which on topics have ids in place of names.
pub const FIRST_FETCH_BY_ID: i16 = 13;

/// What a consumer sends in place of a broker's id.
const CONSUMER_REPLICA_ID: i32 = -1;

const TAG_DIVERGING_EPOCH: u32 = 0;
const TAG_CURRENT_LEADER: u32 = 1;

/// Smallest size of an element on the wire, over all versions.
const TOPIC_BYTES: usize = 3;
const REQUEST_PARTITION_BYTES: usize = 16;
const RESPONSE_PARTITION_BYTES: usize = 30;
const ABORTED_TRANSACTION_BYTES: usize = 16;
