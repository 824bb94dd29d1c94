//! Every stored format: what was written is read back, and nothing else is read as something.

use bytes::Bytes;
use proptest::prelude::*;

use crate::delta::{DeltaWriter, ReadError, read_delta};
use crate::disk::{Disk, SimulatedDisk};
use crate::{
    CheckpointId, CheckpointRef, DeltaDigest, DeltaError, DeltaHeader, DeltaSummary, Fingerprint,
    FormatError, FrozenDelta, JobName, JobStatus, LedgerRecord, LineageId, Meta, Nonce, OwnerId,
    Positions, SealedStateWriter, SourcePosition, StateDelta, StateId, TopicId, Watermarks,
};

fn id() -> impl Strategy<Value = [u8; 16]> {
    any::<[u8; 16]>()
}

fn job() -> impl Strategy<Value = JobName> {
    "[a-zA-Z0-9_-]{1,30}".prop_map(|name| JobName::new(&name).unwrap())
}

fn positions() -> impl Strategy<Value = Positions> {
    let split = (
        (".{0,8}", "[a-z]{1,6}", id()),
        0..4_i32,
        any::<i64>(),
        any::<i32>(),
        any::<Option<i64>>(),
        any::<bool>(),
    );
    proptest::collection::vec(split, 0..6).prop_map(|splits| {
        let mut positions = Positions::new();
        for ((uid, topic, topic_id), partition, offset, leader_epoch, max_event_time, finished) in
            splits
        {
            let position = SourcePosition {
                topic: topic.into(),
                topic_id: TopicId(topic_id),
                partition,
                offset,
                leader_epoch,
                max_event_time,
                finished,
            };
            positions.insert(uid, position);
        }
        positions
    })
}

fn watermarks() -> impl Strategy<Value = Watermarks> {
    proptest::collection::vec((".{0,8}", any::<i64>()), 0..4)
}

fn status() -> impl Strategy<Value = JobStatus> {
    prop_oneof![Just(JobStatus::Running), Just(JobStatus::Finished)]
}

fn record() -> impl Strategy<Value = LedgerRecord> {
    let numbers = (any::<u64>(), id(), id(), id(), id(), any::<Option<[u8; 16]>>(), any::<i64>());
    (job(), numbers, positions(), watermarks(), status()).prop_map(
        |(
            job,
            (n, nonce, parent, owner, fingerprint, digest, wall_time_ms),
            positions,
            watermarks,
            status,
        )| {
            let checkpoint = CheckpointId(n);
            LedgerRecord {
                job,
                checkpoint,
                nonce: Nonce(nonce),
                parent: checkpoint.previous().map(|n| CheckpointRef::new(n, Nonce(parent))),
                owner: OwnerId(owner),
                positions,
                watermarks,
                status,
                delta_digest: digest.map(DeltaDigest),
                fingerprint: Fingerprint(fingerprint),
                wall_time_ms,
            }
        },
    )
}

fn meta() -> impl Strategy<Value = Meta> {
    let numbers = (any::<u64>(), id(), any::<i32>(), any::<Option<i64>>(), id(), id(), id());
    (job(), numbers, positions(), watermarks(), status()).prop_map(
        |(
            job,
            (n, nonce, ledger_partition, ledger_offset, topic, lineage, fingerprint),
            positions,
            watermarks,
            status,
        )| Meta {
            job,
            checkpoint: CheckpointId(n),
            nonce: Nonce(nonce),
            positions,
            watermarks,
            status,
            ledger_partition,
            ledger_offset,
            ledger_topic_id: TopicId(topic),
            lineage: LineageId(lineage),
            fingerprint: Fingerprint(fingerprint),
        },
    )
}

