//! The small binary vocabulary of everything this crate stores: big-endian numbers, strings with a
//! bounded length, and a frame with magic, format version, length and CRC32C.

use std::sync::Arc;

use thiserror::Error;

/// Longest string (uid, topic, state name) accepted when reading, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;

/// Bytes that are not what they should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The magic is another one: not written by Millstream, or another kind of file.
    #[error("not a {what} (its first bytes are {found:02x?})")]
    NotOurs {
        /// What was expected.
        what: &'static str,
        /// The first bytes found.
        found: Vec<u8>,
    },
    /// Written by another version of Millstream.
    #[error("{what} has format version {found}, this program reads {supported}")]
    UnsupportedVersion {
        /// What was read.
        what: &'static str,
        /// Version found.
        found: u16,
        /// The one version that this program reads.
        supported: u16,
    },
    /// Ends too early.
    #[error("{what} ends too early at byte {at}")]
    Truncated {
        /// What was read.
        what: &'static str,
        /// Byte position at which more was expected.
        at: usize,
    },
    /// A length beyond its bound, found before anything was allocated.
    #[error("{what} claims {claimed} bytes or items, allowed are {limit}")]
    TooLong {
        /// What was read.
        what: &'static str,
        /// The length claimed.
        claimed: u64,
        /// The bound.
        limit: u64,
    },
    /// The checksum does not fit: torn or damaged.
    #[error("checksum of {what} does not fit: torn or damaged")]
    ChecksumMismatch {
        /// What was read.
        what: &'static str,
    },
    /// A field holds a value it cannot have.
    #[error("{what} is invalid: {reason}")]
    Invalid {
        /// What was read.
        what: &'static str,
        /// Why it cannot be.
        reason: &'static str,
    },
}

/// Appends values to a byte vector.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    pub(crate) fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, v: i32) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    pub(crate) fn i64(&mut self, v: i64) {
        self.0.extend_from_slice(&v.to_be_bytes());
    }

    pub(crate) fn id(&mut self, v: [u8; 16]) {
        self.0.extend_from_slice(&v);
    }

    pub(crate) fn option_i64(&mut self, v: Option<i64>) {
        self.u8(u8::from(v.is_some()));
        self.i64(v.unwrap_or(0));
    }

    /// # Errors
    ///
    /// [`FormatError::TooLong`] if a reader would refuse the string.
    pub(crate) fn string(&mut self, what: &'static str, v: &str) -> Result<(), FormatError> {
        bounded(what, v.len(), STRING_BYTES_MAX)?;
        self.length(what, v.len())?;
        self.0.extend_from_slice(v.as_bytes());
        Ok(())
    }

    pub(crate) fn length(&mut self, what: &'static str, len: usize) -> Result<(), FormatError> {
        self.u32(u32::try_from(len).map_err(|_| too_long(what, len, u32::MAX as usize))?);
        Ok(())
    }
}

/// Reads values from a slice; never reads past it and never allocates what is not there.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, what }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(FormatError::Truncated { what: self.what, at: self.at });
        };
        let taken = self.bytes.get(self.at..end).unwrap_or_default();
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let at = self.at;
        let what = self.what;
        self.take(N)?.try_into().map_err(|_| FormatError::Truncated { what, at })
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, FormatError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, FormatError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, FormatError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn id(&mut self) -> Result<[u8; 16], FormatError> {
        self.array()
    }

    pub(crate) fn boolean(&mut self) -> Result<bool, FormatError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.invalid("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn option_i64(&mut self) -> Result<Option<i64>, FormatError> {
        let present = self.boolean()?;
        let value = self.i64()?;
        Ok(present.then_some(value))
    }

    pub(crate) fn string(&mut self) -> Result<Arc<str>, FormatError> {
        let len = self.u32()? as usize;
        bounded(self.what, len, STRING_BYTES_MAX)?;
        let text = std::str::from_utf8(self.take(len)?);
        text.map(Arc::from).map_err(|_| self.invalid("a string is not UTF-8"))
    }

    /// A count of items that take at least `item_bytes` each; more than the rest can hold is refused
    /// before anybody reserves memory for them.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Result<usize, FormatError> {
        let count = self.u32()? as usize;
        bounded(self.what, count, self.rest() / item_bytes.max(1))?;
        Ok(count)
    }

    pub(crate) fn rest(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn end(&self) -> Result<(), FormatError> {
        if self.rest() == 0 { Ok(()) } else { Err(self.invalid("bytes are left over at its end")) }
    }

    pub(crate) fn invalid(&self, reason: &'static str) -> FormatError {
        FormatError::Invalid { what: self.what, reason }
    }
}

