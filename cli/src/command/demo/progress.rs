//! Live progress: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::feed::Fed;
use super::job::Report;
use crate::output::{self, count};

/// Time between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Draws how far the job is.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    fed: Fed,
    /// What a process before this one has counted is gone with it.
    since_start: &'static str,
    started: Instant,
    last_line: Option<Instant>,
}

impl Progress {
    /// Of `total` events, of which `fed` are in the input topic; `restarts`: the job is going to be restarted.
    pub(crate) fn start(total: usize, fed: &Fed, restarts: bool) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(total as u64),
                ProgressDrawTarget::stderr_with_hz(15),
            );
            let template = "  {bar:24.cyan} {pos:>7}/{len} events loaded  {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        let since_start = if restarts { " since the start" } else { "" };
        let fed = Arc::clone(fed);
        Self { bar, total, fed, since_start, started: Instant::now(), last_line: None }
    }

    /// Shows `report`; call as often as you like.
    pub(crate) fn show(&mut self, report: &Report) {
        let loaded = self.fed.load(Ordering::Relaxed);
        let state = format!(
            "{} read, {} written, {} committed{} (checkpoint {})",
            count(report.records_in, "event"),
            count(report.records_out, "window"),
            count(report.committed, "transaction"),
            self.since_start,
            report.checkpoint
        );
        if let Some(bar) = &self.bar {
            bar.set_position(loaded as u64);
            bar.set_message(state);
            return;
        }
        if self.last_line.is_none_or(|at| at.elapsed() >= LINE_INTERVAL) {
            self.last_line = Some(Instant::now());
            self.line(&format!("{loaded} of {} events loaded, {state}", self.total));
        }
    }

    /// Says something that stays on the screen.
    pub(crate) fn line(&self, text: &str) {
        let text = format!("  {:>5.1} s  {text}", self.started.elapsed().as_secs_f64());
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(&text)),
            None => output::note(&text),
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
