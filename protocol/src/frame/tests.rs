//! Frames cut from every chunking, and the streams that are not Kafka's.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;

use super::{EAGER_BYTES, FrameDecoder, FrameError, READ_BYTES};

fn decoder_after(bytes: &[u8]) -> FrameDecoder {
    let mut decoder = FrameDecoder::new(1024);
    decoder.push(bytes);
    decoder
}

#[test]
fn size_is_not_part_of_the_frame() {
    let mut decoder = decoder_after(&[0, 0, 0, 2, 7, 8, 0, 0]);
    assert_eq!(decoder.next_frame(), Ok(Some(Bytes::from_static(&[7, 8]))));
    assert_eq!(decoder.next_frame(), Ok(None));
    assert_eq!(decoder.buffered_bytes(), 2);
}

#[test]
fn streams_that_are_not_kafka_are_named() {
    let cases: [(&[u8], FrameError); 6] = [
        (b"HTTP/1.1 400 Bad Request\r\n", FrameError::HttpResponse),
        (b"GET / HTTP/1.1\r\n", FrameError::HttpRequest),
        (&[0x15, 3, 1, 0, 2, 2, 70], FrameError::TlsAlert),
        (&[0x16, 3, 1, 2, 0, 1], FrameError::TlsHandshake),
        (&[0xff, 0xff, 0xff, 0xfe], FrameError::NegativeSize { size: -2 }),
        (&[0, 0, 4, 1], FrameError::TooLarge { bytes: 1025, max_frame_bytes: 1024 }),
    ];
    for (bytes, error) in cases {
        let mut decoder = decoder_after(bytes);
        assert_eq!(decoder.next_frame(), Err(error.clone()));
        decoder.push(&[0; 16]);
        assert_eq!(decoder.next_frame(), Err(error), "a lost stream stays lost");
    }
}

#[test]
fn refused_size_reserves_nothing() {
    let mut decoder = FrameDecoder::new(usize::MAX >> 1);
    decoder.push(&[0xff, 0, 0, 0]);
    assert!(decoder.read_buffer().capacity() < 2 * READ_BYTES);
    let mut decoder = FrameDecoder::new(1 << 20);
    decoder.push(&[0x7f, 0xff, 0xff, 0xff]);
    assert!(decoder.read_buffer().capacity() < 2 * READ_BYTES);
}

#[test]
fn large_frame_is_read_in_place() {
    let mut decoder = FrameDecoder::new(1 << 20);
    decoder.read_buffer().put_slice(&[0, 8, 0, 0]);
    assert_eq!(decoder.next_frame(), Ok(None));
    let place = decoder.read_buffer();
    assert!(place.capacity() - place.len() >= 0x8_0000);
    let address = place.as_ptr();
    place.put_bytes(1, 0x8_0000);
    let frame = decoder.next_frame().expect("size is legal").expect("frame is whole");
    assert_eq!(frame.len(), 0x8_0000);
    assert_eq!(frame.as_ptr(), address.wrapping_add(4));
}

fn large_frame(decoder: &mut FrameDecoder) -> Bytes {
    decoder.read_buffer().put_slice(&[0, 8, 0, 0]);
    assert_eq!(decoder.next_frame(), Ok(None));
    decoder.read_buffer().put_bytes(1, 0x8_0000);
    decoder.next_frame().expect("size is legal").expect("frame is whole")
}

#[test]
fn memory_of_large_frames_is_used_again_once_nobody_holds_it() {
    let mut decoder = FrameDecoder::new(1 << 20);
    let first = large_frame(&mut decoder);
    let place = first.as_ptr().addr();
    let kept = first.slice(100..200);
    drop(first);
    let second = large_frame(&mut decoder);
    assert_ne!(second.as_ptr().addr(), place, "a slice of the first is still held");
    drop(kept);
    let third = large_frame(&mut decoder);
    assert!(third.as_ptr().addr().abs_diff(place) < 64, "the first one's memory");
    drop((second, third));
    for _ in 0..100 {
        large_frame(&mut decoder);
        assert!(decoder.lent.len() <= 3, "what is not needed is not kept");
    }
}

