use std::time::Duration;

use millstream_checkpoint::{CheckpointId, CheckpointRef, FrozenDelta, MemoryStore, Nonce};

use super::*;

type Windows = OpenWindows<String, i64>;

fn store() -> Arc<LayeredState> {
    Arc::new(LayeredState::new(Arc::new(MemoryStore::new())).unwrap())
}

const KEY_GROUPS: u16 = 4;

fn windows(store: &Arc<LayeredState>, owned: Range<u16>, current: u64) -> Windows {
    let assigner = TumblingEventTimeWindows::of(Duration::from_millis(10));
    let id = StateId::new("op", "panes");
    let key_groups = KeyGroups::new(KEY_GROUPS, 1);
    OpenWindows::new(id, Arc::clone(store), key_groups, owned, assigner, current)
}

fn add(windows: &mut Windows, key: &str, key_group: u16, timestamp: i64, by: i64) {
    let window = windows.assigner.assign(timestamp).unwrap();
    let mut bytes = Vec::new();
    key.to_owned().encode(&mut bytes).unwrap();
    let key = EncodedKey { key_group, ..windows.key_groups.of_key(&bytes) };
    windows.update(window, key, || 0, |value| *value += by).unwrap();
}

fn close(windows: &mut Windows, watermark: i64) -> Vec<(i64, String, i64)> {
    let mut closed = Vec::new();
    while let Some(pane) = windows.take_closed(watermark).unwrap() {
        let end = pane.window().end;
        closed.extend(pane.into_entries().map(|entry| {
            let (key, value) = entry.unwrap();
            (end, key, value)
        }));
    }
    closed
}

fn seal(windows: &mut Windows, checkpoint: u64) -> Vec<SealedState> {
    let mut sealed = Vec::new();
    windows.freeze(checkpoint).unwrap();
    assert!(
        windows.seal_some(&mut SealBudget::unlimited(), |changes| sealed.push(changes)).unwrap()
    );
    sealed
}

fn confirm(store: &LayeredState, checkpoint: u64, delta: Vec<SealedState>) {
    let at = CheckpointRef::new(CheckpointId(checkpoint), Nonce::default());
    store.push_frozen(at, Arc::new(FrozenDelta::from_parts(delta).unwrap())).unwrap();
    store.confirm(at).unwrap();
}

#[test]
fn windows_close_in_order_of_their_ends_when_the_watermark_reaches_their_last_millisecond() {
    let mut windows = windows(&store(), 0..4, 1);
    add(&mut windows, "b", 1, 15, 1);
    add(&mut windows, "a", 1, 5, 2);
    add(&mut windows, "a", 1, -3, 3);
    assert_eq!(close(&mut windows, 8), [(0, "a".to_owned(), 3)]);
    assert_eq!(close(&mut windows, 9), [(10, "a".to_owned(), 2)]);
    assert_eq!(close(&mut windows, 19), [(20, "b".to_owned(), 1)]);
}

#[test]
fn open_windows_of_the_key_groups_are_found_again() {
    let store = store();
    let mut first = windows(&store, 0..4, 1);
    add(&mut first, "a", 1, 5, 2);
    add(&mut first, "b", 3, -5, 7);
    confirm(&store, 1, seal(&mut first, 1));

    let mut low = windows(&store, 0..2, 2);
    low.load().unwrap();
    assert_eq!(close(&mut low, 100), [(10, "a".to_owned(), 2)]);
    let mut high = windows(&store, 2..4, 2);
    high.load().unwrap();
    assert_eq!(close(&mut high, 100), [(0, "b".to_owned(), 7)]);
}

#[test]
fn a_closed_window_leaves_nothing_in_the_store() {
    let store = store();
    let mut windows_ = windows(&store, 0..4, 1);
    add(&mut windows_, "a", 1, 5, 2);
    confirm(&store, 1, seal(&mut windows_, 1));
    // Changed and closed within one checkpoint: deleted, not written.
    add(&mut windows_, "a", 1, 6, 2);
    // Opened and closed within one checkpoint: never written, so nothing to delete.
    add(&mut windows_, "c", 2, 6, 2);
    assert_eq!(close(&mut windows_, 100).len(), 2);
    let delta = seal(&mut windows_, 2);
    let values = delta.iter().flat_map(SealedState::entries).map(|(_, value)| value.is_some());
    assert_eq!(values.collect::<Vec<_>>(), [false]);
    confirm(&store, 2, delta);
    let mut again = windows(&store, 0..4, 3);
    again.load().unwrap();
    assert_eq!(close(&mut again, 100), []);
}

#[test]
fn what_changes_or_closes_before_it_is_encoded_is_encoded_as_it_was_at_the_barrier() {
    let store = store();
    let mut windows_ = windows(&store, 0..4, 1);
    for (key, timestamp) in [("a", 5), ("b", 5), ("a", 15), ("b", 15)] {
        add(&mut windows_, key, 1, timestamp, 1);
    }
    windows_.freeze(1).unwrap();
    add(&mut windows_, "a", 1, 15, 100);
    add(&mut windows_, "c", 1, 15, 100);
    assert_eq!(close(&mut windows_, 9).len(), 2);
    let mut sealed = Vec::new();
    assert!(windows_.seal_some(&mut SealBudget::unlimited(), |it| sealed.push(it)).unwrap());
    confirm(&store, 1, sealed);
    let mut again = windows(&store, 0..4, 2);
    again.load().unwrap();
    let of = |end, key: &str| (end, key.to_owned(), 1);
    assert_eq!(close(&mut again, 100), [of(10, "a"), of(10, "b"), of(20, "a"), of(20, "b")]);

    confirm(&store, 2, seal(&mut windows_, 2));
    let mut again = windows(&store, 0..4, 3);
    again.load().unwrap();
    let left: Vec<_> = close(&mut again, 100).into_iter().map(|(_, key, sum)| (key, sum)).collect();
    assert_eq!(left, [("a".to_owned(), 101), ("b".to_owned(), 1), ("c".to_owned(), 100)]);
}
