//! The five codecs of a batch, each with a cap on what it may produce.
//!
//! A broker bounds only the compressed size of a batch, and gzip and zstd expand a thousandfold,
//! so the cap holds while decoding: sizes a stream declares are compared with it before memory is
//! reserved, and output grows step by step.

mod capped_output;
mod compressor;
mod gzip;
mod lz4;
mod lz4_block;
mod snappy;
#[cfg(test)]
mod tests;
mod zstd;

use std::fmt;
use std::str::FromStr;

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use capped_output::CappedOutput;
pub(super) use compressor::Compressor;

/// A batch's codec, `compression.type` in Kafka's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// Records as they are.
    #[default]
    None,
    /// Gzip (RFC 1952).
    Gzip,
    /// Snappy, in the framing of snappy-java.
    Snappy,
    /// LZ4 frame format.
    Lz4,
    /// Zstandard (RFC 8878); Kafka 2.1 and later (KIP-110).
    Zstd,
}

impl Compression {
    /// All codecs in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Kafka's name, as in `compression.type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The id in a batch's attributes.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec with an id, `None` for ids that are not in use.
    #[must_use]
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Compression {
    type Err = UnknownCompressionName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|compression| compression.name() == name)
            .ok_or_else(|| UnknownCompressionName { name: name.to_owned() })
    }
}

/// Not one of Kafka's `compression.type` names.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown compression type {name:?}: expected none, gzip, snappy, lz4 or zstd")]
pub struct UnknownCompressionName {
    /// The name as given.
    pub name: String,
}

/// Bounds on reading a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes one batch may have after decompression, its header not counted. Default 256 MiB.
    pub max_decompressed_batch_bytes: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { max_decompressed_batch_bytes: 256 * 1024 * 1024 }
    }
}

/// Why compressed records cannot be decoded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecompressError {
    /// The records exceed the cap, or declare that they will.
    #[error("decompressed records exceed the limit of {limit_bytes} bytes")]
    TooLarge {
        /// The cap ([`DecodeLimits::max_decompressed_batch_bytes`]).
        limit_bytes: usize,
    },
    /// The stream breaks its codec's format.
    #[error("{reason}")]
    Corrupt {
        /// What the decoder found.
        reason: String,
    },
}

impl DecompressError {
    fn corrupt(reason: impl fmt::Display) -> Self {
        Self::Corrupt { reason: reason.to_string() }
    }
}

/// Decodes compressed records. Keeps codec state and output memory between batches, so one per
/// reading task is right; a fresh one costs nothing until its first compressed batch.
///
/// Each batch has memory of its own, which is used again once its block has been dropped, and is not
/// cleared in between. A block that is kept, however small, keeps all of it. Up to four outputs of at
/// most 4 MiB each are remembered for their memory.
#[derive(Default)]
pub struct Decompressor {
    /// Memory that was handed out, from end to end.
    lent: Vec<Bytes>,
    zstd: zstd::ZstdDecoder,
    /// Output bytes per input byte in the last batch, to size the next one's output.
    expansion: usize,
}

impl Decompressor {
    /// A decompressor without memory of its own yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes `input`, which is one batch's records. [`Compression::None`] copies.
    ///
    /// # Errors
    ///
    /// [`DecompressError::TooLarge`] as soon as the output exceeds the limit or the stream declares
    /// that it will, [`DecompressError::Corrupt`] for bytes that are not of this codec.
    pub fn decompress(
        &mut self,
        compression: Compression,
        input: &[u8],
        limits: &DecodeLimits,
    ) -> Result<Bytes, DecompressError> {
        let mut memory = self.returned();
        let expected = input.len().saturating_mul(self.expansion.clamp(1, MAX_EXPECTED_EXPANSION));
        // Zstd begins anew if its output does not fit, so it is given a little more.
        let slack = if compression == Compression::Zstd { input.len() } else { 0 };
        let expected = expected.saturating_add(slack);
        let limit = limits.max_decompressed_batch_bytes;
        let mut output = CappedOutput::new(&mut memory, expected, limit);
        match compression {
            Compression::None => output.block(input.len())?.copy_from_slice(input),
            Compression::Gzip => gzip::decompress(input, &mut output)?,
            Compression::Snappy => snappy::decompress(input, &mut output)?,
            Compression::Lz4 => lz4::decompress(input, &mut output)?,
            Compression::Zstd => self.zstd.decompress(input, &mut output)?,
        }
        let decoded = output.finish();
        let memory = memory.freeze();
        let records = memory.slice(..decoded);
        self.expansion = records.len().div_ceil(input.len().max(1));
        self.lend(memory);
        Ok(records)
    }

    /// Memory that nobody holds any more, with what was last written to it; new and empty if there is none.
    fn returned(&mut self) -> BytesMut {
        let at = self.lent.iter().position(|memory| memory.is_unique());
        let memory = at.map(|at| self.lent.swap_remove(at));
        memory.and_then(|memory| memory.try_into_mut().ok()).unwrap_or_default()
    }

    /// Remembers memory, to use it again.
    fn lend(&mut self, memory: Bytes) {
        if memory.len() <= KEPT_OUTPUT_BYTES {
            if self.lent.len() >= KEPT_OUTPUTS {
                self.lent.remove(0);
            }
            self.lent.push(memory);
        }
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor")
            .field("lent", &self.lent.len())
            .field("expansion", &self.expansion)
            .finish_non_exhaustive()
    }
}

/// One bomb must not make every later batch reserve the memory of a bomb.
const MAX_EXPECTED_EXPANSION: usize = 16;
/// Memory above this is not kept for the next batch.
const KEPT_OUTPUT_BYTES: usize = 4 * 1024 * 1024;
/// Readers hold few blocks at a time; a worker's downstream may hold the last one while the next is read.
const KEPT_OUTPUTS: usize = 4;
