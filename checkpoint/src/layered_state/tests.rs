use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::delta::StateDelta;
use crate::ids::{CheckpointId, Nonce};
use crate::store::MemoryStore;

fn at(n: u64, nonce: u8) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(n), Nonce([nonce; 16]))
}

fn key(group: u8, name: u8) -> Bytes {
    vec![0, group, name].into()
}

fn state(n: u8) -> StateId {
    StateId::new("operator", n.to_string())
}

fn frozen(state_of: u8, entries: &[(Bytes, Option<&'static str>)]) -> Arc<FrozenDelta> {
    let entries =
        entries.iter().map(|(key, value)| (key.clone(), value.map(Bytes::from))).collect();
    Arc::new(FrozenDelta::from_parts([StateDelta { state: state(state_of), entries }]).unwrap())
}

fn layered() -> LayeredState {
    LayeredState::new(Arc::new(MemoryStore::new())).unwrap()
}

fn scan(layered: &LayeredState, range: &KeyRange) -> Vec<(Bytes, Bytes)> {
    layered.scan(&state(0), range).unwrap().map(Result::unwrap).collect()
}

#[test]
fn the_newest_layer_wins_and_a_delete_hides_what_is_below() {
    let layered = layered();
    layered
        .push_frozen(at(1, 1), frozen(0, &[(key(0, 1), Some("1")), (key(0, 2), Some("1"))]))
        .unwrap();
    layered.confirm(at(1, 1)).unwrap();
    layered.apply_confirmed(0).unwrap();
    layered.push_frozen(at(2, 1), frozen(0, &[(key(0, 1), None), (key(0, 3), Some("2"))])).unwrap();
    layered.push_frozen(at(3, 1), frozen(0, &[(key(0, 2), Some("3"))])).unwrap();
    assert_eq!(layered.get(&state(0), &key(0, 1)).unwrap(), None);
    assert_eq!(layered.get(&state(0), &key(0, 2)).unwrap(), Some("3".into()));
    assert_eq!(
        scan(&layered, &KeyRange::all()),
        [(key(0, 2), "3".into()), (key(0, 3), "2".into())]
    );
    assert_eq!(scan(&layered, &KeyRange::prefix(&key(0, 3))), [(key(0, 3), "2".into())]);
}

#[test]
fn only_confirmed_layers_are_applied_and_only_unconfirmed_ones_dropped() {
    let layered = layered();
    for n in 1..=3 {
        layered.push_frozen(at(n, 1), frozen(0, &[(key(0, 1), Some("x"))])).unwrap();
    }
    layered.confirm(at(2, 1)).unwrap();
    assert_eq!(layered.drop_unconfirmed(), [at(3, 1)]);
    let step = layered.apply_confirmed(usize::MAX).unwrap().unwrap();
    assert_eq!((step.up_to, step.checkpoints, step.entries), (at(2, 1), 2, 1));
    assert_eq!(layered.apply_confirmed(usize::MAX).unwrap(), None);
    assert_eq!(layered.store().applied(&state(0)).unwrap(), Some(at(2, 1)));
    layered.push_frozen(at(3, 2), frozen(0, &[])).unwrap();
    assert_eq!(layered.pending_bytes(), (0, 0));
}

#[test]
fn an_ingestion_takes_as_many_checkpoints_as_fit_and_at_least_one() {
    let layered = layered();
    for n in 1..=3 {
        layered.push_frozen(at(n, 1), frozen(0, &[(key(0, 1), Some("x"))])).unwrap();
    }
    layered.confirm(at(3, 1)).unwrap();
    let (each, _) = layered.pending_bytes();
    let each = each / 3;
    let step = layered.apply_confirmed(2 * each).unwrap().unwrap();
    assert_eq!((step.up_to, step.checkpoints, step.bytes), (at(2, 1), 2, 2 * each));
    assert_eq!(layered.apply_confirmed(0).unwrap().unwrap().up_to, at(3, 1));
}

#[test]
fn the_floor_is_raised_by_persist_alone() {
    let layered = layered();
    assert_eq!(layered.persist().unwrap(), None);
    layered.push_frozen(at(1, 1), frozen(0, &[(key(0, 1), Some("x"))])).unwrap();
    layered.confirm(at(1, 1)).unwrap();
    layered.apply_confirmed(0).unwrap();
    assert_eq!(layered.store().floor().unwrap(), None);
    assert_eq!(layered.persist().unwrap(), Some(at(1, 1)));
    assert_eq!(layered.store().floor().unwrap(), Some(at(1, 1)));
}

#[test]
fn layers_out_of_order_are_refused() {
    let layered = layered();
    layered.push_frozen(at(4, 1), frozen(0, &[])).unwrap();
    let again = layered.push_frozen(at(4, 2), frozen(0, &[]));
    assert!(matches!(again, Err(StoreError::OutOfOrder { .. })));
    let other = layered.confirm(at(4, 2));
    assert!(matches!(other, Err(StoreError::OutOfOrder { .. })));
    layered.confirm(at(4, 1)).unwrap();
    layered.apply_confirmed(0).unwrap();
    layered.confirm(at(4, 1)).unwrap();
    assert!(layered.push_frozen(at(6, 1), frozen(0, &[])).is_err());
    layered.push_frozen(at(5, 1), frozen(0, &[])).unwrap();
}

#[test]
fn readers_see_every_key_while_layers_move_into_the_store() {
    let layered = Arc::new(layered());
    layered.push_frozen(at(1, 1), frozen(0, &[(key(0, 0), Some("x"))])).unwrap();
    layered.confirm(at(1, 1)).unwrap();
    std::thread::scope(|scope| {
        let reader = Arc::clone(&layered);
        let reads = scope.spawn(move || {
            let mut reads = 0;
            while reader.store().applied(&state(0)).unwrap() != Some(at(200, 1)) {
                assert!(reader.get(&state(0), &key(0, 0)).unwrap().is_some());
                assert_eq!(scan(&reader, &KeyRange::all()).len(), 1);
                reads += 1;
            }
            reads
        });
        for n in 2..=200 {
            layered.push_frozen(at(n, 1), frozen(0, &[(key(0, 0), Some("y"))])).unwrap();
            layered.confirm(at(n, 1)).unwrap();
            if n % 3 == 0 || n == 200 {
                layered.apply_confirmed(usize::MAX).unwrap();
            }
        }
        assert!(reads.join().unwrap() < usize::MAX);
    });
}

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<(u8, u8, u8, Option<u8>)>),
    Confirm,
    Apply(bool),
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0..2_u8, 0..3_u8, 0..5_u8, proptest::option::of(any::<u8>()));
    prop_oneof![
        4 => proptest::collection::vec(change, 0..8).prop_map(Step::Push),
        3 => Just(Step::Confirm),
        2 => any::<bool>().prop_map(Step::Apply),
        1 => Just(Step::Drop),
    ]
}

