//! Many seeds, on several threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::oracle::Violation;
use crate::plan::Plan;
use crate::run::run;

/// What a range of seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that were run.
    pub histories: u64,
    /// Seeds that failed, with what was found; ends early at `failures_max`.
    pub failures: Vec<(u64, Violation)>,
    /// How often each named place, decision and fault came to pass, in all.
    pub coverage: BTreeMap<String, u64>,
    /// Simulated time, in all.
    pub simulated: Duration,
    /// Real time.
    pub took: Duration,
}

/// Runs every seed of a range on `threads` threads. `change` alters each plan before it is carried out.
///
/// # Errors
///
/// A defect of the simulation, with its seed.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    failures_max: usize,
    change: impl Fn(&mut Plan) + Sync,
) -> Result<Summary, String> {
    let begun = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let enough = AtomicBool::new(false);
    let summary: Mutex<Summary> = Mutex::default();
    let broken: Mutex<Option<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut mine = Summary::default();
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let mut plan = Plan::of(seed);
                    change(&mut plan);
                    match run(&plan, false) {
                        Ok(report) => {
                            mine.histories += 1;
                            mine.simulated += report.took;
                            for (what, times) in report.coverage {
                                *mine.coverage.entry(what).or_default() += times;
                            }
                            if let Some(violation) = report.violation {
                                mine.failures.push((seed, violation));
                                if mine.failures.len() >= failures_max {
                                    enough.store(true, Ordering::Relaxed);
                                }
                            }
                        }
                        Err(text) => {
                            *broken.lock().unwrap_or_else(PoisonError::into_inner) =
                                Some(format!("seed {seed}: {text}"));
                            enough.store(true, Ordering::Relaxed);
                        }
                    }
                }
                summary.lock().unwrap_or_else(PoisonError::into_inner).add(mine);
            });
        }
    });
    if let Some(text) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(text);
    }
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failures.sort_by_key(|(seed, _)| *seed);
    summary.took = begun.elapsed();
    Ok(summary)
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.simulated += other.simulated;
        self.failures.extend(other.failures);
        for (what, times) in other.coverage {
            *self.coverage.entry(what).or_default() += times;
        }
    }
}
