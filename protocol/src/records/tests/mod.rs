//! Tests of the record format: by property, against another implementation, and case by case.

mod differential;
mod hostile;
mod produced;
mod public_reports;
mod round_trip;
mod visible;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::ids::{IsolationLevel, ProducerIdAndEpoch};

pub(super) type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);

/// A record as tests write it down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnedRecord {
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<OwnedHeader>,
}

impl OwnedRecord {
    pub(super) fn with_value(value: &str) -> Self {
        Self { value: Some(value.as_bytes().to_vec()), ..Self::default() }
    }

    pub(super) fn append_to(&self, builder: &mut BatchBuilder) -> Appended {
        let headers: Vec<(&[u8], Option<&[u8]>)> =
            self.headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        builder
            .append(self.timestamp, self.key.as_deref(), self.value.as_deref(), &headers)
            .unwrap()
    }
}

impl From<RecordView<'_>> for OwnedRecord {
    fn from(view: RecordView<'_>) -> Self {
        Self {
            offset: view.offset,
            timestamp: view.timestamp,
            key: view.key.map(<[u8]>::to_vec),
            value: view.value.map(<[u8]>::to_vec),
            headers: view
                .headers
                .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

/// One batch of `records`; their offsets are not used.
pub(super) fn sealed(compression: Compression, records: &[OwnedRecord]) -> SealedBatch {
    let mut builder = BatchBuilder::new(compression, usize::MAX);
    for record in records {
        record.append_to(&mut builder);
    }
    builder.build().unwrap().unwrap()
}

/// One batch of values at `base_offset`.
pub(super) fn batch_at(base_offset: i64, compression: Compression, values: &[&str]) -> Bytes {
    let records: Vec<_> = values.iter().map(|value| OwnedRecord::with_value(value)).collect();
    assign_offsets(sealed(compression, &records).into_bytes(), base_offset, 0).unwrap()
}

/// One batch of values of a transaction.
pub(super) fn transactional_batch_at(
    base_offset: i64,
    producer_id: i64,
    compression: Compression,
    values: &[&str],
) -> Bytes {
    let records: Vec<_> = values.iter().map(|value| OwnedRecord::with_value(value)).collect();
    let mut batch = sealed(compression, &records);
    batch.stamp(ProducerIdAndEpoch { producer_id, producer_epoch: 0 }, 0, true);
    assign_offsets(batch.into_bytes(), base_offset, 0).unwrap()
}

/// A commit or abort marker.
pub(super) fn marker_at(base_offset: i64, producer_id: i64, marker: ControlRecordType) -> Bytes {
    let producer = ProducerIdAndEpoch { producer_id, producer_epoch: 1 };
    assign_offsets(control_batch(marker, producer, 7, 1_000), base_offset, 0).unwrap()
}

/// What compaction leaves of a batch when all its records are gone.
pub(super) fn emptied_batch(base_offset: i64, last_offset_delta: i32) -> Bytes {
    let mut batch =
        batch_at(base_offset, Compression::None, &["gone"]).slice(..BATCH_HEADER_BYTES).to_vec();
    batch[8..12].copy_from_slice(&49_i32.to_be_bytes());
    batch[23..27].copy_from_slice(&last_offset_delta.to_be_bytes());
    batch[27..35].copy_from_slice(&(-1_i64).to_be_bytes());
    batch[57..61].copy_from_slice(&0_i32.to_be_bytes());
    recomputed(batch)
}

/// `batch` with a length and checksum that fit, so that only the damage under test is found.
pub(super) fn recomputed(mut batch: Vec<u8>) -> Bytes {
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

/// A batch with `records` as its record bytes, whatever they are.
pub(super) fn batch_with_payload(
    compression: Compression,
    record_count: i32,
    records: &[u8],
) -> Bytes {
    let mut batch = batch_at(0, Compression::None, &["x"])[..BATCH_HEADER_BYTES].to_vec();
    batch[21..23].copy_from_slice(&i16::from(compression.id()).to_be_bytes());
    batch[23..27].copy_from_slice(&(record_count - 1).max(0).to_be_bytes());
    batch[57..61].copy_from_slice(&record_count.to_be_bytes());
    batch.extend_from_slice(records);
    recomputed(batch)
}

pub(super) fn block(batch: Bytes) -> Result<RecordBlock, RecordsError> {
    BatchView::parse(batch)?.records(&DecodeLimits::default(), &mut Decompressor::new())
}

pub(super) fn read_all(batch: Bytes) -> Result<Vec<OwnedRecord>, RecordsError> {
    block(batch)?.iter().map(|record| record.map(OwnedRecord::from)).collect()
}

pub(super) fn concat(batches: &[Bytes]) -> Bytes {
    batches.concat().into()
}

/// What a reader sees: the values delivered, and its position afterwards.
pub(super) fn visible(
    records: Bytes,
    fetch_offset: i64,
    aborted: &[(i64, i64)],
    isolation: IsolationLevel,
) -> (Vec<(i64, String)>, i64) {
    let aborted = aborted
        .iter()
        .map(|&(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset })
        .collect();
    let limits = DecodeLimits::default();
    let mut batches = VisibleBatches::new(records, fetch_offset, aborted, isolation, limits);
    let mut values = Vec::new();
    for batch in batches.by_ref() {
        for record in batch.unwrap().records.iter().flatten() {
            let record = record.unwrap();
            let value = String::from_utf8(record.value.unwrap_or_default().to_vec()).unwrap();
            values.push((record.offset, value));
        }
    }
    (values, batches.position())
}

pub(super) fn any_compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(Compression::ALL.to_vec())
}

/// Bytes that compress and bytes that do not, empty and longer than one-byte lengths.
pub(super) fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 0..400_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

pub(super) fn any_record() -> impl Strategy<Value = OwnedRecord> {
    // Few distinct keys, so that they repeat within a record.
    let header = (prop::collection::vec(97..100_u8, 0..2), prop::option::of(any_bytes()));
    (
        prop_oneof![Just(-1), 0..2_000_000_000_000_i64, Just(i64::MAX)],
        prop::option::of(any_bytes()),
        prop::option::of(any_bytes()),
        prop::collection::vec(header, 0..4),
    )
        .prop_map(|(timestamp, key, value, headers)| OwnedRecord {
            offset: 0,
            timestamp,
            key,
            value,
            headers,
        })
}

pub(super) fn any_records() -> impl Strategy<Value = Vec<OwnedRecord>> {
    prop::collection::vec(any_record(), 1..60).prop_map(|mut records| {
        for (offset, record) in (0..).zip(&mut records) {
            record.offset = offset;
        }
        records
    })
}
