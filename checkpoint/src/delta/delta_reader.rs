//! Reads and verifies a delta file as a stream, one block in memory at a time.

use std::io::{self, ErrorKind, Read};

use xxhash_rust::xxh3::Xxh3;

use super::changes::ENTRY_BYTES_MAX;
use super::delta_writer::{
    BLOCK, BLOCK_BYTES_MAX, HEADER, HEADER_2, KIND_END, KIND_PACKED, KIND_STORED,
};
use super::{
    Changes, DeltaDigest, DeltaError, DeltaHeader, DeltaSummary, SealedStateWriter, StateId,
    key_group,
};
use crate::codec::{FormatError, Frame, Reader, bounded};
use crate::ids::{CheckpointId, CheckpointRef, Fingerprint, Nonce};
use crate::ledger_record::decode_job;
use crate::positions::{JobStatus, Positions, decode_watermarks};

/// Why a delta could not be read: the disk failed, or the file is damaged.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    Delta(DeltaError),
}

impl From<DeltaError> for ReadError {
    fn from(error: DeltaError) -> Self {
        Self::Delta(error)
    }
}

/// Reads a whole file of `file_bytes` bytes, checks every checksum, order and the digest, and hands
/// each block's entries to `visit` (before the digest is known to fit).
pub(crate) fn read_delta(
    source: &mut dyn Read,
    file_bytes: u64,
    mut visit: impl FnMut(StateId, Changes),
) -> Result<DeltaSummary, ReadError> {
    let mut file = HashedFile { source, at: 0, file_bytes, digest: Box::new(Xxh3::new()) };
    let (header, version) = read_header(&mut file)?;
    let (mut blocks, mut entries, mut last) = (0, 0, None);
    loop {
        let at_byte = file.at;
        let kind = file.take(1)?.first().copied().unwrap_or(KIND_END);
        match kind {
            KIND_PACKED => {}
            KIND_STORED if version >= HEADER.version => {}
            KIND_END => break,
            _ => {
                let source = FormatError::Invalid { what: BLOCK, reason: "its kind is unknown" };
                return Err(DeltaError::Block { block: blocks, at_byte, source }.into());
            }
        }
        let damaged = |source| DeltaError::Block { block: blocks, at_byte, source };
        let raw = read_block(&mut file, kind, damaged)?;
        let (state, decoded) = decode_block(&raw, &mut last).map_err(damaged)?;
        blocks += 1;
        entries += decoded.len() as u64;
        visit(state, decoded);
    }
    let digest = read_end(&mut file, blocks, entries)?;
    Ok(DeltaSummary { header, digest, file_bytes })
}

/// A file whose bytes are hashed as they are read; never reads past the length it was opened with.
struct HashedFile<'a> {
    source: &'a mut dyn Read,
    at: u64,
    file_bytes: u64,
    digest: Box<Xxh3>,
}

impl HashedFile<'_> {
    /// The next `len` bytes. What the file cannot hold is refused before memory is reserved.
    fn take(&mut self, len: usize) -> Result<Vec<u8>, ReadError> {
        let bytes = self.take_unhashed(len)?;
        self.digest.update(&bytes);
        Ok(bytes)
    }

    fn take_unhashed(&mut self, len: usize) -> Result<Vec<u8>, ReadError> {
        if len as u64 > self.file_bytes - self.at {
            return Err(DeltaError::Torn { bytes: self.file_bytes }.into());
        }
        let mut bytes = vec![0; len];
        self.source.read_exact(&mut bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => DeltaError::Torn { bytes: self.at }.into(),
            _ => ReadError::Io(error),
        })?;
        self.at += len as u64;
        Ok(bytes)
    }
}

/// Magic, version and length at the front of the header.
const HEADER_HEAD_BYTES: usize = 14;

/// The header and the file's format version.
fn read_header(file: &mut HashedFile<'_>) -> Result<(DeltaHeader, u16), ReadError> {
    let mut frame = file.take(HEADER_HEAD_BYTES)?;
    let is_old = frame.get(8..10) == Some(&HEADER_2.version.to_be_bytes()[..]);
    let kind = if is_old { HEADER_2 } else { HEADER };
    let total = kind.total_bytes(&frame).map_err(DeltaError::Header)?;
    frame.extend(file.take(total - HEADER_HEAD_BYTES)?);
    let header = decode_header(kind, &frame).map_err(DeltaError::Header)?;
    Ok((header, kind.version))
}

fn decode_header(kind: Frame, frame: &[u8]) -> Result<DeltaHeader, FormatError> {
    let mut body = kind.open(frame)?;
    let job = decode_job(&mut body)?;
    let checkpoint = CheckpointId(body.u64()?);
    let nonce = Nonce(body.id()?);
    let parent_nonce = Nonce(body.id()?);
    let parent = checkpoint.previous().ok_or_else(|| body.invalid("checkpoint 0 has no delta"))?;
    let header = DeltaHeader {
        job,
        at: CheckpointRef::new(checkpoint, nonce),
        parent: CheckpointRef::new(parent, parent_nonce),
        parent_ledger_offset: body.option_i64()?,
        positions: Positions::decode(&mut body)?,
        watermarks: decode_watermarks(&mut body)?,
        status: JobStatus::decode(&mut body)?,
        fingerprint: Fingerprint(body.id()?),
        producer: {
            let known = body.boolean()?;
            let producer_id = body.i64()?;
            let epoch = i16::try_from(body.i32()?)
                .map_err(|_| body.invalid("the producer epoch is out of range"))?;
            known.then_some((producer_id, epoch))
        },
    };
    body.end()?;
    Ok(header)
}

