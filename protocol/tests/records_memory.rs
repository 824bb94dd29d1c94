//! How much memory reading and writing records takes, counted by the allocator.
//!
//! One test function: the counter is the process's, so nothing may run beside the code measured.
#![expect(clippy::unwrap_used, reason = "the steps of the test are functions of their own")]

use std::alloc::System;

use bytes::Bytes;
use millstream_protocol::IsolationLevel;
use millstream_protocol::records::{
    Appended, BatchBuilder, BatchView, Compression, DecodeLimits, Decompressor, VisibleBatches,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn memory_is_bounded_by_limits_and_not_by_what_the_input_claims() {
    walking_a_block_allocates_nothing();
    appending_to_a_recycled_buffer_allocates_nothing();
    decoding_batch_after_batch_reuses_the_output();
    lies_about_sizes_reserve_nothing();
    bombs_take_no_more_than_the_limit();
    noise_under_a_good_checksum_stays_small();
}

const LIMIT: usize = 64 * 1024;
/// State of a decoder, error texts, and the batch's own bookkeeping.
const SLACK: usize = 128 * 1024;

/// Bytes asked of the allocator while `work` runs, and how often.
fn allocated<T>(work: impl FnOnce() -> T) -> (usize, usize) {
    let region = Region::new(ALLOCATOR);
    let result = work();
    let change = region.change();
    drop(result);
    (change.bytes_allocated, change.allocations + change.reallocations)
}

fn fill(builder: &mut BatchBuilder) {
    let headers: [(&[u8], Option<&[u8]>); 2] = [(b"trace", Some(b"0af7651916cd")), (b"null", None)];
    for index in 0..1000_i64 {
        let key = index.to_be_bytes();
        let appended =
            builder.append(1_700_000_000_000 + index, Some(&key), Some(&[7; 100]), &headers);
        assert!(matches!(appended, Ok(Appended::Record { .. })));
    }
}

fn batch(compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(compression, usize::MAX);
    fill(&mut builder);
    builder.build().unwrap().unwrap().into_bytes()
}

fn walking_a_block_allocates_nothing() {
    for compression in Compression::ALL {
        let view = BatchView::parse(batch(compression)).unwrap();
        let block = view.records(&DecodeLimits::default(), &mut Decompressor::new()).unwrap();
        let mut bytes = 0;
        let (_, allocations) = allocated(|| {
            for record in &block {
                let record = record.unwrap();
                bytes += record.key.unwrap().len() + record.value.unwrap().len();
                bytes += record.headers.map(|header| header.key.len()).sum::<usize>();
            }
        });
        assert_eq!((bytes, allocations), (117_000, 0), "{compression}");
    }
}

fn appending_to_a_recycled_buffer_allocates_nothing() {
    let mut builder = BatchBuilder::new(Compression::None, usize::MAX);
    // One buffer is being written while another is on its way back.
    for _ in 0..2 {
        fill(&mut builder);
        let sent = builder.build().unwrap().unwrap();
        builder.recycle(sent);
    }
    let (_, allocations) = allocated(|| fill(&mut builder));
    assert_eq!(allocations, 0);
}

fn decoding_batch_after_batch_reuses_the_output() {
    for compression in [Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let view = BatchView::parse(batch(compression)).unwrap();
        let mut decompressor = Decompressor::new();
        let limits = DecodeLimits::default();
        let mut decode = || view.records(&limits, &mut decompressor).unwrap().record_count();
        for _ in 0..3 {
            decode();
        }
        let (bytes, _) = allocated(|| (0..10).map(|_| decode()).sum::<usize>());
        assert!(bytes < 4096, "{compression}: ten batches took {bytes} bytes");
    }
}

/// A batch of `payload` that claims `record_count` records, under a good checksum.
fn forged(compression: Compression, record_count: i32, payload: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, usize::MAX);
    builder.append(0, None, None, &[]).unwrap();
    let mut batch = builder.build().unwrap().unwrap().into_bytes()[..61].to_vec();
    batch[22] = compression.id();
    batch[23..27].copy_from_slice(&(record_count - 1).max(0).to_be_bytes());
    batch[57..61].copy_from_slice(&record_count.to_be_bytes());
    batch.extend_from_slice(payload);
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

/// Reads everything there is; returns whether it was refused.
fn is_refused(records: Bytes) -> bool {
    let limits = DecodeLimits { max_decompressed_batch_bytes: LIMIT };
    VisibleBatches::new(records, 0, Vec::new(), IsolationLevel::ReadCommitted, limits).any(
        |batch| {
            batch.map_or(true, |batch| {
                batch.records.iter().flatten().any(|record| {
                    record.map_or(true, |record| record.headers.count() == usize::MAX)
                })
            })
        },
    )
}

fn lies_about_sizes_reserve_nothing() {
    let record_with_headers = [22, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0];
    let lz4_frame = {
        // Content size 2^40, in a header whose checksum is right.
        let mut frame = vec![0x04, 0x22, 0x4D, 0x18, 0x68, 0x40, 0, 0, 0, 0, 0, 1, 0, 0];
        frame.push((xxhash_rust::xxh32::xxh32(&frame[4..14], 0) >> 8) as u8);
        frame.extend_from_slice(&[0; 4]);
        frame
    };
    let cases = [
        forged(Compression::None, i32::MAX, &[0; 60]),
        forged(Compression::None, 1, &record_with_headers),
        forged(Compression::None, 1, &[0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0]),
        forged(Compression::Snappy, 1, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        forged(Compression::Snappy, 1, b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff"),
        forged(Compression::Zstd, 1, &[0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0, 0, 1, 0, 0]),
        forged(Compression::Lz4, 1, &lz4_frame),
        forged(
            Compression::Lz4,
            1,
            &[0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73, 0xff, 0xff, 0xff, 0x7f],
        ),
    ];
    for case in cases {
        let (bytes, _) = allocated(|| assert!(is_refused(case.clone()), "{case:?}"));
        assert!(bytes < 16 * 1024, "{bytes} bytes for {case:?}");
    }
}

fn bombs_take_no_more_than_the_limit() {
    // One record of 64 MiB, so that only the limit can stop it.
    let value = vec![0; 64 << 20];
    for compression in Compression::ALL {
        let mut builder = BatchBuilder::new(compression, usize::MAX);
        builder.append(0, None, Some(&value), &[]).unwrap();
        let batch = builder.build().unwrap().unwrap().into_bytes();
        let (bytes, _) = allocated(|| {
            assert_eq!(is_refused(batch.clone()), compression != Compression::None);
        });
        // Output grows by doubling, so all steps together are below four times the limit.
        assert!(bytes < 4 * LIMIT + SLACK, "{compression}: {bytes} bytes");
    }
}

fn noise_under_a_good_checksum_stays_small() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..5000 {
        let compression = Compression::ALL[round % 5];
        let length = usize::try_from(next() % 200).unwrap();
        let mut payload: Vec<u8> = (0..length).map(|_| next().to_le_bytes()[3]).collect();
        // A valid beginning gets further into the decoders than noise does.
        let beginning: &[u8] = match (compression, next() % 2) {
            (Compression::Gzip, 0) => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff],
            (Compression::Snappy, 0) => b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x40",
            (Compression::Lz4, 0) => &[0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73, 0x40, 0, 0, 0],
            (Compression::Zstd, 0) => &[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58],
            _ => &[],
        };
        payload.splice(..0, beginning.iter().copied());
        let record_count = i32::try_from(next() % 30).unwrap();
        let case = forged(compression, record_count, &payload);
        let (bytes, _) = allocated(|| is_refused(case.clone()));
        assert!(bytes < 4 * LIMIT + SLACK, "{bytes} bytes for {case:?}");
    }
}
