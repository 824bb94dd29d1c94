//! Each codec against its own reference, and against bombs.

use std::io::Write;

use super::*;

const LIMITS: DecodeLimits = DecodeLimits { max_decompressed_batch_bytes: 1 << 20 };

fn decode(compression: Compression, input: &[u8]) -> Result<Bytes, DecompressError> {
    Decompressor::new().decompress(compression, input, &LIMITS)
}

fn encode(compression: Compression, input: &[u8]) -> Vec<u8> {
    let mut output = b"before".to_vec();
    Compressor::new(compression, None).compress(input, &mut output).unwrap();
    assert!(output.starts_with(b"before"));
    output.split_off(6)
}

/// Sizes around the block sizes of the codecs, in bytes that compress well and not at all.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for size in [0, 1, 13, 4096, 32 * 1024, 64 * 1024, 64 * 1024 + 1, 300_000] {
        samples.push(b"abcdefghij".iter().copied().cycle().take(size).collect());
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let noise = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        });
        samples.push(noise.take(size).collect());
    }
    samples
}

fn too_large() -> DecompressError {
    DecompressError::TooLarge { limit_bytes: 1 << 20 }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn lz4_frame(info: lz4_flex::frame::FrameInfo, data: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_codec_returns_what_it_was_given() {
    for compression in Compression::ALL {
        let mut decompressor = Decompressor::new();
        for sample in samples() {
            let encoded = encode(compression, &sample);
            let decoded = decompressor.decompress(compression, &encoded, &LIMITS);
            assert_eq!(decoded.unwrap(), sample, "{compression}, {} bytes", sample.len());
        }
    }
}

#[test]
fn output_up_to_the_limit_is_accepted_and_one_byte_more_is_not() {
    for compression in Compression::ALL {
        for (size, expected) in [(1 << 20, Ok(1 << 20)), ((1 << 20) + 1, Err(too_large()))] {
            let encoded = encode(compression, &vec![7; size]);
            let decoded = decode(compression, &encoded).map(|bytes| bytes.len());
            assert_eq!(decoded, expected, "{compression}, {size} bytes");
        }
    }
}

#[test]
fn bombs_that_declare_no_size_stop_at_the_limit() {
    let zeros = vec![0; 100 << 20];
    let stream = ::zstd::stream::encode_all(zeros.as_slice(), 1).unwrap();
    assert_eq!(decode(Compression::Zstd, &stream), Err(too_large()));
    assert_eq!(decode(Compression::Gzip, &gzip(&zeros)), Err(too_large()));
    let frame = lz4_frame(lz4_flex::frame::FrameInfo::new(), &zeros);
    assert_eq!(decode(Compression::Lz4, &frame), Err(too_large()));
}

#[test]
fn declared_sizes_are_compared_with_the_limit_first() {
    let mut zstd = ::zstd::bulk::compress(&vec![0; 10 << 20], 1).unwrap();
    zstd.truncate(20);
    assert_eq!(decode(Compression::Zstd, &zstd), Err(too_large()));

    let info = lz4_flex::frame::FrameInfo::new().content_size(Some(10 << 20));
    let mut lz4 = lz4_frame(info, &vec![0; 10 << 20]);
    lz4.truncate(20);
    assert_eq!(decode(Compression::Lz4, &lz4), Err(too_large()));

    let snappy = snap::raw::Encoder::new().compress_vec(&vec![0; 10 << 20]).unwrap();
    assert_eq!(decode(Compression::Snappy, &snappy), Err(too_large()));
}

#[test]
fn a_snappy_size_beyond_what_its_bytes_can_hold_is_a_lie() {
    // 0xffffffff as a varint, and nothing behind it.
    let error = decode(Compression::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap_err();
    assert_eq!(error.to_string(), "5 bytes of snappy cannot hold the declared 4294967295");
}

/// A decoder of streams would take what the window descriptor says: here 256 MiB, and 128 MiB.
#[test]
fn a_large_zstd_window_takes_no_memory() {
    for exponent in [18, 17] {
        // Frame header: no single segment, no content size. Then one raw block of a byte, the last.
        let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, exponent << 3, 0x09, 0x00, 0x00, b'x'];
        let mut decoder = zstd::ZstdDecoder::default();
        let mut bytes = BytesMut::new();
        let mut output = CappedOutput::new(&mut bytes, frame.len(), 1 << 20);
        decoder.decompress(&frame, &mut output).unwrap();
        let decoded = output.finish();
        assert_eq!(bytes.get(..decoded), Some(b"x".as_slice()));
        assert!(decoder.context_bytes() < 1 << 20, "{} bytes", decoder.context_bytes());
    }
}

/// An error about room must not make a few damaged bytes take all the room that a batch may have.
#[test]
fn damaged_zstd_takes_no_more_memory_than_its_bytes_could_fill() {
    let good = ::zstd::bulk::compress(&[b'x'; 300], 1).unwrap();
    for at in 4..good.len() {
        for bit in 0..8 {
            let mut damaged = good.clone();
            damaged[at] ^= 1 << bit;
            let mut bytes = BytesMut::new();
            let mut output = CappedOutput::new(&mut bytes, damaged.len(), 1 << 30);
            let _ = zstd::ZstdDecoder::default().decompress(&damaged, &mut output);
            assert!(bytes.capacity() <= 4 * 32 * 1024 * damaged.len());
        }
    }
}

#[test]
fn streams_put_one_after_another_are_decoded_to_the_end() {
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let mut encoded = encode(compression, b"first ");
        encoded.extend(encode(compression, b"second "));
        encoded.extend(encode(compression, b"third"));
        assert_eq!(decode(compression, &encoded).unwrap(), "first second third", "{compression}");
    }
}

#[test]
fn lz4_frames_decode_with_every_option() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameInfo};
    let sizes = [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB];
    for sample in samples() {
        for block_size in sizes {
            for block_mode in [BlockMode::Independent, BlockMode::Linked] {
                for checksums in [false, true] {
                    let info = FrameInfo::new()
                        .block_size(block_size)
                        .block_mode(block_mode)
                        .block_checksums(checksums)
                        .content_checksum(checksums)
                        .content_size(checksums.then_some(sample.len() as u64));
                    let frame = lz4_frame(info, &sample);
                    assert_eq!(decode(Compression::Lz4, &frame).unwrap(), sample);
                }
            }
        }
    }
}

