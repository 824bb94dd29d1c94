//! The LZ4 frame format (version 1.6.1), over the block codec of `lz4_flex`.
//!
//! Parsing the frame here lets blocks be decoded straight into the batch's output; a frame reader
//! in between buffers each block once more and is two to three times slower on small batches.

use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use xxhash_rust::xxh32::xxh32;

use super::lz4_block::{self, BLOCK_BYTES, MatchTable};
use super::{CappedOutput, DecompressError};

/// Decodes all frames of `input`, with independent or linked blocks. Checksums of headers and
/// blocks are verified where present. That of the content is passed over, as Java does: the
/// batch's CRC covers the same bytes.
pub(super) fn decompress(
    input: &[u8],
    output: &mut CappedOutput<'_>,
) -> Result<(), DecompressError> {
    let mut rest = input;
    while !rest.is_empty() {
        let magic = u32::from_le_bytes(*take_array(&mut rest)?);
        if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC {
            let size = u32::from_le_bytes(*take_array(&mut rest)?);
            take(&mut rest, size as usize)?;
        } else if magic == MAGIC {
            decompress_frame(&mut rest, output)?;
        } else {
            return Err(corrupt("lz4 frame has a wrong magic"));
        }
    }
    Ok(())
}

fn decompress_frame(
    rest: &mut &[u8],
    output: &mut CappedOutput<'_>,
) -> Result<(), DecompressError> {
    let descriptor = Descriptor::read(rest)?;
    if descriptor.content_size.is_some_and(|size| size > output.allowance() as u64) {
        return Err(output.too_large());
    }
    let frame_start = output.filled();
    loop {
        let word = u32::from_le_bytes(*take_array(rest)?);
        if word == 0 {
            break;
        }
        let size = (word & !UNCOMPRESSED) as usize;
        if size > descriptor.block_max_bytes {
            return Err(corrupt("lz4 block is larger than its frame allows"));
        }
        let block = take(rest, size)?;
        if descriptor.block_checksums && u32::from_le_bytes(*take_array(rest)?) != xxh32(block, 0) {
            return Err(corrupt("lz4 block checksum does not match"));
        }
        if word & UNCOMPRESSED != 0 {
            output.block(size)?.copy_from_slice(block);
        } else {
            decompress_block(&descriptor, frame_start, block, output)?;
        }
    }
    if descriptor.content_checksum {
        take(rest, 4)?;
    }
    match descriptor.content_size {
        Some(size) if size != (output.filled() - frame_start) as u64 => {
            Err(corrupt("lz4 frame does not have its declared size"))
        }
        _ => Ok(()),
    }
}

fn decompress_block(
    descriptor: &Descriptor,
    frame_start: usize,
    block: &[u8],
    output: &mut CappedOutput<'_>,
) -> Result<(), DecompressError> {
    // A byte of LZ4 stands for at most 255 bytes of output.
    let possible = block.len().saturating_mul(MAX_EXPANSION).saturating_add(MATCH_SLACK_BYTES);
    let wanted = possible.min(descriptor.block_max_bytes);
    let too_large = output.too_large();
    let (history, spare) = output.history_and_spare(wanted);
    let capped = spare.len() < wanted;
    let decoded = if descriptor.linked_blocks {
        let frame = history.get(frame_start..).unwrap_or_default();
        let window = frame.get(frame.len().saturating_sub(WINDOW_BYTES)..).unwrap_or_default();
        decompress_into_with_dict(block, spare, window)
    } else {
        decompress_into(block, spare)
    };
    match decoded {
        Ok(written) => output.advance(written),
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if capped => Err(too_large),
        Err(error) => Err(DecompressError::corrupt(format_args!("lz4: {error}"))),
    }
}

/// What the start of a frame says about the rest.
#[derive(Debug)]
struct Descriptor {
    linked_blocks: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    block_max_bytes: usize,
}

