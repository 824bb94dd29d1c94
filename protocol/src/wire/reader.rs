//! A cursor over the bytes of one frame. Every read is checked against what is left.

use bytes::Bytes;

use crate::wire::{ReadError, ReadProblem};

/// Reads big-endian values, strings, arrays and tagged fields from a shared buffer. Byte values come out as slices of
/// it, not as copies.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
    position: usize,
}

impl Reader {
    /// Reads `bytes` from their start.
    #[must_use]
    pub const fn new(bytes: Bytes) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// What is left, as a slice of the same buffer.
    #[must_use]
    pub fn into_rest(mut self) -> Bytes {
        self.bytes.split_off(self.position)
    }

    /// Ends reading.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::LeftoverBytes`] if bytes are left.
    pub fn finish(&self) -> Result<(), ReadError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(ReadProblem::LeftoverBytes(left))),
        }
    }

    /// A boolean; any byte but 0 is true, as in Kafka.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn bool(&mut self) -> Result<bool, ReadError> {
        Ok(self.i8()? != 0)
    }

    /// A signed byte.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn i8(&mut self) -> Result<i8, ReadError> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    /// 16 bits.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn i16(&mut self) -> Result<i16, ReadError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// 32 bits.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn i32(&mut self) -> Result<i32, ReadError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// 64 bits.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn i64(&mut self) -> Result<i64, ReadError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// The 16 bytes of a UUID.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn uuid(&mut self) -> Result<[u8; 16], ReadError> {
        self.array()
    }

    /// An unsigned varint of at most 32 bits.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::OverlongVarint`] if it does not fit 32 bits or is still not over after five bytes;
    /// [`ReadProblem::Truncated`].
    pub fn unsigned_varint(&mut self) -> Result<u32, ReadError> {
        let start = self.position;
        let mut value = 0_u32;
        for index in 0..MAX_VARINT_BYTES {
            let [byte] = self.array()?;
            // The fifth byte has room for four bits and must be the last.
            if index == MAX_VARINT_BYTES - 1 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ReadError::new(start, ReadProblem::OverlongVarint))
    }

    /// `length` bytes, as a slice of the frame.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn slice(&mut self, length: usize) -> Result<Bytes, ReadError> {
        self.check(length)?;
        let slice = self.bytes.slice(self.position..self.position + length);
        self.position += length;
        Ok(slice)
    }

    /// Steps over `length` bytes.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::Truncated`].
    pub fn skip(&mut self, length: usize) -> Result<(), ReadError> {
        self.check(length)?;
        self.position += length;
        Ok(())
    }

    /// A string that may not be null; `flexible` selects the compact length.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::UnexpectedNull`], [`ReadProblem::NotUtf8`], [`ReadProblem::Truncated`] and for a bad length
    /// [`ReadProblem::NegativeLength`] or [`ReadProblem::OverlongVarint`].
    pub fn string(&mut self, flexible: bool) -> Result<&str, ReadError> {
        let start = self.position;
        self.nullable_string(flexible)?.ok_or(ReadError::new(start, ReadProblem::UnexpectedNull))
    }

    /// A string or null; `flexible` selects the compact length.
    ///
    /// # Errors
    ///
    /// As [`Reader::string`], except for null.
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<&str>, ReadError> {
        let Some(length) = self.string_length(flexible)? else { return Ok(None) };
        let start = self.position;
        self.skip(length)?;
        let bytes = self.bytes.get(start..self.position).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => Err(ReadError::new(start + error.valid_up_to(), ReadProblem::NotUtf8)),
        }
    }

    /// The length of a string, `None` for null.
    ///
    /// # Errors
    ///
    /// A length below -1, or one that leads beyond the end.
    pub fn string_length(&mut self, flexible: bool) -> Result<Option<usize>, ReadError> {
        let start = self.position;
        let length =
            if flexible { i64::from(self.unsigned_varint()?) - 1 } else { i64::from(self.i16()?) };
        self.length_within(start, length)
    }

    /// Bytes or null, as a slice of the frame; `flexible` selects the compact length.
    ///
    /// # Errors
    ///
    /// A length below -1, or one that leads beyond the end.
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<Bytes>, ReadError> {
        let start = self.position;
        let length = self.raw_length(flexible)?;
        match self.length_within(start, length)? {
            Some(length) => self.slice(length).map(Some),
            None => Ok(None),
        }
    }

    /// The number of elements of an array that may not be null, each at least `element_bytes` long.
    ///
    /// # Errors
    ///
    /// As [`Reader::nullable_array_length`], and [`ReadProblem::UnexpectedNull`].
    pub fn array_length(
        &mut self,
        flexible: bool,
        element_bytes: usize,
    ) -> Result<usize, ReadError> {
        let start = self.position;
        self.nullable_array_length(flexible, element_bytes)?
            .ok_or(ReadError::new(start, ReadProblem::UnexpectedNull))
    }

    /// The number of elements of an array, `None` for null. The remaining bytes can hold that many elements of
    /// `element_bytes` each, so reserving room for them costs no more than a small multiple of the frame.
    ///
    /// # Errors
    ///
    /// [`ReadProblem::TooManyElements`]; [`ReadProblem::NegativeLength`] below -1; a malformed length.
    pub fn nullable_array_length(
        &mut self,
        flexible: bool,
        element_bytes: usize,
    ) -> Result<Option<usize>, ReadError> {
        let start = self.position;
        let count = self.raw_length(flexible)?;
        if count == -1 {
            return Ok(None);
        }
        let remaining = self.remaining();
        match usize::try_from(count) {
            Ok(elements) if elements <= remaining / element_bytes.max(1) => Ok(Some(elements)),
            Ok(_) => Err(ReadError::new(
                start,
                ReadProblem::TooManyElements { count: count.unsigned_abs(), remaining },
            )),
            Err(_) => Err(ReadError::new(start, ReadProblem::NegativeLength(count))),
        }
    }

    /// An array that may not be null, its elements read by `read` and each at least `element_bytes` long.
    ///
    /// # Errors
    ///
    /// As [`Reader::array_length`], and what `read` returns.
    pub fn elements<T>(
        &mut self,
        flexible: bool,
        element_bytes: usize,
        read: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let start = self.position;
        self.nullable_elements(flexible, element_bytes, read)?
            .ok_or(ReadError::new(start, ReadProblem::UnexpectedNull))
    }

    /// An array or null, its elements read by `read` and each at least `element_bytes` long.
    ///
    /// # Errors
    ///
    /// As [`Reader::nullable_array_length`], and what `read` returns.
    pub fn nullable_elements<T>(
        &mut self,
        flexible: bool,
        element_bytes: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Option<Vec<T>>, ReadError> {
        let Some(count) = self.nullable_array_length(flexible, element_bytes)? else {
            return Ok(None);
        };
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(Some(elements))
    }

    /// Reads the section of tagged fields, if the version has one. `known` is called with each tag and the reader at
    /// its value; it returns whether it knows the tag and has read the value. Unknown ones are stepped over.
    ///
    /// # Errors
    ///
    /// Tags out of order, a known value that does not fill its declared size exactly, and what `known` returns.
    pub fn tags(
        &mut self,
        flexible: bool,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        if !flexible {
            return Ok(());
        }
        let count = self.unsigned_varint()?;
        let mut next_tag = 0_u64;
        for _ in 0..count {
            let (tag, size) = self.tag_header(&mut next_tag)?;
            let start = self.position;
            // The value sees only its own bytes, so that it cannot read into what follows.
            let mut value = Self { bytes: self.bytes.slice(..start + size), position: start };
            if known(&mut value, tag)? {
                let read = value.position - start;
                if read != size {
                    let problem = ReadProblem::TaggedFieldSize { tag, declared: size, read };
                    return Err(value.error(problem));
                }
            }
            self.position = start + size;
        }
        Ok(())
    }

    /// Steps over the section of tagged fields, if the version has one.
    ///
    /// # Errors
    ///
    /// As [`Reader::tags`].
    pub fn skip_tags(&mut self, flexible: bool) -> Result<(), ReadError> {
        self.tags(flexible, |_, _| Ok(false))
    }

    /// Tag and size of the next tagged field; the size lies within what is left. `next_tag` is the lowest tag that
    /// may follow and is moved on.
    pub(crate) fn tag_header(&mut self, next_tag: &mut u64) -> Result<(u32, usize), ReadError> {
        let start = self.position;
        let tag = self.unsigned_varint()?;
        if u64::from(tag) < *next_tag {
            return Err(ReadError::new(start, ReadProblem::TagOutOfOrder(tag)));
        }
        *next_tag = u64::from(tag) + 1;
        let size_at = self.position;
        let size = i64::from(self.unsigned_varint()?);
        let size = self.length_within(size_at, size)?.unwrap_or_default();
        Ok((tag, size))
    }

    /// An error at the present position.
    #[must_use]
    pub const fn error(&self, problem: ReadProblem) -> ReadError {
        ReadError::new(self.position, problem)
    }

    /// The bytes between two positions already passed.
    pub(crate) fn passed(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Length of bytes or of an array; -1 is null.
    fn raw_length(&mut self, flexible: bool) -> Result<i64, ReadError> {
        if flexible {
            Ok(i64::from(self.unsigned_varint()?) - 1)
        } else {
            Ok(i64::from(self.i32()?))
        }
    }

    fn length_within(&self, start: usize, length: i64) -> Result<Option<usize>, ReadError> {
        if length == -1 {
            return Ok(None);
        }
        let remaining = self.remaining();
        match usize::try_from(length) {
            Ok(length) if length <= remaining => Ok(Some(length)),
            Ok(length) => Err(ReadError::new(
                start,
                ReadProblem::Truncated { needed: length as u64, remaining },
            )),
            Err(_) => Err(ReadError::new(start, ReadProblem::NegativeLength(length))),
        }
    }

    fn check(&self, length: usize) -> Result<(), ReadError> {
        let remaining = self.remaining();
        if length <= remaining {
            Ok(())
        } else {
            Err(self.error(ReadProblem::Truncated { needed: length as u64, remaining }))
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        match self.bytes.get(self.position..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(bytes) => {
                let bytes = *bytes;
                self.position += N;
                Ok(bytes)
            }
            None => Err(self
                .error(ReadProblem::Truncated { needed: N as u64, remaining: self.remaining() })),
        }
    }
}

const MAX_VARINT_BYTES: usize = 5;
