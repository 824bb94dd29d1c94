//! What Java's sticky assignors keep in a subscription's user data.

use bytes::Bytes;

use super::{read_partitions, write_partitions};
use crate::TopicPartition;
use crate::wire::{EncodeError, ReadError, Reader, Writer};

/// User data of the assignor `sticky`: the member's last assignment, and its generation (version 1; version 0 has none).
/// That of `cooperative-sticky` is the generation alone, because the subscription names what is owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickyUserData {
    /// What the member had.
    pub previous_assignment: Vec<TopicPartition>,
    /// Since which generation; -1 if it does not say.
    pub generation: i32,
}

impl StickyUserData {
    /// Writes the form of `sticky`, version 1.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a name is longer than the wire can carry.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut writer = Writer::with_capacity(64);
        write_partitions(&mut writer, &self.previous_assignment)?;
        writer.i32(self.generation);
        Ok(writer.into_embedded())
    }

    /// Reads the form of `sticky`, with or without a generation.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the bytes are cut or malformed.
    pub fn decode(bytes: Bytes) -> Result<Self, ReadError> {
        let mut reader = Reader::new(bytes);
        let previous_assignment = read_partitions(&mut reader)?;
        let generation = if reader.remaining() == 0 { -1 } else { reader.i32()? };
        Ok(Self { previous_assignment, generation })
    }

    /// Writes the form of `cooperative-sticky`.
    #[must_use]
    pub fn encode_generation(generation: i32) -> Bytes {
        Bytes::copy_from_slice(&generation.to_be_bytes())
    }

    /// Reads the form of `cooperative-sticky`.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the bytes are cut.
    pub fn decode_generation(bytes: Bytes) -> Result<i32, ReadError> {
        Reader::new(bytes).i32()
    }
}
