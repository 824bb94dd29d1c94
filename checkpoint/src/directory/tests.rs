use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::disk::{CrashMode, DiskFault, RealDisk, SimulatedDisk};
use crate::ids::{FingerprintPart, LineageId, Nonce, TopicId};
use crate::positions::{JobStatus, Positions, SourcePosition};
use crate::{StateDelta, StateId};

mod crash;

pub(crate) fn job() -> JobName {
    JobName::new("orders").unwrap()
}

pub(crate) fn fingerprint() -> Fingerprint {
    let part = FingerprintPart {
        operator_uid: "sum",
        operator_kind: "aggregate",
        state_name: "totals",
        schema: "u64",
    };
    Fingerprint::of([part])
}

pub(crate) fn at(checkpoint: u64, nonce: u8) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(checkpoint), Nonce([nonce; 16]))
}

pub(crate) fn positions(offset: i64) -> Positions {
    let mut positions = Positions::new();
    let position = SourcePosition {
        topic: "in".into(),
        topic_id: TopicId([6; 16]),
        partition: 0,
        offset,
        leader_epoch: 3,
        max_event_time: Some(offset * 10),
        finished: false,
    };
    positions.insert("source", position);
    positions
}

pub(crate) fn meta(at: CheckpointRef) -> Meta {
    Meta {
        job: job(),
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        positions: positions(i64::try_from(at.checkpoint.0).unwrap()),
        watermarks: vec![("sum".into(), 7)],
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset: None,
        ledger_topic_id: TopicId([5; 16]),
        lineage: LineageId([6; 16]),
        fingerprint: fingerprint(),
    }
}

pub(crate) fn header(at: CheckpointRef, parent: CheckpointRef) -> DeltaHeader {
    DeltaHeader {
        job: job(),
        at,
        parent,
        parent_ledger_offset: Some(1),
        positions: positions(i64::try_from(at.checkpoint.0).unwrap()),
        watermarks: vec![("sum".into(), 7)],
        status: JobStatus::Running,
        fingerprint: fingerprint(),
        producer: Some((4, 2)),
    }
}

pub(crate) fn key(group: u16, name: &str) -> Bytes {
    [&group.to_be_bytes()[..], name.as_bytes()].concat().into()
}

fn delta() -> FrozenDelta {
    let value = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    FrozenDelta::from_parts([
        StateDelta {
            state: StateId::new("sum", "totals"),
            entries: vec![(key(2, "b"), value("2")), (key(3, "c"), None)],
        },
        StateDelta {
            state: StateId::new("sum", "totals"),
            entries: vec![(key(1, "a"), value("1"))],
        },
        StateDelta { state: StateId::new("join", "left"), entries: vec![(key(0, ""), value(""))] },
    ])
    .unwrap()
}

fn open(disk: &SimulatedDisk) -> Result<StateDirectory, StateError> {
    StateDirectory::open(Arc::new(disk.clone()), Path::new("/state"), &job(), fingerprint())
}

#[test]
fn what_was_written_is_there_at_the_next_start_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er");
    let open = || StateDirectory::open(Arc::new(RealDisk), &path, &job(), fingerprint());
    let directory = open().unwrap();
    assert_eq!(directory.local().confirmed(), None);
    directory.write_meta(&meta(at(0, 9))).unwrap();
    let digest = directory.write_delta(&header(at(1, 1), at(0, 9)), &delta()).unwrap();
    drop(directory);
    let directory = open().unwrap();
    let local = directory.local();
    assert_eq!(local.meta, Some(meta(at(0, 9))));
    assert_eq!(local.delta(at(1, 1)).unwrap().digest, digest);
    let (summary, read) = directory.read_delta(at(1, 1)).unwrap();
    assert_eq!((summary.header, read), (header(at(1, 1), at(0, 9)), delta()));
}

#[test]
fn a_second_process_is_told_who_holds_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let open = || StateDirectory::open(Arc::new(RealDisk), folder.path(), &job(), fingerprint());
    let _first = open().unwrap();
    let error = open().unwrap_err().to_string();
    let pid = std::process::id().to_string();
    assert!(error.contains("is in use by process") && error.contains(&pid), "{error}");
    assert!(error.contains(&*folder.path().to_string_lossy()), "{error}");
}

