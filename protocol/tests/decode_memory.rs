//! No body can make a decoder allocate more than a small multiple of its own size.
//!
//! A counting allocator measures what every decoder asks for while length fields claim the impossible. It is the
//! reason for a test binary of its own.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait; nothing else here is")]

mod samples;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use kafka_protocol::protocol::Decodable;
use millstream_protocol::messages::kp;
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{ApiKey, Request, Response, WireError};

/// Bytes of memory that one byte of a body may cost. The worst case is an OffsetFetch request in its older shape whose
/// topics have neither name nor partitions: 3 bytes on the wire, and both shapes in memory.
const BYTES_PER_BODY_BYTE: usize = 64;

/// What errors may cost, backtraces included. No hostile length in these tests claims less than ten times this.
const ALLOWANCE: usize = 64 * 1024;

/// Counts what the current thread asks for.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    static REQUESTED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator unchanged; the counter is a plain cell without a destructor,
// so touching it allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = REQUESTED.try_with(|total| total.set(total.get().saturating_add(layout.size())));
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, so from the system.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes that `run` asked for in all, also those it gave back.
fn requested_by<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = REQUESTED.get();
    let result = run();
    (result, REQUESTED.get() - before)
}

/// An encoded message: the bytes that are decoded, and where its body starts.
struct Sample {
    api: ApiKey,
    version: i16,
    bytes: Vec<u8>,
    body_at: usize,
    is_request: bool,
}

impl Sample {
    fn all() -> Vec<Self> {
        let mut samples = Vec::new();
        for request in samples::requests() {
            let api = request.api_key();
            for version in api.codec_versions() {
                // Some samples hold what only one of two shapes can carry.
                let Ok(frame) = request.encode(version, 1, "") else { continue };
                let bytes = frame.to_bytes()[4..].to_vec();
                let body_at = 10 + usize::from(api.is_flexible(version));
                samples.push(Self { api, version, bytes, body_at, is_request: true });
            }
        }
        for response in samples::responses() {
            let api = response.api_key();
            for version in api.codec_versions() {
                let Ok(frame) = response.encode(version, 1) else { continue };
                let frame = frame.to_bytes().slice(4..);
                let Ok((_, body)) = ResponseHeader::decode(api, version, frame) else { continue };
                samples.push(Self {
                    api,
                    version,
                    bytes: body.to_vec(),
                    body_at: 0,
                    is_request: false,
                });
            }
        }
        samples
    }

    fn decode(&self, bytes: Bytes) -> Result<(), WireError> {
        if self.is_request {
            Request::decode(bytes).map(drop)
        } else {
            Response::decode(self.api, self.version, bytes).map(drop)
        }
    }

    fn check(&self, bytes: &[u8], what: &str) -> Result<(), WireError> {
        let frame = Bytes::copy_from_slice(bytes);
        let (result, requested) = requested_by(|| self.decode(frame));
        let bound = ALLOWANCE + BYTES_PER_BODY_BYTE * bytes.len();
        assert!(
            requested <= bound,
            "{} version {} (request: {}): {requested} bytes for {} with {what}",
            self.api,
            self.version,
            self.is_request,
            bytes.len(),
        );
        result
    }
}

#[test]
fn every_api_version_and_direction_has_a_sample() {
    let samples = Sample::all();
    for api in ApiKey::ALL {
        for version in api.codec_versions() {
            for is_request in [true, false] {
                let mut of_it = samples.iter().filter(|sample| {
                    (sample.api, sample.version, sample.is_request) == (api, version, is_request)
                });
                assert!(of_it.next().is_some(), "{api} {version}");
            }
        }
    }
    for sample in &samples {
        sample.check(&sample.bytes, "no damage").expect("undamaged");
    }
}

/// The measure sees what happens without the guard: the decoder behind it believes a count of a million.
#[test]
fn decoder_without_a_guard_fails_the_measure() {
    let mut body = Bytes::from_static(&[0x00, 0x10, 0x00, 0x00, 0x00]);
    let (result, requested) = requested_by(|| kp::MetadataRequest::decode(&mut body, 0));
    assert!(result.is_err());
    assert!(requested > ALLOWANCE + BYTES_PER_BODY_BYTE * 5, "{requested}");
}

