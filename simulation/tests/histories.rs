//! Thousands of seeds, each a history: a job on a cluster that fails, then everything is mended, then the oracles look.
//!
//! The long form runs a million: `cargo run --release -p millstream-simulation -- --seeds 0..1000000 --report`.

use std::num::NonZeroUsize;

use millstream_simulation::batch::run_seeds;
use millstream_simulation::plan::Plan;
use millstream_simulation::run::run;

/// Seeds of every test run.
const SEEDS: u64 = 30_000;

/// Named places of the product that a test run has to pass.
const PLACES_PASSED: [&str; 28] = [
    "Locked",
    "LedgerOpened",
    "FirstMeta",
    "Looked",
    "Fenced",
    "Resolved",
    "Decided",
    "Quarantined",
    "Replayed",
    "Repaired",
    "OwnerVoted",
    "OwnerCommitted",
    "Owned",
    "Triggered",
    "Sealed",
    "DeltaWritten",
    "LedgerAppended",
    "Voted",
    "Committed",
    "Bumped",
    "Confirmed",
    "Applied",
    "StorePersisted",
    "MetaWritten",
    "Deleted",
    "RollbackBegun",
    "Discarded",
    "RolledBack",
];

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, NonZeroUsize::get)
}

#[test]
fn no_seed_loses_or_doubles_a_record_or_stops_without_a_reason() {
    let summary = run_seeds(0..SEEDS, threads(), 5, |_| {}).unwrap();
    let text: Vec<String> =
        summary.failures.iter().map(|(seed, found)| format!("seed {seed}: {found}")).collect();
    assert!(
        text.is_empty(),
        "{}\nsee it with: millstream-simulate --seed {}",
        text.join("\n"),
        summary.failures[0].0
    );
    assert_eq!(summary.histories, SEEDS);
    let times = |place: &str| summary.coverage.get(place).copied().unwrap_or(0);
    let seldom: Vec<&str> = PLACES_PASSED.into_iter().filter(|place| times(place) < 20).collect();
    assert!(seldom.is_empty(), "passed fewer than 20 times: {seldom:?}");
    println!("{} histories in {:?}, {:#?}", summary.histories, summary.took, summary.coverage);
}

#[test]
fn the_same_seed_is_the_same_history_byte_for_byte() {
    for seed in 0..300 {
        let plan = Plan::of(seed);
        let first = run(&plan, true).unwrap();
        let second = run(&plan, true).unwrap();
        assert!(first.history.lines().count() > 10, "seed {seed} has no history");
        assert!(
            first == second,
            "seed {seed}: line {:?} differs",
            first.history.lines().zip(second.history.lines()).position(|(one, other)| one != other)
        );
    }
}

#[test]
fn a_history_that_is_not_recorded_is_the_same() {
    for seed in 0..50 {
        let plan = Plan::of(seed);
        let (recorded, silent) = (run(&plan, true).unwrap(), run(&plan, false).unwrap());
        assert_eq!((recorded.took, recorded.coverage), (silent.took, silent.coverage));
    }
}