fn header() -> impl Strategy<Value = DeltaHeader> {
    let numbers =
        (1..=u64::MAX, id(), id(), any::<Option<i64>>(), id(), any::<Option<(i64, i16)>>());
    (job(), numbers, positions(), watermarks(), status()).prop_map(
        |(
            job,
            (n, nonce, parent, parent_ledger_offset, fingerprint, producer),
            positions,
            watermarks,
            status,
        )| DeltaHeader {
            job,
            at: CheckpointRef::new(CheckpointId(n), Nonce(nonce)),
            parent: CheckpointRef::new(CheckpointId(n - 1), Nonce(parent)),
            parent_ledger_offset,
            positions,
            watermarks,
            status,
            fingerprint: Fingerprint(fingerprint),
            producer,
        },
    )
}

fn delta() -> impl Strategy<Value = FrozenDelta> {
    let entry =
        (any::<[u8; 3]>(), proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)));
    let part = ("[a-c]", "[a-c]", 0..200_u8, proptest::collection::vec(entry, 0..60));
    proptest::collection::vec(part, 0..6).prop_map(|parts| {
        let parts = parts.into_iter().enumerate().map(|(worker, (uid, name, _, entries))| {
            let entries: std::collections::BTreeMap<Bytes, Option<Bytes>> = entries
                .into_iter()
                .map(|(key, value)| {
                    // Key groups of workers interleave but never meet.
                    let group = u8::try_from(worker).unwrap() + (key[0] % 16) * 8;
                    (Bytes::from(vec![0, group, key[1], key[2]]), value.map(Bytes::from))
                })
                .collect();
            StateDelta { state: StateId::new(uid, name), entries: entries.into_iter().collect() }
        });
        FrozenDelta::from_parts(parts).unwrap()
    })
}

/// The bytes of a delta file, by the way of a disk.
fn delta_file(header: &DeltaHeader, delta: &FrozenDelta) -> (DeltaDigest, Vec<u8>) {
    let disk = SimulatedDisk::new();
    let folder = std::path::Path::new("/d");
    disk.create_dir_all(folder).unwrap();
    let path = folder.join("f");
    let mut file = disk.create(&path).unwrap();
    let (digest, bytes) = DeltaWriter::write(&mut *file, header, delta).unwrap();
    let (mut reader, length) = disk.open(&path).unwrap().unwrap();
    let mut content = Vec::new();
    reader.read_to_end(&mut content).unwrap();
    assert_eq!((length, content.len() as u64), (bytes, bytes));
    (digest, content)
}

fn read(mut file: &[u8]) -> Result<(DeltaSummary, FrozenDelta), DeltaError> {
    let mut delta = FrozenDelta::default();
    let length = file.len() as u64;
    let summary =
        read_delta(&mut file, length, |state, entries| delta.insert_sorted(state, entries));
    match summary {
        Ok(summary) => Ok((summary, delta)),
        Err(ReadError::Delta(error)) => Err(error),
        Err(ReadError::Io(error)) => panic!("{error}"),
    }
}

