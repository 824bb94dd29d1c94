//! Record batches of every codec, and markers, at any offset.

use bytes::Bytes;
use millstream_protocol::ProducerIdAndEpoch;
use millstream_protocol::records::{BatchBuilder, Compression, ControlRecordType, control_batch};

use super::PRODUCER_ID;

/// Batches of two records, one a codec, then an abort marker.
#[derive(Debug)]
pub(super) struct Batches(Vec<Bytes>);

impl Batches {
    pub(super) fn new() -> Self {
        let mut batches: Vec<Bytes> =
            Compression::ALL.into_iter().map(|codec| Bytes::from(batch(codec))).collect();
        let producer = ProducerIdAndEpoch { producer_id: PRODUCER_ID, producer_epoch: 0 };
        batches.push(control_batch(ControlRecordType::Abort, producer, 3, TIMESTAMP_MS));
        Self(batches)
    }

    /// The next few batches from `offset` on.
    pub(super) fn from(&self, offset: i64) -> Vec<u8> {
        let mut records = Vec::new();
        let mut next = offset;
        let turn = usize::try_from(offset.max(0)).unwrap_or(0);
        for batch in self.0.iter().cycle().skip(turn % self.0.len()).take(3) {
            let at = records.len();
            records.extend_from_slice(batch);
            // The base offset is not part of what the checksum covers.
            records[at..at + 8].copy_from_slice(&next.to_be_bytes());
            let last_delta = i32::from_be_bytes(records[at + 23..at + 27].try_into().unwrap());
            next = next.saturating_add(i64::from(last_delta) + 1);
        }
        records
    }
}

/// A sealed batch with keys, nulls and headers.
pub(crate) fn batch(codec: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec, 1 << 20);
    let value = b"a value that repeats, a value that repeats, a value that repeats".as_slice();
    builder
        .append(TIMESTAMP_MS, Some(b"key"), Some(value), &[(b"h", Some(b"v")), (b"n", None)])
        .unwrap();
    builder.append(TIMESTAMP_MS + 1, None, None, &[]).unwrap();
    builder.build().unwrap().unwrap().into_bytes().to_vec()
}

const TIMESTAMP_MS: i64 = 1_700_000_000_000;
