//! Thousands of seeds, each a history: a job on a cluster that fails, then everything is mended, then the oracles look.
//!
//! The long form runs a million: `cargo run --release -p millstream-simulation -- --seeds 0..1000000 --report`.

use std::num::NonZeroUsize;

use millstream_simulation::batch::run_seeds;
use millstream_simulation::coverage::seldom;
use millstream_simulation::plan::Plan;
use millstream_simulation::run::run;

/// Seeds of every test run.
const SEEDS: u64 = 30_000;

/// How often each row of the decision table and each named place to die at has to come, at least.
const COMES: u64 = 20;

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
    let rare = seldom(&summary.coverage, COMES);
    assert!(rare.is_empty(), "came fewer than {COMES} times: {rare:?}");
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
