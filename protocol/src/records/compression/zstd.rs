//! Zstandard, of one or many frames.

use std::fmt;

use zstd::zstd_safe::{
    DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name, get_frame_content_size,
};

use super::{CappedOutput, DecompressError};

/// A decoder whose context lives from batch to batch; making one costs more than a small batch.
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
        let mut context = match self.context.take() {
            Some(context) => context,
            None => new_context()?,
        };
        let result = decompress_frames(&mut context, input, output);
        // A frame may ask for a window of up to 128 MiB; that much is not kept for the next batch.
        if context.sizeof() <= KEPT_CONTEXT_BYTES
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            self.context = Some(context);
        }
        result
    }
}

impl fmt::Debug for ZstdDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZstdDecoder").finish_non_exhaustive()
    }
}

fn new_context() -> Result<DCtx<'static>, DecompressError> {
    let mut context =
        DCtx::try_create().ok_or_else(|| DecompressError::corrupt("zstd is out of memory"))?;
    context.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG)).map_err(corrupt)?;
    Ok(context)
}

fn decompress_frames(
    context: &mut DCtx<'static>,
    input: &[u8],
    output: &mut CappedOutput<'_>,
) -> Result<(), DecompressError> {
    let mut source = InBuffer::around(input);
    let mut frame_is_open = false;
    while frame_is_open || source.pos() < input.len() {
        let spare = output.spare();
        let room = spare.len();
        let mut sink = OutBuffer::around(spare);
        let hint = context.decompress_stream(&mut sink, &mut source).map_err(corrupt)?;
        let written = sink.pos();
        output.advance(written)?;
        frame_is_open = hint != 0;
        if frame_is_open && source.pos() == input.len() && written < room {
            return Err(DecompressError::corrupt("zstd frame is cut"));
        }
    }
    Ok(())
}

fn corrupt(code: usize) -> DecompressError {
    DecompressError::corrupt(format_args!("zstd: {}", get_error_name(code)))
}

/// Largest window a frame may ask for: 128 MiB, what `zstd` itself accepts by default.
const MAX_WINDOW_LOG: u32 = 27;
/// A context for the windows of ordinary levels (8 MiB at level 19) stays below this.
const KEPT_CONTEXT_BYTES: usize = 16 * 1024 * 1024;
