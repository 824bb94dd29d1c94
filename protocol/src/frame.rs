//! Cutting a byte stream into frames: a 32 bit size, then that many bytes.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// Collects bytes from a socket and hands out whole frames (without their size).
///
/// The size is checked before room for the frame is reserved, and a size alone is not believed far: room beyond
/// [`EAGER_BYTES`] is made as bytes arrive, at most doubling, unless the peer has sent frames of about that size before. A
/// byte is copied at most once on its way in: not at all if the driver reads into [`FrameDecoder::read_buffer`], save the
/// first bytes of a frame (fewer than [`READ_BYTES`]) that came in one read with the end of another, and the first frames
/// above [`EAGER_BYTES`]. Frames are slices of the read buffer: keep what must live long as a copy.
///
/// The memory of large frames is used again once nobody holds a slice of them: fresh memory would be faulted in page by
/// page while the kernel copies into it, which costs more than the copy.
#[derive(Debug)]
pub struct FrameDecoder {
    max_frame_bytes: usize,
    buffer: BytesMut,
    /// The largest frame that came whole: so much the peer has shown that it does send.
    largest_frame_bytes: usize,
    /// Large frames that were handed out, for their memory.
    lent: VecDeque<Bytes>,
}

impl FrameDecoder {
    /// A decoder that refuses frames above `max_frame_bytes` (the size field not counted). It must be at least the
    /// largest batch of any topic read: a broker sends a batch whole, whatever `fetch.max.bytes` says (KIP-74).
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        Self {
            max_frame_bytes,
            buffer: BytesMut::new(),
            largest_frame_bytes: 0,
            lent: VecDeque::new(),
        }
    }

    /// Where the driver should read to: has room for [`READ_BYTES`] at least, and for the rest of the present frame as far
    /// as its size is believed; between frames, for one as large as those before. Call [`FrameDecoder::next_frame`]
    /// until it returns `None` or an error after every read.
    pub fn read_buffer(&mut self) -> &mut BytesMut {
        let (missing, believed) = (self.missing_bytes(), self.believed_bytes());
        let mut wanted = missing.min(believed).max(READ_BYTES);
        // A frame moves as it is believed, twice as far each time: not before its room is used up.
        let mut least = if missing > believed { READ_BYTES } else { wanted };
        if self.buffer.is_empty()
            && let Some(largest) = self.lent.iter().map(Bytes::len).max()
        {
            wanted = wanted.max(largest + SIZE_BYTES);
            least = wanted;
        }
        if !self.buffer.try_reclaim(least) {
            self.make_room(wanted);
        }
        &mut self.buffer
    }

    /// Takes `bytes` in, by copying them.
    pub fn push(&mut self, bytes: &[u8]) {
        let missing = self.missing_bytes().min(self.believed_bytes());
        if missing > bytes.len() {
            self.buffer.reserve(missing);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes `bytes` in, without a copy if nothing is buffered and nobody else holds them.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        if self.buffer.is_empty() {
            match bytes.try_into_mut() {
                Ok(bytes) => self.buffer = bytes,
                Err(bytes) => self.push(&bytes),
            }
        } else {
            self.push(&bytes);
        }
    }

    /// The next whole frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// [`FrameError`] for a size that no Kafka peer would send. The stream is lost: every further call answers the
    /// same error.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(size) = self.frame_size()? else { return Ok(None) };
        if self.buffer.len() - SIZE_BYTES < size {
            return Ok(None);
        }
        self.largest_frame_bytes = self.largest_frame_bytes.max(size);
        self.buffer.advance(SIZE_BYTES);
        let frame = self.buffer.split_to(size).freeze();
        if size >= READ_BYTES {
            self.lend(&frame);
        }
        Ok(Some(frame))
    }

    /// Bytes received and not yet handed out. Not zero at the end of the stream means that it was cut inside a frame.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Moves to memory with room for `wanted` more bytes: such that has come back, or fresh one.
    fn make_room(&mut self, wanted: usize) {
        let begun = std::mem::take(&mut self.buffer);
        let needed = begun.len().saturating_add(wanted);
        if self.lent.is_empty() && needed <= 2 * READ_BYTES {
            // Small answers only, so far.
            self.buffer = begun;
            self.buffer.reserve(wanted);
            return;
        }
        // Without contents it would only hold on to the memory of the frames before.
        let begun = if begun.is_empty() { Bytes::new() } else { begun.freeze() };
        self.buffer = self.returned(needed).unwrap_or_else(|| {
            // In steps, or the next frame would often be just a little too large for this one's memory.
            BytesMut::with_capacity(needed.checked_next_multiple_of(STEP_BYTES).unwrap_or(needed))
        });
        self.buffer.extend_from_slice(&begun);
    }

    /// Memory of `needed` bytes or more that nobody holds any more.
    fn returned(&mut self, needed: usize) -> Option<BytesMut> {
        let at = self.lent.iter().position(|frame| frame.is_unique())?;
        let mut memory = self.lent.remove(at)?.try_into_mut().ok()?;
        memory.clear();
        memory.try_reclaim(needed).then_some(memory)
    }

    /// Remembers a frame for its memory. Of what has come back already, one is enough.
    fn lend(&mut self, frame: &Bytes) {
        let mut returned = 0;
        self.lent.retain(|lent| {
            returned += usize::from(lent.is_unique());
            returned <= 1 || !lent.is_unique()
        });
        self.lent.push_back(frame.clone());
        let mut bytes: usize = self.lent.iter().map(Bytes::len).sum();
        while bytes > LENT_BYTES {
            let Some(oldest) = self.lent.pop_front() else { break };
            bytes -= oldest.len();
        }
    }

    fn frame_size(&self) -> Result<Option<usize>, FrameError> {
        let Some(size) = self.buffer.first_chunk::<SIZE_BYTES>() else { return Ok(None) };
        match usize::try_from(i32::from_be_bytes(*size)) {
            Ok(bytes) if bytes <= self.max_frame_bytes => Ok(Some(bytes)),
            _ => Err(FrameError::of_size(*size, self.max_frame_bytes)),
        }
    }

    /// How much room may be made at once for bytes that a size announces.
    fn believed_bytes(&self) -> usize {
        EAGER_BYTES.max(2 * self.largest_frame_bytes).max(self.buffer.len())
    }

    /// Bytes that the present frame still lacks; 0 if its size is unknown or refused.
    fn missing_bytes(&self) -> usize {
        match self.frame_size() {
            Ok(Some(size)) => (size + SIZE_BYTES).saturating_sub(self.buffer.len()),
            Ok(None) | Err(_) => 0,
        }
    }
}

