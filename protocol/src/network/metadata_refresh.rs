//! When to ask for metadata: triggers are coalesced, repeated ones back off.

use std::time::Duration;

use crate::Timestamp;
use crate::backoff::{ExponentialBackoff, Jitter};

/// The timer of the metadata request. At most one is under way.
#[derive(Debug)]
pub(super) struct MetadataRefresh {
    backoff: ExponentialBackoff,
    max_age: Duration,
    due_at: Option<Timestamp>,
    last_attempt: Option<Timestamp>,
    /// Attempts in a row that left something open.
    unsettled: u32,
    in_flight: bool,
    /// Somebody asked while a request was under way, whose answer may be too old for them.
    again: bool,
}

impl MetadataRefresh {
    pub(super) fn new(backoff: ExponentialBackoff, max_age: Duration) -> Self {
        Self {
            backoff,
            max_age,
            due_at: None,
            last_attempt: None,
            unsettled: 0,
            in_flight: false,
            again: false,
        }
    }

    /// Asks for a refresh as soon as the backoff allows.
    pub(super) fn request(&mut self, now: Timestamp, jitter: &mut Jitter) {
        if self.in_flight {
            self.again = true;
            return;
        }
        let earliest = match self.last_attempt {
            Some(last) => last.after(self.backoff.delay(self.unsettled.max(1), jitter)).max(now),
            None => now,
        };
        self.due_at = Some(self.due_at.map_or(earliest, |due| due.min(earliest)));
    }

    /// True, once, if the request should go out now.
    pub(super) fn start(&mut self, now: Timestamp) -> bool {
        if self.in_flight || self.due_at.is_none_or(|due| due > now) {
            return false;
        }
        self.due_at = None;
        self.last_attempt = Some(now);
        self.in_flight = true;
        self.again = false;
        true
    }

    /// The request was answered. `settled`: nothing that is tracked misses a leader.
    pub(super) fn answered(&mut self, now: Timestamp, settled: bool, jitter: &mut Jitter) {
        self.in_flight = false;
        self.unsettled = if settled { 0 } else { self.unsettled.saturating_add(1) };
        if !settled || self.again {
            self.request(now, jitter);
        } else {
            self.due_at = Some(now.after(self.max_age));
        }
    }

    /// The request was not answered.
    pub(super) fn failed(&mut self, now: Timestamp, jitter: &mut Jitter) {
        self.in_flight = false;
        self.unsettled = self.unsettled.saturating_add(1);
        self.request(now, jitter);
    }

    /// When [`start`](Self::start) may next be true.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        if self.in_flight { None } else { self.due_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_coalesced_and_repeats_back_off() {
        let backoff =
            ExponentialBackoff::new(Duration::from_millis(100), Duration::from_millis(1000));
        let mut jitter = Jitter::new(1);
        let mut refresh = MetadataRefresh::new(backoff, Duration::from_secs(300));
        let at = |ms: u64| Timestamp::from_micros(ms * 1000);
        refresh.request(at(0), &mut jitter);
        refresh.request(at(0), &mut jitter);
        assert!(refresh.start(at(0)));
        assert!(!refresh.start(at(0)), "one at a time");
        refresh.request(at(1), &mut jitter);
        refresh.answered(at(5), true, &mut jitter);
        assert!(!refresh.start(at(6)), "the one asked for meanwhile backs off");
        assert!(refresh.start(at(125)));
        refresh.failed(at(126), &mut jitter);
        assert!(!refresh.start(at(200)));
        assert!(refresh.start(at(125 + 121)));
        refresh.answered(at(250), true, &mut jitter);
        assert_eq!(refresh.due_at(), Some(at(300_250)));
    }
}