type Model = BTreeMap<(u8, Bytes), Bytes>;

proptest! {
    #[test]
    fn reads_are_those_of_one_ordered_map(steps in proptest::collection::vec(step(), 1..60)) {
        let layered = layered();
        let mut confirmed = Model::new();
        let mut pending: Vec<(CheckpointRef, Model)> = Vec::new();
        let mut last = 0;
        let mut nonce = 1;
        for step in steps {
            match step {
                Step::Push(changes) => {
                    last += 1;
                    let mut model = pending.last().map_or(&confirmed, |(_, model)| model).clone();
                    let mut parts: BTreeMap<(u8, u8), BTreeMap<Bytes, Option<Bytes>>> = BTreeMap::new();
                    for (id, group, name, value) in changes {
                        let value = value.map(|value| Bytes::from(vec![value]));
                        match &value {
                            Some(value) => model.insert((id, key(group, name)), value.clone()),
                            None => model.remove(&(id, key(group, name))),
                        };
                        parts.entry((id, group)).or_default().insert(key(group, name), value);
                    }
                    let parts = parts.into_iter().map(|((id, _), entries)| {
                        StateDelta { state: state(id), entries: entries.into_iter().collect() }
                    });
                    let delta = FrozenDelta::from_parts(parts).unwrap();
                    layered.push_frozen(at(last, nonce), Arc::new(delta)).unwrap();
                    pending.push((at(last, nonce), model));
                }
                Step::Confirm => if !pending.is_empty() {
                    let (at, model) = pending.remove(0);
                    layered.confirm(at).unwrap();
                    confirmed = model;
                }
                Step::Apply(all) => {
                    layered.apply_confirmed(if all { usize::MAX } else { 0 }).unwrap();
                }
                Step::Drop => {
                    let dropped = layered.drop_unconfirmed();
                    let expected: Vec<_> = pending.drain(..).map(|(at, _)| at).collect();
                    last -= expected.len() as u64;
                    nonce += 1;
                    prop_assert_eq!(dropped, expected);
                }
            }
            let model = pending.last().map_or(&confirmed, |(_, model)| model);
            for id in 0..2 {
                let expected: Vec<(Bytes, Bytes)> = model
                    .iter()
                    .filter(|((of, _), _)| *of == id)
                    .map(|((_, key), value)| (key.clone(), value.clone()))
                    .collect();
                let found: Result<Vec<_>, _> =
                    layered.scan(&state(id), &KeyRange::all()).unwrap().collect();
                prop_assert_eq!(found.unwrap(), expected);
                for group in 0..3 {
                    for name in 0..5 {
                        let found = layered.get(&state(id), &key(group, name)).unwrap();
                        prop_assert_eq!(found.as_ref(), model.get(&(id, key(group, name))));
                    }
                }
            }
        }
    }
}
