//! What happened in a run, one line per event: simulated time, who, what.

use std::fmt;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The lines of one run. Clones share them.
///
/// The same seed gives the same lines, byte for byte. A silent history makes none, for runs that nobody will read.
#[derive(Clone)]
pub struct History {
    origin: Instant,
    recording: bool,
    // Guards the lines: parts of the product that write here have to be `Send`, though all run in one thread.
    lines: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("recording", &self.recording).finish_non_exhaustive()
    }
}

impl History {
    /// A history that begins now. To be made inside of the simulated runtime.
    #[must_use]
    pub fn new(recording: bool) -> Self {
        Self { origin: Instant::now(), recording, lines: Arc::default() }
    }

    /// Simulated time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// When the run began.
    #[must_use]
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Whether lines are kept.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.recording
    }

    /// Adds a line; `what` is made only if it is kept.
    pub fn note(&self, who: &dyn fmt::Display, what: impl FnOnce() -> String) {
        if self.recording {
            let at = self.elapsed();
            let line = format!("{:>9.3} {who:<10} {}", at.as_secs_f64(), what());
            self.lock().push(line);
        }
    }

    /// All lines, joined.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.lock().join("\n");
        text.push('\n');
        text
    }

    /// A number that differs, in all likelihood, if any line does.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        for line in self.lock().iter() {
            hasher.write(line.as_bytes());
            hasher.write_u8(b'\n');
        }
        hasher.finish()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
