use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::disk::{CrashMode, Disk, DiskFault, DiskOperation, RealDisk, SimulatedDisk};
use crate::positions::{JobStatus, Positions, SourcePosition};
use crate::{
    CheckpointId, CheckpointRef, DescribedOperator, DescribedState, FrozenDelta, JobDescription,
    JobName, LayeredState, LineageId, MemoryStore, Meta, Nonce, StateDelta, StateId, StateStore,
    StoreError, StoreScan, TopicId,
};

pub(crate) fn at(checkpoint: u64, nonce: u8) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(checkpoint), Nonce([nonce; 16]))
}

fn operator(uid: &str, kind: &str, states: &[(&str, &str)]) -> DescribedOperator {
    DescribedOperator {
        uid: uid.into(),
        kind: kind.into(),
        states: states
            .iter()
            .map(|(name, schema)| DescribedState { name: (*name).into(), schema: (*schema).into() })
            .collect(),
    }
}

const SUM: &str = "postcard string -> postcard Sum{n:u64,total:i64,}";

pub(crate) fn description() -> JobDescription {
    JobDescription {
        job: JobName::new("orders").unwrap(),
        max_parallelism: 256,
        operators: vec![
            operator("orders", "source", &[]),
            operator("sum", "aggregate", &[("accumulators", SUM)]),
            operator("hours", "window", &[("panes", "hour postcard u8 -> postcard u64")]),
            operator("empty", "aggregate", &[("accumulators", "postcard u8 -> postcard u8")]),
        ],
    }
}

fn meta(at: CheckpointRef) -> Meta {
    let mut positions = Positions::new();
    for (uid, partition) in [("orders", 0), ("orders", 1)] {
        let position = SourcePosition {
            topic: "in".into(),
            topic_id: TopicId([3; 16]),
            partition,
            offset: 70 + i64::from(partition),
            leader_epoch: 1,
            max_event_time: Some(9),
            finished: false,
        };
        positions.insert(uid, position);
    }
    Meta {
        job: description().job,
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        positions,
        watermarks: vec![("hours".into(), 5)],
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset: Some(12),
        ledger_topic_id: TopicId([4; 16]),
        lineage: LineageId([5; 16]),
        fingerprint: description().fingerprint(),
    }
}

pub(crate) fn manifest(at: CheckpointRef) -> SavepointManifest {
    SavepointManifest::of(&meta(at), description(), SavepointTrigger::Live, 1_700_000_000_000)
        .unwrap()
}

type Contents = BTreeMap<StateId, Vec<(Bytes, Bytes)>>;

fn key(group: u16, name: &str) -> Bytes {
    [&group.to_be_bytes()[..], name.as_bytes()].concat().into()
}

/// More than one block in one state, one entry in another, none in the third.
fn contents() -> Contents {
    let many = (0..3000_u16).map(|n| {
        let value = Bytes::from(vec![u8::try_from(n % 251).unwrap(); 40]);
        (key(n % 256, &format!("{:05}", n)), value)
    });
    let mut many: Vec<_> = many.collect();
    many.sort();
    BTreeMap::from([
        (StateId::new("sum", "accumulators"), many),
        (StateId::new("hours", "panes"), vec![(key(255, ""), Bytes::new())]),
    ])
}

fn small() -> Contents {
    let entry = |n: u8| (key(u16::from(n), "k"), Bytes::from(vec![n; 3]));
    BTreeMap::from([
        (StateId::new("sum", "accumulators"), vec![entry(1), entry(2)]),
        (StateId::new("hours", "panes"), vec![entry(9)]),
    ])
}

fn cut(contents: &Contents) -> SavepointCut {
    let scans = contents.iter().map(|(state, entries)| {
        let entries = entries.clone().into_iter().map(Ok);
        let scan: StoreScan = Box::new(entries);
        (state.clone(), scan)
    });
    SavepointCut { manifest: manifest(at(7, 1)), scans: scans.collect() }
}