proptest! {
    #[test]
    fn a_ledger_record_is_read_back(record in record()) {
        prop_assert_eq!(LedgerRecord::decode(&record.encode().unwrap()), Ok(record));
    }

    #[test]
    fn a_meta_is_read_back(meta in meta()) {
        prop_assert_eq!(Meta::decode(&meta.encode().unwrap()), Ok(meta));
    }

    #[test]
    fn a_delta_is_read_back_with_the_digest_that_was_given(header in header(), delta in delta()) {
        let (digest, file) = delta_file(&header, &delta);
        let file_bytes = file.len() as u64;
        let expected = (DeltaSummary { header, digest, file_bytes }, delta);
        prop_assert_eq!(read(&file), Ok(expected));
    }

    #[test]
    fn foreign_bytes_are_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(LedgerRecord::decode(&bytes).is_err());
        prop_assert!(Meta::decode(&bytes).is_err());
        prop_assert!(read(&bytes).is_err());
    }

    /// With the right magic, version, length and checksum the body itself is garbage.
    #[test]
    fn a_garbage_body_is_an_error_and_never_a_panic(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        meta_like in any::<bool>(),
    ) {
        let magic: &[u8; 8] = if meta_like { b"MSMETA\r\n" } else { b"MSLEDGER" };
        let mut frame = [&magic[..], &[0, 2], &u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat();
        let crc = crc32c::crc32c(&frame);
        frame.extend(crc.to_be_bytes());
        let error = if meta_like { Meta::decode(&frame).unwrap_err() } else { LedgerRecord::decode(&frame).unwrap_err() };
        let of_the_body = matches!(error, FormatError::Truncated { .. } | FormatError::TooLong { .. } | FormatError::Invalid { .. });
        prop_assert!(of_the_body, "{error}");
    }

    #[test]
    fn a_changed_byte_anywhere_is_noticed(
        record in record(), header in header(), delta in delta(), place in any::<prop::sample::Index>(), change in 1..=255_u8,
    ) {
        let mut encoded = record.encode().unwrap().to_vec();
        let at = place.index(encoded.len());
        encoded[at] ^= change;
        prop_assert!(LedgerRecord::decode(&encoded).is_err(), "byte {at} of the record");
        let (_, mut file) = delta_file(&header, &delta);
        let at = place.index(file.len());
        file[at] ^= change;
        prop_assert!(read(&file).is_err(), "byte {at} of the delta");
    }

    #[test]
    fn a_cut_anywhere_is_noticed(record in record(), header in header(), delta in delta(), place in any::<prop::sample::Index>()) {
        let encoded = record.encode().unwrap();
        prop_assert!(LedgerRecord::decode(&encoded[..place.index(encoded.len())]).is_err());
        let (_, file) = delta_file(&header, &delta);
        prop_assert!(read(&file[..place.index(file.len())]).is_err());
    }
}

fn plain_header() -> DeltaHeader {
    DeltaHeader {
        job: JobName::new("j").unwrap(),
        at: CheckpointRef::new(CheckpointId(1), Nonce([1; 16])),
        parent: CheckpointRef::new(CheckpointId(0), Nonce([0; 16])),
        parent_ledger_offset: None,
        positions: Positions::new(),
        watermarks: Watermarks::new(),
        status: JobStatus::Running,
        fingerprint: Fingerprint([0; 16]),
        producer: None,
    }
}

#[test]
fn a_big_delta_has_many_blocks_and_a_damaged_one_is_named() {
    let entries = (0..20_000_u32)
        .map(|n| {
            (
                Bytes::from([&[0, 1][..], &n.to_be_bytes()].concat()),
                Some(Bytes::from(n.to_string())),
            )
        })
        .collect();
    let delta =
        FrozenDelta::from_parts([StateDelta { state: StateId::new("a", "b"), entries }]).unwrap();
    let (_, mut file) = delta_file(&plain_header(), &delta);
    assert_eq!(read(&file).unwrap().1, delta);
    let middle = file.len() / 2;
    file[middle] ^= 1;
    let error = read(&file).unwrap_err();
    let DeltaError::Block { block, at_byte, .. } = error else { panic!("{error}") };
    assert!(block > 1 && at_byte < middle as u64, "{error}");
}

#[test]
fn a_value_longer_than_a_block_is_kept_whole() {
    let value = Bytes::from(vec![7; 3 << 20]);
    let entries = vec![(Bytes::from_static(&[0, 0, 1]), Some(value))];
    let delta =
        FrozenDelta::from_parts([StateDelta { state: StateId::new("a", "b"), entries }]).unwrap();
    let (_, file) = delta_file(&plain_header(), &delta);
    assert!(file.len() < 100_000, "it is compressed");
    assert_eq!(read(&file).unwrap().1, delta);
}

#[test]
fn a_block_that_claims_more_than_lz4_can_hold_is_refused_before_memory_is_reserved() {
    let (_, file) = delta_file(&plain_header(), &FrozenDelta::default());
    let end = 1 + 16 + 16 + 4;
    let mut file = file[..file.len() - end].to_vec();
    let mut block =
        [&[1_u8][..], &4_u32.to_be_bytes(), &(1_u32 << 29).to_be_bytes(), &[0; 4]].concat();
    block.extend(crc32c::crc32c(&block).to_be_bytes());
    file.extend(block);
    let error = read(&file).unwrap_err();
    let DeltaError::Block { source: FormatError::TooLong { .. }, .. } = error else {
        panic!("{error}")
    };
}

