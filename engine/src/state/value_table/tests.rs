use millstream_checkpoint::{CheckpointId, CheckpointRef, FrozenDelta, MemoryStore, Nonce};

use super::*;
use crate::state::KeyGroups;

fn store() -> Arc<LayeredState> {
    Arc::new(LayeredState::new(Arc::new(MemoryStore::new())).unwrap())
}

fn state(store: &Arc<LayeredState>, current: u64, entries_max: usize) -> ValueTable<i64> {
    ValueTable::new(StateId::new("op", "values"), Arc::clone(store), current, entries_max)
}

fn encoded(key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.to_owned().encode(&mut bytes).unwrap();
    bytes
}

fn add(state: &mut ValueTable<i64>, key: &str, by: i64) -> i64 {
    let change = |value: &mut i64| {
        *value += by;
        *value
    };
    state.update(KeyGroups::new(256, 1).of_key(&encoded(key)), || 0, change).unwrap()
}

fn remove(state: &mut ValueTable<i64>, key: &str) {
    let bytes = encoded(key);
    let index = state.locate(KeyGroups::new(256, 1).of_key(&bytes));
    *state.write(index).unwrap() = None;
}

fn finish(state: &mut ValueTable<i64>) -> Vec<SealedState> {
    let mut sealed = Vec::new();
    assert!(state.seal_some(&mut SealBudget::unlimited(), |it| sealed.push(it)).unwrap());
    sealed
}

fn seal(state: &mut ValueTable<i64>, checkpoint: u64) -> Vec<SealedState> {
    state.freeze(checkpoint).unwrap();
    finish(state)
}

fn confirm(store: &LayeredState, checkpoint: u64, delta: Vec<SealedState>) {
    let at = CheckpointRef::new(CheckpointId(checkpoint), Nonce::default());
    store.push_frozen(at, Arc::new(FrozenDelta::from_parts(delta).unwrap())).unwrap();
    store.confirm(at).unwrap();
}

fn values(delta: &[SealedState]) -> Vec<(String, Option<i64>)> {
    let mut values: Vec<_> = delta
        .iter()
        .flat_map(SealedState::entries)
        .map(|(key, value)| {
            let value = value.map(|value| i64::decode(&value).unwrap());
            (String::decode(&key[2..]).unwrap(), value)
        })
        .collect();
    values.sort();
    values
}

fn of(key: &str, value: i64) -> (String, Option<i64>) {
    (key.to_owned(), Some(value))
}

#[test]
fn a_checkpoint_holds_what_changed_since_the_one_before() {
    let mut state = state(&store(), 1, 100);
    add(&mut state, "b", 1);
    add(&mut state, "a", 2);
    add(&mut state, "b", 3);
    assert_eq!(values(&seal(&mut state, 1)), [of("a", 2), of("b", 4)]);
    add(&mut state, "b", 1);
    assert_eq!(values(&seal(&mut state, 2)), [of("b", 5)]);
    assert_eq!(values(&seal(&mut state, 3)), []);
}

#[test]
fn a_checkpoint_holds_values_as_they_were_at_its_barrier_whatever_changes_while_it_is_encoded() {
    let store = store();
    let mut state = state(&store, 1, 100);
    for key in ["a", "b", "c", "d"] {
        add(&mut state, key, 1);
    }
    state.freeze(1).unwrap();
    let mut budget = SealBudget::of(0);
    assert!(!state.seal_some(&mut budget, |_| panic!("nothing can be sealed")).unwrap());
    add(&mut state, "c", 100);
    remove(&mut state, "d");
    add(&mut state, "e", 100);
    let first = finish(&mut state);
    assert_eq!(values(&first), [of("a", 1), of("b", 1), of("c", 1), of("d", 1)]);
    confirm(&store, 1, first);
    let second = seal(&mut state, 2);
    assert_eq!(values(&second), [of("c", 101), ("d".to_owned(), None), of("e", 100)]);
}

#[test]
fn a_barrier_before_the_last_checkpoint_is_encoded_is_a_bug_that_is_told() {
    let mut state = state(&store(), 1, 100);
    add(&mut state, "a", 1);
    state.freeze(1).unwrap();
    assert!(state.freeze(2).is_err());
}

#[test]
fn a_key_that_comes_and_goes_within_a_checkpoint_leaves_nothing_behind() {
    let mut state = state(&store(), 1, 100);
    add(&mut state, "a", 1);
    remove(&mut state, "a");
    // Of a key that was not looked for in the store nothing is known.
    remove(&mut state, "b");
    assert_eq!(values(&seal(&mut state, 1)), [("b".to_owned(), None)]);
}

#[test]
fn another_run_goes_on_from_the_confirmed_values() {
    let store = store();
    let mut first = state(&store, 1, 100);
    add(&mut first, "a", 2);
    confirm(&store, 1, seal(&mut first, 1));
    add(&mut first, "a", 50);
    let mut second = state(&store, 2, 100);
    assert_eq!(add(&mut second, "a", 1), 3);
}

#[test]
fn a_value_that_the_store_does_not_show_yet_is_never_dropped() {
    let store = store();
    let mut state = state(&store, 1, 2);
    for key in ["a", "b", "c", "d"] {
        add(&mut state, key, 1);
    }
    let delta = seal(&mut state, 1);
    for key in ["e", "f", "g", "h"] {
        add(&mut state, key, 1);
    }
    assert_eq!(add(&mut state, "a", 1), 2, "sealed, not confirmed: only memory knows it");
    confirm(&store, 1, delta);
    state.confirm(1);
    for key in ["i", "j", "k", "l"] {
        add(&mut state, key, 1);
    }
    let keys = state.slots.iter().flatten().map(|slot| String::decode(&slot.store_key[KEY_AT..]));
    assert!(!keys.flatten().any(|key| key == "b"), "confirmed and unused: dropped");
    assert_eq!(add(&mut state, "b", 1), 2);
}

#[test]
fn dirty_bytes_are_told_while_they_are_many_and_taken_off_at_the_barrier() {
    let store = store();
    let mut state = state(&store, 1, 1 << 20);
    for key in 0..10_000 {
        add(&mut state, &key.to_string(), 1);
    }
    assert!(store.dirty_bytes().bytes() > 10_000 * 10);
    state.freeze(1).unwrap();
    assert_eq!(store.dirty_bytes().bytes(), 0);
}

#[test]
fn a_table_far_above_its_bound_shrinks_again() {
    let store = store();
    let mut state = state(&store, 1, 10);
    for key in 0..1000 {
        add(&mut state, &key.to_string(), 1);
    }
    confirm(&store, 1, seal(&mut state, 1));
    state.confirm(1);
    for key in 1000..1200 {
        add(&mut state, &key.to_string(), 1);
    }
    assert!(state.table.len() < 250, "{} values are left", state.table.len());
    assert_eq!(add(&mut state, "7", 1), 2);
}