fn read(savepoint: &Savepoint) -> Result<Contents, SavepointError> {
    let mut contents = Contents::new();
    for (index, saved) in savepoint.manifest().states.iter().enumerate() {
        let entries = savepoint.entries(index)?.collect::<Result<Vec<_>, _>>()?;
        if !entries.is_empty() {
            contents.insert(saved.state.clone(), entries);
        }
    }
    Ok(contents)
}

fn simulated() -> (SimulatedDisk, PathBuf) {
    let disk = SimulatedDisk::new();
    disk.create_dir_all(Path::new("/s")).unwrap();
    (disk, PathBuf::from("/s/one"))
}

#[test]
fn what_was_written_is_read_back_from_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("sp");
    let written = write_savepoint(&RealDisk, &target, cut(&contents())).unwrap();
    let savepoint = Savepoint::open(Arc::new(RealDisk), &target).unwrap();
    assert_eq!(savepoint.manifest(), &written);
    assert_eq!(written.entries(), 3001);
    let states: Vec<_> = written.states.iter().map(|saved| saved.state.to_string()).collect();
    assert_eq!(states, ["empty/accumulators", "hours/panes", "sum/accumulators"]);
    assert_eq!(read(&savepoint).unwrap(), contents());
    savepoint.verify().unwrap();
    // Nothing else is left, beside it or in it.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 4);
    let again = write_savepoint(&RealDisk, &target, cut(&contents()));
    assert!(matches!(again, Err(SavepointError::AlreadyExists { .. })));
    assert_eq!(delete_savepoint(&RealDisk, &target).unwrap(), 4);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Counts what became of each damage; a wrong result is no outcome.
fn outcome_of(disk: &SimulatedDisk, target: &Path, expected: &Contents) -> &'static str {
    let found = Savepoint::open(Arc::new(disk.clone()), target).and_then(|sp| read(&sp));
    match found {
        Ok(found) => {
            assert_eq!(&found, expected, "a damaged savepoint gave a wrong state");
            "right"
        }
        Err(_) => "stopped",
    }
}

#[test]
fn every_byte_of_a_savepoint_counts() {
    let (disk, target) = simulated();
    write_savepoint(&disk, &target, cut(&small())).unwrap();
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for name in disk.list(&target).unwrap() {
        let file = target.join(&name);
        let length = disk.open(&file).unwrap().unwrap().1 as usize;
        for byte in 0..length {
            for bit in [0x01, 0x80, 0xff] {
                disk.damage(&file, |bytes| bytes[byte] ^= bit).unwrap();
                *outcomes.entry(outcome_of(&disk, &target, &small())).or_default() += 1;
                disk.damage(&file, |bytes| bytes[byte] ^= bit).unwrap();
            }
            let mut cut_off = Vec::new();
            disk.damage(&file, |bytes| cut_off = bytes.split_off(byte)).unwrap();
            *outcomes.entry(outcome_of(&disk, &target, &small())).or_default() += 1;
            disk.damage(&file, |bytes| bytes.append(&mut cut_off)).unwrap();
        }
        disk.damage(&file, |bytes| bytes.push(0)).unwrap();
        *outcomes.entry(outcome_of(&disk, &target, &small())).or_default() += 1;
        disk.damage(&file, |bytes| bytes.truncate(length)).unwrap();
    }
    assert_eq!(outcome_of(&disk, &target, &small()), "right");
    println!("savepoint attacks: {outcomes:?}");
    assert!(outcomes["stopped"] > 3000, "{outcomes:?}");
    // Every byte is covered by a checksum.
    assert_eq!(outcomes.get("right"), None);
}

