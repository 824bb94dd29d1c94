//! What is written comes back.

use super::*;

proptest! {
    #[test]
    fn records_come_back_from_every_codec(
        compression in any_compression(),
        records in any_records(),
    ) {
        let batch = sealed(compression, &records);
        let view = BatchView::parse(batch.bytes()).unwrap();
        prop_assert_eq!(view.header(), batch.header());
        prop_assert_eq!(view.header().compression(), Ok(compression));
        let largest = records.iter().map(|record| record.timestamp).max();
        prop_assert_eq!(Some(view.header().max_timestamp), largest);
        prop_assert_eq!(read_all(batch.bytes()).unwrap(), records);
    }

    #[test]
    fn records_survive_being_read_and_appended_again(records in any_records()) {
        let first = sealed(Compression::None, &records).into_bytes();
        let mut builder = BatchBuilder::new(Compression::None, usize::MAX);
        for record in &block(first.clone()).unwrap() {
            builder.append_view(&record.unwrap()).unwrap();
        }
        prop_assert_eq!(builder.build().unwrap().unwrap().into_bytes(), first);
    }

    #[test]
    fn every_record_takes_the_bytes_it_was_announced_with(records in any_records()) {
        let mut builder = BatchBuilder::new(Compression::None, usize::MAX);
        let mut expected = BATCH_HEADER_BYTES;
        for record in &records {
            let Appended::Record { bytes, .. } = record.append_to(&mut builder) else {
                panic!("there is no limit")
            };
            expected += bytes;
            prop_assert_eq!(builder.bytes(), expected);
        }
        prop_assert_eq!(builder.build().unwrap().unwrap().size_bytes(), expected);
    }

    #[test]
    fn a_stamp_changes_identity_and_nothing_else(
        compression in any_compression(),
        records in any_records(),
        producer_id in 0..i64::MAX,
        producer_epoch in 0..i16::MAX,
        base_sequence in 0..i32::MAX,
        transactional: bool,
    ) {
        let mut batch = sealed(compression, &records);
        let before = batch.bytes();
        let producer = ProducerIdAndEpoch { producer_id, producer_epoch };
        batch.stamp(producer, base_sequence, transactional);
        let view = BatchView::parse(batch.bytes()).unwrap();
        prop_assert_eq!(view.header(), batch.header());
        prop_assert_eq!(view.header().producer(), producer);
        prop_assert_eq!(view.header().base_sequence, base_sequence);
        prop_assert_eq!(view.is_transactional(), transactional);
        prop_assert_eq!(read_all(batch.bytes()).unwrap(), records);
        prop_assert_eq!(before.slice(BATCH_HEADER_BYTES..), batch.bytes().slice(BATCH_HEADER_BYTES..));

        batch.stamp(ProducerIdAndEpoch::NONE, -1, false);
        prop_assert_eq!(batch.bytes(), before);
    }

    #[test]
    fn halves_of_a_batch_hold_its_records_and_sequences(
        compression in any_compression(),
        records in any_records(),
        base_sequence in prop_oneof![Just(-1), Just(i32::MAX), 0..1000_i32],
    ) {
        let mut batch = sealed(compression, &records);
        let producer = ProducerIdAndEpoch { producer_id: 9, producer_epoch: 3 };
        batch.stamp(producer, base_sequence, true);
        let Some((first, second)) = batch.split().unwrap() else {
            prop_assert_eq!(records.len(), 1);
            return Ok(());
        };
        prop_assert_eq!(first.header().producer(), producer);
        prop_assert_eq!(second.header().producer(), producer);
        prop_assert!(second.header().is_transactional());
        prop_assert_eq!(first.header().base_sequence, base_sequence);
        prop_assert_eq!(second.header().last_sequence(), batch.header().last_sequence());
        if base_sequence >= 0 {
            let after_first = increment_sequence(first.header().last_sequence(), 1);
            prop_assert_eq!(second.header().base_sequence, after_first);
        }
        let mut values = read_all(first.bytes()).unwrap();
        let shift = i64::from(first.record_count());
        values.extend(read_all(second.bytes()).unwrap().into_iter().map(|mut record| {
            record.offset += shift;
            record
        }));
        prop_assert_eq!(values, records);
    }

    #[test]
    fn offsets_are_assigned_without_touching_the_checksum(
        compression in any_compression(),
        records in any_records(),
        base_offset in 0..i64::MAX / 2,
        leader_epoch: i32,
    ) {
        let produced = sealed(compression, &records).into_bytes();
        let before = *BatchView::parse(produced.clone()).unwrap().header();
        let placed = assign_offsets(produced, base_offset, leader_epoch).unwrap();
        let after = *BatchView::parse(placed.clone()).unwrap().header();
        let expected =
            BatchHeader { base_offset, partition_leader_epoch: leader_epoch, ..before };
        prop_assert_eq!(after, expected);
        let offsets: Vec<_> = read_all(placed).unwrap().iter().map(|record| record.offset).collect();
        let expected: Vec<_> = (base_offset..).take(records.len()).collect();
        prop_assert_eq!(offsets, expected);
    }
}

