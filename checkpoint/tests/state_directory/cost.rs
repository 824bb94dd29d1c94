//! What a savepoint costs; on an otherwise idle machine: `cargo test --test state_directory cost -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use millstream_checkpoint::{
    FjallStore, LayeredState, RealDisk, Savepoint, SavepointCut, SavepointManifest,
    SavepointTrigger, StateId, StateStore, plan_restore, restore_states, write_savepoint,
};

use crate::job::{at, description, meta, options};

const KEYS: u64 = 1_000_000;

#[test]
#[ignore = "it measures"]
fn a_savepoint_of_a_million_keys() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateId::new("a", "one");
    let store = FjallStore::open(&folder.path().join("store"), options()).unwrap();
    // Keys of 16 bytes, values of 100.
    let mut entries = (0..KEYS).map(|n| {
        let group = u16::try_from(n * 16 / KEYS).unwrap();
        let key = [&group.to_be_bytes()[..], &[0; 6], &n.to_be_bytes()].concat();
        let value: Vec<u8> =
            (0..100_u64).map(|i| (n.wrapping_mul(31).wrapping_add(i * i) >> 3) as u8).collect();
        (Bytes::from(key), Some(Bytes::from(value)))
    });
    store.ingest(&state, at(1, 1), &mut entries).unwrap();
    store.persist_floor(at(1, 1)).unwrap();
    drop(store);
    let begun = Instant::now();
    let store = FjallStore::open(&folder.path().join("store"), options()).unwrap();
    println!("open with its guard: {:?}", begun.elapsed());
    let layered = LayeredState::new(Arc::new(store)).unwrap();
    let begun = Instant::now();
    let scans = layered.snapshot().unwrap().scans;
    println!("cut: {:?}", begun.elapsed());
    let manifest =
        SavepointManifest::of(&meta(1, 1), description(1), SavepointTrigger::Live, 0).unwrap();
    let target = folder.path().join("sp");
    let begun = Instant::now();
    let written = write_savepoint(&RealDisk, &target, SavepointCut { manifest, scans }).unwrap();
    println!("write: {:?} for {} bytes", begun.elapsed(), written.state_bytes());
    let savepoint = Savepoint::open(Arc::new(RealDisk), &target).unwrap();
    let begun = Instant::now();
    savepoint.verify().unwrap();
    println!("verify: {:?}", begun.elapsed());
    let plan = plan_restore(savepoint.manifest(), &description(1), true).unwrap();
    let begun = Instant::now();
    let restored = FjallStore::open(&folder.path().join("restored"), options()).unwrap();
    let report = restore_states(&savepoint, &plan, &restored, at(1, 2)).unwrap();
    println!("restore: {:?}", begun.elapsed());
    assert_eq!(report.entries, KEYS);
}
