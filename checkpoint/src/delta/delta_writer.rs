//! Writes a delta file as a stream.
//!
//! ```text
//! header   frame "MSDELTA\n" (see codec)
//! block*   kind 1 u8 │ packed bytes u32 │ raw bytes u32 │ lz4 block │ crc32c u32
//!          kind 2 u8 │ raw bytes u32 │ raw bytes u32 │ raw │ crc32c u32
//!          raw: operator uid, state name, then per entry: key, 0 or (1 and value)
//! end      kind 0 u8 │ blocks u64 │ entries u64 │ xxh3-128 of everything before it │ crc32c u32
//! ```
//!
//! Version 2 has no blocks of kind 2.

use std::io;

use xxhash_rust::xxh3::Xxh3;

use super::{DeltaDigest, DeltaError, DeltaHeader, FrozenDelta, StateId};
use crate::codec::{FormatError, Frame, Writer, bounded};
use crate::disk::DiskFile;
use crate::positions::encode_watermarks;

/// Raw bytes after which a block is closed.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes collected before they go to the file.
const WRITE_BYTES: usize = 256 << 10;
/// Largest raw block: a block of one entry may be longer than [`BLOCK_BYTES`].
pub(super) const BLOCK_BYTES_MAX: usize = 1 << 30;

pub(super) const KIND_END: u8 = 0;
pub(super) const KIND_PACKED: u8 = 1;
pub(super) const KIND_STORED: u8 = 2;
/// Kind and two lengths in front of a block.
const BLOCK_HEAD_BYTES: usize = 9;

/// A block that does not get smaller than this part of itself is stored as it is.
const WORTH_PACKING: (usize, usize) = (15, 16);
/// After blocks that were not worth it as many are not even tried, up to so many.
const UNTRIED_MAX: u32 = 31;

pub(super) const HEADER: Frame =
    Frame { what: "delta file", magic: *b"MSDELTA\n", version: 3, body_bytes_max: 64 << 20 };
/// Files of this version are read too.
pub(super) const HEADER_2: Frame = Frame { version: 2, ..HEADER };
pub(super) const BLOCK: &str = "block of a delta file";

/// Why a delta could not be written.
#[derive(Debug)]
pub(crate) enum WriteError {
    Io(io::Error),
    Delta(DeltaError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FormatError> for WriteError {
    fn from(error: FormatError) -> Self {
        Self::Delta(DeltaError::Header(error))
    }
}

/// Writes one delta file; the caller syncs it.
pub(crate) struct DeltaWriter<'a> {
    file: &'a mut dyn DiskFile,
    pending: Vec<u8>,
    digest: Box<Xxh3>,
    /// The open block: room for its head, then its raw bytes. Empty if none is open.
    block: Writer,
    packed: Vec<u8>,
    /// How many blocks are stored without a try to pack them, and how many after the next failure.
    untried: u32,
    untried_next: u32,
    blocks: u64,
    entries: u64,
    bytes: u64,
}

impl<'a> DeltaWriter<'a> {
    /// Writes header, all blocks and the end; gives the digest and the length.
    pub(crate) fn write(
        file: &'a mut dyn DiskFile,
        header: &DeltaHeader,
        delta: &FrozenDelta,
    ) -> Result<(DeltaDigest, u64), WriteError> {
        let mut writer = Self {
            file,
            pending: Vec::new(),
            digest: Box::new(Xxh3::new()),
            block: Writer::default(),
            packed: Vec::new(),
            untried: 0,
            untried_next: 1,
            blocks: 0,
            entries: 0,
            bytes: 0,
        };
        writer.append(&encode_header(header)?)?;
        for state in delta.states() {
            let Some(changes) = delta.shared_changes(state) else { continue };
            for index in 0..changes.len() {
                writer.entry(state, changes.key(index), changes.value(index))?;
            }
            writer.close_block()?;
        }
        writer.end()
    }

