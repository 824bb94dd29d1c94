//! A partition's bytes are read or refused; records stay within their batch and their cap.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use millstream_protocol::IsolationLevel;
use millstream_protocol::records::{DecodeLimits, VisibleBatches};

fuzz_target!(|input: &[u8]| {
    let Some((&seal, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if seal & 1 == 0 {
        seal_as_one_batch(&mut bytes);
    }
    let mut position = 0;
    for batch in batches(bytes.into()) {
        let Ok(batch) = batch else { break };
        assert!(batch.next_offset > position, "no progress");
        position = batch.next_offset;
        for record in batch.records.iter().flatten() {
            let Ok(record) = record else { break };
            for header in record.headers {
                assert!(header.key.len() <= MAX_BATCH_BYTES);
            }
        }
    }
});

fn batches(records: Bytes) -> VisibleBatches {
    let mut limits = DecodeLimits::default();
    limits.max_decompressed_batch_bytes = MAX_BATCH_BYTES;
    VisibleBatches::new(records, 0, Vec::new(), IsolationLevel::ReadCommitted, limits)
}

/// Sets length, magic and checksum, which chance would never find.
fn seal_as_one_batch(batch: &mut [u8]) {
    if batch.len() < 61 {
        return;
    }
    let length = u32::try_from(batch.len() - 12).expect("inputs are small");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[16] = 2;
    let checksum = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
}

const MAX_BATCH_BYTES: usize = 1 << 20;