#[test]
fn a_full_batch_refuses_and_stays_as_it_is() {
    let record = OwnedRecord::with_value(&"v".repeat(100));
    let mut builder = BatchBuilder::new(Compression::None, 300);
    let mut batch_indices = Vec::new();
    while let Appended::Record { batch_index, .. } = record.append_to(&mut builder) {
        batch_indices.push(batch_index);
    }
    assert_eq!(batch_indices, [0, 1]);
    let batch = builder.build().unwrap().unwrap();
    assert!(batch.size_bytes() <= 300);
    assert_eq!(read_all(batch.bytes()).unwrap().len(), 2);
    assert!(matches!(record.append_to(&mut builder), Appended::Record { batch_index: 0, .. }));
}

#[test]
fn a_record_larger_than_the_batch_gets_one_of_its_own() {
    let large = OwnedRecord::with_value(&"v".repeat(1000));
    let mut builder = BatchBuilder::new(Compression::None, 300);
    assert!(matches!(large.append_to(&mut builder), Appended::Record { batch_index: 0, .. }));
    assert_eq!(large.append_to(&mut builder), Appended::Full);
    let bytes = BatchBuilder::batch_bytes_for(None, large.value.as_deref(), &[]);
    assert_eq!(builder.bytes(), bytes);
}

#[test]
fn nothing_is_built_from_nothing() {
    let mut builder = BatchBuilder::new(Compression::Zstd, 300);
    assert_eq!(builder.build(), Ok(None));
    assert!(builder.is_empty());
}

#[test]
fn a_timestamp_below_none_is_refused() {
    let mut builder = BatchBuilder::new(Compression::None, 300);
    let refused = builder.append(-2, None, None, &[]);
    assert_eq!(refused, Err(RecordsError::InvalidTimestamp { timestamp: -2 }));
    assert!(builder.is_empty());
}

#[test]
fn a_recycled_buffer_is_written_again_and_a_shared_one_is_left_alone() {
    let record = OwnedRecord::with_value("first");
    let mut builder = BatchBuilder::new(Compression::None, 300);
    record.append_to(&mut builder);
    let batch = builder.build().unwrap().unwrap();
    let address = batch.bytes().as_ptr();
    builder.recycle(batch);
    record.append_to(&mut builder);
    let reused = builder.build().unwrap().unwrap();
    assert_eq!(reused.bytes().as_ptr(), address);

    let kept = reused.bytes();
    let before = kept.to_vec();
    builder.recycle(reused);
    for _ in 0..3 {
        OwnedRecord::with_value("other").append_to(&mut builder);
        builder.build().unwrap().unwrap();
    }
    assert_eq!(kept, before);
}

#[test]
fn sequences_wrap_to_zero_after_the_largest() {
    assert_eq!(increment_sequence(i32::MAX, 1), 0);
    assert_eq!(increment_sequence(i32::MAX - 1, 3), 1);
    assert_eq!(increment_sequence(5, 4), 9);
}

#[test]
fn compression_names_are_those_of_kafka() {
    for compression in Compression::ALL {
        assert_eq!(compression.name().parse(), Ok(compression));
        assert_eq!(Compression::from_id(compression.id()), Some(compression));
    }
    let unknown = "GZIP".parse::<Compression>().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "unknown compression type \"GZIP\": expected none, gzip, snappy, lz4 or zstd"
    );
}
