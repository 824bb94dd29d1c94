//! The least plan that still fails: faults are left out one after the other, then the input is made shorter and the brokers and the
//! network calmer, for as long as the same oracle still complains.

use crate::cluster::ClusterSettings;
use crate::network::NetworkSettings;
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::run::run;

/// A shorter plan on which `oracle` still fails, and how many runs it took. At most `runs_max`.
#[must_use]
pub fn shrink(plan: &Plan, oracle: Oracle, runs_max: usize) -> (Plan, usize) {
    let mut least = plan.clone();
    let mut runs = 0;
    loop {
        let mut shorter = None;
        for candidate in candidates(&least) {
            if runs >= runs_max {
                return (least, runs);
            }
            runs += 1;
            let fails = run(&candidate, false)
                .is_ok_and(|report| report.violation.is_some_and(|found| found.oracle == oracle));
            if fails {
                shorter = Some(candidate);
                break;
            }
        }
        match shorter {
            Some(candidate) => least = candidate,
            None => return (least, runs),
        }
    }
}

/// Plans with a little less in them, the largest steps first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Plan)| {
        let mut candidate = plan.clone();
        change(&mut candidate);
        if candidate != *plan {
            all.push(candidate);
        }
    };
    add(&|plan| plan.faults.clear());
    add(&|plan| plan.lives.clear());
    add(&|plan| plan.network = NetworkSettings::calm());
    for index in 0..plan.faults.len() {
        add(&|plan| {
            plan.faults.remove(index);
        });
    }
    if !plan.lives.is_empty() {
        add(&|plan| {
            plan.lives.pop();
        });
        add(&|plan| {
            plan.lives.remove(0);
        });
    }
    for records in [plan.job.records / 2, plan.job.records.saturating_sub(1)] {
        add(&|plan| plan.job.records = records.max(1));
    }
    add(&|plan| plan.job.keys = 1);
    add(&|plan| plan.job.partitions = 1);
    add(&|plan| plan.job.parallelism = 1);
    add(&|plan| plan.resolves = false);
    add(&|plan| plan.reorder_one_in = 0);
    add(&|plan| plan.slow_one_in = 0);
    add(&|plan| plan.network.spike_one_in = 0);
    add(&|plan| plan.network.late_one_in = 0);
    add(&|plan| plan.network.cut_one_in = 0);
    add(&|plan| {
        let version = plan.cluster.transaction_version;
        plan.cluster =
            ClusterSettings { brokers: plan.cluster.brokers, ..ClusterSettings::calm(version) };
    });
    let last = plan.faults.iter().map(|fault| fault.at_ms).max().unwrap_or(0);
    if plan.heal_ms > last + 100 {
        add(&|plan| plan.heal_ms = last + (plan.heal_ms - last) / 2);
    }
    if plan.job.input_ms > 100 {
        add(&|plan| plan.job.input_ms /= 2);
    }
    all
}
