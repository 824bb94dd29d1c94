//! Writing a frame: one growing buffer for everything but record bytes, which are handed through untouched.

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::EncodeError;

/// A frame ready for the socket: write the chunks one after the other (a vectored write does it in one call).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedFrame {
    /// The first chunk starts with the frame's size (32 bits, not counting itself). No chunk is empty.
    pub chunks: Vec<Bytes>,
}

impl EncodedFrame {
    /// Bytes of all chunks together, the size field included.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// All chunks as one, by copying. For tests and for peers within the process.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self.chunks.as_slice() {
            [only] => only.clone(),
            chunks => {
                let mut joined = BytesMut::with_capacity(self.byte_len());
                for chunk in chunks {
                    joined.extend_from_slice(chunk);
                }
                joined.freeze()
            }
        }
    }
}

/// Writes one frame. Starts with room for the size; [`Writer::finish`] fills it in.
#[derive(Debug)]
pub struct Writer {
    buffer: BytesMut,
    /// Record bytes, and where in `buffer` they belong.
    splices: Vec<(usize, Bytes)>,
    spliced_bytes: usize,
}

impl Writer {
    /// A writer that has reserved `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(capacity + SIZE_BYTES);
        buffer.put_i32(0);
        Self { buffer, splices: Vec::new(), spliced_bytes: 0 }
    }

    /// The buffer, for an encoder that writes into a [`BytesMut`].
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// A boolean, one byte.
    pub fn bool(&mut self, value: bool) {
        self.buffer.put_u8(u8::from(value));
    }

    /// A signed byte.
    pub fn i8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    /// 16 bits, big-endian.
    pub fn i16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    /// 32 bits, big-endian.
    pub fn i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    /// 64 bits, big-endian.
    pub fn i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    /// The 16 bytes of a UUID.
    pub fn uuid(&mut self, value: [u8; 16]) {
        self.buffer.put_slice(&value);
    }

    /// An unsigned varint, seven bits a byte, lowest first.
    pub fn unsigned_varint(&mut self, value: u32) {
        let mut rest = value;
        while rest >= 0x80 {
            self.buffer.put_u8((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.buffer.put_u8(rest as u8);
    }

    /// A string; `flexible` selects the compact length.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] above 32,767 bytes, which Kafka allows in no form.
    pub fn string(&mut self, text: &str, flexible: bool) -> Result<(), EncodeError> {
        self.nullable_string(Some(text), flexible)
    }

    /// A string or null; `flexible` selects the compact length.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] above 32,767 bytes, which Kafka allows in no form.
    pub fn nullable_string(
        &mut self,
        text: Option<&str>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        let length = match text {
            Some(text) => i16::try_from(text.len())
                .map_err(|_| EncodeError::TooLarge { bytes: text.len() })?,
            None => -1,
        };
        if flexible {
            self.unsigned_varint((i32::from(length) + 1) as u32);
        } else {
            self.i16(length);
        }
        if let Some(text) = text {
            self.buffer.put_slice(text.as_bytes());
        }
        Ok(())
    }

    /// The length of an array, `None` for null; `flexible` selects the compact form.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] above 2,147,483,647 elements.
    pub fn array_length(
        &mut self,
        length: Option<usize>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        let length = match length {
            Some(length) => {
                i32::try_from(length).map_err(|_| EncodeError::TooLarge { bytes: length })?
            }
            None => -1,
        };
        if flexible {
            self.unsigned_varint((i64::from(length) + 1) as u32);
        } else {
            self.i32(length);
        }
        Ok(())
    }

    /// Length-prefixed bytes that become a chunk of their own and are not copied.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] above 2,147,483,647 bytes.
    pub fn spliced_bytes(&mut self, bytes: Bytes, flexible: bool) -> Result<(), EncodeError> {
        self.array_length(Some(bytes.len()), flexible)?;
        if !bytes.is_empty() {
            self.spliced_bytes += bytes.len();
            self.splices.push((self.buffer.len(), bytes));
        }
        Ok(())
    }

    /// An empty section of tagged fields, if the version has one.
    pub fn no_tags(&mut self, flexible: bool) {
        if flexible {
            self.buffer.put_u8(0);
        }
    }

    /// One tagged field: `write` writes its value, which is then prefixed by its size.
    ///
    /// # Errors
    ///
    /// What `write` returns, and [`EncodeError::TooLarge`] for a value beyond 32 bits.
    pub fn tagged(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut value = Self { buffer: BytesMut::new(), splices: Vec::new(), spliced_bytes: 0 };
        write(&mut value)?;
        debug_assert!(value.splices.is_empty(), "record bytes never live in a tagged field");
        let size = value.buffer.len();
        self.unsigned_varint(tag);
        self.unsigned_varint(
            u32::try_from(size).map_err(|_| EncodeError::TooLarge { bytes: size })?,
        );
        self.buffer.put_slice(&value.buffer);
        Ok(())
    }

    /// What was written, without a frame around it: for bytes that travel inside another message's field.
    pub(crate) fn into_embedded(mut self) -> Bytes {
        self.buffer.split_off(SIZE_BYTES).freeze()
    }

    /// The frame, its size filled in.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] if the frame's size does not fit 31 bits.
    pub fn finish(mut self) -> Result<EncodedFrame, EncodeError> {
        let bytes = self.buffer.len() + self.spliced_bytes - SIZE_BYTES;
        let size = i32::try_from(bytes).map_err(|_| EncodeError::TooLarge { bytes })?;
        if let Some(place) = self.buffer.first_chunk_mut::<SIZE_BYTES>() {
            *place = size.to_be_bytes();
        }
        let mut rest = self.buffer.freeze();
        let mut chunks = Vec::with_capacity(self.splices.len() * 2 + 1);
        let mut written = 0;
        for (position, bytes) in self.splices {
            if position > written {
                chunks.push(rest.split_to(position - written));
                written = position;
            }
            chunks.push(bytes);
        }
        if !rest.is_empty() {
            chunks.push(rest);
        }
        Ok(EncodedFrame { chunks })
    }
}

const SIZE_BYTES: usize = 4;
