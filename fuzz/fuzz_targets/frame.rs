//! Any chunking of a stream gives the same frames, or the same error.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use millstream_protocol::frame::{FrameDecoder, FrameError};

fuzz_target!(|input: &[u8]| {
    let Some((&chunk, stream)) = input.split_first() else { return };
    let whole = frames(stream, stream.len().max(1));
    let chunked = frames(stream, usize::from(chunk).max(1));
    assert_eq!(whole, chunked);
});

fn frames(stream: &[u8], chunk: usize) -> (Vec<Bytes>, Option<FrameError>) {
    let mut decoder = FrameDecoder::new(64 * 1024);
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
