//! What a member tells the leader: its topics, and what it owns.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{NEWEST_VERSION, read_partitions, write_nullable_bytes, write_partitions};
use crate::TopicPartition;
use crate::wire::{EncodeError, ReadError, Reader, Writer};

/// `ConsumerProtocolSubscription`, versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Topics to be assigned from.
    pub topics: BTreeSet<Arc<str>>,
    /// What the assignor of the member adds, in a form of its own.
    pub user_data: Option<Bytes>,
    /// Version 1+ (KIP-429). What the member owns and has not been asked to give up.
    pub owned_partitions: Vec<TopicPartition>,
    /// Version 2+ (KIP-792). The generation in which it got them; -1 for none.
    pub generation_id: i32,
    /// Version 3+ (KIP-881). The member's rack.
    pub rack_id: Option<Arc<str>>,
}

impl Subscription {
    /// Writes version 3, which members of every release can read: they skip what they do not know.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a name is longer than the wire can carry.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut writer = Writer::with_capacity(64);
        writer.i16(NEWEST_VERSION);
        writer.array_length(Some(self.topics.len()), false)?;
        for topic in &self.topics {
            writer.string(topic, false)?;
        }
        write_nullable_bytes(&mut writer, self.user_data.as_ref())?;
        write_partitions(&mut writer, &self.owned_partitions)?;
        writer.i32(self.generation_id);
        writer.nullable_string(self.rack_id.as_deref(), false)?;
        Ok(writer.into_embedded())
    }

    /// Reads any version: of one newer than ours the fields that we know.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the bytes are cut or malformed.
    pub fn decode(bytes: Bytes) -> Result<Self, ReadError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16()?;
        let mut topics = BTreeSet::new();
        for _ in 0..reader.array_length(false, 2)? {
            topics.insert(Arc::from(reader.string(false)?));
        }
        let user_data = reader.nullable_bytes(false)?;
        let owned_partitions =
            if version >= 1 { read_partitions(&mut reader)? } else { Vec::new() };
        let generation_id = if version >= 2 { reader.i32()? } else { -1 };
        let rack_id =
            if version >= 3 { reader.nullable_string(false)?.map(Arc::from) } else { None };
        Ok(Self { topics, user_data, owned_partitions, generation_id, rack_id })
    }
}