#[test]
fn our_lz4_frames_decode_elsewhere() {
    for sample in samples() {
        let frame = encode(Compression::Lz4, &sample);
        let mut decoded = Vec::new();
        let mut decoder = lz4_flex::frame::FrameDecoder::new(frame.as_slice());
        std::io::Read::read_to_end(&mut decoder, &mut decoded).unwrap();
        assert_eq!(decoded, sample);
    }
}

#[test]
fn skippable_lz4_frames_are_skipped() {
    let mut encoded = vec![0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];
    encoded.extend(encode(Compression::Lz4, b"data"));
    assert_eq!(decode(Compression::Lz4, &encoded).unwrap(), "data");
}

#[test]
fn damage_to_an_lz4_frame_is_named() {
    let info = lz4_flex::frame::FrameInfo::new()
        .block_checksums(true)
        .content_size(Some(4))
        .block_size(lz4_flex::frame::BlockSize::Max64KB);
    let good = lz4_frame(info, b"data");
    let cases = [
        (0, 0xff, "lz4 frame has a wrong magic"),
        (4, 0x00, "lz4 frame has an unknown version"),
        (4, 0x61, "lz4 frame needs a dictionary"),
        (5, 0x10, "lz4 frame has an unknown block size"),
        (6, 0x05, "lz4 frame header checksum does not match"),
        (17, 0x01, "lz4 block is larger than its frame allows"),
        (19, b'x', "lz4 block checksum does not match"),
    ];
    for (at, byte, expected) in cases {
        let mut frame = good.clone();
        frame[at] = byte;
        assert_eq!(decode(Compression::Lz4, &frame).unwrap_err().to_string(), expected);
    }
}

#[test]
fn streams_cut_at_any_byte_are_an_error() {
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let encoded = encode(compression, b"some data, some data, some data");
        for cut in 1..encoded.len() {
            let decoded = decode(compression, &encoded[..cut]);
            // The framing of snappy-java has no end mark; its records are counted one level up.
            let is_whole_blocks = compression == Compression::Snappy && cut == 16;
            assert_eq!(decoded.is_err(), !is_whole_blocks, "{compression} at {cut}");
        }
    }
}

#[test]
fn levels_reach_the_codecs() {
    let mut state = 1_u64;
    let mut data = String::new();
    while data.len() < 100_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        data.push_str(
            ["order ", "shipped ", "price ", "42 ", "user-", "\n"][(state >> 40) as usize % 6],
        );
    }
    let data = data.as_bytes();
    for compression in [Compression::Gzip, Compression::Zstd] {
        let size = |level| {
            let mut output = Vec::new();
            Compressor::new(compression, Some(level)).compress(data, &mut output).unwrap();
            assert_eq!(decode(compression, &output).unwrap(), data);
            output.len()
        };
        assert!(size(9) < size(1), "{compression}");
    }
}

#[test]
fn an_error_leaves_the_decompressor_usable() {
    let mut decompressor = Decompressor::new();
    for compression in Compression::ALL.into_iter().skip(1) {
        let mut damaged = encode(compression, &[b'x'; 500]);
        damaged.truncate(damaged.len() - 2);
        assert!(decompressor.decompress(compression, &damaged, &LIMITS).is_err());
        let good = encode(compression, b"good");
        assert_eq!(decompressor.decompress(compression, &good, &LIMITS).unwrap(), "good");
    }
}
