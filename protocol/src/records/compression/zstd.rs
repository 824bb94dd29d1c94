//! Zstandard, of one or many frames.

use std::fmt;

use zstd::zstd_safe::{DCtx, get_error_name, get_frame_content_size};

use super::{CappedOutput, DecompressError};

/// A decoder whose context lives from batch to batch; making one costs more than a small batch.
///
/// Frames are decoded at once, straight into the output. A decoder that reads a stream would keep a
/// window of its own, as large as the frame's first bytes ask for: 128 MiB for a batch of a few bytes.
#[derive(Default)]
pub(super) struct ZstdDecoder {
    context: Option<DCtx<'static>>,
}

impl ZstdDecoder {
    /// Decodes all frames of `input`.
    pub(super) fn decompress(
        &mut self,
        input: &[u8],
        output: &mut CappedOutput<'_>,
    ) -> Result<(), DecompressError> {
        // Java's writer streams and declares no size; for those who do, a lie ends here.
        if let Ok(Some(size)) = get_frame_content_size(input)
            && size > output.allowance() as u64
        {
            return Err(output.too_large());
        }
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(
                DCtx::try_create()
                    .ok_or_else(|| DecompressError::corrupt("zstd is out of memory"))?,
            ),
        };
        // What a byte can become, so that damage does not cost the memory of a bomb.
        let possible = input.len().saturating_mul(MAX_EXPANSION);
        loop {
            let room = output.spare();
            let size = room.len();
            match context.decompress(room, input) {
                Ok(written) => return output.advance(written),
                Err(TOO_SMALL) if size <= possible && output.enlarge() => {}
                Err(TOO_SMALL) if size <= possible => return Err(output.too_large()),
                Err(code) => return Err(corrupt(code)),
            }
        }
    }

    /// Memory that lives from batch to batch.
    #[cfg(test)]
    pub(super) fn context_bytes(&self) -> usize {
        self.context.as_ref().map_or(0, DCtx::sizeof)
    }
}

impl fmt::Debug for ZstdDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZstdDecoder").finish_non_exhaustive()
    }
}

fn corrupt(code: usize) -> DecompressError {
    DecompressError::corrupt(format_args!("zstd: {}", get_error_name(code)))
}

/// How zstd says that the output does not fit: `ZSTD_error_dstSize_tooSmall`, as it returns errors.
const TOO_SMALL: usize = 0_usize.wrapping_sub(70);
/// A block of 128 KiB of one byte takes four bytes (RFC 8878, section 3.1.1.2.2).
const MAX_EXPANSION: usize = 32 * 1024;
