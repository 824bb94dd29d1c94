//! Waiting for a condition with a deadline.

use std::time::{Duration, Instant};

/// Asks `condition` again and again until it holds.
///
/// # Panics
///
/// If it does not within `limit`; the message says `what` was waited for.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {limit:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