#[test]
fn files_of_two_savepoints_are_not_mixed() {
    let (disk, one) = simulated();
    let two = PathBuf::from("/s/two");
    write_savepoint(&disk, &one, cut(&small())).unwrap();
    let mut other = small();
    other.get_mut(&StateId::new("hours", "panes")).unwrap()[0].1 = Bytes::from_static(b"old");
    write_savepoint(&disk, &two, cut(&other)).unwrap();
    for name in disk.list(&one).unwrap() {
        let mut theirs = Vec::new();
        disk.damage(&two.join(&name), |bytes| theirs.clone_from(bytes)).unwrap();
        let mut ours = Vec::new();
        disk.damage(&one.join(&name), |bytes| ours = std::mem::replace(bytes, theirs)).unwrap();
        let found = Savepoint::open(Arc::new(disk.clone()), &one).and_then(|sp| sp.verify());
        assert!(matches!(found, Err(SavepointError::StateFile { .. })), "{name}: {found:?}");
        disk.damage(&one.join(&name), |bytes| *bytes = ours).unwrap();
    }
    // Two files of one savepoint change places.
    let mut last = Vec::new();
    disk.damage(&one.join("state-00002.data"), |bytes| last.clone_from(bytes)).unwrap();
    disk.damage(&one.join("state-00001.data"), |bytes| *bytes = last).unwrap();
    assert!(Savepoint::open(Arc::new(disk), &one).and_then(|sp| sp.verify()).is_err());
}

/// Lets the writer die at every operation, with every kind of loss. What is there under the target's name is whole.
fn crash_everywhere(lie_about: Option<&str>) -> (usize, Result<(), String>) {
    let mut crashes = 0;
    for operation in 0.. {
        let (disk, target) = simulated();
        if let Some(part) = lie_about {
            disk.lie_about_sync_of(part);
        }
        let begin = disk.operations().len();
        disk.fail_at(begin + operation, DiskFault::Crash);
        let written = write_savepoint(&disk, &target, cut(&small()));
        let modes = [CrashMode::LoseUnsynced, CrashMode::KeepUnsynced];
        let torn = (0..20).map(CrashMode::Torn);
        for mode in modes.into_iter().chain(torn) {
            crashes += 1;
            let after = disk.after_crash(mode);
            if after.list(&target).is_err() {
                if written.is_ok() {
                    return (crashes, Err("a savepoint is gone".to_owned()));
                }
                continue;
            }
            let opened = Savepoint::open(Arc::new(after), &target);
            let found = opened.and_then(|savepoint| read(&savepoint));
            if !matches!(&found, Ok(found) if *found == small()) {
                return (crashes, Err(format!("operation {operation}, {mode:?}: {found:?}")));
            }
        }
        if !disk.operations().iter().skip(begin + operation).any(|_| true) {
            break;
        }
    }
    (crashes, Ok(()))
}

#[test]
fn a_savepoint_is_whole_or_not_there_wherever_its_writer_dies() {
    let (crashes, outcome) = crash_everywhere(None);
    println!("{crashes} crashes while a savepoint was written");
    assert_eq!(outcome, Ok(()));
    assert!(crashes > 300);
}

#[test]
fn a_writer_that_does_not_sync_its_files_is_found_out() {
    for part in ["state-", SAVEPOINT_FILE] {
        let (_, outcome) = crash_everywhere(Some(part));
        assert!(outcome.is_err(), "{part}");
    }
}

#[test]
fn a_failed_write_leaves_nothing_and_says_why() {
    let (disk, target) = simulated();
    let begin = disk.operations().len();
    write_savepoint(&disk, &target, cut(&small())).unwrap();
    let operations = disk.operations().split_off(begin);
    for (number, (operation, _)) in operations.iter().enumerate() {
        let (disk, target) = simulated();
        disk.fail_at(begin + number, DiskFault::NoSpace);
        let failed = write_savepoint(&disk, &target, cut(&small())).unwrap_err();
        assert!(matches!(failed, SavepointError::NoSpace { .. }), "{operation:?}: {failed}");
        // Only after the rename it is there, and whole.
        let whole = Savepoint::open(Arc::new(disk.clone()), &target).map(|sp| sp.verify());
        let renamed = operations.iter().position(|(done, _)| *done == DiskOperation::Rename);
        assert_eq!(whole.is_ok(), Some(number) > renamed, "{operation:?}");
    }
    let (disk, target) = simulated();
    let mut broken = cut(&small());
    let error = StoreError::NoSpace { place: "store".to_owned() };
    broken.scans[0].1 = Box::new(std::iter::once(Err(error)));
    let failed = write_savepoint(&disk, &target, broken).unwrap_err();
    assert!(matches!(failed, SavepointError::Store(_)), "{failed}");
    let undescribed = StateId::new("sum", "unknown");
    let mut strange = cut(&small());
    strange.scans.push((undescribed, Box::new(std::iter::empty())));
    let failed = write_savepoint(&disk, &target, strange).unwrap_err();
    assert!(matches!(failed, SavepointError::NotDescribed { .. }), "{failed}");
    assert!(disk.list(&target).is_err());
}

