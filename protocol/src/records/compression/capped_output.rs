//! Output of a decoder: grows as needed, up to a cap.

use bytes::BytesMut;

use super::DecompressError;

/// Where decoders write. The bytes before `filled` are decoded, those after it are scratch.
#[derive(Debug)]
pub(super) struct CappedOutput<'a> {
    bytes: &'a mut BytesMut,
    filled: usize,
    expected: usize,
    limit: usize,
}

impl<'a> CappedOutput<'a> {
    /// An output of at most `limit` bytes in `bytes`, whose present contents are scratch. `expected`
    /// sizes the first step and may be wrong.
    pub(super) const fn new(bytes: &'a mut BytesMut, expected: usize, limit: usize) -> Self {
        Self { bytes, filled: 0, expected, limit }
    }

    /// Bytes decoded so far.
    pub(super) const fn filled(&self) -> usize {
        self.filled
    }

    /// What the stream may still produce.
    pub(super) const fn allowance(&self) -> usize {
        self.limit.saturating_sub(self.filled)
    }

    /// The error for a stream that exceeds the cap.
    pub(super) const fn too_large(&self) -> DecompressError {
        DecompressError::TooLarge { limit_bytes: self.limit }
    }

    /// A non-empty slice to write a part of the stream to, for decoders that do not know their
    /// size. Report what was written with [`CappedOutput::advance`].
    ///
    /// The slice may reach one byte past the cap: only a decoder that fills this byte shows that
    /// its stream is larger than the cap and does not just fill it.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        if self.bytes.len() <= self.filled {
            let doubled = self.filled.saturating_mul(2).max(self.expected).max(FIRST_STEP_BYTES);
            self.grow(doubled.min(self.limit.saturating_add(1)));
        }
        // Memory that is used again may be larger than this output may become.
        let end = self.bytes.len().min(self.limit.saturating_add(1));
        self.bytes.get_mut(self.filled..end).unwrap_or_default()
    }

    /// Makes the next [`CappedOutput::spare`] larger than the last, for decoders that need all of it at once; false if it
    /// was as large as the cap allows.
    pub(super) fn enlarge(&mut self) -> bool {
        let largest = self.limit.saturating_add(1);
        if self.bytes.len() >= largest {
            return false;
        }
        self.grow(self.bytes.len().saturating_mul(2).min(largest));
        true
    }

    /// Takes `written` bytes of the last slice as output.
    pub(super) fn advance(&mut self, written: usize) -> Result<(), DecompressError> {
        self.filled = self.filled.saturating_add(written);
        if self.filled > self.limit { Err(self.too_large()) } else { Ok(()) }
    }

    /// A slice of exactly `size` bytes, all of which the caller will write; for decoders that know
    /// their size. It counts as written.
    pub(super) fn block(&mut self, size: usize) -> Result<&mut [u8], DecompressError> {
        if size > self.allowance() {
            return Err(self.too_large());
        }
        let start = self.filled;
        self.filled += size;
        self.reserve_to(self.filled);
        Ok(self.bytes.get_mut(start..self.filled).unwrap_or_default())
    }

    /// What has been written, and a slice of at most `size` bytes to go on, shorter at the cap.
    /// Report what was written with [`CappedOutput::advance`].
    pub(super) fn history_and_spare(&mut self, size: usize) -> (&[u8], &mut [u8]) {
        let end = self.filled + size.min(self.allowance());
        self.reserve_to(end);
        let (history, spare) = self.bytes.split_at_mut(self.filled);
        (history, spare.get_mut(..end - self.filled).unwrap_or_default())
    }

    /// How many bytes were decoded: the front of the memory.
    pub(super) const fn finish(self) -> usize {
        self.filled
    }

    /// Has at least `end` bytes, and room to spare if the stream goes on block by block.
    fn reserve_to(&mut self, end: usize) {
        if self.bytes.len() < end {
            let doubled = self.bytes.len().saturating_mul(2).max(self.expected);
            self.grow(doubled.clamp(end, self.limit.max(end)));
        }
    }

    fn grow(&mut self, len: usize) {
        // Zeroes the new part: safe code cannot hand out memory nobody has written to.
        self.bytes.resize(len, 0);
    }
}

/// Smallest output reserved; a few records fit.
const FIRST_STEP_BYTES: usize = 4096;
