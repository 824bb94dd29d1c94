//! Compressing a batch's records.

use std::fmt;
use std::io::Write;

use super::lz4_block::MatchTable;
use super::{Compression, lz4, snappy};
use flate2::write::GzEncoder;

/// Compresses with one codec and level, keeping the codec's tables between batches.
pub(in crate::records) struct Compressor {
    compression: Compression,
    level: Option<i32>,
    state: State,
}

enum State {
    /// Nothing to keep, or nothing compressed yet.
    Empty,
    Snappy(Box<snap::raw::Encoder>),
    Lz4(MatchTable),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    pub(in crate::records) const fn new(compression: Compression, level: Option<i32>) -> Self {
        Self { compression, level, state: State::Empty }
    }

    pub(in crate::records) const fn compression(&self) -> Compression {
        self.compression
    }

    /// Appends the compressed `input` to `output`. On an error `output` has an undefined tail.
    pub(in crate::records) fn compress(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self.compression {
            Compression::None => output.extend_from_slice(input),
            Compression::Gzip => {
                let level = self.level.and_then(|level| u32::try_from(level).ok());
                let level = flate2::Compression::new(level.unwrap_or(GZIP_LEVEL).min(9));
                let mut encoder = GzEncoder::new(output, level);
                encoder.write_all(input).and_then(|()| encoder.try_finish()).map_err(text)?;
            }
            Compression::Snappy => {
                if !matches!(self.state, State::Snappy(_)) {
                    self.state = State::Snappy(Box::new(snap::raw::Encoder::new()));
                }
                if let State::Snappy(encoder) = &mut self.state {
                    snappy::compress(encoder, input, output).map_err(text)?;
                }
            }
            Compression::Lz4 => {
                if !matches!(self.state, State::Lz4(_)) {
                    self.state = State::Lz4(MatchTable::new());
                }
                if let State::Lz4(table) = &mut self.state {
                    lz4::compress(table, input, output);
                }
            }
            Compression::Zstd => {
                if !matches!(self.state, State::Zstd(_)) {
                    let level = self.level.unwrap_or(ZSTD_LEVEL);
                    self.state = State::Zstd(zstd::bulk::Compressor::new(level).map_err(text)?);
                }
                if let State::Zstd(compressor) = &mut self.state {
                    let start = output.len();
                    let bound = zstd::zstd_safe::compress_bound(input.len());
                    output.resize(start + bound, 0);
                    let slot = output.get_mut(start..).unwrap_or_default();
                    let written = compressor.compress_to_buffer(input, slot).map_err(text)?;
                    output.truncate(start + written);
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("compression", &self.compression)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

/// Kafka's default for `compression.gzip.level` is the codec's own (KIP-390).
const GZIP_LEVEL: u32 = 6;
/// Kafka's default for `compression.zstd.level` (KIP-390).
const ZSTD_LEVEL: i32 = 3;