impl Descriptor {
    fn read(rest: &mut &[u8]) -> Result<Self, DecompressError> {
        let start = *rest;
        let [flags, block_descriptor] = *take_array(rest)?;
        if flags >> 6 != 1 || flags & FLAG_RESERVED != 0 {
            return Err(corrupt("lz4 frame has an unknown version"));
        }
        if flags & FLAG_DICTIONARY != 0 {
            return Err(corrupt("lz4 frame needs a dictionary"));
        }
        let block_max_bytes = match block_descriptor >> 4 {
            4 => 64 * 1024,
            5 => 256 * 1024,
            6 => 1024 * 1024,
            7 => 4 * 1024 * 1024,
            _ => return Err(corrupt("lz4 frame has an unknown block size")),
        };
        let content_size = if flags & FLAG_CONTENT_SIZE == 0 {
            None
        } else {
            Some(u64::from_le_bytes(*take_array(rest)?))
        };
        let described = start.get(..start.len() - rest.len()).unwrap_or_default();
        let [checksum] = *take_array(rest)?;
        if checksum != (xxh32(described, 0) >> 8) as u8 {
            return Err(corrupt("lz4 frame header checksum does not match"));
        }
        Ok(Self {
            linked_blocks: flags & FLAG_INDEPENDENT == 0,
            block_checksums: flags & FLAG_BLOCK_CHECKSUMS != 0,
            content_checksum: flags & FLAG_CONTENT_CHECKSUM != 0,
            content_size,
            block_max_bytes,
        })
    }
}

/// Appends `input` to `output` as one frame of independent 64 KiB blocks, without checksums: the
/// form Java's reader accepts and the batch's CRC makes safe.
pub(super) fn compress(table: &mut MatchTable, input: &[u8], output: &mut Vec<u8>) {
    let descriptor = [FLAG_VERSION | FLAG_INDEPENDENT, BLOCK_64_KIB];
    output.extend_from_slice(&MAGIC.to_le_bytes());
    output.extend_from_slice(&descriptor);
    output.push((xxh32(&descriptor, 0) >> 8) as u8);
    for chunk in input.chunks(BLOCK_BYTES) {
        let start = output.len();
        output.extend_from_slice(&[0; 4]);
        lz4_block::compress(table, chunk, output);
        let written = output.len() - start - 4;
        let word = if written < chunk.len() {
            written as u32
        } else {
            // Readers refuse a block above the frame's block size, so what does not shrink is
            // stored.
            output.truncate(start + 4);
            output.extend_from_slice(chunk);
            chunk.len() as u32 | UNCOMPRESSED
        };
        if let Some(slot) = output.get_mut(start..start + 4) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
    }
    output.extend_from_slice(&[0; 4]);
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], DecompressError> {
    let (taken, after) = rest.split_at_checked(count).ok_or_else(|| corrupt("lz4 frame is cut"))?;
    *rest = after;
    Ok(taken)
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], DecompressError> {
    let (taken, after) = rest.split_first_chunk().ok_or_else(|| corrupt("lz4 frame is cut"))?;
    *rest = after;
    Ok(taken)
}

fn corrupt(reason: &'static str) -> DecompressError {
    DecompressError::corrupt(reason)
}

const MAGIC: u32 = 0x184D_2204;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
const SKIPPABLE_MASK: u32 = 0xFFFF_FFF0;
/// Set in a block's size word if the block is stored as it is.
const UNCOMPRESSED: u32 = 1 << 31;
const FLAG_VERSION: u8 = 1 << 6;
const FLAG_INDEPENDENT: u8 = 1 << 5;
const FLAG_BLOCK_CHECKSUMS: u8 = 1 << 4;
const FLAG_CONTENT_SIZE: u8 = 1 << 3;
const FLAG_CONTENT_CHECKSUM: u8 = 1 << 2;
const FLAG_RESERVED: u8 = 1 << 1;
const FLAG_DICTIONARY: u8 = 1;
const BLOCK_64_KIB: u8 = 4 << 4;
/// How far back a match may reach, also into earlier blocks if they are linked.
const WINDOW_BYTES: usize = 64 * 1024;
const MAX_EXPANSION: usize = 255;
const MATCH_SLACK_BYTES: usize = 64;