#[test]
fn parts_that_are_unsorted_overlap_or_have_no_key_group_are_refused() {
    let entry = |key: &'static [u8]| (Bytes::from_static(key), None);
    let part = |entries| StateDelta { state: StateId::new("a", "b"), entries };
    let state = StateId::new("a", "b");
    let from = |parts: Vec<StateDelta>| FrozenDelta::from_parts(parts);
    let unsorted = from(vec![part(vec![entry(&[0, 2]), entry(&[0, 1])])]);
    assert_eq!(unsorted, Err(DeltaError::Unsorted { state: state.clone() }));
    let overlap =
        from(vec![part(vec![entry(&[0, 1]), entry(&[0, 3])]), part(vec![entry(&[0, 3])])]);
    assert_eq!(overlap, Err(DeltaError::Overlap { state: state.clone() }));
    for key in [&[0_u8][..], &[0x80, 0]] {
        assert_eq!(
            from(vec![part(vec![(Bytes::copy_from_slice(key), None)])]),
            Err(DeltaError::KeyGroup { state: state.clone() })
        );
    }
}

#[test]
fn a_record_of_another_version_or_program_says_so() {
    let meta = Meta {
        job: JobName::new("j").unwrap(),
        checkpoint: CheckpointId::ZERO,
        nonce: Nonce([1; 16]),
        positions: Positions::new(),
        watermarks: Watermarks::new(),
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset: None,
        ledger_topic_id: TopicId::UNKNOWN,
        lineage: LineageId([1; 16]),
        fingerprint: Fingerprint([1; 16]),
    };
    let record = LedgerRecord::zero(&meta, OwnerId([1; 16]), 5);
    let mut newer = record.encode().unwrap().to_vec();
    newer[9] = 3;
    let error = LedgerRecord::decode(&newer).unwrap_err();
    assert_eq!(
        error,
        FormatError::UnsupportedVersion { what: "ledger record", found: 3, supported: 2 }
    );
    let error = LedgerRecord::decode(&meta.encode().unwrap()).unwrap_err();
    assert!(matches!(error, FormatError::NotOurs { .. }), "{error}");
    assert!(matches!(LedgerRecord::decode(b""), Err(FormatError::NotOurs { .. })));
}

#[test]
fn a_record_with_a_wrong_parent_or_too_many_splits_is_not_written() {
    let mut record = LedgerRecord {
        job: JobName::new("j").unwrap(),
        checkpoint: CheckpointId(4),
        nonce: Nonce([1; 16]),
        parent: None,
        owner: OwnerId([1; 16]),
        positions: Positions::new(),
        watermarks: Watermarks::new(),
        status: JobStatus::Running,
        delta_digest: None,
        fingerprint: Fingerprint([1; 16]),
        wall_time_ms: 0,
    };
    assert!(matches!(record.encode(), Err(FormatError::Invalid { .. })));
    record.parent = Some(CheckpointRef::new(CheckpointId(3), Nonce([1; 16])));
    record.encode().unwrap();
    for partition in 0..30_000 {
        let position = SourcePosition {
            topic: "a-topic".into(),
            topic_id: TopicId::UNKNOWN,
            partition,
            offset: 0,
            leader_epoch: 0,
            max_event_time: None,
            finished: false,
        };
        record.positions.insert("source", position);
    }
    assert!(matches!(record.encode(), Err(FormatError::TooLong { .. })));
}

