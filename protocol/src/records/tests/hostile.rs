//! Input that no honest writer produces.

use super::*;

fn example(compression: Compression) -> Bytes {
    let records: Vec<_> = (0..20)
        .map(|index| OwnedRecord {
            offset: index,
            timestamp: 1_700_000_000_000 - index,
            key: Some(format!("key-{index}").into_bytes()),
            value: Some(vec![b'v'; 50]),
            headers: vec![(b"trace".to_vec(), Some(b"abc".to_vec())), (b"trace".to_vec(), None)],
        })
        .collect();
    sealed(compression, &records).into_bytes()
}

/// Everything a reader does with a fetched partition.
fn read_everything(records: Bytes) -> Result<usize, RecordsError> {
    let limits = DecodeLimits { max_decompressed_batch_bytes: 1 << 20 };
    let aborted = vec![AbortedTransaction { producer_id: 1, first_offset: 0 }];
    let isolation = IsolationLevel::ReadCommitted;
    let mut count = 0;
    for batch in VisibleBatches::new(records, 0, aborted, isolation, limits) {
        for record in batch?.records.iter().flatten() {
            count += 1 + record?.headers.count();
        }
    }
    Ok(count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_everything(bytes.into());
    }

    #[test]
    fn arbitrary_records_under_a_good_checksum_never_panic(
        codec in 0..8_i16,
        record_count in prop_oneof![0..20_i32, any::<i32>()],
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let batch = batch_with_payload(Compression::None, record_count, &payload);
        let mut batch = batch.to_vec();
        batch[21..23].copy_from_slice(&codec.to_be_bytes());
        let _ = read_everything(recomputed(batch));
    }

    #[test]
    fn damage_to_good_batches_never_panics(
        compression in any_compression(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        fix_checksum: bool,
    ) {
        let mut batch = example(compression).to_vec();
        for (at, byte) in damage {
            let at = at.index(batch.len());
            batch[at] = byte;
        }
        let batch = if fix_checksum { recomputed(batch) } else { batch.into() };
        let _ = read_everything(batch);
    }

    #[test]
    fn a_flipped_bit_in_the_checksummed_part_is_found(
        compression in any_compression(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let mut batch = example(compression).to_vec();
        let at = 17 + at.index(batch.len() - 17);
        batch[at] ^= 1 << bit;
        let is_mismatch = matches!(
            BatchView::parse(batch.into()),
            Err(RecordsError::CrcMismatch { base_offset: 0, .. })
        );
        prop_assert!(is_mismatch);
    }
}

#[test]
fn a_batch_cut_at_any_byte_is_an_error_alone_and_silence_after_a_whole_one() {
    for compression in Compression::ALL {
        let whole = example(compression);
        let next = assign_offsets(whole.clone(), 20, 0).unwrap();
        for cut in 1..whole.len() {
            assert!(BatchView::parse(whole.slice(..cut)).is_err(), "{compression} at {cut}");
            let alone = read_everything(whole.slice(..cut));
            assert!(
                matches!(alone, Err(RecordsError::NoCompleteBatch { available_bytes, .. })
                    if available_bytes == cut),
                "{compression} at {cut}: {alone:?}"
            );
            let after = concat(&[whole.clone(), next.slice(..cut)]);
            assert_eq!(read_everything(after), Ok(60), "{compression} at {cut}");
        }
    }
}

#[test]
fn records_cut_at_any_byte_are_an_error_although_the_checksum_fits() {
    for compression in Compression::ALL {
        let whole = example(compression);
        for cut in BATCH_HEADER_BYTES..whole.len() {
            let batch = recomputed(whole[..cut].to_vec());
            assert!(read_all(batch).is_err(), "{compression} at {cut}");
        }
    }
}

#[test]
fn impossible_lengths_are_named() {
    for (length, magic) in [(-1, 2), (0, 2), (48, 2), (13, 0), (i32::MIN, 1)] {
        let mut batch = example(Compression::None).to_vec();
        batch[8..12].copy_from_slice(&i32::to_be_bytes(length));
        batch[16] = magic;
        let expected = RecordsError::InvalidLength { base_offset: 0, batch_length: length };
        assert_eq!(RecordSet::new(batch.into()).next(), Some(Err(expected)));
    }
}

#[test]
fn a_length_of_two_gigabytes_waits_for_bytes_that_never_come() {
    let mut batch = example(Compression::None).to_vec();
    batch[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let available_bytes = batch.len();
    let expected =
        RecordsError::NoCompleteBatch { available_bytes, needed_bytes: i32::MAX as usize + 12 };
    assert_eq!(read_everything(batch.into()), Err(expected));
}

#[test]
fn messages_of_older_formats_are_checked_too() {
    for magic in [0_u8, 1] {
        let mut message = vec![0; 34];
        message[..8].copy_from_slice(&41_i64.to_be_bytes());
        message[8..12].copy_from_slice(&22_i32.to_be_bytes());
        message[16] = magic;
        let magic = magic.cast_signed();
        let read = read_everything(message.clone().into());
        let Err(RecordsError::InvalidLegacyMessage { offset: 41, magic: named, .. }) = read else {
            panic!("{read:?}")
        };
        assert_eq!(named, magic);
        // Nobody writes them any more.
        let written = BatchHeader::parse(&message);
        assert_eq!(written, Err(RecordsError::LegacyMessageFormat { offset: 41, magic }));
    }
}

#[test]
fn an_unknown_magic_is_named() {
    let mut batch = example(Compression::None).to_vec();
    batch[16] = 3;
    let batch_bytes = batch.len();
    let expected = RecordsError::UnknownMagic { base_offset: 0, batch_bytes, magic: 3 };
    assert_eq!(read_everything(batch.into()), Err(expected));
}

#[test]
fn offsets_that_would_overflow_are_refused() {
    for base_offset in [i64::MIN, -1, i64::MAX - 19, i64::MAX] {
        let mut batch = example(Compression::None).to_vec();
        batch[..8].copy_from_slice(&base_offset.to_be_bytes());
        let refused = BatchView::parse(batch.into());
        assert!(
            matches!(refused, Err(RecordsError::InvalidHeader { field: "base_offset", .. })),
            "{base_offset}"
        );
    }
}

/// A record's body behind its length. Fields: attributes, timestamp delta, offset delta, key,
/// value, headers.
fn record_of(body: &[u8]) -> Vec<u8> {
    let mut record = vec![u8::try_from(body.len() * 2).unwrap()];
    record.extend_from_slice(body);
    record
}

#[test]
fn malformed_records_are_named() {
    let cases: [(&[u8], &str); 12] = [
        (&[], "it has no attributes"),
        (&[0], "its timestamp is cut or too wide"),
        (&[0, 0x80], "its timestamp is cut or too wide"),
        (&[0, 0], "its offset is cut or too wide"),
        (&[0, 0, 1], "its offset lies outside the batch"),
        (&[0, 0, 2], "its offset lies outside the batch"),
        (&[0, 0, 0, 3], "its key is cut"),
        (&[0, 0, 0, 1, 8, b'v'], "its value is cut"),
        (&[0, 0, 0, 1, 1, 1], "its header count is negative"),
        (&[0, 0, 0, 1, 1, 4, 0, 1], "it claims more headers than its bytes can hold"),
        (&[0, 0, 0, 1, 1, 2, 1, 1], "one of its headers is cut"),
        (&[0, 0, 0, 1, 1, 0, 0], "it does not end with its headers"),
    ];
    for (body, expected) in cases {
        let mut payload = record_of(body);
        // Enough bytes for one record, whatever the body; they are never reached.
        payload.resize(payload.len().max(7), 0);
        let error = read_all(batch_with_payload(Compression::None, 1, &payload)).unwrap_err();
        let RecordsError::InvalidRecord { index: 0, reason, .. } = error else {
            panic!("{body:?}: {error:?}")
        };
        assert_eq!(reason, expected, "{body:?}");
    }
}

#[test]
fn malformed_record_lengths_are_named() {
    let cases: [(&[u8; 7], &str); 3] = [
        (&[0x80, 0x80, 0x80, 0x80, 0x80, 0, 0], "its length is cut or too wide"),
        (&[1, 0, 0, 0, 0, 0, 0], "its length is negative"),
        (&[126, 0, 0, 0, 0, 0, 0], "it is longer than what remains"),
    ];
    for (payload, expected) in cases {
        let error = read_all(batch_with_payload(Compression::None, 1, payload)).unwrap_err();
        let RecordsError::InvalidRecord { reason, .. } = error else { panic!("{error:?}") };
        assert_eq!(reason, expected);
    }
}

#[test]
fn bytes_after_the_last_record_are_an_error_and_end_the_walk() {
    let mut payload = record_of(&[0, 0, 0, 1, 1, 0]);
    payload.push(0);
    let block = block(batch_with_payload(Compression::None, 1, &payload)).unwrap();
    let mut records = block.iter();
    assert!(records.next().unwrap().is_ok());
    let error = records.next().unwrap().unwrap_err();
    assert!(matches!(
        error,
        RecordsError::InvalidRecord { index: 1, reason: "bytes follow the last record", .. }
    ));
    assert_eq!(records.next(), None);
}

#[test]
fn an_error_ends_the_batches_after_those_before_it() {
    let good = batch_at(0, Compression::None, &["a"]);
    let mut bad = batch_at(1, Compression::None, &["b"]).to_vec();
    *bad.last_mut().unwrap() ^= 1;
    let after = batch_at(2, Compression::None, &["c"]);
    let mut batches = VisibleBatches::new(
        concat(&[good, bad.into(), after]),
        0,
        Vec::new(),
        IsolationLevel::ReadCommitted,
        DecodeLimits::default(),
    );
    assert_eq!(batches.next().unwrap().unwrap().next_offset, 1);
    let error = batches.next().unwrap().unwrap_err();
    assert!(matches!(error, RecordsError::CrcMismatch { base_offset: 1, .. }));
    assert!(error.is_refetch_useful());
    assert!(batches.next().is_none());
    assert_eq!(batches.position(), 1);
}

#[test]
fn control_batches_without_a_readable_marker_are_an_error() {
    let mut marker = marker_at(0, 1, ControlRecordType::Abort).to_vec();
    // The key's length: 4 becomes 3, and the value gets the byte.
    let key_length = BATCH_HEADER_BYTES + 4;
    assert_eq!(marker[key_length], 8);
    marker[key_length] = 6;
    marker[key_length + 4] = 14;
    let error = BatchView::parse(recomputed(marker)).unwrap().control_record().unwrap_err();
    assert!(
        matches!(error, RecordsError::InvalidControlRecord { base_offset: 0, .. }),
        "{error:?}"
    );
}
