//! Live progress: a bar on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

use super::job::Report;

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Draws how far the job is.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    started: Instant,
    last_line: Option<Instant>,
}

impl Progress {
    pub(crate) fn start(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(total as u64),
                ProgressDrawTarget::stderr_with_hz(15),
            );
            let template = "  {bar:32.cyan} {pos:>7}/{len} events  {msg}  {elapsed_precise}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, total, started: Instant::now(), last_line: None }
    }

    /// Shows `report`; call as often as you like.
    pub(crate) fn show(&mut self, report: &Report) {
        let state =
            format!("{} windows written  checkpoint {}", report.records_out, report.checkpoint);
        if let Some(bar) = &self.bar {
            // A job that was killed reads some events again; the bar shows the reading, never more than there is.
            bar.set_position(report.records_in.min(self.total as u64));
            bar.set_message(state);
            return;
        }
        if self.last_line.is_none_or(|at| at.elapsed() >= LINE_INTERVAL) {
            self.last_line = Some(Instant::now());
            self.line(&format!("{} events read by this process  {state}", report.records_in));
        }
    }

    /// Says something that stays on the screen.
    pub(crate) fn line(&self, text: &str) {
        let text = format!("  {:>5.1} s  {text}", self.started.elapsed().as_secs_f64());
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
