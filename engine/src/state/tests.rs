//! Long random histories of all kinds of state against a plain model: changes, barriers, encoding in slices, confirmations,
//! applies, power losses, restarts with other workers, and rollbacks.
//!
//! `MILLSTREAM_HISTORIES` says how many, `MILLSTREAM_SEED` runs one again.

mod history;
mod model;

use history::{History, Kind};

use super::mutant::{MUTANT, Mutant};

const STEPS: usize = 600;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
}

/// Runs histories from their seeds until one goes wrong; gives that seed and what was wrong, or how many checks were made.
fn run(kind: Kind, seeds: std::ops::Range<u64>) -> Result<u64, (u64, String)> {
    let mut checks = 0;
    for seed in seeds {
        checks += History::run(kind, seed, STEPS).map_err(|wrong| (seed, wrong))?;
    }
    Ok(checks)
}

fn run_histories(kind: Kind, default: u64) {
    let seeds = match setting("MILLSTREAM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("MILLSTREAM_HISTORIES").unwrap_or(default),
    };
    match run(kind, seeds.clone()) {
        Ok(checks) => {
            println!("{kind:?}: seeds {seeds:?}, {checks} comparisons");
            assert!(checks > 100, "a history that compares nothing");
        }
        Err((seed, wrong)) => panic!("repeat with MILLSTREAM_SEED={seed}: {wrong}"),
    }
}

#[test]
fn histories_over_the_store_in_memory_agree_with_the_model() {
    run_histories(Kind::Memory, 300);
}

#[test]
fn histories_over_fjall_agree_with_the_model() {
    run_histories(Kind::Fjall, 6);
}

#[test]
fn every_wrong_variant_is_noticed() {
    let wrong = [
        Mutant::NoCopyOnWrite,
        Mutant::NoFrozenElements,
        Mutant::NoFrozenTimers,
        Mutant::EvictUnconfirmed,
        Mutant::NoDelete,
    ];
    for mutant in wrong {
        MUTANT.set(Some(mutant));
        let found = run(Kind::Memory, 0..300);
        MUTANT.set(None);
        match found {
            Err((seed, _)) => println!("{mutant:?} is noticed with seed {seed}"),
            Ok(checks) => panic!("{mutant:?} was not noticed in {checks} comparisons"),
        }
    }
}