    fn entry(
        &mut self,
        state: &StateId,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), WriteError> {
        if self.block.0.is_empty() {
            self.block.0.resize(BLOCK_HEAD_BYTES, 0);
            self.block.string("operator uid", &state.operator_uid)?;
            self.block.string("state name", &state.state_name)?;
        }
        self.block.length("key", key.len())?;
        self.block.0.extend_from_slice(key);
        self.block.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            self.block.length("value", value.len())?;
            self.block.0.extend_from_slice(value);
        }
        self.entries += 1;
        if self.block.0.len() >= BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<(), WriteError> {
        if self.block.0.is_empty() {
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block);
        let raw_bytes = block.0.len() - BLOCK_HEAD_BYTES;
        bounded(BLOCK, raw_bytes, BLOCK_BYTES_MAX)?;
        self.blocks += 1;
        if let Some(packed_bytes) = self.pack(block.0.get(BLOCK_HEAD_BYTES..).unwrap_or_default()) {
            let mut packed = std::mem::take(&mut self.packed);
            packed.truncate(BLOCK_HEAD_BYTES + packed_bytes);
            self.append_block(KIND_PACKED, raw_bytes, &mut packed)?;
            self.packed = packed;
        } else {
            self.append_block(KIND_STORED, raw_bytes, &mut block.0)?;
        }
        // The buffer is used again by the next block.
        self.block = block;
        self.block.0.clear();
        Ok(())
    }

    /// Packs `raw` into `self.packed`, behind room for the head; the packed length, if it is worth it.
    fn pack(&mut self, raw: &[u8]) -> Option<usize> {
        if self.untried > 0 {
            self.untried -= 1;
            return None;
        }
        let room = BLOCK_HEAD_BYTES + lz4_flex::block::get_maximum_output_size(raw.len());
        self.packed.resize(room, 0);
        let into = self.packed.get_mut(BLOCK_HEAD_BYTES..).unwrap_or_default();
        let (part, of) = WORTH_PACKING;
        let packed = lz4_flex::block::compress_into(raw, into);
        let worth = packed.ok().filter(|packed| *packed < raw.len() / of * part);
        if worth.is_some() {
            self.untried_next = 1;
        } else {
            self.untried = self.untried_next;
            self.untried_next = (2 * self.untried_next + 1).min(UNTRIED_MAX);
        }
        worth
    }

    /// Fills the head in front of `block`, adds the checksum and appends it all.
    fn append_block(
        &mut self,
        kind: u8,
        raw_bytes: usize,
        block: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        let mut head = Writer::default();
        head.u8(kind);
        head.length(BLOCK, block.len() - BLOCK_HEAD_BYTES)?;
        head.length(BLOCK, raw_bytes)?;
        if let Some(room) = block.first_chunk_mut::<BLOCK_HEAD_BYTES>() {
            room.copy_from_slice(&head.0);
        }
        block.extend_from_slice(&crc32c::crc32c(block).to_be_bytes());
        self.append(block)
    }

    fn end(mut self) -> Result<(DeltaDigest, u64), WriteError> {
        let mut end = Writer::default();
        end.u8(KIND_END);
        end.u64(self.blocks);
        end.u64(self.entries);
        self.digest.update(&end.0);
        let digest = DeltaDigest(self.digest.digest128().to_be_bytes());
        end.id(digest.0);
        end.u32(crc32c::crc32c(&end.0));
        self.pending.extend_from_slice(&end.0);
        self.bytes += end.0.len() as u64;
        self.file.write_all(&self.pending)?;
        Ok((digest, self.bytes))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.digest.update(bytes);
        self.pending.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if self.pending.len() >= WRITE_BYTES {
            self.file.write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }
}

fn encode_header(header: &DeltaHeader) -> Result<Vec<u8>, WriteError> {
    let mut body = Writer::default();
    body.string("job", header.job.as_str())?;
    body.u64(header.at.checkpoint.0);
    body.id(header.at.nonce.0);
    body.id(header.parent.nonce.0);
    body.option_i64(header.parent_ledger_offset);
    header.positions.encode(&mut body)?;
    encode_watermarks(&header.watermarks, &mut body)?;
    header.status.encode(&mut body);
    body.id(header.fingerprint.0);
    let (producer_id, epoch) = header.producer.unwrap_or((-1, -1));
    body.u8(u8::from(header.producer.is_some()));
    body.i64(producer_id);
    body.i32(i32::from(epoch));
    Ok(HEADER.seal(&body)?)
}