#[test]
fn only_a_savepoint_is_deleted_and_only_its_own_files() {
    let (disk, target) = simulated();
    let nothing = delete_savepoint(&disk, &target);
    assert!(matches!(nothing, Err(SavepointError::NotASavepoint { .. })));
    write_savepoint(&disk, &target, cut(&small())).unwrap();
    disk.create(&target.join("notes.txt")).unwrap();
    assert_eq!(delete_savepoint(&disk, &target).unwrap(), 4);
    assert_eq!(disk.list(&target).unwrap(), ["notes.txt"]);
    let again = delete_savepoint(&disk, &target);
    assert!(matches!(again, Err(SavepointError::NotASavepoint { unfinished: false, .. })));
    // What a writer that died has left.
    let left = Path::new("/s/.one.00.partial");
    disk.create_dir_all(left).unwrap();
    disk.create(&left.join("state-00000.data")).unwrap();
    let opened = Savepoint::open(Arc::new(disk.clone()), left).map(|_| ());
    assert!(matches!(opened, Err(SavepointError::NotASavepoint { unfinished: true, .. })));
    assert_eq!(delete_savepoint(&disk, left).unwrap(), 1);
    assert!(disk.list(left).is_err());
    let gone = delete_savepoint(&disk, left).unwrap_err();
    let SavepointError::NotASavepoint { missing: true, unfinished: false, .. } = &gone else {
        panic!("{gone:?}")
    };
    assert!(gone.to_string().contains("there is no such folder"), "{gone}");
}

#[test]
fn a_snapshot_shows_one_checkpoint_whatever_happens_after_it() {
    let state = StateId::new("sum", "accumulators");
    let layered = LayeredState::new(Arc::new(MemoryStore::new())).unwrap();
    let push = |n: u64, value: &'static str| {
        let delta = StateDelta {
            state: state.clone(),
            entries: vec![
                (key(1, "same"), Some(Bytes::from_static(value.as_bytes()))),
                (key(2, &n.to_string()), Some(Bytes::new())),
            ],
        };
        let delta = FrozenDelta::from_parts([delta]).unwrap();
        layered.push_frozen(at(n, 1), Arc::new(delta)).unwrap();
    };
    assert_eq!(layered.snapshot().unwrap().at, None);
    push(1, "one");
    layered.confirm(at(1, 1)).unwrap();
    layered.apply_confirmed(1).unwrap();
    push(2, "two");
    layered.confirm(at(2, 1)).unwrap();
    // Not confirmed, so not in it.
    push(3, "three");
    let snapshot = layered.snapshot().unwrap();
    layered.confirm(at(3, 1)).unwrap();
    while layered.apply_confirmed(1).unwrap().is_some() {}
    push(4, "four");
    assert_eq!(snapshot.at, Some(at(2, 1)));
    let [(id, scan)]: [_; 1] = snapshot.scans.try_into().map_err(|_| "one state").unwrap();
    assert_eq!(id, state);
    let found: Vec<_> = scan.map(Result::unwrap).collect();
    let expected = vec![
        (key(1, "same"), Bytes::from_static(b"two")),
        (key(2, "1"), Bytes::new()),
        (key(2, "2"), Bytes::new()),
    ];
    assert_eq!(found, expected);
}

