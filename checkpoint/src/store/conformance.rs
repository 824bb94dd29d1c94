//! What every store must do, run against both, and a comparison of the two on random histories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::{FjallOptions, FjallStore, KeyRange, MemoryStore, StateStore};
use crate::delta::{DeltaEntry, StateId};
use crate::error::StoreError;
use crate::ids::{CheckpointId, CheckpointRef, Nonce};

/// Opens the store under test; the second call and later ones reopen it.
type Open<'a> = &'a mut dyn FnMut() -> Arc<dyn StateStore>;

fn at(n: u64) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(n), Nonce([u8::try_from(n).unwrap(); 16]))
}

fn key(group: u16, name: &[u8]) -> Bytes {
    [&group.to_be_bytes()[..], name].concat().into()
}

fn put(group: u16, name: &str, value: &str) -> DeltaEntry {
    (key(group, name.as_bytes()), Some(Bytes::copy_from_slice(value.as_bytes())))
}

fn delete(group: u16, name: &str) -> DeltaEntry {
    (key(group, name.as_bytes()), None)
}

fn ingest(store: &dyn StateStore, state: &StateId, n: u64, entries: &[DeltaEntry]) {
    store.ingest(state, at(n), &mut entries.iter().cloned()).unwrap();
}

fn scan(store: &dyn StateStore, state: &StateId, range: &KeyRange) -> Vec<(Bytes, Bytes)> {
    store.scan(state, range).unwrap().map(Result::unwrap).collect()
}

fn an_empty_store_holds_nothing(open: Open<'_>) {
    let store = open();
    let state = StateId::new("a", "b");
    assert_eq!(store.get(&state, &key(1, b"x")).unwrap(), None);
    assert_eq!(scan(&*store, &state, &KeyRange::all()), []);
    assert_eq!((store.applied(&state).unwrap(), store.floor().unwrap()), (None, None));
    assert_eq!(store.states().unwrap(), []);
}

fn an_ingestion_replaces_and_deletes_and_moves_the_mark(open: Open<'_>) {
    let state = StateId::new("a", "b");
    let store = open();
    ingest(&*store, &state, 1, &[put(1, "x", "1"), put(1, "y", "1"), put(2, "", "1")]);
    ingest(&*store, &state, 2, &[delete(1, "nothing"), delete(1, "x"), put(1, "y", "2")]);
    assert_eq!(store.applied(&state).unwrap(), Some(at(2)));
    store.persist().unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.get(&state, &key(1, b"x")).unwrap(), None);
    assert_eq!(store.get(&state, &key(1, b"y")).unwrap(), Some(Bytes::from_static(b"2")));
    let all = scan(&*store, &state, &KeyRange::all());
    let (y, empty) = (put(1, "y", "2"), put(2, "", "1"));
    assert_eq!(all, [(y.0, y.1.unwrap()), (empty.0, empty.1.unwrap())]);
    assert_eq!(store.applied(&state).unwrap(), Some(at(2)));
}

fn an_empty_ingestion_still_moves_the_mark(open: Open<'_>) {
    let state = StateId::new("a", "b");
    let store = open();
    ingest(&*store, &state, 1, &[]);
    assert_eq!(store.applied(&state).unwrap(), Some(at(1)));
    assert_eq!(scan(&*store, &state, &KeyRange::all()), []);
    assert_eq!(store.states().unwrap(), [state]);
}

fn states_do_not_mix_whatever_their_names(open: Open<'_>) {
    let long = "ü".repeat(400);
    let states = [
        StateId::new("a", "bc"),
        StateId::new("ab", "c"),
        StateId::new("", "abc"),
        StateId::new("a/b", "c"),
        StateId::new("a", "b/c"),
        StateId::new(long.as_str(), "x\0"),
    ];
    let store = open();
    for (n, state) in states.iter().enumerate() {
        ingest(&*store, state, 1, &[put(0, "k", &n.to_string())]);
    }
    store.persist().unwrap();
    drop(store);
    let store = open();
    for (n, state) in states.iter().enumerate() {
        let found = store.get(state, &key(0, b"k")).unwrap();
        assert_eq!(found, Some(Bytes::from(n.to_string())), "{state}");
    }
    let mut sorted = states.to_vec();
    sorted.sort();
    assert_eq!(store.states().unwrap(), sorted);
}

