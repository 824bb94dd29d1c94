//! The entries of one state in a savepoint: a header, blocks of sorted entries, an end. Nothing is compressed, so that any
//! program can read it; a folder that is to be kept for long can be packed as a whole.
//!
//! ```text
//! header   frame "MSSTATE\n" (see codec): savepoint id, operator uid, state name, key groups u16
//! block*   kind 1 u8 │ bytes u32 │ per entry: key bytes u32, key, value bytes u32, value │ crc32c u32
//! end      kind 0 u8 │ blocks u64 │ entries u64 │ crc32c u32
//! ```

use std::io::{self, ErrorKind, Read};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{SavepointId, StateFileError};
use crate::codec::{FormatError, Frame, Reader, Writer, bounded};
use crate::delta::{StateId, key_group};
use crate::disk::DiskFile;

/// Bytes after which a block is closed.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes collected before they go to the file.
const WRITE_BYTES: usize = 256 << 10;
/// Largest block: one of a single entry may be longer than [`BLOCK_BYTES`].
const BLOCK_BYTES_MAX: usize = 1 << 30;
const KIND_END: u8 = 0;
const KIND_BLOCK: u8 = 1;
const WHAT: &str = "state file of a savepoint";

const HEADER: Frame =
    Frame { what: WHAT, magic: *b"MSSTATE\n", version: 1, body_bytes_max: 16 << 10 };
const HEADER_HEAD_BYTES: usize = 14;

/// What a state file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateFileHeader {
    pub(super) savepoint: SavepointId,
    pub(super) state: StateId,
    pub(super) key_groups: u16,
}

impl StateFileHeader {
    fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut body = Writer::default();
        body.id(self.savepoint.0);
        body.string("operator uid", &self.state.operator_uid)?;
        body.string("state name", &self.state.state_name)?;
        body.u16(self.key_groups);
        HEADER.seal(&body)
    }

    fn decode(frame: &[u8]) -> Result<Self, FormatError> {
        let mut body = HEADER.open(frame)?;
        let header = Self {
            savepoint: SavepointId(body.id()?),
            state: StateId { operator_uid: body.string()?, state_name: body.string()? },
            key_groups: body.u16()?,
        };
        body.end()?;
        Ok(header)
    }
}

/// What was written.
#[derive(Debug)]
pub(super) struct WrittenFile {
    pub(super) entries: u64,
    pub(super) file_bytes: u64,
    pub(super) sha256: [u8; 32],
}

/// Why a state file could not be written.
#[derive(Debug)]
pub(super) enum WriteError {
    Io(io::Error),
    Format(FormatError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FormatError> for WriteError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

/// Writes one state file; the caller syncs it.
pub(super) struct StateFileWriter<'a> {
    file: &'a mut dyn DiskFile,
    pending: Vec<u8>,
    sha256: Sha256,
    block: Writer,
    key_groups: u16,
    blocks: u64,
    entries: u64,
    bytes: u64,
    last_key: Option<Bytes>,
}

impl<'a> StateFileWriter<'a> {
    pub(super) fn new(
        file: &'a mut dyn DiskFile,
        header: &StateFileHeader,
    ) -> Result<Self, WriteError> {
        let mut writer = Self {
            file,
            pending: Vec::new(),
            sha256: Sha256::new(),
            block: Writer::default(),
            key_groups: header.key_groups,
            blocks: 0,
            entries: 0,
            bytes: 0,
            last_key: None,
        };
        writer.append(&header.encode()?)?;
        Ok(writer)
    }

    /// Keys must ascend strictly and be of one of the job's key groups.
    pub(super) fn entry(&mut self, key: Bytes, value: &[u8]) -> Result<(), WriteError> {
        let last = self.last_key.as_deref();
        check_key(&key, last, self.key_groups)
            .map_err(|reason| FormatError::Invalid { what: WHAT, reason })?;
        self.block.length("key", key.len())?;
        self.block.0.extend_from_slice(&key);
        self.block.length("value", value.len())?;
        self.block.0.extend_from_slice(value);
        self.entries += 1;
        self.last_key = Some(key);
        if self.block.0.len() >= BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    pub(super) fn end(mut self) -> Result<WrittenFile, WriteError> {
        self.close_block()?;
        let mut end = Writer::default();
        end.u8(KIND_END);
        end.u64(self.blocks);
        end.u64(self.entries);
        end.u32(crc32c::crc32c(&end.0));
        self.append(&end.0)?;
        self.file.write_all(&self.pending)?;
        Ok(WrittenFile {
            entries: self.entries,
            file_bytes: self.bytes,
            sha256: self.sha256.finalize().into(),
        })
    }

    fn close_block(&mut self) -> Result<(), WriteError> {
        let mut entries = std::mem::take(&mut self.block);
        if entries.0.is_empty() {
            return Ok(());
        }
        bounded(WHAT, entries.0.len(), BLOCK_BYTES_MAX)?;
        let mut head = Writer::default();
        head.u8(KIND_BLOCK);
        head.length(WHAT, entries.0.len())?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head.0), &entries.0);
        self.append(&head.0)?;
        self.append(&entries.0)?;
        self.append(&crc.to_be_bytes())?;
        self.blocks += 1;
        entries.0.clear();
        self.block = entries;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.sha256.update(bytes);
        self.pending.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if self.pending.len() >= WRITE_BYTES {
            self.file.write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }
}

/// Reads and verifies a state file, one block in memory at a time.
pub(super) struct StateFileReader {
    source: Box<dyn Read + Send>,
    at: u64,
    file_bytes: u64,
    sha256: Sha256,
    expected_sha256: [u8; 32],
    key_groups: u16,
    blocks: u64,
    entries: u64,
    block: Bytes,
    block_at: usize,
    last_key: Option<Bytes>,
    ended: bool,
}

impl StateFileReader {
    /// Reads the header and holds it against what the manifest says.
    pub(super) fn open(
        source: Box<dyn Read + Send>,
        file_bytes: u64,
        expected: &StateFileHeader,
        expected_sha256: [u8; 32],
    ) -> Result<Self, StateFileError> {
        let mut reader = Self {
            source,
            at: 0,
            file_bytes,
            sha256: Sha256::new(),
            expected_sha256,
            key_groups: expected.key_groups,
            blocks: 0,
            entries: 0,
            block: Bytes::new(),
            block_at: 0,
            last_key: None,
            ended: false,
        };
        let mut frame = reader.take(HEADER_HEAD_BYTES)?;
        let total = HEADER.total_bytes(&frame).map_err(StateFileError::Header)?;
        frame.extend(reader.take(total - HEADER_HEAD_BYTES)?);
        let header = StateFileHeader::decode(&frame).map_err(StateFileError::Header)?;
        if header != *expected {
            return Err(StateFileError::OtherFile { state: header.state });
        }
        Ok(reader)
    }