/// A kind of frame: magic, format version and bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) what: &'static str,
    pub(crate) magic: [u8; 8],
    pub(crate) version: u16,
    pub(crate) body_bytes_max: usize,
}

/// Magic, version, length of the body.
const FRAME_HEAD_BYTES: usize = 8 + 2 + 4;
const CRC_BYTES: usize = 4;

impl Frame {
    /// Bytes a frame has beside its body.
    pub(crate) const OVERHEAD_BYTES: usize = FRAME_HEAD_BYTES + CRC_BYTES;

    /// Wraps a body.
    pub(crate) fn seal(&self, body: &Writer) -> Result<Vec<u8>, FormatError> {
        bounded(self.what, body.0.len(), self.body_bytes_max)?;
        let mut frame = Writer(Vec::with_capacity(body.0.len() + Self::OVERHEAD_BYTES));
        frame.0.extend_from_slice(&self.magic);
        frame.u16(self.version);
        frame.length(self.what, body.0.len())?;
        frame.0.extend_from_slice(&body.0);
        frame.u32(crc32c::crc32c(&frame.0));
        Ok(frame.0)
    }

    /// Total length of the frame that starts here, from its first 14 bytes; bounded.
    pub(crate) fn total_bytes(&self, head: &[u8]) -> Result<usize, FormatError> {
        let mut reader = Reader::new(self.what, head);
        let magic: [u8; 8] = match reader.array() {
            Ok(magic) if magic == self.magic => magic,
            _ => {
                let found = head.iter().take(8).copied().collect();
                return Err(FormatError::NotOurs { what: self.what, found });
            }
        };
        debug_assert_eq!(magic, self.magic);
        let found = reader.u16()?;
        if found != self.version {
            let (what, supported) = (self.what, self.version);
            return Err(FormatError::UnsupportedVersion { what, found, supported });
        }
        let body = reader.u32()? as usize;
        bounded(self.what, body, self.body_bytes_max)?;
        Ok(body + Self::OVERHEAD_BYTES)
    }

    /// The body of a frame that must fill `bytes` exactly.
    pub(crate) fn open<'a>(&self, bytes: &'a [u8]) -> Result<Reader<'a>, FormatError> {
        let total = self.total_bytes(bytes)?;
        if bytes.len() < total {
            return Err(FormatError::Truncated { what: self.what, at: bytes.len() });
        }
        if bytes.len() > total {
            let reason = "bytes are left over at its end";
            return Err(FormatError::Invalid { what: self.what, reason });
        }
        let (covered, crc) = bytes.split_at(total - CRC_BYTES);
        if crc != crc32c::crc32c(covered).to_be_bytes() {
            return Err(FormatError::ChecksumMismatch { what: self.what });
        }
        Ok(Reader::new(self.what, covered.get(FRAME_HEAD_BYTES..).unwrap_or_default()))
    }
}

pub(crate) fn bounded(what: &'static str, len: usize, limit: usize) -> Result<(), FormatError> {
    if len > limit { Err(too_long(what, len, limit)) } else { Ok(()) }
}

fn too_long(what: &'static str, claimed: usize, limit: usize) -> FormatError {
    FormatError::TooLong { what, claimed: claimed as u64, limit: limit as u64 }
}