fn ranges_are_by_prefix_and_by_key_group(open: Open<'_>) {
    let state = StateId::new("a", "b");
    let store = open();
    let entries = [
        put(1, "a", "1"),
        put(1, "b", "2"),
        put(1, "b\u{7f}", "3"),
        put(2, "", "4"),
        put(0x7fff, "z", "5"),
    ];
    ingest(&*store, &state, 1, &entries);
    let values = |range: &KeyRange| -> Vec<_> {
        scan(&*store, &state, range).into_iter().map(|(_, value)| value).collect()
    };
    assert_eq!(values(&KeyRange::prefix(&key(1, b"b"))), ["2", "3"]);
    assert_eq!(values(&KeyRange::prefix(&key(2, b""))), ["4"]);
    assert_eq!(values(&KeyRange::key_groups(2, 0x8000)), ["4", "5"]);
    assert_eq!(values(&KeyRange::key_groups(3, 9)), Vec::<Bytes>::new());
    assert_eq!(values(&KeyRange::all()).len(), 5);
    assert_eq!(values(&KeyRange::prefix(&[0xff, 0xff])), Vec::<Bytes>::new());
}

fn a_scan_does_not_see_later_ingestions(open: Open<'_>) {
    let state = StateId::new("a", "b");
    let store = open();
    ingest(&*store, &state, 1, &[put(1, "a", "1"), put(1, "b", "1")]);
    let found = store.scan(&state, &KeyRange::all()).unwrap();
    ingest(&*store, &state, 2, &[put(1, "a", "2"), delete(1, "b"), put(1, "c", "2")]);
    let found: Vec<_> = found.map(|entry| entry.unwrap().1).collect();
    assert_eq!(found, ["1", "1"]);
}

fn keys_out_of_order_or_without_a_key_group_are_refused_whole(open: Open<'_>) {
    let state = StateId::new("a", "b");
    let store = open();
    ingest(&*store, &state, 1, &[put(1, "a", "1")]);
    for bad in [
        vec![put(1, "b", "2"), put(1, "a", "2")],
        vec![put(1, "b", "2"), put(1, "b", "2")],
        vec![put(0x8000, "b", "2")],
        vec![(Bytes::from_static(b"x"), None)],
    ] {
        let refused = store.ingest(&state, at(2), &mut bad.into_iter());
        assert!(matches!(refused, Err(StoreError::InvalidEntries { .. })), "{refused:?}");
    }
    assert_eq!(store.applied(&state).unwrap(), Some(at(1)));
    assert_eq!(scan(&*store, &state, &KeyRange::all()).len(), 1);
    ingest(&*store, &state, 2, &[put(1, "a", "2")]);
    assert_eq!(store.get(&state, &key(1, b"a")).unwrap(), Some(Bytes::from_static(b"2")));
}

fn the_floor_covers_every_state_and_survives(open: Open<'_>) {
    let (touched, idle) = (StateId::new("a", "b"), StateId::new("a", "c"));
    let store = open();
    ingest(&*store, &idle, 1, &[put(1, "a", "1")]);
    ingest(&*store, &touched, 4, &[put(1, "a", "1")]);
    store.persist_floor(at(3)).unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.floor().unwrap(), Some(at(3)));
    assert_eq!(store.applied(&idle).unwrap(), Some(at(3)));
    assert_eq!(store.applied(&touched).unwrap(), Some(at(4)));
    assert_eq!(store.applied(&StateId::new("never", "seen")).unwrap(), Some(at(3)));
}

macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[test]
            fn $name() {
                let store: std::sync::Arc<dyn super::StateStore> = std::sync::Arc::new(super::MemoryStore::new());
                super::$name(&mut || std::sync::Arc::clone(&store));
            })*
        }
        mod fjall {
            $(#[test]
            fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::$name(&mut || super::open_fjall(folder.path().to_owned()));
            })*
        }
    };
}

