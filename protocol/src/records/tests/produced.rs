//! The broker's side: what a producer may send, and what becomes of it in the log.

use super::*;

fn stamped() -> SealedBatch {
    let mut batch = sealed(Compression::Lz4, &[OwnedRecord::with_value("v")]);
    batch.stamp(ProducerIdAndEpoch { producer_id: 4, producer_epoch: 0 }, 0, true);
    batch
}

fn refused_field(batch: Bytes) -> &'static str {
    match validate_produced_batch(batch) {
        Err(RecordsError::InvalidHeader { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_builder_makes_is_accepted() {
    let plain = sealed(Compression::Gzip, &[OwnedRecord::with_value("v")]).into_bytes();
    assert!(validate_produced_batch(plain).is_ok());
    assert!(validate_produced_batch(stamped().into_bytes()).is_ok());
}

#[test]
fn fields_no_producer_may_send_are_named() {
    assert_eq!(refused_field(emptied_batch(0, 0)), "record_count");
    assert_eq!(refused_field(marker_at(0, 4, ControlRecordType::Commit)), "attributes");

    let mut gap = stamped().into_bytes().to_vec();
    gap[26] = 1;
    assert_eq!(refused_field(recomputed(gap)), "last_offset_delta");

    let mut batch = stamped();
    batch.stamp(ProducerIdAndEpoch { producer_id: 4, producer_epoch: 0 }, -1, true);
    assert_eq!(refused_field(batch.bytes()), "base_sequence");
    batch.stamp(ProducerIdAndEpoch { producer_id: 4, producer_epoch: -1 }, 0, false);
    assert_eq!(refused_field(batch.bytes()), "producer_epoch");
    batch.stamp(ProducerIdAndEpoch::NONE, -1, true);
    assert_eq!(refused_field(batch.bytes()), "producer_id");
}

#[test]
fn exactly_one_batch_is_accepted() {
    let batch = stamped().into_bytes();
    let batch_bytes = batch.len();
    let expected =
        RecordsError::TrailingBytes { base_offset: 0, batch_bytes, extra_bytes: batch_bytes };
    assert_eq!(validate_produced_batch(concat(&[batch.clone(), batch])), Err(expected));
    assert!(matches!(
        validate_produced_batch(Bytes::new()),
        Err(RecordsError::Truncated { base_offset: -1, .. })
    ));
}

#[test]
fn offsets_are_assigned_in_place_unless_the_bytes_are_shared() {
    let batch = stamped().into_bytes();
    let address = batch.as_ptr();
    let placed = assign_offsets(batch, 100, 5).unwrap();
    assert_eq!(placed.as_ptr(), address);
    let moved = assign_offsets(placed.clone(), 200, 6).unwrap();
    assert_eq!(BatchHeader::parse(&placed).unwrap().base_offset, 100);
    assert_eq!(BatchHeader::parse(&moved).unwrap().base_offset, 200);
    assert!(matches!(
        assign_offsets(moved, i64::MAX, 6),
        Err(RecordsError::InvalidHeader { field: "base_offset", .. })
    ));
}

#[test]
fn log_append_time_is_the_time_of_every_record() {
    let records: Vec<_> =
        (0..3).map(|n| OwnedRecord { timestamp: 5 + n, ..OwnedRecord::with_value("v") }).collect();
    for compression in Compression::ALL {
        let batch = sealed(compression, &records).into_bytes();
        let batch = set_log_append_time(batch, 777_777).unwrap();
        let view = BatchView::parse(batch.clone()).unwrap();
        assert_eq!(view.header().timestamp_type(), TimestampType::LogAppendTime);
        let timestamps: Vec<_> =
            read_all(batch).unwrap().into_iter().map(|record| record.timestamp).collect();
        assert_eq!(timestamps, [777_777; 3]);
    }
}

#[test]
fn a_delete_horizon_leaves_the_other_timestamps_relative_to_it() {
    // KIP-534: the base becomes the horizon and the deltas are rewritten against it.
    let records =
        [1_000, 900].map(|timestamp| OwnedRecord { timestamp, ..OwnedRecord::with_value("v") });
    let mut batch = sealed(Compression::None, &records).into_bytes().to_vec();
    batch[22] |= 1 << 6;
    let batch = recomputed(batch);
    let header = *BatchView::parse(batch.clone()).unwrap().header();
    assert_eq!(header.delete_horizon_ms(), Some(1_000));
    let timestamps: Vec<_> =
        read_all(batch).unwrap().into_iter().map(|record| record.timestamp).collect();
    assert_eq!(timestamps, [1_000, 900]);
}

#[test]
fn markers_say_what_was_written() {
    for (record_type, id) in [
        (ControlRecordType::Abort, 0),
        (ControlRecordType::Commit, 1),
        (ControlRecordType::Other(5), 5),
    ] {
        let producer = ProducerIdAndEpoch { producer_id: 8, producer_epoch: 2 };
        let view = BatchView::parse(control_batch(record_type, producer, 33, 1_000)).unwrap();
        assert!(view.is_control() && view.is_transactional());
        assert_eq!(view.header().producer(), producer);
        assert_eq!(view.header().max_timestamp, 1_000);
        let expected = ControlRecord { record_type, coordinator_epoch: Some(33) };
        assert_eq!(view.control_record(), Ok(Some(expected)));
        assert_eq!(record_type.id(), id);
    }
}

#[test]
fn data_and_emptied_batches_have_no_marker() {
    let data = BatchView::parse(batch_at(0, Compression::None, &["v"])).unwrap();
    assert_eq!(data.control_record(), Ok(None));
    let mut emptied = emptied_batch(0, 0).to_vec();
    emptied[22] |= (1 << 4) | (1 << 5);
    let emptied = BatchView::parse(recomputed(emptied)).unwrap();
    assert!(emptied.is_control());
    assert_eq!(emptied.control_record(), Ok(None));
}

/// A marker as a broker wrote it: bytes written out by hand from the format's description, so that
/// reader and writer cannot share a mistake.
#[test]
fn a_marker_has_the_bytes_of_the_format() {
    let producer = ProducerIdAndEpoch { producer_id: 0x0102, producer_epoch: 0x0304 };
    let batch = control_batch(ControlRecordType::Commit, producer, 0x0506, 0x0708);
    #[rustfmt::skip]
    let expected = [
        0, 0, 0, 0, 0, 0, 0, 0, // base offset
        0, 0, 0, 66, // batch length: 49 of the header, 17 of the record
        0xff, 0xff, 0xff, 0xff, // leader epoch
        2, // magic
        0, 0, 0, 0, // checksum, filled in below
        0, 0x30, // transactional, control
        0, 0, 0, 0, // last offset delta
        0, 0, 0, 0, 0, 0, 7, 8, // base timestamp
        0, 0, 0, 0, 0, 0, 7, 8, // max timestamp
        0, 0, 0, 0, 0, 0, 1, 2, // producer id
        3, 4, // producer epoch
        0xff, 0xff, 0xff, 0xff, // base sequence
        0, 0, 0, 1, // record count
        32, // record length 16
        0, 0, 0, // attributes, timestamp delta, offset delta
        8, 0, 0, 0, 1, // key: version 0, type 1
        12, 0, 0, 0, 0, 5, 6, // value: version 0, coordinator epoch
        0, // headers
    ];
    assert_eq!(batch, recomputed(expected.to_vec()));
}