#[test]
fn states_are_restored_into_a_store_with_their_floor() {
    let (disk, target) = simulated();
    write_savepoint(&disk, &target, cut(&small())).unwrap();
    let savepoint = Savepoint::open(Arc::new(disk), &target).unwrap();
    let plan = plan_restore(savepoint.manifest(), &description(), false).unwrap();
    assert_eq!(plan.states, [0, 1, 2]);
    let store = MemoryStore::new();
    let report = restore_states(&savepoint, &plan, &store, at(8, 2)).unwrap();
    assert_eq!(report, RestoreReport { states: 3, entries: 3 });
    assert_eq!(store.floor().unwrap(), Some(at(8, 2)));
    for (state, entries) in small() {
        let found: Vec<_> =
            store.scan(&state, &crate::KeyRange::all()).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, entries);
    }
}

#[test]
fn a_job_with_other_operators_is_told_what_has_no_place() {
    let (disk, target) = simulated();
    let saved = write_savepoint(&disk, &target, cut(&small())).unwrap();
    // A state without entries may go; a watermark goes with its operator.
    let mut job = description();
    job.operators.retain(|operator| &*operator.uid != "empty");
    job.job = JobName::new("other").unwrap();
    let plan = plan_restore(&saved, &job, false).unwrap();
    assert_eq!((plan.states.as_slice(), plan.positions.len()), (&[1, 2][..], 2));
    assert_eq!(plan.watermarks, [("hours".to_owned(), 5)]);

    job.operators.retain(|operator| &*operator.uid == "sum");
    job.operators.push(operator("new", "aggregate", &[("accumulators", SUM)]));
    let refused = plan_restore(&saved, &job, false).unwrap_err();
    let text = refused.to_string();
    for part in ["state 'panes' of operator 'hours' (1 entry)", "source 'orders' (2 splits)"] {
        assert!(text.contains(part), "{text}");
    }
    let plan = plan_restore(&saved, &job, true).unwrap();
    assert_eq!((plan.states.as_slice(), plan.positions.len()), (&[2][..], 0));
    assert_eq!(plan.not_restored.len(), 2);
    assert_eq!(plan.new_operators, ["new"]);
    assert_eq!(plan.watermarks, []);
}

#[test]
fn a_changed_schema_is_refused_with_the_field_even_if_state_may_be_left_behind() {
    let (disk, target) = simulated();
    let mut saved = write_savepoint(&disk, &target, cut(&small())).unwrap();
    let mut job = description();
    job.operators[1].states[0].schema = SUM.replace("total:i64", "total:i32").into();
    for allow in [false, true] {
        let refused = plan_restore(&saved, &job, allow).unwrap_err().to_string();
        assert!(
            refused.contains(
                "state 'accumulators' of operator 'sum' has changed: field 'value.total' was i64, is i32"
            ),
            "{refused}"
        );
    }
    job = description();
    job.max_parallelism = 128;
    let refused = plan_restore(&saved, &job, true).unwrap_err();
    assert_eq!(refused, IncompatibleSavepoint::MaxParallelism { savepoint: 256, job: 128 });
    // The end of time is not the time of a job that goes on.
    // An operator's processing time stands beside its watermark, and goes where the operator goes.
    saved.watermarks = vec![
        ("hours".into(), i64::MAX),
        ("sum".into(), 4),
        ("sum\0processing-time".into(), 90),
        ("gone\0processing-time".into(), 90),
    ];
    let plan = plan_restore(&saved, &description(), false).unwrap();
    assert_eq!(plan.watermarks, [("sum".to_owned(), 4), ("sum\0processing-time".to_owned(), 90)]);
}

