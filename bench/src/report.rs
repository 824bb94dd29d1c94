//! The table at the end.

use std::io::{self, Write};

use crate::usage::Measurement;

/// All runs of one workload on one broker.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) broker: String,
    pub(crate) workload: &'static str,
    pub(crate) runs: Vec<Measurement>,
    /// CPU-seconds per million records that should not be exceeded.
    pub(crate) target: f64,
}

impl Row {
    /// Median CPU-seconds per million records.
    pub(crate) fn cpu(&self) -> f64 {
        spread(&self.runs, Measurement::cpu_per_million).1
    }
}

/// Minimum, median and maximum of a figure.
fn spread(runs: &[Measurement], figure: impl Fn(&Measurement) -> f64) -> (f64, f64, f64) {
    let mut values: Vec<f64> = runs.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    (at(0), at(values.len() / 2), at(values.len().saturating_sub(1)))
}

/// Prints all rows: medians with minimum and maximum.
pub(crate) fn print(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    writeln!(
        out,
        "{:<24} {:<8} {:>9} {:>26} {:>8} {:>22} {:>9}",
        "broker",
        "workload",
        "records",
        "CPU-s per million (min..max)",
        "target",
        "M records/s (min..max)",
        "peak RSS"
    )?;
    for row in rows {
        let (low, cpu, high) = spread(&row.runs, Measurement::cpu_per_million);
        let (slow, rate, fast) = spread(&row.runs, Measurement::million_per_second);
        let (_, rss, _) = spread(&row.runs, |run| run.usage.peak_rss_bytes as f64);
        let records = row.runs.first().map_or(0, |run| run.records);
        writeln!(
            out,
            "{:<24} {:<8} {records:>9} {:>28} {:>8} {:>22} {:>6.0} MB",
            row.broker,
            row.workload,
            format!("{cpu:.2} ({low:.2}..{high:.2})"),
            format!("≤ {:.1}", row.target),
            format!("{rate:.2} ({slow:.2}..{fast:.2})"),
            rss / 1e6,
        )?;
    }
    for pair in rows.chunks(2) {
        if let [consume, q2] = pair {
            let ratio = q2.cpu() / consume.cpu();
            writeln!(out, "{}: q2 costs {ratio:.1} times the bare consume", q2.broker)?;
        }
    }
    Ok(())
}
