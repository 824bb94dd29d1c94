//! Any chunking of a stream gives the same frames, or the same error; and room is made for what is there.

use bytes::Bytes;
use millstream_protocol::frame::{FrameDecoder, FrameError};

pub(super) fn frame(input: &[u8]) {
    let Some((&chunk, stream)) = input.split_first() else { return };
    let whole = frames(stream, stream.len().max(1));
    let chunked = frames(stream, usize::from(chunk).max(1));
    assert_eq!(whole, chunked);
    read_as_a_driver_does(stream);
}

fn frames(stream: &[u8], chunk: usize) -> (Vec<Bytes>, Option<FrameError>) {
    let mut decoder = FrameDecoder::new(MAX_FRAME_BYTES);
    let mut frames = Vec::new();
    for part in stream.chunks(chunk) {
        decoder.push(part);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// A size that is only claimed makes the decoder reserve no more than a first portion.
fn read_as_a_driver_does(stream: &[u8]) {
    let mut decoder = FrameDecoder::new(MAX_FRAME_BYTES);
    for byte in stream {
        let buffer = decoder.read_buffer();
        let spare = buffer.capacity() - buffer.len();
        assert!(spare >= 1);
        assert!(spare <= (4 << 20) + 4 * stream.len(), "{spare} bytes of room on a claim");
        buffer.extend_from_slice(&[*byte]);
        while let Ok(Some(_)) = decoder.next_frame() {}
    }
}

const MAX_FRAME_BYTES: usize = 128 << 20;
