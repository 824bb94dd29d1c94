//! A partition's bytes are read or refused; records stay within their batch and their cap.

use bytes::Bytes;
use millstream_protocol::IsolationLevel;
use millstream_protocol::records::{AbortedTransaction, DecodeLimits, VisibleBatches};

use crate::damage::{seal_as_one_batch, seal_as_one_message};

/// The first byte says whether length and checksum are set right, and for which format.
pub(super) fn record_set(input: &[u8]) {
    let Some((&seal, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    match seal & 3 {
        0 => seal_as_one_batch(&mut bytes),
        2 => seal_as_one_message(&mut bytes),
        _ => {}
    }
    let mut position = 0;
    for batch in batches(bytes.into()) {
        let Ok(batch) = batch else { break };
        assert!(batch.next_offset > position, "no progress");
        let end = batch.next_offset;
        for record in batch.records.iter().flatten() {
            let Ok(record) = record else { break };
            assert!((position..end).contains(&record.offset), "a record outside its batch");
            for header in record.headers {
                assert!(header.key.len() <= MAX_BATCH_BYTES);
            }
        }
        position = end;
    }
}

fn batches(records: Bytes) -> VisibleBatches {
    let limits = DecodeLimits { max_decompressed_batch_bytes: MAX_BATCH_BYTES };
    let aborted = vec![AbortedTransaction { producer_id: 0, first_offset: 0 }];
    VisibleBatches::new(records, 0, aborted, IsolationLevel::ReadCommitted, limits)
}

const MAX_BATCH_BYTES: usize = 1 << 20;
