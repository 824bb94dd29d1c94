//! What the cluster asks its shell to keep, and how it starts again from that.
//!
//! The cluster holds everything in memory and never touches a file. Each change yields a [`StorageEffect`]; the shell
//! carries them out in order, before it sends the answers that the change brought about. Whatever prefix of the
//! effects survives, with the last one cut anywhere, [`Stored`] built from it is a state the cluster can start from.
//! The state log begins with a snapshot ([`Cluster::state_snapshot`](super::Cluster::state_snapshot)), so each start
//! also shortens it.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes};
use millstream_protocol::TopicPartition;
use uuid::Uuid;

use super::log::batch::{BatchInfo, crc_is_right};
use super::transaction::{TransactionMetadata, TransactionState};

/// One change to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageEffect {
    /// Add one batch at the end of a partition's log.
    Append {
        /// Topic id: names come back after a deletion, ids do not.
        topic_id: Uuid,
        /// Partition index.
        partition: i32,
        /// The batch as it lies in the log.
        batch: Bytes,
    },
    /// Replace a partition's log, all at once: compaction.
    Rewrite {
        /// Topic id.
        topic_id: Uuid,
        /// Partition index.
        partition: i32,
        /// The new content, in order.
        content: Vec<Bytes>,
    },
    /// Add one record at the end of the state log.
    State(Bytes),
    /// Remove all logs of a deleted topic. The state log has already said so.
    DeleteLogs {
        /// Topic id.
        topic_id: Uuid,
    },
}

/// What a shell has kept of an earlier run.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Records of the state log, oldest first.
    pub state: Vec<Bytes>,
    /// Content of each partition's log; a torn or damaged end is cut off here.
    pub logs: BTreeMap<(Uuid, i32), Bytes>,
}

/// One record of the state log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateRecord {
    ClusterId(String),
    TopicCreated {
        name: String,
        id: Uuid,
        leader_epoch: i32,
        partitions: i32,
        config: BTreeMap<String, String>,
    },
    TopicDeleted {
        id: Uuid,
    },
    /// Producer ids below this one have been given out.
    ProducerIds {
        next: i64,
    },
    Transaction(TransactionMetadata),
    Offset {
        group: String,
        topic_partition: TopicPartition,
        offset: i64,
        leader_epoch: i32,
        metadata: String,
    },
}

const CLUSTER_ID: u8 = 0;
const TOPIC_CREATED: u8 = 1;
const TOPIC_DELETED: u8 = 2;
const PRODUCER_IDS: u8 = 3;
const TRANSACTION: u8 = 4;
const OFFSET: u8 = 5;