#[test]
fn no_length_field_reserves_what_is_not_there() {
    let hostile: [&[u8]; 8] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x7f, 0x00, 0x00, 0x00],
        &[0xff, 0xff, 0xff, 0xff],
        &[0x80, 0x00, 0x00, 0x00],
        &[0x00, 0x10, 0x00, 0x00],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x80, 0x94, 0xeb, 0xdc, 0x03],
        &[0xff, 0xff, 0x7f],
    ];
    let mut refused = 0_usize;
    for sample in Sample::all() {
        for place in sample.body_at..sample.bytes.len() {
            for pattern in hostile {
                // Once over what is there, once pushed in before the rest, as a longer varint would be.
                let mut over = sample.bytes.clone();
                let end = (place + pattern.len()).min(over.len());
                over.splice(place..end, pattern.iter().copied());
                let mut inserted = sample.bytes.clone();
                inserted.splice(place..=place, pattern.iter().copied());
                refused += usize::from(sample.check(&over, "a length written over").is_err());
                refused += usize::from(sample.check(&inserted, "a length put in").is_err());
            }
        }
    }
    assert!(refused > 50_000, "{refused}");
}

#[test]
fn many_tiny_elements_cost_a_small_multiple() {
    /// A request of 20,000 equal elements between `head` and `tail`.
    fn request(api: ApiKey, version: i16, head: &[u8], element: &[u8], tail: &[u8]) {
        let mut frame = Vec::new();
        frame.extend(api.code().to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0xff, 0xff, 0]);
        frame.extend(head);
        frame.extend([0xa1, 0x9c, 0x01]); // 20,001, so 20,000 elements
        frame.extend(element.repeat(20_000));
        frame.extend(tail);
        let sample = Sample { api, version, bytes: Vec::new(), body_at: 0, is_request: true };
        sample.check(&frame, "tiny elements").expect("well formed");
    }
    request(ApiKey::Metadata, 9, &[], &[1, 0], &[0, 0, 0, 0]);
    request(ApiKey::OffsetFetch, 7, &[1], &[1, 1, 0], &[0, 0]);
    request(ApiKey::FindCoordinator, 4, &[0], &[1], &[0]);
    request(ApiKey::DescribeTransactions, 0, &[], &[1], &[0]);
    request(ApiKey::DescribeConfigs, 4, &[], &[0, 1, 1, 0], &[0, 0, 0]);
    request(ApiKey::Produce, 9, &[0, 0, 0, 0, 0, 0, 0], &[1, 1, 0], &[0]);
    request(ApiKey::DescribeGroups, 5, &[], &[1], &[0, 0]);
    request(ApiKey::LeaveGroup, 5, &[1], &[1, 0, 0, 0], &[0]);
    request(ApiKey::LeaveGroup, 4, &[1], &[1, 0, 0], &[0]);
    request(ApiKey::JoinGroup, 6, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1], &[1, 1, 0], &[0]);
    request(ApiKey::CreatePartitions, 2, &[], &[1, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0]);
    request(ApiKey::IncrementalAlterConfigs, 1, &[2, 0, 1], &[1, 0, 1, 0], &[0, 0, 0]);
    // Tagged fields that nobody knows, on every element and by the thousand.
    request(ApiKey::Metadata, 9, &[], &[1, 1, 9, 0], &[0, 0, 0, 0]);
    let mut tags = vec![0, 0, 0, 0xa0, 0x9c, 0x01];
    for tag in 0..20_000_u32 {
        tags.extend([
            0x80 | (tag & 0x7f) as u8,
            0x80 | (tag >> 7 & 0x7f) as u8,
            (tag >> 14) as u8,
            0,
        ]);
    }
    let mut frame = vec![0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 1];
    frame.extend(tags);
    let sample = Sample {
        api: ApiKey::Metadata,
        version: 9,
        bytes: Vec::new(),
        body_at: 0,
        is_request: true,
    };
    sample.check(&frame, "tags by the thousand").expect("well formed");
}