#[test]
fn the_lock_ends_with_its_holder() {
    let disk = SimulatedDisk::new();
    let first = open(&disk).unwrap();
    assert!(matches!(open(&disk), Err(StateError::InUse { .. })));
    drop(first);
    open(&disk).unwrap();
}

#[test]
fn another_jobs_directory_is_refused_with_both_names() {
    let disk = SimulatedDisk::new();
    open(&disk).unwrap().write_meta(&meta(at(0, 9))).unwrap();
    let other = JobName::new("payments").unwrap();
    let path = Path::new("/state");
    let error = StateDirectory::open(Arc::new(disk.clone()), path, &other, fingerprint());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("orders") && error.contains("payments"), "{error}");
    let changed = Fingerprint([1; 16]);
    let error = StateDirectory::open(Arc::new(disk), path, &job(), changed).unwrap_err();
    assert!(matches!(error, StateError::OtherFingerprint { .. }), "{error}");
}

#[test]
fn a_later_delta_confirms_its_parent() {
    let disk = SimulatedDisk::new();
    let directory = open(&disk).unwrap();
    directory.write_meta(&meta(at(0, 9))).unwrap();
    directory.write_delta(&header(at(1, 1), at(0, 9)), &delta()).unwrap();
    assert_eq!(directory.local().confirmed(), Some(at(0, 9)));
    directory.write_delta(&header(at(2, 1), at(1, 1)), &delta()).unwrap();
    assert_eq!(directory.local().confirmed(), Some(at(1, 1)));
    let wrong = directory.write_delta(&header(at(4, 1), at(2, 1)), &delta());
    assert!(matches!(wrong, Err(StateError::Delta { .. })), "{wrong:?}");
}

#[test]
fn a_delta_goes_only_after_the_store_and_meta_have_passed_it() {
    let disk = SimulatedDisk::new();
    let directory = open(&disk).unwrap();
    directory.write_meta(&meta(at(0, 9))).unwrap();
    for n in 1..=3 {
        let parent = if n == 1 { at(0, 9) } else { at(n - 1, 1) };
        directory.write_delta(&header(at(n, 1), parent), &delta()).unwrap();
    }
    directory.quarantine(at(3, 1)).unwrap();
    assert_eq!(directory.delete_applied(CheckpointId(3)).unwrap(), 0, "META is at 0");
    directory.write_meta(&meta(at(2, 1))).unwrap();
    assert_eq!(directory.delete_applied(CheckpointId(1)).unwrap(), 1, "the store is at 1");
    let left: Vec<_> = directory.local().deltas.iter().map(|delta| delta.header.at).collect();
    assert_eq!(left, [at(2, 1)]);
    assert_eq!(directory.delete_applied(CheckpointId(3)).unwrap(), 1);
    assert_eq!(directory.local().quarantined.len(), 1, "3 is not passed yet");
    assert!(directory.write_meta(&meta(at(1, 1))).is_err(), "META never goes back");
}

#[test]
fn a_quarantined_delta_is_kept_and_known_at_the_next_start() {
    let disk = SimulatedDisk::new();
    let directory = open(&disk).unwrap();
    directory.write_meta(&meta(at(0, 9))).unwrap();
    directory.write_delta(&header(at(1, 1), at(0, 9)), &delta()).unwrap();
    directory.quarantine(at(1, 1)).unwrap();
    directory.quarantine(at(1, 1)).unwrap();
    directory.write_delta(&header(at(1, 1), at(0, 9)), &delta()).unwrap();
    directory.quarantine(at(1, 1)).unwrap();
    drop(directory);
    let local = open(&disk).unwrap().local();
    assert_eq!(local.deltas, []);
    assert_eq!(local.quarantined.iter().map(|file| file.at).collect::<Vec<_>>(), [at(1, 1); 2]);
}

