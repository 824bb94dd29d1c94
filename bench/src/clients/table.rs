//! The figures of one comparison, and what they say of the targets.

use std::io::{self, Write};

use super::contestant::Contestant;
use super::process::Run;
use super::workload::{MANY_PARTITIONS_COST, TRANSACTIONS_KEEP, Targets, Workload};

/// All runs of one contestant.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) contestant: Contestant,
    /// Runs over few records, and over many.
    pub(crate) few: Vec<Run>,
    pub(crate) many: Vec<Run>,
}

/// Minimum, median and maximum.
#[derive(Clone, Copy, Debug)]
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { low: at(0), median: at(values.len() / 2), high: at(last) }
    }

    fn text(self, digits: usize) -> String {
        let Self { low, median, high } = self;
        format!("{median:.digits$} ({low:.digits$}..{high:.digits$})")
    }
}

impl Row {
    /// Million records between the two sizes: what both have in common, the start above all, drops out.
    fn millions(&self) -> f64 {
        let records = |runs: &[Run]| runs.first().map_or(0, |run| run.outcome.records) as f64;
        (records(&self.many) - records(&self.few)) / 1e6
    }

    /// CPU-seconds per million records.
    fn cpu(&self) -> Spread {
        let few = Spread::of(self.few.iter().map(|run| run.cpu_seconds)).median;
        Spread::of(self.many.iter().map(|run| (run.cpu_seconds - few) / self.millions()))
    }

    /// Million records per second of the clock.
    fn rate(&self) -> Spread {
        let few = Spread::of(self.few.iter().map(|run| run.outcome.seconds)).median;
        Spread::of(self.many.iter().map(|run| self.millions() / (run.outcome.seconds - few)))
    }

    fn peak_rss_mib(&self) -> Spread {
        Spread::of(self.many.iter().map(|run| run.peak_rss_bytes as f64 / 1_048_576.0))
    }

    /// What one short run costs in full.
    fn short_run(&self) -> f64 {
        Spread::of(self.few.iter().map(|run| run.cpu_seconds)).median
    }
}

/// Prints the comparison; true if every target is hit.
pub(crate) fn print(out: &mut impl Write, workload: Workload, rows: &[Row]) -> io::Result<bool> {
    writeln!(
        out,
        "{:<24} {:>24} {:>8} {:>24} {:>22} {:>12}",
        "client", "CPU-s per million", "to ours", "M records/s", "peak RSS MiB", "short run s"
    )?;
    let ours = rows.first().map_or(f64::NAN, |row| row.cpu().median);
    for row in rows {
        writeln!(
            out,
            "{:<24} {:>24} {:>8} {:>24} {:>22} {:>12.2}",
            row.contestant.name,
            row.cpu().text(3),
            format!("{:.2}x", row.cpu().median / ours),
            row.rate().text(2),
            row.peak_rss_mib().text(0),
            row.short_run(),
        )?;
    }
    let mut all_hit = true;
    for (text, hit) in verdicts(workload, rows) {
        all_hit &= hit;
        writeln!(out, "  {} {text}", if hit { "hit " } else { "MISS" })?;
    }
    writeln!(out)?;
    Ok(all_hit)
}

fn verdicts(workload: Workload, rows: &[Row]) -> Vec<(String, bool)> {
    match (workload, rows) {
        (Workload::Transactions, [plain, committing]) => {
            let kept = committing.rate().median / plain.rate().median;
            let text = format!("keeps {kept:.2} of the throughput, at least {TRANSACTIONS_KEEP}");
            vec![(text, kept >= TRANSACTIONS_KEEP)]
        }
        (Workload::Partitions, [one, many]) => {
            let times = many.cpu().median / one.cpu().median;
            let text = format!("{times:.2} times the cost of one, at most {MANY_PARTITIONS_COST}");
            // Below zero the noise was larger than what a record costs.
            vec![(text, times > 0.0 && times <= MANY_PARTITIONS_COST)]
        }
        _ => against_targets(&workload.targets(), rows),
    }
}

fn against_targets(targets: &Targets, rows: &[Row]) -> Vec<(String, bool)> {
    let Some(ours) = rows.first() else { return Vec::new() };
    let cpu = ours.cpu().median;
    let mut verdicts =
        vec![(format!("{cpu:.3} CPU-s per million, at most {}", targets.cpu), cpu <= targets.cpu)];
    if let (Some(limit), Some(batches)) =
        (targets.batch_cpu, rows.iter().skip(1).find(|row| row.contestant.is_ours))
    {
        let cpu = batches.cpu().median;
        verdicts.push((format!("{cpu:.3} by batches, at most {limit}"), cpu <= limit));
    }
    let peers = || rows.iter().filter(|row| !row.contestant.is_ours);
    let mut compare = |peer: Option<&Row>, what: &str, least: f64| {
        if let Some(peer) = peer {
            let times = peer.cpu().median / cpu;
            let name = &peer.contestant.name;
            let text = format!("{times:.2} times better than {name}{what}, at least {least}");
            verdicts.push((text, times >= least));
        }
    };
    if let Some(least) = targets.best_peer {
        let best = peers().min_by(|a, b| a.cpu().median.total_cmp(&b.cpu().median));
        compare(best, " (the best peer)", least);
    }
    for (name, least) in targets.peers {
        compare(peers().find(|row| row.contestant.name == *name), "", *least);
    }
    if let Some(limit) = targets.peak_rss_mib {
        let rss = ours.peak_rss_mib().median;
        verdicts.push((format!("peak RSS {rss:.1} MiB, at most {limit}"), rss <= limit));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::contestant::ours;
    use crate::clients::values::{Outcome, Tally};

    fn run(records: u64, cpu_seconds: f64) -> Run {
        let outcome = Outcome { records, seconds: cpu_seconds, ..Tally::default().outcome(0.0) };
        Run { outcome, cpu_seconds, peak_rss_bytes: 40 << 20 }
    }

    fn row(name: &str, is_ours: bool, per_million: f64) -> Row {
        let mut contestant = ours("consume", name).unwrap();
        contestant.is_ours = is_ours;
        // The start costs the same, however many records there are.
        let of = |records: u64| run(records, 0.3 + per_million * records as f64 / 1e6);
        Row { contestant, few: vec![of(1_000_000); 3], many: vec![of(5_000_000); 3] }
    }

    #[test]
    fn the_start_of_a_process_does_not_count() {
        let row = row("x", true, 0.25);
        assert!((row.cpu().median - 0.25).abs() < 1e-9, "{:?}", row.cpu());
        assert!((row.rate().median - 4.0).abs() < 1e-9, "{:?}", row.rate());
    }

    #[test]
    fn what_noise_has_hidden_is_no_hit() {
        let hit = |many: f64| {
            let rows = [row("1", true, 0.1), row("1,000", true, many)];
            verdicts(Workload::Partitions, &rows).remove(0).1
        };
        assert!(hit(0.11) && !hit(0.13) && !hit(-0.05));
    }

    #[test]
    fn each_target_is_told_hit_or_missed() {
        let rows = [row("millstream", true, 0.075), row("franz-go", false, 0.16)];
        let hits: Vec<bool> =
            verdicts(Workload::Consume100, &rows).into_iter().map(|(_, hit)| hit).collect();
        // CPU, best peer; RSS is above. Peers that did not run are not spoken of.
        assert_eq!(hits, [true, true, false]);
    }
}
