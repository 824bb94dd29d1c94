//! The same bytes through `kafka_protocol::records`, an implementation by other hands.
//!
//! Only valid input, and nothing it is known to lose: its headers are a map of UTF-8 keys, and it
//! has no LZ4 without a C library.

use bytes::BytesMut;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression as TheirCompression, Record, RecordBatchDecoder, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType as TheirTimestampType,
};

use super::*;

fn theirs(compression: Compression) -> Option<TheirCompression> {
    match compression {
        Compression::None => Some(TheirCompression::None),
        Compression::Gzip => Some(TheirCompression::Gzip),
        Compression::Snappy => Some(TheirCompression::Snappy),
        Compression::Zstd => Some(TheirCompression::Zstd),
        Compression::Lz4 => None,
    }
}

fn shared_compression() -> impl Strategy<Value = Compression> {
    any_compression()
        .prop_filter("the other side has no LZ4", |compression| theirs(*compression).is_some())
}

/// Records both sides can hold: one header per key, timestamps that do not overflow a sum.
fn shared_records() -> impl Strategy<Value = Vec<OwnedRecord>> {
    any_records().prop_map(|mut records| {
        for record in &mut records {
            record.timestamp = record.timestamp.min(4_000_000_000_000);
            record.headers.sort();
            record.headers.dedup_by(|left, right| left.0 == right.0);
        }
        records
    })
}

fn to_theirs(record: &OwnedRecord) -> Record {
    let headers: IndexMap<StrBytes, Option<Bytes>> = record
        .headers
        .iter()
        .map(|(key, value)| {
            let key = StrBytes::from_string(String::from_utf8(key.clone()).unwrap());
            (key, value.clone().map(Bytes::from))
        })
        .collect();
    Record {
        transactional: true,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: 12,
        producer_epoch: 3,
        timestamp_type: TheirTimestampType::Creation,
        offset: record.offset,
        sequence: 100 + i32::try_from(record.offset).unwrap(),
        timestamp: record.timestamp,
        key: record.key.clone().map(Bytes::from),
        value: record.value.clone().map(Bytes::from),
        headers,
    }
}

proptest! {
    #[test]
    fn our_batches_decode_elsewhere(
        compression in shared_compression(),
        records in shared_records(),
    ) {
        let mut batch = sealed(compression, &records);
        batch.stamp(ProducerIdAndEpoch { producer_id: 12, producer_epoch: 3 }, 100, true);
        let decoded = RecordBatchDecoder::decode(&mut batch.into_bytes()).unwrap();
        let expected: Vec<_> = records.iter().map(to_theirs).collect();
        prop_assert_eq!(decoded.records, expected);
    }

    #[test]
    fn batches_from_elsewhere_decode_here(
        compression in shared_compression(),
        records in shared_records(),
    ) {
        let written: Vec<_> = records.iter().map(to_theirs).collect();
        let options = RecordEncodeOptions {
            version: 2,
            compression: theirs(compression).unwrap(),
        };
        let mut encoded = BytesMut::new();
        RecordBatchEncoder::encode(&mut encoded, &written, &options).unwrap();
        let batch = encoded.freeze();
        let header = *BatchView::parse(batch.clone()).unwrap().header();
        prop_assert_eq!(header.producer(), ProducerIdAndEpoch { producer_id: 12, producer_epoch: 3 });
        prop_assert_eq!(header.base_sequence, 100);
        prop_assert!(header.is_transactional());
        prop_assert_eq!(header.next_offset(), records.len() as i64);
        prop_assert_eq!(read_all(batch).unwrap(), records);
    }
}
