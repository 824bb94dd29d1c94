//! Produce: append record batches. Schema versions 3 to 12.
//!
//! Record bytes are never copied: an encoded request carries them as chunks of their own, a decoded one as slices of
//! the frame.

use std::sync::Arc;

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::messages::{ApiKey, LeaderIdAndEpoch, NodeEndpoint};
use crate::wire::{EncodeError, ReadError, Reader, Writer};

/// Produce request, versions 3 to 12. Version 12 lets the broker add partitions to the transaction (KIP-890).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceRequest {
    /// Set for transactional batches.
    pub transactional_id: Option<String>,
    /// 0 (no answer at all), 1 (leader) or -1 (all in-sync replicas).
    pub acks: i16,
    /// Milliseconds the broker may wait for replicas.
    pub timeout_ms: i32,
    /// Batches by topic.
    pub topics: Vec<ProduceTopic>,
}

/// Batches for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceTopic {
    /// Topic name.
    pub topic: Arc<str>,
    /// Batches by partition.
    pub partitions: Vec<ProducePartition>,
}

/// The batch for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducePartition {
    /// Partition index.
    pub partition: i32,
    /// Exactly one record batch of format 2, else the broker refuses it. A null reads as empty.
    pub records: Bytes,
}

/// Produce response, versions 3 to 12. With `acks` = 0 there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceResponse {
    /// Outcomes by topic.
    pub topics: Vec<ProduceTopicResponse>,
    /// Milliseconds the request was throttled.
    pub throttle_time_ms: i32,
    /// Version 10+. Addresses of the leaders named in the partitions (KIP-951).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// Outcomes for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceTopicResponse {
    /// Topic name.
    pub topic: Arc<str>,
    /// Outcomes by partition.
    pub partitions: Vec<ProducePartitionResponse>,
}

/// Outcome for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartitionResponse {
    /// Partition index.
    pub partition: i32,
    /// The outcome.
    pub error_code: ErrorCode,
    /// Offset of the batch's first record; -1 if unknown.
    pub base_offset: i64,
    /// Milliseconds since 1970 if the topic stamps batches on arrival; else -1.
    pub log_append_time_ms: i64,
    /// Version 5+. First offset of the partition; -1 if unknown.
    pub log_start_offset: i64,
    /// Version 8+. Which records made the broker refuse the batch (KIP-467).
    pub record_errors: Vec<RecordError>,
    /// Version 8+. Why the batch was refused.
    pub error_message: Option<String>,
    /// Version 10+. The leader, if the request went to another broker (KIP-951).
    pub current_leader: Option<LeaderIdAndEpoch>,
}

impl Default for ProducePartitionResponse {
    fn default() -> Self {
        Self {
            partition: 0,
            error_code: ErrorCode::NONE,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: None,
        }
    }
}

/// One record the broker would not take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordError {
    /// Index of the record in its batch.
    pub batch_index: i32,
    /// Why.
    pub message: Option<String>,
}

impl ProduceRequest {
    pub(super) fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        let flexible = is_flexible(version);
        writer.nullable_string(self.transactional_id.as_deref(), flexible)?;
        writer.i16(self.acks);
        writer.i32(self.timeout_ms);
        writer.array_length(Some(self.topics.len()), flexible)?;
        for topic in &self.topics {
            writer.string(&topic.topic, flexible)?;
            writer.array_length(Some(topic.partitions.len()), flexible)?;
            for partition in &topic.partitions {
                writer.i32(partition.partition);
                writer.spliced_bytes(partition.records.clone(), flexible)?;
                writer.no_tags(flexible);
            }
            writer.no_tags(flexible);
        }
        writer.no_tags(flexible);
        Ok(())
    }

    pub(super) fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let flexible = is_flexible(version);
        let transactional_id = reader.nullable_string(flexible)?.map(str::to_owned);
        let acks = reader.i16()?;
        let timeout_ms = reader.i32()?;
        let topics = reader.elements(flexible, TOPIC_BYTES, |reader| {
            let topic = reader.string(flexible)?.into();
            let partitions = reader.elements(flexible, REQUEST_PARTITION_BYTES, |reader| {
                let partition = reader.i32()?;
                let records = reader.nullable_bytes(flexible)?.unwrap_or_default();
                reader.skip_tags(flexible)?;
                Ok(ProducePartition { partition, records })
            })?;
            reader.skip_tags(flexible)?;
            Ok(ProduceTopic { topic, partitions })
        })?;
        reader.skip_tags(flexible)?;
        Ok(Self { transactional_id, acks, timeout_ms, topics })
    }
}

