use proptest::prelude::*;

use super::super::compression::Compressor;
use super::super::{BatchView, RecordSet};
use super::*;

/// One message as it lies on disk.
fn message(
    offset: i64,
    magic: u8,
    attributes: u8,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend(timestamp.to_be_bytes());
    }
    for part in [key, value] {
        body.extend(part.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
        body.extend(part.unwrap_or_default());
    }
    let mut crc = Crc::new();
    crc.update(&body);
    let size = body.len() as i32 + 4;
    [&offset.to_be_bytes()[..], &size.to_be_bytes(), &crc.sum().to_be_bytes(), &body].concat()
}

/// A compressed set of messages.
fn wrapper(offset: i64, magic: u8, codec: Compression, timestamp: i64, set: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    Compressor::new(codec, None).compress(set, &mut value).unwrap();
    if codec == Compression::Lz4 && magic == 0 {
        // As Kafka's first clients wrote it.
        value[6] = (xxh32(&value[..6], 0) >> 8) as u8;
    }
    message(offset, magic, codec.id(), timestamp, None, Some(&value))
}

type Read = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn read(bytes: &[u8]) -> Result<Vec<Read>, RecordsError> {
    let mut decompressor = Decompressor::new();
    let mut records = Vec::new();
    for view in RecordSet::new(Bytes::copy_from_slice(bytes)) {
        let view = view?;
        let block = view.records(&DecodeLimits::default(), &mut decompressor)?;
        for record in &block {
            let record = record?;
            let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
            records.push((record.offset, record.timestamp, owned(record.key), owned(record.value)));
            assert!(record.offset < view.next_offset(), "a position lies behind what was read");
        }
    }
    Ok(records)
}

fn text(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

/// KIP-724: what was written before 0.11 is still on disk.
#[test]
fn single_messages_of_both_formats_are_read_beside_batches() {
    let mut builder = super::super::BatchBuilder::new(Compression::None, 1000);
    builder.append(7, None, Some(b"new"), &[]).unwrap();
    let batch = builder.build().unwrap().unwrap();
    let bytes = [
        message(3, 0, 0, 0, Some(b"k"), Some(b"v")),
        message(5, 1, 0, 1_400_000_000_000, None, None),
        message(6, 1, 8, 1_400_000_000_001, Some(b""), Some(b"appended")),
        batch.into_bytes().to_vec(),
    ]
    .concat();
    let records = read(&bytes).unwrap();
    assert_eq!(
        records,
        vec![
            (3, -1, text("k"), text("v")),
            (5, 1_400_000_000_000, None, None),
            (6, 1_400_000_000_001, text(""), text("appended")),
            (0, 7, None, text("new")),
        ]
    );
}

#[test]
fn compressed_sets_keep_offsets_timestamps_and_gaps() {
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4] {
        // Format 1: relative offsets, the third record compacted away.
        let set = [
            message(0, 1, 0, 100, Some(b"a"), Some(b"1")),
            message(1, 1, 0, 90, Some(b"b"), None),
            message(3, 1, 0, 110, None, Some(b"4")),
        ]
        .concat();
        let bytes = wrapper(13, 1, codec, 110, &set);
        let expected = vec![
            (10, 100, text("a"), text("1")),
            (11, 90, text("b"), None),
            (13, 110, None, text("4")),
        ];
        assert_eq!(read(&bytes).unwrap(), expected, "{codec}");
        let view = BatchView::parse(bytes.clone().into()).unwrap();
        assert_eq!(view.next_offset(), 14);
        // Format 0: the partition's offsets, no timestamps.
        let set = [message(20, 0, 0, 0, None, Some(b"x")), message(22, 0, 0, 0, None, Some(b"y"))];
        let bytes = wrapper(22, 0, codec, 0, &set.concat());
        let expected = vec![(20, -1, None, text("x")), (22, -1, None, text("y"))];
        assert_eq!(read(&bytes).unwrap(), expected, "{codec}");
    }
}

/// The broker's clock counts for every message of the set.
#[test]
fn log_append_time_of_a_set_is_its_wrappers() {
    let set = [message(0, 1, 0, 5, None, None), message(1, 1, 0, 6, None, None)].concat();
    let mut value = Vec::new();
    Compressor::new(Compression::Gzip, None).compress(&set, &mut value).unwrap();
    let bytes = message(1, 1, 8 | Compression::Gzip.id(), 777, None, Some(&value));
    let times: Vec<_> = read(&bytes).unwrap().into_iter().map(|record| record.1).collect();
    assert_eq!(times, vec![777, 777]);
}

#[test]
fn what_no_writer_made_is_refused_with_offset_and_reason() {
    let inner = message(0, 1, 0, 0, None, Some(b"v"));
    let set = |messages: &[Vec<u8>]| wrapper(9, 1, Compression::Gzip, 0, &messages.concat());
    let mut damaged = message(4, 1, 0, 0, None, Some(b"v"));
    *damaged.last_mut().unwrap() ^= 1;
    let mut zstd = message(9, 1, 4, 0, None, Some(b"v"));
    for (bytes, reason) in [
        (damaged, "CRC-32"),
        (message(-1, 1, 0, 0, None, None), "offset is impossible"),
        (set(&[]), "wraps no message"),
        (set(&[inner[..inner.len() - 1].to_vec()]), "is cut"),
        (set(&[message(0, 0, 0, 0, None, None)]), "another format"),
        (set(&[message(0, 1, 1, 0, None, Some(b"v"))]), "compressed again"),
        (set(&[message(1, 1, 0, 0, None, None), inner.clone()]), "do not grow"),
        (set(&[inner.clone(), message(i64::MAX, 1, 0, 0, None, None)]), "impossible"),
        (message(9, 1, 1, 0, None, None), "has no value"),
        (std::mem::take(&mut zstd), "zstd"),
    ] {
        let error = read(&bytes).unwrap_err();
        let RecordsError::InvalidLegacyMessage { .. } = &error else { panic!("{error}") };
        assert!(error.to_string().contains(reason), "{error} has no {reason:?}");
    }
}

/// A few hundred bytes must not become gigabytes.
#[test]
fn a_set_is_decompressed_under_the_readers_cap() {
    let big = message(0, 1, 0, 0, None, Some(&vec![0; 1 << 20]));
    let bytes = wrapper(0, 1, Compression::Gzip, 0, &big);
    assert!(bytes.len() < 4096);
    let view = BatchView::parse(bytes.into()).unwrap();
    let limits = DecodeLimits { max_decompressed_batch_bytes: 1 << 19 };
    let error = view.records(&limits, &mut Decompressor::new()).unwrap_err();
    assert!(matches!(error, RecordsError::Decompress { .. }), "{error}");
}

proptest! {
    #[test]
    fn damage_is_an_error_or_another_message_never_a_panic(
        magic in 0_u8..2,
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        repair in any::<bool>(),
    ) {
        let set: Vec<u8> = values
            .iter()
            .enumerate()
            .flat_map(|(index, value)| message(index as i64, magic, 0, 3, None, Some(value)))
            .collect();
        // Stored without compression inside gzip, so that damage reaches the messages.
        let mut value = Vec::new();
        Compressor::new(Compression::Gzip, Some(0)).compress(&set, &mut value).unwrap();
        let offset = values.len() as i64 - 1;
        let mut bytes = message(offset, magic, 1, 3, None, Some(&value));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if repair && bytes.len() > 16 {
            let mut crc = Crc::new();
            crc.update(&bytes[16..]);
            bytes[12..16].copy_from_slice(&crc.sum().to_be_bytes());
        }
        let _ = read(&bytes);
    }
}