conformance!(
    an_empty_store_holds_nothing,
    an_ingestion_replaces_and_deletes_and_moves_the_mark,
    an_empty_ingestion_still_moves_the_mark,
    states_do_not_mix_whatever_their_names,
    ranges_are_by_prefix_and_by_key_group,
    a_scan_does_not_see_later_ingestions,
    keys_out_of_order_or_without_a_key_group_are_refused_whole,
    the_floor_covers_every_state_and_survives,
);

fn open_fjall(path: PathBuf) -> Arc<dyn StateStore> {
    let options = FjallOptions { cache_bytes: 1 << 20, worker_threads: 1 };
    Arc::new(FjallStore::open(&path, options).unwrap())
}

// ---------------------------------------------------------------------------------- fjall against memory

#[derive(Clone, Debug)]
enum Step {
    Ingest { state: u8, entries: BTreeMap<(u8, u8), Option<u16>> },
    Floor,
    Reopen,
    Get { state: u8, key: (u8, u8) },
    Scan { state: u8, from: (u8, u8), to: (u8, u8) },
}

fn step() -> impl Strategy<Value = Step> {
    // Few keys, so that they are rewritten and deleted often (lsm-tree #315 was about hot keys).
    let key = || (0..4_u8, 0..8_u8);
    let entries = proptest::collection::btree_map(key(), proptest::option::of(any::<u16>()), 0..12);
    prop_oneof![
        8 => (0..3_u8, entries).prop_map(|(state, entries)| Step::Ingest { state, entries }),
        1 => Just(Step::Floor),
        1 => Just(Step::Reopen),
        4 => (0..3_u8, key()).prop_map(|(state, key)| Step::Get { state, key }),
        2 => (0..3_u8, key(), key()).prop_map(|(state, from, to)| Step::Scan { state, from, to }),
    ]
}

fn short((group, name): (u8, u8)) -> Bytes {
    key(u16::from(group), &[name])
}

fn long_value(value: u16) -> Bytes {
    // Some values are long enough for blocks of their own.
    let length = if value.is_multiple_of(17) { 5000 } else { 2 };
    value.to_be_bytes().into_iter().cycle().take(length).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn fjall_and_memory_agree_on_any_history(steps in proptest::collection::vec(step(), 1..70)) {
        let folder = tempfile::tempdir().unwrap();
        let memory = MemoryStore::new();
        let mut fjall = open_fjall(folder.path().to_owned());
        let state = |n: u8| StateId::new("operator", n.to_string());
        let (mut n, mut compared) = (0, 0);
        for step in &steps {
            match step {
                Step::Ingest { state: id, entries } => {
                    n += 1;
                    let entries: Vec<DeltaEntry> = entries
                        .iter()
                        .map(|(key, value)| (short(*key), value.map(long_value)))
                        .collect();
                    for store in [&memory as &dyn StateStore, &*fjall] {
                        store.ingest(&state(*id), at(n % 200), &mut entries.iter().cloned()).unwrap();
                    }
                }
                Step::Floor => {
                    memory.persist_floor(at(n % 200)).unwrap();
                    fjall.persist_floor(at(n % 200)).unwrap();
                }
                Step::Reopen => {
                    // Ingestions survive even without `persist`: a closed store loses nothing.
                    drop(fjall);
                    fjall = open_fjall(folder.path().to_owned());
                }
                Step::Get { state: id, key } => {
                    let key = short(*key);
                    let expected = memory.get(&state(*id), &key).unwrap();
                    prop_assert_eq!(fjall.get(&state(*id), &key).unwrap(), expected);
                    compared += 1;
                }
                Step::Scan { state: id, from, to } => {
                    let range = KeyRange { start: short(*from), end: Some(short(*to)) };
                    let expected = scan(&memory, &state(*id), &range);
                    prop_assert_eq!(scan(&*fjall, &state(*id), &range), expected);
                    compared += 1;
                }
            }
        }
        drop(fjall);
        let fjall = open_fjall(folder.path().to_owned());
        prop_assert_eq!(fjall.states().unwrap(), memory.states().unwrap());
        prop_assert_eq!(fjall.floor().unwrap(), memory.floor().unwrap());
        for id in 0..3 {
            let state = state(id);
            prop_assert_eq!(fjall.applied(&state).unwrap(), memory.applied(&state).unwrap());
            let expected = scan(&memory, &state, &KeyRange::all());
            prop_assert_eq!(scan(&*fjall, &state, &KeyRange::all()), expected);
            compared += 1;
        }
        prop_assert!(compared >= 3);
    }
}