    /// Entries read so far.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// The next entry; `None` once the end and the checksum of the whole file were found to be right.
    pub(super) fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>, StateFileError> {
        while self.block_at == self.block.len() {
            if self.ended || !self.next_block()? {
                self.ended = true;
                return Ok(None);
            }
        }
        let rest = self.block.slice(self.block_at..);
        let damaged = |source| StateFileError::Block { block: self.blocks - 1, source };
        let mut reader = Reader::new(WHAT, &rest);
        let mut part = || {
            let bytes = reader.u32()? as usize;
            Ok(rest.slice_ref(reader.take(bytes)?))
        };
        let key: Bytes = part().map_err(damaged)?;
        let value: Bytes = part().map_err(damaged)?;
        let used = rest.len() - reader.rest();
        check_key(&key, self.last_key.as_deref(), self.key_groups)
            .map_err(|reason| damaged(FormatError::Invalid { what: WHAT, reason }))?;
        self.block_at += used;
        self.entries += 1;
        self.last_key = Some(key.clone());
        Ok(Some((key, value)))
    }

    /// `false`: the file has ended, and it is the one that the manifest names.
    fn next_block(&mut self) -> Result<bool, StateFileError> {
        let mut head = self.take(1)?;
        let block = self.blocks;
        let damaged = |source| StateFileError::Block { block, source };
        match head.first() {
            Some(&KIND_BLOCK) => {}
            Some(&KIND_END) => return self.read_end(head).map(|()| false),
            _ => {
                let reason = "its kind is unknown";
                return Err(damaged(FormatError::Invalid { what: WHAT, reason }));
            }
        }
        let length = self.take(4)?;
        head.extend_from_slice(&length);
        let bytes = Reader::new(WHAT, &length).u32().map_err(damaged)? as usize;
        bounded(WHAT, bytes, BLOCK_BYTES_MAX).map_err(damaged)?;
        let entries = self.take(bytes)?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head), &entries);
        if self.take(4)? != crc.to_be_bytes() {
            return Err(damaged(FormatError::ChecksumMismatch { what: WHAT }));
        }
        self.blocks += 1;
        self.block = entries.into();
        self.block_at = 0;
        Ok(true)
    }

    fn read_end(&mut self, mut end: Vec<u8>) -> Result<(), StateFileError> {
        let block = self.blocks;
        let damaged = |source| StateFileError::Block { block, source };
        end.extend(self.take(16)?);
        if self.take(4)? != crc32c::crc32c(&end).to_be_bytes() {
            return Err(damaged(FormatError::ChecksumMismatch { what: WHAT }));
        }
        let mut reader = Reader::new(WHAT, end.get(1..).unwrap_or_default());
        let counted = (reader.u64().map_err(damaged)?, reader.u64().map_err(damaged)?);
        if counted != (self.blocks, self.entries) {
            let reason = "its blocks or entries are not as many as its end says";
            return Err(damaged(FormatError::Invalid { what: WHAT, reason }));
        }
        if self.at != self.file_bytes {
            let reason = "bytes are left over behind its end";
            return Err(damaged(FormatError::Invalid { what: WHAT, reason }));
        }
        let found: [u8; 32] = std::mem::take(&mut self.sha256).finalize().into();
        if found != self.expected_sha256 {
            return Err(StateFileError::OtherChecksum);
        }
        Ok(())
    }

    /// The next `len` bytes. What the file can not hold is refused before memory is reserved.
    fn take(&mut self, len: usize) -> Result<Vec<u8>, StateFileError> {
        if len as u64 > self.file_bytes - self.at {
            return Err(StateFileError::Torn { bytes: self.file_bytes });
        }
        let mut bytes = vec![0; len];
        self.source.read_exact(&mut bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => StateFileError::Torn { bytes: self.at },
            _ => StateFileError::Io(error),
        })?;
        self.at += len as u64;
        self.sha256.update(&bytes);
        Ok(bytes)
    }
}

fn check_key(key: &[u8], last: Option<&[u8]>, key_groups: u16) -> Result<(), &'static str> {
    if key_group(key).is_none_or(|group| group >= key_groups) {
        return Err("a key has no valid key group");
    }
    if last.is_some_and(|last| last >= key) {
        return Err("its keys are not sorted");
    }
    Ok(())
}
