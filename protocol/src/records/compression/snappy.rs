//! Snappy, bare or in the framing of snappy-java ("xerial").
//!
//! The framing is 16 bytes (magic, then two versions) and blocks of a big-endian length and a bare
//! snappy block each. Java clients and their followers write it; librdkafka and franz-go write one
//! bare block. The magic tells them apart: as a bare block it would begin with a back reference,
//! and nothing lies before the beginning.

use snap::raw::{Decoder, decompress_len};

use super::{CappedOutput, DecompressError};

/// Decodes `input` in whichever of the two forms it has.
pub(super) fn decompress(
    input: &[u8],
    output: &mut CappedOutput<'_>,
) -> Result<(), DecompressError> {
    if !input.starts_with(&XERIAL_MAGIC) {
        return decompress_block(input, output);
    }
    let mut rest = input;
    while !rest.is_empty() {
        // A header may also come between blocks, where streams were put one after another.
        if rest.starts_with(&XERIAL_MAGIC) {
            rest = rest
                .get(XERIAL_HEADER.len()..)
                .ok_or_else(|| DecompressError::corrupt("snappy framing header is cut"))?;
            continue;
        }
        let (length, after) = rest
            .split_first_chunk()
            .ok_or_else(|| DecompressError::corrupt("snappy block length is cut"))?;
        let (block, after) = usize::try_from(i32::from_be_bytes(*length))
            .ok()
            .and_then(|length| after.split_at_checked(length))
            .ok_or_else(|| DecompressError::corrupt("snappy block is cut"))?;
        decompress_block(block, output)?;
        rest = after;
    }
    Ok(())
}

fn decompress_block(block: &[u8], output: &mut CappedOutput<'_>) -> Result<(), DecompressError> {
    let size = decompress_len(block).map_err(DecompressError::corrupt)?;
    // The size comes first and can be any 32-bit number, so it is believed only within reason.
    if size > block.len().saturating_mul(MAX_EXPANSION) {
        return Err(DecompressError::Corrupt {
            reason: format!("{} bytes of snappy cannot hold the declared {size}", block.len()),
        });
    }
    let slot = output.block(size)?;
    Decoder::new().decompress(block, slot).map_err(DecompressError::corrupt)?;
    Ok(())
}

/// Appends `input` to `output` in the framing of snappy-java, which every client reads.
pub(super) fn compress(
    encoder: &mut snap::raw::Encoder,
    input: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), snap::Error> {
    output.extend_from_slice(&XERIAL_HEADER);
    for chunk in input.chunks(XERIAL_BLOCK_BYTES) {
        let start = output.len();
        output.resize(start + 4 + snap::raw::max_compress_len(chunk.len()), 0);
        let Some((length, block)) =
            output.get_mut(start..).and_then(<[u8]>::split_first_chunk_mut::<4>)
        else {
            continue;
        };
        let written = encoder.compress(chunk, block)?;
        // A block of 32 KiB compresses to at most a sixth more, far below the 31 bits.
        *length = (written as u32).to_be_bytes();
        output.truncate(start + 4 + written);
    }
    Ok(())
}

/// Magic, version 1, oldest compatible version 1.
const XERIAL_HEADER: [u8; 16] =
    [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// What snappy-java cuts its input into.
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;
/// The best a snappy element does is 64 bytes of output from 3 bytes of input.
const MAX_EXPANSION: usize = 22;