impl StateRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Self::ClusterId(id) => {
                out.put_u8(CLUSTER_ID);
                put_text(&mut out, id);
            }
            Self::TopicCreated { name, id, leader_epoch, partitions, config } => {
                out.put_u8(TOPIC_CREATED);
                put_text(&mut out, name);
                out.put_u128(id.as_u128());
                out.put_i32(*leader_epoch);
                out.put_i32(*partitions);
                put_count(&mut out, config.len());
                for (key, value) in config {
                    put_text(&mut out, key);
                    put_text(&mut out, value);
                }
            }
            Self::TopicDeleted { id } => {
                out.put_u8(TOPIC_DELETED);
                out.put_u128(id.as_u128());
            }
            Self::ProducerIds { next } => {
                out.put_u8(PRODUCER_IDS);
                out.put_i64(*next);
            }
            Self::Transaction(transaction) => {
                out.put_u8(TRANSACTION);
                put_transaction(&mut out, transaction);
            }
            Self::Offset { group, topic_partition, offset, leader_epoch, metadata } => {
                out.put_u8(OFFSET);
                put_text(&mut out, group);
                put_text(&mut out, &topic_partition.topic);
                out.put_i32(topic_partition.partition);
                out.put_i64(*offset);
                out.put_i32(*leader_epoch);
                put_text(&mut out, metadata);
            }
        }
        Bytes::from(out)
    }

    /// `None` for a record that another version wrote or that is damaged.
    pub(crate) fn decode(mut bytes: Bytes) -> Option<Self> {
        let from = &mut bytes;
        let record = match from.try_get_u8().ok()? {
            CLUSTER_ID => Self::ClusterId(text(from)?),
            TOPIC_CREATED => Self::TopicCreated {
                name: text(from)?,
                id: Uuid::from_u128(from.try_get_u128().ok()?),
                leader_epoch: from.try_get_i32().ok()?,
                partitions: from.try_get_i32().ok()?,
                config: (0..from.try_get_u32().ok()?)
                    .map(|_| Some((text(from)?, text(from)?)))
                    .collect::<Option<_>>()?,
            },
            TOPIC_DELETED => Self::TopicDeleted { id: Uuid::from_u128(from.try_get_u128().ok()?) },
            PRODUCER_IDS => Self::ProducerIds { next: from.try_get_i64().ok()? },
            TRANSACTION => Self::Transaction(transaction(from)?),
            OFFSET => Self::Offset {
                group: text(from)?,
                topic_partition: TopicPartition::new(text(from)?, from.try_get_i32().ok()?),
                offset: from.try_get_i64().ok()?,
                leader_epoch: from.try_get_i32().ok()?,
                metadata: text(from)?,
            },
            _ => return None,
        };
        bytes.is_empty().then_some(record)
    }
}

fn put_transaction(out: &mut Vec<u8>, transaction: &TransactionMetadata) {
    put_text(out, &transaction.transactional_id);
    out.put_i64(transaction.producer_id);
    out.put_i64(transaction.previous_producer_id);
    out.put_i64(transaction.next_producer_id);
    out.put_i16(transaction.producer_epoch);
    out.put_i16(transaction.last_producer_epoch);
    out.put_i32(transaction.timeout_ms);
    out.put_u8(transaction.state as u8);
    out.put_i64(transaction.start_ms);
    out.put_u8(u8::from(transaction.epoch_bumped));
    put_count(out, transaction.partitions.len());
    for topic_partition in &transaction.partitions {
        put_text(out, &topic_partition.topic);
        out.put_i32(topic_partition.partition);
    }
}

fn transaction(from: &mut Bytes) -> Option<TransactionMetadata> {
    Some(TransactionMetadata {
        transactional_id: text(from)?,
        producer_id: from.try_get_i64().ok()?,
        previous_producer_id: from.try_get_i64().ok()?,
        next_producer_id: from.try_get_i64().ok()?,
        producer_epoch: from.try_get_i16().ok()?,
        last_producer_epoch: from.try_get_i16().ok()?,
        timeout_ms: from.try_get_i32().ok()?,
        state: TransactionState::from_code(from.try_get_u8().ok()?)?,
        start_ms: from.try_get_i64().ok()?,
        epoch_bumped: from.try_get_u8().ok()? != 0,
        partitions: (0..from.try_get_u32().ok()?)
            .map(|_| Some(TopicPartition::new(text(from)?, from.try_get_i32().ok()?)))
            .collect::<Option<_>>()?,
        deadline: None,
    })
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.put_slice(text.as_bytes());
}

fn text(from: &mut Bytes) -> Option<String> {
    let length = usize::try_from(from.try_get_u32().ok()?).ok()?;
    if from.len() < length {
        return None;
    }
    String::from_utf8(from.split_to(length).to_vec()).ok()
}

/// How many of `content`'s bytes are whole, undamaged batches in offset order: where a log file must be cut.
#[must_use]
pub fn whole_batches(content: &[u8]) -> usize {
    let mut position = 0;
    let mut next_offset = 0;
    while let Some(rest) = content.get(position..)
        && let Some(info) = BatchInfo::parse(rest)
    {
        if info.magic != 2 || info.base_offset < next_offset || !crc_is_right(rest, &info) {
            break;
        }
        next_offset = info.last_offset() + 1;
        position += info.size;
    }
    position
}