/// Every byte of META: the next start refuses it and changes nothing.
#[test]
fn a_flipped_bit_anywhere_in_meta_is_a_named_error() {
    let disk = SimulatedDisk::new();
    open(&disk).unwrap().write_meta(&meta(at(4, 9))).unwrap();
    let path = Path::new("/state/META");
    let length = meta(at(4, 9)).encode().unwrap().len();
    for byte in 0..length {
        for bit in [0, 7] {
            disk.damage(path, |bytes| bytes[byte] ^= 1 << bit).unwrap();
            let error = open(&disk).unwrap_err();
            assert!(matches!(error, StateError::MetaDamaged { .. }), "byte {byte}: {error}");
            disk.damage(path, |bytes| bytes[byte] ^= 1 << bit).unwrap();
        }
    }
    for cut in 0..length {
        let copy = disk.after_crash(CrashMode::KeepUnsynced);
        copy.damage(path, |bytes| bytes.truncate(cut)).unwrap();
        let error = open(&copy).unwrap_err();
        assert!(matches!(error, StateError::MetaDamaged { .. }), "cut at {cut}: {error}");
    }
}

/// Every byte of a delta: it is put aside with a reason, or (its version) refused; never read as
/// something else.
#[test]
fn a_flipped_bit_or_a_cut_anywhere_in_a_delta_is_noticed() {
    let disk = SimulatedDisk::new();
    let directory = open(&disk).unwrap();
    directory.write_meta(&meta(at(0, 9))).unwrap();
    directory.write_delta(&header(at(1, 1), at(0, 9)), &delta()).unwrap();
    let path = Path::new("/state/deltas").join(delta_name(at(1, 1)));
    let length = usize::try_from(directory.local().deltas[0].file_bytes).unwrap();
    drop(directory);
    let mut put_aside = 0;
    let mut check = |change: &dyn Fn(&mut Vec<u8>), what: String| {
        let copy = disk.after_crash(CrashMode::KeepUnsynced);
        copy.damage(&path, change).unwrap();
        match open(&copy) {
            Ok(directory) => {
                let local = directory.local();
                assert_eq!((local.deltas.len(), local.quarantined.len()), (0, 1), "{what}");
                assert!(local.quarantined[0].reason.is_some(), "{what}");
                put_aside += 1;
            }
            Err(StateError::Delta { source, .. }) => {
                let version = FormatError::UnsupportedVersion { what: "", found: 0, supported: 0 };
                let DeltaError::Header(found) = source else { panic!("{what}: {source}") };
                let same = std::mem::discriminant(&found) == std::mem::discriminant(&version);
                assert!(same, "{what}: {found}");
            }
            Err(error) => panic!("{what}: {error}"),
        }
    };
    for byte in 0..length {
        for bit in [0, 3, 7] {
            check(&|bytes| bytes[byte] ^= 1 << bit, format!("byte {byte} bit {bit}"));
        }
        check(&|bytes| bytes.truncate(byte), format!("cut at {byte}"));
    }
    check(&|bytes| bytes.push(0), "one byte more".into());
    // Of the two version bytes one bit makes the older version, whose checksum fails then.
    assert_eq!(put_aside, length * 4 + 1 - 5, "all but the two version bytes");
}

#[test]
fn a_full_disk_leaves_the_directory_usable_and_any_other_error_does_not() {
    for fault in [DiskFault::NoSpace, DiskFault::Io] {
        let fresh = SimulatedDisk::new();
        let directory = open(&fresh).unwrap();
        directory.write_meta(&meta(at(0, 9))).unwrap();
        let before = fresh.operations().len();
        directory.write_delta(&header(at(1, 1), at(0, 9)), &delta()).unwrap();
        let during = fresh.operations().len();
        for operation in before..during {
            let disk = SimulatedDisk::new();
            let directory = open(&disk).unwrap();
            directory.write_meta(&meta(at(0, 9))).unwrap();
            disk.fail_at(operation, fault);
            let first = directory.write_delta(&header(at(1, 1), at(0, 9)), &delta()).unwrap_err();
            let second = directory.write_delta(&header(at(1, 2), at(0, 9)), &delta());
            if fault == DiskFault::NoSpace {
                assert!(first.is_no_space(), "{first}");
                second.unwrap();
                drop(directory);
                let local = open(&disk).unwrap().local();
                assert_eq!(local.after(CheckpointId(0)), [at(1, 2)], "operation {operation}");
            } else {
                assert!(matches!(first, StateError::Io { .. }), "{first}");
                assert!(matches!(second, Err(StateError::Poisoned { .. })), "{second:?}");
                assert!(directory.write_meta(&meta(at(0, 9))).is_err());
                assert!(directory.quarantine(at(1, 1)).is_err());
            }
        }
    }
}