#[test]
fn what_changed_between_two_jobs_is_said_in_words() {
    let mut now = description();
    assert_eq!(description().changes_to(&now), Vec::<String>::new());
    assert_eq!(JobDescription::decode(&now.encode().unwrap()), Ok(now.clone()));
    now.operators.swap(1, 2);
    assert_eq!(description().changes_to(&now), ["its operators stand in another order"]);
    now.max_parallelism = 64;
    now.operators.remove(0);
    now.operators[0].kind = "join".into();
    now.operators[1].states[0].schema = SUM.replace("n:u64,", "").into();
    now.operators[2].uid = "full".into();
    let expected = [
        "max_parallelism was 256, is 64",
        "operator 'orders' is gone",
        "state 'accumulators' of operator 'sum' has changed: field 'value.n' (u64) is gone",
        "operator 'hours' was a window, is a join",
        "operator 'empty' is gone",
        "operator 'full' is new",
    ];
    assert_eq!(description().changes_to(&now), expected);
}

/// A directory whose META stands at 0 and whose delta files say that 1 is committed and 2 was written.
fn undecided_directory(path: &Path) {
    let directory =
        crate::StateDirectory::open_described(Arc::new(RealDisk), path, &description()).unwrap();
    directory.write_meta(&Meta { ledger_offset: None, ..meta(at(0, 1)) }).unwrap();
    for n in 1..=2_u8 {
        let header = crate::DeltaHeader {
            job: description().job,
            at: at(n.into(), 1),
            parent: at(u64::from(n) - 1, 1),
            parent_ledger_offset: Some(3),
            positions: meta(at(n.into(), 1)).positions,
            watermarks: Vec::new(),
            status: JobStatus::Running,
            fingerprint: description().fingerprint(),
            producer: None,
        };
        let entries = vec![(key(1, "k"), Some(Bytes::from(vec![n])))];
        let state = StateId::new("sum", "accumulators");
        let delta = FrozenDelta::from_parts([StateDelta { state, entries }]).unwrap();
        directory.write_delta(&header, &delta).unwrap();
    }
}

#[test]
fn a_directory_whose_last_checkpoint_only_the_ledger_knows_needs_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let take = |state: &str, target: &str, committed| {
        savepoint_of_directory(&path(state), &path(target), 0, committed)
    };
    let nothing = take("none", "sp", None);
    assert!(matches!(nothing, Err(SavepointError::State(_))), "{nothing:?}");
    std::fs::create_dir(path("empty")).unwrap();
    let empty = take("empty", "sp", None);
    assert!(matches!(empty, Err(SavepointError::NoState { .. })), "{empty:?}");
    // Each look replays into the store, so each has a directory of its own.
    for name in ["one", "two", "three", "four"] {
        undecided_directory(&path(name));
    }
    let unknown = take("one", "sp", None);
    assert!(matches!(unknown, Err(SavepointError::Undecided { .. })), "{unknown:?}");
    let other = take("one", "sp", Some(at(5, 1)));
    assert!(matches!(other, Err(SavepointError::OtherThanLedger { .. })), "{other:?}");
    assert!(!path("sp").exists());
    for (state, committed, value) in [("two", at(1, 1), 1), ("three", at(2, 1), 2)] {
        let target = path(&format!("sp-{state}"));
        let taken = savepoint_of_directory(&path(state), &target, 0, Some(committed)).unwrap();
        assert_eq!((taken.at, taken.trigger), (committed, SavepointTrigger::Directory));
        let savepoint = Savepoint::open(Arc::new(RealDisk), &target).unwrap();
        let entries = BTreeMap::from([(
            StateId::new("sum", "accumulators"),
            vec![(key(1, "k"), Bytes::from(vec![value]))],
        )]);
        assert_eq!(read(&savepoint).unwrap(), entries);
    }
    let held =
        crate::StateDirectory::open_described(Arc::new(RealDisk), &path("four"), &description());
    let in_use = take("four", "sp", Some(at(1, 1)));
    let message = in_use.unwrap_err().to_string();
    assert!(message.contains("in use by process"), "{message}");
    drop(held);
}
