//! What the leader gives a member.

use bytes::Bytes;

use super::{NEWEST_VERSION, read_partitions, write_nullable_bytes, write_partitions};
use crate::TopicPartition;
use crate::wire::{EncodeError, ReadError, Reader, Writer};

/// `ConsumerProtocolAssignment`, versions 0 to 3, which do not differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The member's partitions.
    pub partitions: Vec<TopicPartition>,
    /// What the assignor of the leader adds. Kafka's own add nothing.
    pub user_data: Option<Bytes>,
}

impl Assignment {
    /// Writes version 3.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a name is longer than the wire can carry.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut writer = Writer::with_capacity(64);
        writer.i16(NEWEST_VERSION);
        write_partitions(&mut writer, &self.partitions)?;
        write_nullable_bytes(&mut writer, self.user_data.as_ref())?;
        Ok(writer.into_embedded())
    }

    /// Reads any version. No bytes at all mean no partitions: so a broker answers a member that the leader left out.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the bytes are cut or malformed. A part of an assignment is never taken for the whole.
    pub fn decode(bytes: Bytes) -> Result<Self, ReadError> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader::new(bytes);
        let _version = reader.i16()?;
        let partitions = read_partitions(&mut reader)?;
        Ok(Self { partitions, user_data: reader.nullable_bytes(false)? })
    }
}