/// Reads one block behind its kind byte; gives the raw bytes.
fn read_block(
    file: &mut HashedFile<'_>,
    kind: u8,
    damaged: impl Fn(FormatError) -> DeltaError,
) -> Result<Vec<u8>, ReadError> {
    let head = file.take(8)?;
    let mut lengths = Reader::new(BLOCK, &head);
    let packed_bytes = lengths.u32().map_err(&damaged)? as usize;
    let raw_bytes = lengths.u32().map_err(&damaged)? as usize;
    let packed = file.take(packed_bytes)?;
    let crc = file.take(4)?;
    let mut covered = crc32c::crc32c(&[kind]);
    covered = crc32c::crc32c_append(covered, &head);
    covered = crc32c::crc32c_append(covered, &packed);
    if crc != covered.to_be_bytes() {
        return Err(damaged(FormatError::ChecksumMismatch { what: BLOCK }).into());
    }
    if kind == KIND_STORED {
        if raw_bytes != packed_bytes {
            let reason = "its two lengths differ though it is stored as it is";
            return Err(damaged(FormatError::Invalid { what: BLOCK, reason }).into());
        }
        return Ok(packed);
    }
    // LZ4 cannot expand more than 255 times.
    let limit = packed_bytes.saturating_mul(255).min(BLOCK_BYTES_MAX);
    bounded(BLOCK, raw_bytes, limit).map_err(&damaged)?;
    let raw = lz4_flex::block::decompress(&packed, raw_bytes).ok();
    let raw = raw.filter(|raw| raw.len() == raw_bytes).ok_or_else(|| {
        damaged(FormatError::Invalid { what: BLOCK, reason: "it cannot be decompressed" })
    })?;
    Ok(raw)
}

/// Entries of a block. `last` is the state and key before, which must be smaller.
fn decode_block(
    raw: &[u8],
    last: &mut Option<(StateId, Vec<u8>)>,
) -> Result<(StateId, Changes), FormatError> {
    let mut reader = Reader::new(BLOCK, raw);
    let state = StateId { operator_uid: reader.string()?, state_name: reader.string()? };
    let mut entries = SealedStateWriter::new(state.clone(), 0);
    let mut before = match last.take() {
        Some((last_state, last_key)) if last_state == state => Some(last_key),
        Some((last_state, _)) if last_state > state => {
            return Err(reader.invalid("its states are not sorted"));
        }
        _ => None,
    };
    while reader.rest() > 0 {
        let key_bytes = reader.u32()? as usize;
        bounded(BLOCK, key_bytes, ENTRY_BYTES_MAX)?;
        let key = reader.take(key_bytes)?;
        if key_group(key).is_none() {
            return Err(reader.invalid("a key has no valid key group"));
        }
        if before.as_ref().is_some_and(|before| before.as_slice() >= key) {
            return Err(reader.invalid("its keys are not sorted"));
        }
        if reader.boolean()? {
            let value_bytes = reader.u32()? as usize;
            bounded(BLOCK, value_bytes, ENTRY_BYTES_MAX)?;
            entries.put(&[key]).extend_from_slice(reader.take(value_bytes)?);
        } else {
            entries.delete(&[key]);
        }
        let before = before.get_or_insert_default();
        before.clear();
        before.extend_from_slice(key);
    }
    if let Some(key) = before {
        *last = Some((state.clone(), key));
    }
    let entries = entries.finish().map_err(|_| reader.invalid("an entry is too long"))?;
    Ok((state, entries.changes))
}

/// Counters, digest and checksum behind the kind byte of the end.
fn read_end(
    file: &mut HashedFile<'_>,
    blocks: u64,
    entries: u64,
) -> Result<DeltaDigest, ReadError> {
    let at_byte = file.at - 1;
    let damaged = |source| ReadError::from(DeltaError::Block { block: blocks, at_byte, source });
    let counters = file.take(16)?;
    let found = DeltaDigest(file.digest.digest128().to_be_bytes());
    let expected = file.take_unhashed(16)?;
    let crc = file.take_unhashed(4)?;
    let mut covered = crc32c::crc32c(&[KIND_END]);
    covered = crc32c::crc32c_append(covered, &counters);
    covered = crc32c::crc32c_append(covered, &expected);
    if crc != covered.to_be_bytes() {
        return Err(damaged(FormatError::ChecksumMismatch { what: BLOCK }));
    }
    let mut reader = Reader::new(BLOCK, &counters);
    let expected_counts = (reader.u64().map_err(damaged)?, reader.u64().map_err(damaged)?);
    let expected = DeltaDigest(Reader::new(BLOCK, &expected).id().map_err(damaged)?);
    if expected != found || expected_counts != (blocks, entries) {
        return Err(DeltaError::DigestMismatch { found, expected }.into());
    }
    if file.at != file.file_bytes {
        let reason = "bytes are left over behind the end";
        return Err(damaged(FormatError::Invalid { what: BLOCK, reason }));
    }
    Ok(found)
}
