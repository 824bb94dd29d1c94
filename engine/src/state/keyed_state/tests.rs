use millstream_checkpoint::{CheckpointId, CheckpointRef, FrozenDelta, MemoryStore, Nonce};

use super::*;
use crate::state::KeyGroups;

fn store() -> Arc<LayeredState> {
    Arc::new(LayeredState::new(Arc::new(MemoryStore::new())).unwrap())
}

fn state(store: &Arc<LayeredState>, current: u64, entries_max: usize) -> ValueState<i64> {
    ValueState::new(StateId::new("op", "values"), Arc::clone(store), current, entries_max)
}

fn add(state: &mut ValueState<i64>, key: &str, by: i64) -> i64 {
    let change = |value: &mut i64| {
        *value += by;
        *value
    };
    let mut bytes = Vec::new();
    key.to_owned().encode(&mut bytes).unwrap();
    state.update(KeyGroups::new(256, 1).of_key(&bytes), || 0, change).unwrap()
}

fn confirm(store: &LayeredState, checkpoint: u64, delta: StateDelta) {
    let at = CheckpointRef::new(CheckpointId(checkpoint), Nonce::default());
    store.push_frozen(at, Arc::new(FrozenDelta::from_parts([delta]).unwrap())).unwrap();
    store.confirm(at).unwrap();
}

fn values(delta: &StateDelta) -> Vec<(String, i64)> {
    let entry = |(key, value): &(Bytes, Option<Bytes>)| {
        (String::decode(&key[2..]).unwrap(), i64::decode(value.as_ref().unwrap()).unwrap())
    };
    delta.entries.iter().map(entry).collect()
}

#[test]
fn a_checkpoint_holds_what_changed_since_the_one_before_in_the_order_of_keys() {
    let mut state = state(&store(), 1, 100);
    add(&mut state, "b", 1);
    add(&mut state, "a", 2);
    add(&mut state, "b", 3);
    assert_eq!(values(&state.seal(1).unwrap()), [("a".to_owned(), 2), ("b".to_owned(), 4)]);
    add(&mut state, "b", 1);
    assert_eq!(values(&state.seal(2).unwrap()), [("b".to_owned(), 5)]);
    assert_eq!(values(&state.seal(3).unwrap()), []);
}

#[test]
fn another_run_goes_on_from_the_confirmed_values() {
    let store = store();
    let mut first = state(&store, 1, 100);
    add(&mut first, "a", 2);
    confirm(&store, 1, first.seal(1).unwrap());
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
    let delta = state.seal(1).unwrap();
    for key in ["e", "f", "g", "h"] {
        add(&mut state, key, 1);
    }
    assert_eq!(add(&mut state, "a", 1), 2, "sealed, not confirmed: only memory knows it");
    confirm(&store, 1, delta);
    state.confirm(1);
    for key in ["i", "j", "k"] {
        add(&mut state, key, 1);
    }
    let keys = state.slots.iter().flatten().map(|slot| String::decode(&slot.store_key[KEY_AT..]));
    assert!(!keys.flatten().any(|key| key == "b"), "confirmed and unused: dropped");
    assert_eq!(add(&mut state, "b", 1), 2);
}
