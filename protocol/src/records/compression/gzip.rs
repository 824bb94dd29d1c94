//! Gzip, of one or many members.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use super::{CappedOutput, DecompressError};

/// Decodes all members of `input`, checking each one's CRC-32 and size.
pub(super) fn decompress(
    input: &[u8],
    output: &mut CappedOutput<'_>,
) -> Result<(), DecompressError> {
    let mut decoder = MultiGzDecoder::new(input);
    loop {
        let written = decoder.read(output.spare()).map_err(DecompressError::corrupt)?;
        if written == 0 {
            return Ok(());
        }
        output.advance(written)?;
    }
}
