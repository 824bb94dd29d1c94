//! Bugs that users reported against other clients, as cases for this one. The ids are those of
//! the project's collection of public reports.

use super::*;

/// B003: a record count of two thousand million in a batch of 60 bytes.
#[test]
fn a_record_count_beyond_the_bytes_is_refused_before_anything_is_reserved() {
    let batch = batch_with_payload(Compression::None, 2_000_000_000, &[0; 60]);
    let expected = RecordsError::InvalidRecordCount {
        base_offset: 0,
        batch_bytes: 121,
        record_count: 2_000_000_000,
        records_bytes: 60,
    };
    assert_eq!(block(batch).unwrap_err(), expected);
}

/// B005: a record count of -1 under a good checksum.
#[test]
fn a_negative_record_count_is_an_error_and_the_position_stays() {
    let batch = batch_with_payload(Compression::None, -1, &[]);
    let mut batches = VisibleBatches::new(
        batch,
        0,
        Vec::new(),
        IsolationLevel::ReadCommitted,
        DecodeLimits::default(),
    );
    let expected = RecordsError::InvalidHeader {
        base_offset: 0,
        batch_bytes: 61,
        field: "record_count",
        value: -1,
    };
    assert_eq!(batches.next().unwrap().unwrap_err(), expected);
    assert_eq!(batches.position(), 0);
}

/// B013: a fetch at offset 57 returns the whole compressed batch from 50 on.
#[test]
fn records_before_the_fetch_offset_are_dropped() {
    let values = ["50", "51", "52", "53", "54", "55", "56", "57", "58", "59"];
    for compression in Compression::ALL {
        let batch = batch_at(50, compression, &values);
        let (seen, position) = visible(batch, 57, &[], IsolationLevel::ReadCommitted);
        assert_eq!(seen, [(57, "57".into()), (58, "58".into()), (59, "59".into())]);
        assert_eq!(position, 60);
    }
}

/// B017: a header with a key and a null value.
#[test]
fn a_null_header_value_is_delivered_as_null() {
    let record = OwnedRecord {
        headers: vec![(b"deleted".to_vec(), None), (b"empty".to_vec(), Some(Vec::new()))],
        ..OwnedRecord::with_value("v")
    };
    let batch = sealed(Compression::None, std::slice::from_ref(&record)).into_bytes();
    assert_eq!(read_all(batch.clone()).unwrap(), [record]);
    let block = block(batch).unwrap();
    let headers = block.iter().next().unwrap().unwrap().headers;
    assert_eq!(headers.last(b"deleted"), Some(None));
    assert_eq!(headers.last(b"empty"), Some(Some(b"".as_slice())));
    assert_eq!(headers.last(b"absent"), None);
}

