//! Waiting for a condition with a deadline.

use std::time::{Duration, Instant};

/// Asks `condition` again and again until it holds.
///
/// # Panics
///
/// If it does not within `limit`; the message says `what` was waited for.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    wait_until_ok(what, limit, || if condition() { Ok(()) } else { Err(String::new()) });
}

/// Asks `condition` again and again until it is `Ok`; its error says what is there instead, as the log of a process.
///
/// # Panics
///
/// If it is not within `limit`; the message says `what` was waited for, and the end of what was there instead.
#[track_caller]
pub fn wait_until_ok(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<(), String>,
) {
    let deadline = Instant::now() + limit;
    while let Err(instead) = condition() {
        assert!(
            Instant::now() < deadline,
            "waited {limit:?} in vain until {what}{}",
            told(&instead)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The last lines of `text`, behind a line break.
fn told(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0 => String::new(),
        count => format!("; there is:\n{}", lines[count.saturating_sub(LINES_TOLD)..].join("\n")),
    }
}

/// Lines of a log that a message shows.
const LINES_TOLD: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_tells_the_end_of_what_was_there() {
        let log: String = (0..=LINES_TOLD).map(|line| format!("line {line}\n")).collect();
        let waited = std::panic::catch_unwind(|| {
            wait_until_ok("it runs", Duration::ZERO, || Err(log.clone()));
        });
        let message = *waited.expect_err("it never is").downcast::<String>().expect("a text");
        assert!(message.starts_with("waited 0ns in vain until it runs; there is:\nline 1\n"));
        assert!(message.ends_with(&format!("line {LINES_TOLD}")), "{message}");
    }
}