/// The bytes are not a stream of Kafka frames (a signed 32 bit size, then so many bytes). Close the connection; a retry to
/// the same port will not help.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The peer answered like a web server.
    #[error(
        "the peer answered in HTTP, not in Kafka's protocol: the address is a web server, a proxy or a REST \
         endpoint; use a broker's listener address (often port 9092)"
    )]
    HttpResponse,
    /// The peer spoke like a web client.
    #[error(
        "the peer sent an HTTP request, not Kafka's protocol: something (a health check, a browser) uses this port \
         as a web server"
    )]
    HttpRequest,
    /// The peer refused a plaintext connection with a TLS alert.
    #[error(
        "the peer answered with a TLS alert: its listener expects TLS and this connection is plaintext; set \
         security.protocol to SSL or SASL_SSL, or use the plaintext listener's port"
    )]
    TlsAlert,
    /// The peer opened a TLS handshake on a plaintext connection.
    #[error(
        "the peer sent a TLS handshake and this listener is plaintext; use security.protocol PLAINTEXT or \
         SASL_PLAINTEXT, or the TLS listener's port"
    )]
    TlsHandshake,
    /// A size below zero.
    #[error(
        "frame size {size} is negative: the peer does not speak Kafka's protocol or the stream is corrupt"
    )]
    NegativeSize {
        /// The size as sent.
        size: i32,
    },
    /// A size above the limit.
    #[error(
        "frame of {bytes} bytes is above the limit of {max_frame_bytes}: raise max.response.frame.bytes above the \
         topics' max.message.bytes and fetch.max.bytes, or check that the peer is a Kafka broker"
    )]
    TooLarge {
        /// The size as sent.
        bytes: usize,
        /// The limit.
        max_frame_bytes: usize,
    },
}

impl FrameError {
    /// Names what the four bytes that were taken for a size really are.
    fn of_size(size: [u8; SIZE_BYTES], max_frame_bytes: usize) -> Self {
        match &size {
            b"HTTP" | b"<!DO" | b"<!do" | b"<htm" | b"<HTM" => Self::HttpResponse,
            b"GET " | b"HEAD" | b"POST" | b"PUT " | b"OPTI" | b"PRI " => Self::HttpRequest,
            // A TLS record starts with its type, then the protocol version, whose first byte is 3 since SSL 3.
            [TLS_ALERT, 3, ..] => Self::TlsAlert,
            [TLS_HANDSHAKE, 3, ..] => Self::TlsHandshake,
            _ => match i32::from_be_bytes(size) {
                size @ ..0 => Self::NegativeSize { size },
                size => Self::TooLarge { bytes: size.unsigned_abs() as usize, max_frame_bytes },
            },
        }
    }
}

/// Room the decoder offers for a read when it knows of no larger frame.
pub const READ_BYTES: usize = 64 * 1024;

/// Room the decoder makes for a frame of which nothing but its size has come. Most answers fit at once, large fetches from
/// the second on.
pub const EAGER_BYTES: usize = 1 << 20;
/// Memory for large frames is taken in multiples of this.
const STEP_BYTES: usize = 256 * 1024;
/// Frames are remembered for their memory up to this many bytes; most of them are still held by readers.
const LENT_BYTES: usize = 16 * 1024 * 1024;

const SIZE_BYTES: usize = 4;
const TLS_ALERT: u8 = 0x15;
const TLS_HANDSHAKE: u8 = 0x16;

#[cfg(test)]
mod tests;