/// B021: snappy as snappy-java frames it, and as one bare block.
#[test]
fn both_forms_of_snappy_decode_to_the_same_records() {
    let records: Vec<_> = (0..50).map(|n| OwnedRecord::with_value(&format!("value {n}"))).collect();
    let plain = sealed(Compression::None, &records).into_bytes();
    let payload = &plain[BATCH_HEADER_BYTES..];
    let framed = sealed(Compression::Snappy, &records).into_bytes();
    assert!(framed[BATCH_HEADER_BYTES..].starts_with(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"));
    let bare = snap::raw::Encoder::new().compress_vec(payload).unwrap();
    let bare = batch_with_payload(Compression::Snappy, 50, &bare);
    assert_eq!(block(framed).unwrap().bytes(), payload);
    assert_eq!(block(bare).unwrap().bytes(), payload);
}

/// B023: zstd records made of two frames.
#[test]
fn all_frames_of_a_zstd_batch_are_decoded() {
    let records: Vec<_> = (0..40).map(|n| OwnedRecord::with_value(&format!("value {n}"))).collect();
    let plain = sealed(Compression::None, &records).into_bytes();
    let payload = &plain[BATCH_HEADER_BYTES..];
    for split in [1, payload.len() / 2, payload.len() - 1] {
        let (first, second) = payload.split_at(split);
        let mut frames = zstd::bulk::compress(first, 3).unwrap();
        frames.extend(zstd::stream::encode_all(second, 3).unwrap());
        let batch = batch_with_payload(Compression::Zstd, 40, &frames);
        assert_eq!(block(batch).unwrap().bytes(), payload);
    }
}

/// B025: codec ids 5, 6 and 7.
#[test]
fn unknown_codecs_are_named_with_their_offset() {
    for codec in 5..=7_u8 {
        let mut batch = batch_at(7, Compression::None, &["v"]).to_vec();
        batch[22] = codec;
        let batch_bytes = batch.len();
        let expected = RecordsError::UnknownCodec { base_offset: 7, batch_bytes, codec };
        assert_eq!(block(recomputed(batch)).unwrap_err(), expected);
    }
}

/// B027: aborted batches that are compressed.
#[test]
fn aborted_batches_are_filtered_whatever_their_codec() {
    for compression in Compression::ALL {
        let records = concat(&[
            transactional_batch_at(0, 1, compression, &["aborted"]),
            transactional_batch_at(1, 2, compression, &["committed"]),
            marker_at(2, 1, ControlRecordType::Abort),
            marker_at(3, 2, ControlRecordType::Commit),
        ]);
        let (seen, position) = visible(records, 0, &[(1, 0)], IsolationLevel::ReadCommitted);
        assert_eq!(seen, [(1, "committed".into())]);
        assert_eq!(position, 4);
    }
}

/// B027, second half: the filter needs no codec at all, so damage inside does not matter.
#[test]
fn aborted_batches_are_not_decompressed() {
    let mut aborted = transactional_batch_at(0, 1, Compression::Zstd, &["aborted"]).to_vec();
    aborted[BATCH_HEADER_BYTES..].fill(0xff);
    let records = concat(&[recomputed(aborted), marker_at(1, 1, ControlRecordType::Abort)]);
    let (seen, position) = visible(records, 0, &[(1, 0)], IsolationLevel::ReadCommitted);
    assert_eq!((seen, position), (Vec::new(), 2));
}

/// B029: the fetch offset is that of an abort marker whose transaction began earlier, so that the
/// list of aborted transactions does not name it.
#[test]
fn an_abort_marker_without_an_entry_is_passed_over() {
    let records = concat(&[
        marker_at(10, 1, ControlRecordType::Abort),
        transactional_batch_at(11, 1, Compression::None, &["committed"]),
        marker_at(12, 1, ControlRecordType::Commit),
    ]);
    let (seen, position) = visible(records, 10, &[], IsolationLevel::ReadCommitted);
    assert_eq!(seen, [(11, "committed".into())]);
    assert_eq!(position, 13);
}

/// B031: an aborted transaction whose first offset is that of its own marker.
#[test]
fn an_aborted_transaction_may_begin_at_its_own_marker() {
    let records = concat(&[
        batch_at(5, Compression::None, &["plain"]),
        marker_at(6, 1, ControlRecordType::Abort),
        transactional_batch_at(7, 1, Compression::None, &["committed"]),
        marker_at(8, 1, ControlRecordType::Commit),
    ]);
    let (seen, _) = visible(records, 5, &[(1, 6)], IsolationLevel::ReadCommitted);
    assert_eq!(seen, [(5, "plain".into()), (7, "committed".into())]);
}

/// B033: the list of aborted transactions in any order.
#[test]
fn the_order_of_aborted_transactions_does_not_matter() {
    let records = concat(&[
        transactional_batch_at(0, 1, Compression::None, &["aborted"]),
        marker_at(1, 1, ControlRecordType::Abort),
        transactional_batch_at(2, 1, Compression::None, &["committed"]),
        marker_at(3, 1, ControlRecordType::Commit),
        transactional_batch_at(4, 2, Compression::None, &["aborted"]),
        transactional_batch_at(5, 1, Compression::None, &["aborted"]),
        marker_at(6, 1, ControlRecordType::Abort),
        marker_at(7, 2, ControlRecordType::Abort),
    ]);
    let sorted = [(1, 0), (2, 4), (1, 5)];
    for [a, b, c] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let aborted = [sorted[a], sorted[b], sorted[c]];
        let (seen, position) = visible(records.clone(), 0, &aborted, IsolationLevel::ReadCommitted);
        assert_eq!(seen, [(2, "committed".into())], "{aborted:?}");
        assert_eq!(position, 8);
    }
}

/// B035: a response of nothing but aborted data, without a marker, again and again.
#[test]
fn a_response_of_only_aborted_data_moves_the_position_batch_by_batch() {
    let mut position = 0;
    for _ in 0..3 {
        let batches: Vec<_> = (0..10)
            .map(|n| transactional_batch_at(position + n * 2, 1, Compression::Lz4, &["a", "b"]))
            .collect();
        let aborted = [AbortedTransaction { producer_id: 1, first_offset: 0 }];
        let steps: Vec<_> = VisibleBatches::new(
            concat(&batches),
            position,
            aborted.to_vec(),
            IsolationLevel::ReadCommitted,
            DecodeLimits::default(),
        )
        .map(|batch| {
            let batch = batch.unwrap();
            (batch.next_offset, batch.records.is_none())
        })
        .collect();
        let expected: Vec<_> = (1..=10).map(|n| (position + n * 2, true)).collect();
        assert_eq!(steps, expected);
        position += 20;
    }
}

/// B039: compaction keeps the header of a batch whose records are all gone.
#[test]
fn an_emptied_batch_moves_the_position_past_its_last_offset() {
    let records = concat(&[
        batch_at(0, Compression::None, &["a"]),
        emptied_batch(1, 8),
        batch_at(10, Compression::None, &["b"]),
    ]);
    for isolation in [IsolationLevel::ReadCommitted, IsolationLevel::ReadUncommitted] {
        let (seen, position) = visible(records.clone(), 0, &[], isolation);
        assert_eq!(seen, [(0, "a".into()), (10, "b".into())]);
        assert_eq!(position, 11);
        let (seen, position) = visible(records.slice(..0), 3, &[], isolation);
        assert_eq!((seen, position), (Vec::new(), 3));
    }
    let (_, position) = visible(emptied_batch(1, 8), 1, &[], IsolationLevel::ReadCommitted);
    assert_eq!(position, 10);
}

/// B041: control batches and aborted data, under both isolation levels.
#[test]
fn control_records_are_never_delivered() {
    let records = concat(&[
        transactional_batch_at(0, 1, Compression::None, &["aborted"]),
        transactional_batch_at(1, 2, Compression::None, &["committed"]),
        marker_at(2, 1, ControlRecordType::Abort),
        batch_at(3, Compression::None, &["plain"]),
        marker_at(4, 2, ControlRecordType::Commit),
    ]);
    let aborted = [(1, 0)];
    let (seen, position) = visible(records.clone(), 0, &aborted, IsolationLevel::ReadCommitted);
    assert_eq!(seen, [(1, "committed".into()), (3, "plain".into())]);
    assert_eq!(position, 5);
    let (seen, position) = visible(records, 0, &aborted, IsolationLevel::ReadUncommitted);
    assert_eq!(seen, [(0, "aborted".into()), (1, "committed".into()), (3, "plain".into())]);
    assert_eq!(position, 5);
}
