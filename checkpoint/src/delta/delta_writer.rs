//! Writes a delta file as a stream.
//!
//! ```text
//! header   frame "MSDELTA\n" (see codec)
//! block*   kind 1 u8 │ packed bytes u32 │ raw bytes u32 │ lz4 block │ crc32c u32
//!          raw: operator uid, state name, then per entry: key, 0 or (1 and value)
//! end      kind 0 u8 │ blocks u64 │ entries u64 │ xxh3-128 of everything before it │ crc32c u32
//! ```

use std::io;

use xxhash_rust::xxh3::Xxh3;

use super::{DeltaDigest, DeltaEntry, DeltaError, DeltaHeader, FrozenDelta, StateId};
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
pub(super) const KIND_BLOCK: u8 = 1;

pub(super) const HEADER: Frame =
    Frame { what: "delta file", magic: *b"MSDELTA\n", version: 2, body_bytes_max: 64 << 20 };
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
    raw: Writer,
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
            raw: Writer::default(),
            blocks: 0,
            entries: 0,
            bytes: 0,
        };
        writer.append(&encode_header(header)?)?;
        for state in delta.states() {
            for entry in delta.changes(state) {
                writer.entry(state, entry)?;
            }
            writer.close_block()?;
        }
        writer.end()
    }

    fn entry(&mut self, state: &StateId, (key, value): &DeltaEntry) -> Result<(), WriteError> {
        if self.raw.0.is_empty() {
            self.raw.string("operator uid", &state.operator_uid)?;
            self.raw.string("state name", &state.state_name)?;
        }
        self.raw.length("key", key.len())?;
        self.raw.0.extend_from_slice(key);
        self.raw.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            self.raw.length("value", value.len())?;
            self.raw.0.extend_from_slice(value);
        }
        self.entries += 1;
        if self.raw.0.len() >= BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<(), WriteError> {
        let raw = std::mem::take(&mut self.raw);
        if raw.0.is_empty() {
            return Ok(());
        }
        bounded(BLOCK, raw.0.len(), BLOCK_BYTES_MAX)?;
        let packed = lz4_flex::block::compress(&raw.0);
        let mut block = Writer(Vec::with_capacity(packed.len() + 13));
        block.u8(KIND_BLOCK);
        block.length(BLOCK, packed.len())?;
        block.length(BLOCK, raw.0.len())?;
        block.0.extend_from_slice(&packed);
        block.u32(crc32c::crc32c(&block.0));
        self.blocks += 1;
        self.append(&block.0)?;
        // The buffer is used again by the next block.
        self.raw = raw;
        self.raw.0.clear();
        Ok(())
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