/// Set for the process that is going to be killed: the folder of its store.
const KILLED_IN: &str = "MILLSTREAM_TEST_KILLED_IN";

/// The changes of checkpoint n: one key that is always rewritten, one that moves.
fn killed_entries(n: u64) -> [DeltaEntry; 3] {
    let (old, now) = (format!("{:06}", n - 1), format!("{n:06}"));
    [delete(0, &old), put(0, &now, "x"), put(1, "hot", &now)]
}

fn wide(n: u64) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(n), Nonce([7; 16]))
}

/// Not a test of its own: the process that `a_killed_process_leaves_whole_ingestions` starts and kills.
#[test]
fn the_process_to_be_killed() {
    let Ok(folder) = std::env::var(KILLED_IN) else { return };
    let store = open_fjall(folder.into());
    let states = [StateId::new("a", "x"), StateId::new("b", "y")];
    let next = store.applied(&states[1]).unwrap().map_or(1, |at| at.checkpoint.0 + 1);
    for n in next..next + 100_000 {
        for state in &states {
            store.ingest(state, wide(n), &mut killed_entries(n).into_iter()).unwrap();
        }
        if n.is_multiple_of(4) {
            store.persist_floor(wide(n)).unwrap();
        }
        println!("applied {n}");
    }
}

#[test]
fn a_killed_process_leaves_whole_ingestions() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    for lines in [1, 6, 17, 3, 29] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::conformance::the_process_to_be_killed", "--nocapture"])
            .env(KILLED_IN, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = output.map(Result::unwrap).filter_map(|line| {
            let (_, n) = line.split_once("applied ")?;
            n.parse::<u64>().ok()
        });
        let last_said = said.take(lines).last().expect("the process reports what it applied");
        child.kill().unwrap();
        child.wait().unwrap();
        let store = open_fjall(folder.path().to_owned());
        let floor = store.floor().unwrap().map_or(0, |at| at.checkpoint.0);
        assert!(floor >= last_said / 4 * 4, "floor {floor}, said {last_said}");
        for state in [StateId::new("a", "x"), StateId::new("b", "y")] {
            let n = store.applied(&state).unwrap().unwrap().checkpoint.0;
            assert!(n >= last_said, "{n} < {last_said}");
            let [_, moved, hot] = killed_entries(n);
            let expected = [(moved.0, moved.1.unwrap()), (hot.0, hot.1.unwrap())];
            assert_eq!(scan(&*store, &state, &KeyRange::all()), expected);
        }
    }
}

/// Many ingestions into one keyspace: compaction runs beside reads, nothing goes stale.
#[test]
fn a_key_rewritten_by_many_ingestions_always_reads_as_last_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_fjall(folder.path().to_owned());
    let state = StateId::new("hot", "key");
    for n in 1..=150_u64 {
        let value = n.to_string();
        let old = format!("{:04}", n - 1);
        let now = format!("{n:04}");
        ingest(
            &*store,
            &state,
            n % 200,
            &[delete(0, &old), put(0, &now, "x"), put(1, "hot", &value)],
        );
        let found = store.get(&state, &key(1, b"hot")).unwrap();
        assert_eq!(found, Some(Bytes::from(value)));
        assert_eq!(scan(&*store, &state, &KeyRange::key_groups(0, 1)).len(), 1);
    }
}