/// The same file as the version before this one wrote it: all blocks packed, another number in the header.
fn as_version_2(file: &[u8]) -> Vec<u8> {
    let body = u32::from_be_bytes(file[10..14].try_into().unwrap()) as usize;
    let mut old = file[..14 + body].to_vec();
    old[8..10].copy_from_slice(&2_u16.to_be_bytes());
    old.extend(crc32c::crc32c(&old).to_be_bytes());
    let end = file.len() - (1 + 16 + 16 + 4);
    old.extend_from_slice(&file[14 + body + 4..end + 17]);
    let digest = xxhash_rust::xxh3::xxh3_128(&old).to_be_bytes();
    let end = [&file[end..end + 17], &digest[..]].concat();
    old.extend(digest);
    old.extend(crc32c::crc32c(&end).to_be_bytes());
    old
}

fn numbered(values: impl Fn(u32) -> Vec<u8>) -> FrozenDelta {
    let entry = |n: u32| {
        (Bytes::from([&[0, 1][..], &n.to_be_bytes()].concat()), Some(Bytes::from(values(n))))
    };
    let entries = (0..20_000).map(entry).collect();
    FrozenDelta::from_parts([StateDelta { state: StateId::new("a", "b"), entries }]).unwrap()
}

/// 128 bytes that do not repeat.
fn random(n: u32) -> Vec<u8> {
    let part = |part: u32| xxhash_rust::xxh3::xxh3_128(&(n * 8 + part).to_be_bytes()).to_be_bytes();
    (0..8).flat_map(part).collect()
}

#[test]
fn a_file_of_the_version_before_is_read_and_has_no_stored_blocks() {
    let packed = numbered(|n| n.to_string().into_bytes());
    let (_, file) = delta_file(&plain_header(), &packed);
    let (summary, delta) = read(&as_version_2(&file)).unwrap();
    assert_eq!((summary.header, delta), (plain_header(), packed));

    let stored = numbered(random);
    let (_, file) = delta_file(&plain_header(), &stored);
    assert!(read(&file).unwrap().1 == stored);
    let error = read(&as_version_2(&file)).map(|_| ()).unwrap_err();
    assert!(matches!(error, DeltaError::Block { block: 0, .. }), "{error}");
}

#[test]
fn what_does_not_get_smaller_is_stored_and_what_does_is_packed() {
    let stored = numbered(random);
    let (_, file) = delta_file(&plain_header(), &stored);
    assert!(file.len() > 20_000 * 128, "random bytes can not be packed");
    // Key, two lengths and a flag are 15 bytes beside the value.
    assert!(file.len() < 20_000 * (128 + 16), "{} bytes", file.len());
    let packed = numbered(|n| random(n % 7));
    let (_, file) = delta_file(&plain_header(), &packed);
    assert!(file.len() < 20_000 * 64, "{} bytes of repeated values", file.len());
    assert!(read(&file).unwrap().1 == packed);
}

#[test]
fn sealed_changes_in_any_order_become_sorted_and_doubled_ones_are_refused() {
    let state = StateId::new("a", "b");
    let sealed = |keys: &[u16]| {
        let mut writer = SealedStateWriter::new(state.clone(), keys.len());
        for key in keys {
            // Long keys that differ at their ends only.
            let suffix = [&[0; 20][..], &key.to_be_bytes()].concat();
            writer.put(&[&[0, 1], &suffix]).extend_from_slice(&key.to_be_bytes());
        }
        writer.delete(&[&[0, 2]]);
        writer.finish().unwrap()
    };
    let frozen = FrozenDelta::from_parts([sealed(&[5, 3, 900, 4])]).unwrap();
    let values: Vec<_> = frozen.changes(&state).map(|(_, value)| value).collect();
    let expected: Vec<_> = [3_u16, 4, 5, 900]
        .iter()
        .map(|n| Some(Bytes::copy_from_slice(&n.to_be_bytes())))
        .chain([None])
        .collect();
    assert_eq!(values, expected);
    let twice = FrozenDelta::from_parts([sealed(&[5, 3, 5])]);
    assert_eq!(twice, Err(DeltaError::Overlap { state: state.clone() }));
    let both = FrozenDelta::from_parts([sealed(&[1]), sealed(&[2])]);
    assert_eq!(both, Err(DeltaError::Overlap { state }), "both delete the same key");
}
