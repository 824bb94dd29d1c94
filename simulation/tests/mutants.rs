//! Each oracle fails for a wrong variant of the product, within 10,000 seeds; and the plan that shows it shrinks.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::num::NonZeroUsize;

use millstream_simulation::batch::run_seeds;
use millstream_simulation::oracle::Oracle;
use millstream_simulation::plan::Plan;
use millstream_simulation::run::run;
use millstream_simulation::shrink::shrink;

const SEEDS: u64 = 10_000;

/// A rule that is left out, and the oracles of which one has to notice.
const MUTANTS: [(&str, &[Oracle]); 13] = [
    ("NoReplay", &[Oracle::Output]),
    ("ExchangeOutOfOrder", &[Oracle::Order]),
    ("LedgerOutsideTransaction", &[Oracle::Atomic]),
    ("NoMetaAtEnd", &[Oracle::Ledger]),
    ("WriteAfterLastCommit", &[Oracle::Transactions]),
    ("UnsyncedDelta", &[Oracle::Endings]),
    ("StuckAfterRollback", &[Oracle::Progress]),
    ("UnsyncedSavepoint", &[Oracle::Savepoints]),
    ("RestoreLeavesOneOut", &[Oracle::Output]),
    ("SavepointOfTwoCheckpoints", &[Oracle::Output, Oracle::Order, Oracle::Ledger]),
    // What these break shows in different ways, depending on when the process dies.
    ("ApplyBeforeCommit", &Oracle::ALL),
    ("ReadBeforeFence", &Oracle::ALL),
    ("NoFence", &[Oracle::Output, Oracle::Ledger, Oracle::Order]),
];

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, NonZeroUsize::get)
}

/// The first seed on which one of `oracles` notices the mutant.
fn first_seed(mutant: &str, oracles: &[Oracle]) -> Option<(u64, Oracle)> {
    const STEP: u64 = 200;
    for from in (0..SEEDS).step_by(STEP as usize) {
        let leave_out = |plan: &mut Plan| {
            plan.mutants.insert(mutant.to_owned());
        };
        let summary = run_seeds(from..from + STEP, threads(), usize::MAX, leave_out).unwrap();
        let noticed = summary.failures.iter().find(|(_, found)| oracles.contains(&found.oracle));
        if let Some((seed, found)) = noticed {
            return Some((*seed, found.oracle));
        }
    }
    None
}

#[test]
fn every_oracle_notices_a_wrong_variant() {
    let mut noticed: Vec<Oracle> = Vec::new();
    for (mutant, oracles) in MUTANTS {
        let found = first_seed(mutant, oracles);
        let (seed, oracle) = found
            .unwrap_or_else(|| panic!("{mutant}: {oracles:?} noticed nothing in {SEEDS} seeds"));
        println!("{mutant}: seed {seed}, {oracle:?}");
        // The same seed is all right if nothing is left out.
        assert_eq!(run(&Plan::of(seed), false).unwrap().violation, None, "seed {seed}");
        noticed.push(oracle);
    }
    for oracle in Oracle::ALL {
        assert!(noticed.contains(&oracle), "{oracle:?} has noticed no mutant");
    }
}

#[test]
fn a_failing_seed_shrinks_to_a_plan_that_still_fails() {
    let (seed, oracle) = first_seed("NoReplay", &[Oracle::Output]).expect("it is noticed");
    let mut plan = Plan::of(seed);
    plan.mutants.insert("NoReplay".to_owned());
    let (least, runs) = shrink(&plan, oracle, 300);
    assert!(runs <= 300);
    assert!(least.job.records < plan.job.records, "{least}");
    assert!(least.faults.len() + least.lives.len() <= 2, "{least}");
    let report = run(&least, true).unwrap();
    assert_eq!(report.violation.map(|found| found.oracle), Some(oracle));
    assert!(report.history.contains("Output:"), "{}", report.history);
}
