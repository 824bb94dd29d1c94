//! Figures beside their targets, and how far the machine lets them be trusted.

use std::io::{self, Write};

use crate::BenchError;

/// Minimum, median and maximum of what several runs gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// NaN where there is no value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { low: at(0), median: at(values.len() / 2), high: at(last) }
    }

    /// Median with minimum and maximum.
    pub(crate) fn text(self, digits: usize) -> String {
        let Self { low, median, high } = self;
        format!("{median:.digits$} ({low:.digits$}..{high:.digits$})")
    }
}

/// On which side of its limit a figure has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    AtMost,
    AtLeast,
}

/// The targets of one command: printed as they are judged, counted for `--check`.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    missed: Vec<String>,
}

impl Targets {
    /// Prints the median of `figure` beside its limit.
    pub(crate) fn judge(
        &mut self,
        out: &mut impl Write,
        what: &str,
        figure: Spread,
        bound: Bound,
        limit: f64,
    ) -> io::Result<()> {
        let (sign, hit) = match bound {
            Bound::AtMost => ("<=", figure.median <= limit),
            Bound::AtLeast => (">=", figure.median >= limit),
        };
        if !hit {
            self.missed.push(what.to_owned());
        }
        let verdict = if hit { "hit" } else { "MISSED" };
        writeln!(out, "  {what:<56} {:>26}  {sign} {limit:<6} {verdict}", figure.text(3))
    }

    /// An error that names the missed targets, if somebody wants one.
    pub(crate) fn check(&self, wanted: bool) -> Result<(), BenchError> {
        if wanted && !self.missed.is_empty() {
            return Err(format!("missed: {}", self.missed.join("; ")).into());
        }
        Ok(())
    }
}

/// A load of the last minute above which latencies tell more of the neighbours than of us.
const QUIET_LOAD: f64 = 0.5;

/// Says so if the machine is at work already.
pub(crate) fn warn_if_loaded(out: &mut impl Write) -> io::Result<()> {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 =
        text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    if load > QUIET_LOAD {
        writeln!(
            out,
            "warning: the machine is not idle (load {load}); times are those of a shared machine"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_held_against_their_limits_and_nothing_is_no_hit() {
        let mut targets = Targets::default();
        let mut judge = |values: &[f64], bound, limit| {
            let mut out = Vec::new();
            targets.judge(&mut out, "it", Spread::of(values.to_vec()), bound, limit).unwrap();
            String::from_utf8(out).unwrap().contains("MISSED")
        };
        let missed = [
            judge(&[9.0, 1.0, 2.0], Bound::AtMost, 2.0),
            judge(&[9.0, 1.0, 2.1], Bound::AtMost, 2.0),
            judge(&[0.9, 0.8, 1.0], Bound::AtLeast, 0.9),
            judge(&[0.8, 0.8, 1.0], Bound::AtLeast, 0.9),
            judge(&[], Bound::AtMost, 2.0),
        ];
        assert_eq!(missed, [false, true, false, true, true]);
        assert!(targets.check(false).is_ok() && targets.check(true).is_err());
    }
}