#[test]
fn frames_behind_a_large_one_are_not_lost() {
    let mut decoder = FrameDecoder::new(1 << 20);
    for round in 0..5_u8 {
        let place = decoder.read_buffer();
        place.put_slice(&[0, 1, 0, 0]);
        place.put_bytes(round, 30_000);
        assert_eq!(decoder.next_frame(), Ok(None));
        let place = decoder.read_buffer();
        place.put_bytes(round, 0x1_0000 - 30_000);
        place.put_slice(&[0, 0, 0, 3, 7, 8]);
        let large = decoder.next_frame().expect("size is legal").expect("frame is whole");
        assert!(large.len() == 0x1_0000 && large.iter().all(|byte| *byte == round));
        assert_eq!(decoder.next_frame(), Ok(None));
        decoder.read_buffer().put_slice(&[9]);
        let small = decoder.next_frame().expect("size is legal").expect("frame is whole");
        assert_eq!(small, Bytes::from_static(&[7, 8, 9]));
    }
}

#[test]
fn a_size_alone_takes_little_memory_and_bytes_earn_more() {
    let mut decoder = FrameDecoder::new(128 << 20);
    decoder.read_buffer().put_slice(&[0x07, 0, 0, 0]);
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.read_buffer().capacity() < 2 * EAGER_BYTES + READ_BYTES);
    let mut arrived = 4;
    while arrived < 10 << 20 {
        let place = decoder.read_buffer();
        assert!(place.capacity() <= 2 * EAGER_BYTES.max(2 * arrived) + READ_BYTES);
        place.put_bytes(1, READ_BYTES);
        arrived += READ_BYTES;
        assert_eq!(decoder.next_frame(), Ok(None));
    }
}

#[test]
fn a_peer_that_sends_large_frames_has_the_next_one_read_in_place() {
    let mut decoder = FrameDecoder::new(128 << 20);
    let size = 5 << 20;
    for _ in 0..3 {
        decoder.read_buffer().put_i32(5 << 20);
        assert_eq!(decoder.next_frame(), Ok(None));
        let mut missing = size;
        while missing > 0 {
            let place = decoder.read_buffer();
            let room = missing.min(place.capacity() - place.len());
            place.put_bytes(1, room);
            missing -= room;
        }
        let frame = decoder.next_frame().expect("size is legal").expect("frame is whole");
        assert_eq!(frame.len(), size);
    }
    decoder.read_buffer().put_i32(5 << 20);
    let place = decoder.read_buffer();
    assert!(place.capacity() - place.len() >= size, "room for all of it at once");
}

/// Each move copies what there is: a move a read would copy the frame again and again.
#[test]
fn a_first_large_frame_moves_as_often_as_its_size_doubles() {
    let mut decoder = FrameDecoder::new(128 << 20);
    let size = 50 << 20;
    decoder.read_buffer().put_i32(size);
    let (mut missing, mut moves, mut place) = (usize::try_from(size).expect("positive"), 0, 0);
    while missing > 0 {
        assert_eq!(decoder.next_frame(), Ok(None));
        let buffer = decoder.read_buffer();
        moves += usize::from(buffer.as_ptr().addr() != place);
        place = buffer.as_ptr().addr();
        let read = missing.min(100_000).min(buffer.capacity() - buffer.len());
        buffer.put_bytes(1, read);
        missing -= read;
    }
    let frame = decoder.next_frame().expect("size is legal").expect("frame is whole");
    assert!(frame.iter().all(|byte| *byte == 1));
    assert!(moves <= 8, "{moves} moves");
}

#[test]
fn owned_bytes_are_taken_without_a_copy() {
    let mut bytes = BytesMut::new();
    bytes.put_slice(&[0, 0, 0, 3, 1, 2, 3]);
    let bytes = bytes.freeze();
    let address = bytes.as_ptr();
    let mut decoder = FrameDecoder::new(1024);
    decoder.push_bytes(bytes);
    let frame = decoder.next_frame().expect("size is legal").expect("frame is whole");
    assert_eq!(frame.as_ptr(), address.wrapping_add(4));
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_frames(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..12),
        cuts in prop::collection::vec(1..64_usize, 1..64),
        owned in any::<bool>(),
    ) {
        let mut stream = Vec::new();
        for frame in &frames {
            stream.extend_from_slice(&u32::try_from(frame.len()).expect("short").to_be_bytes());
            stream.extend_from_slice(frame);
        }
        let mut decoder = FrameDecoder::new(200);
        let mut decoded = Vec::new();
        let mut rest = stream.as_slice();
        for cut in cuts.iter().cycle() {
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            if owned { decoder.push_bytes(Bytes::copy_from_slice(chunk)) } else { decoder.push(chunk) }
            while let Some(frame) = decoder.next_frame().expect("sizes are legal") {
                decoded.push(frame.to_vec());
            }
            rest = after;
            if rest.is_empty() { break }
        }
        prop_assert_eq!(decoded, frames);
        prop_assert_eq!(decoder.buffered_bytes(), 0);
    }
}