impl ProduceResponse {
    pub(super) fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        let flexible = is_flexible(version);
        writer.array_length(Some(self.topics.len()), flexible)?;
        for topic in &self.topics {
            writer.string(&topic.topic, flexible)?;
            writer.array_length(Some(topic.partitions.len()), flexible)?;
            for partition in &topic.partitions {
                partition.write(version, writer)?;
            }
            writer.no_tags(flexible);
        }
        writer.i32(self.throttle_time_ms);
        if !flexible {
            return Ok(());
        }
        if version < 10 || self.node_endpoints.is_empty() {
            writer.no_tags(true);
            return Ok(());
        }
        writer.unsigned_varint(1);
        writer.tagged(TAG_NODE_ENDPOINTS, |writer| {
            writer.array_length(Some(self.node_endpoints.len()), true)?;
            for node in &self.node_endpoints {
                writer.i32(node.node_id);
                writer.string(&node.host, true)?;
                writer.i32(node.port);
                writer.nullable_string(node.rack.as_deref(), true)?;
                writer.no_tags(true);
            }
            Ok(())
        })
    }

    pub(super) fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let flexible = is_flexible(version);
        let topics = reader.elements(flexible, TOPIC_BYTES, |reader| {
            let topic = reader.string(flexible)?.into();
            let partitions = reader.elements(flexible, RESPONSE_PARTITION_BYTES, |reader| {
                ProducePartitionResponse::read(reader, version)
            })?;
            reader.skip_tags(flexible)?;
            Ok(ProduceTopicResponse { topic, partitions })
        })?;
        let mut response =
            Self { topics, throttle_time_ms: reader.i32()?, node_endpoints: Vec::new() };
        reader.tags(flexible, |reader, tag| {
            if tag != TAG_NODE_ENDPOINTS || version < 10 {
                return Ok(false);
            }
            response.node_endpoints = reader.elements(true, NODE_ENDPOINT_BYTES, |reader| {
                let node = NodeEndpoint {
                    node_id: reader.i32()?,
                    host: reader.string(true)?.to_owned(),
                    port: reader.i32()?,
                    rack: reader.nullable_string(true)?.map(str::to_owned),
                };
                reader.skip_tags(true)?;
                Ok(node)
            })?;
            Ok(true)
        })?;
        Ok(response)
    }
}

impl ProducePartitionResponse {
    fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        let flexible = is_flexible(version);
        writer.i32(self.partition);
        writer.i16(self.error_code.0);
        writer.i64(self.base_offset);
        writer.i64(self.log_append_time_ms);
        if version >= 5 {
            writer.i64(self.log_start_offset);
        }
        if version >= 8 {
            writer.array_length(Some(self.record_errors.len()), flexible)?;
            for error in &self.record_errors {
                writer.i32(error.batch_index);
                writer.nullable_string(error.message.as_deref(), flexible)?;
                writer.no_tags(flexible);
            }
            writer.nullable_string(self.error_message.as_deref(), flexible)?;
        }
        match self.current_leader {
            Some(leader) if version >= 10 => {
                writer.unsigned_varint(1);
                writer.tagged(TAG_CURRENT_LEADER, |writer| {
                    leader.write(writer);
                    Ok(())
                })
            }
            _ => {
                writer.no_tags(flexible);
                Ok(())
            }
        }
    }

    fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let flexible = is_flexible(version);
        let mut partition = Self {
            partition: reader.i32()?,
            error_code: ErrorCode(reader.i16()?),
            base_offset: reader.i64()?,
            log_append_time_ms: reader.i64()?,
            ..Self::default()
        };
        if version >= 5 {
            partition.log_start_offset = reader.i64()?;
        }
        if version >= 8 {
            partition.record_errors = reader.elements(flexible, RECORD_ERROR_BYTES, |reader| {
                let batch_index = reader.i32()?;
                let message = reader.nullable_string(flexible)?.map(str::to_owned);
                reader.skip_tags(flexible)?;
                Ok(RecordError { batch_index, message })
            })?;
            partition.error_message = reader.nullable_string(flexible)?.map(str::to_owned);
        }
        reader.tags(flexible, |reader, tag| {
            if tag != TAG_CURRENT_LEADER || version < 10 {
                return Ok(false);
            }
            partition.current_leader = Some(LeaderIdAndEpoch::read(reader)?);
            Ok(true)
        })?;
        Ok(partition)
    }
}

const fn is_flexible(version: i16) -> bool {
    ApiKey::Produce.is_flexible(version)
}

const TAG_NODE_ENDPOINTS: u32 = 0;
const TAG_CURRENT_LEADER: u32 = 0;

/// Smallest size of an element on the wire, over all versions.
const TOPIC_BYTES: usize = 3;
const REQUEST_PARTITION_BYTES: usize = 6;
const RESPONSE_PARTITION_BYTES: usize = 22;
const RECORD_ERROR_BYTES: usize = 6;
const NODE_ENDPOINT_BYTES: usize = 11;
