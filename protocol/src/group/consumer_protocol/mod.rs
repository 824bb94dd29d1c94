//! What members write into JoinGroup and the leader into SyncGroup: the embedded consumer protocol, as Java writes it.
//!
//! The broker passes these bytes on unread, so they come from other members: any program may have written them. Lengths
//! are held against what is there before memory is taken.

mod assignment;
mod sticky_user_data;
mod subscription;

pub use assignment::Assignment;
pub use sticky_user_data::StickyUserData;
pub use subscription::Subscription;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::TopicPartition;
use crate::wire::{EncodeError, ReadError, Reader, Writer};

/// The newest version of both blobs that we write and Java 4.x knows.
const NEWEST_VERSION: i16 = 3;

/// Smallest topic entry: an empty name and an empty array.
const TOPIC_BYTES: usize = 2 + 4;

fn write_nullable_bytes(writer: &mut Writer, bytes: Option<&Bytes>) -> Result<(), EncodeError> {
    match bytes {
        None => writer.i32(-1),
        Some(bytes) => {
            writer.array_length(Some(bytes.len()), false)?;
            writer.buffer_mut().extend_from_slice(bytes);
        }
    }
    Ok(())
}

/// `[topic, [partition]]`, in the order of topics and partitions: Java's order.
fn write_partitions<'a>(
    writer: &mut Writer,
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> Result<(), EncodeError> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for tp in partitions {
        topics.entry(&tp.topic).or_default().push(tp.partition);
    }
    writer.array_length(Some(topics.len()), false)?;
    for (topic, mut indexes) in topics {
        indexes.sort_unstable();
        writer.string(topic, false)?;
        writer.array_length(Some(indexes.len()), false)?;
        for index in indexes {
            writer.i32(index);
        }
    }
    Ok(())
}

fn read_partitions(reader: &mut Reader) -> Result<Vec<TopicPartition>, ReadError> {
    let mut partitions = Vec::new();
    let topics = reader.array_length(false, TOPIC_BYTES)?;
    for _ in 0..topics {
        let topic: Arc<str> = Arc::from(reader.string(false)?);
        let count = reader.array_length(false, 4)?;
        for _ in 0..count {
            partitions.push(TopicPartition { topic: Arc::clone(&topic), partition: reader.i32()? });
        }
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests;
