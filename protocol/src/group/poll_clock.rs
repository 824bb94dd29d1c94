//! `max.poll.interval.ms`: whether the user still takes what it is given.

use std::time::Duration;

use crate::Timestamp;

/// Runs while the user is busy with what it was given, stands while the user waits for more.
#[derive(Debug)]
pub(super) struct PollClock {
    limit: Duration,
    busy_since: Option<Timestamp>,
    expired: bool,
}

impl PollClock {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, busy_since: None, expired: false }
    }

    /// The user asks for more, and waits. True if it had taken too long before.
    pub(super) fn poll(&mut self) -> bool {
        self.busy_since = None;
        std::mem::take(&mut self.expired)
    }

    /// The user was given something.
    pub(super) fn busy(&mut self, now: Timestamp) {
        self.busy_since.get_or_insert(now);
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.busy_since.map(|since| since.after(self.limit))
    }

    /// True, once, if the user has taken too long.
    pub(super) fn expire(&mut self, now: Timestamp) -> bool {
        let expires = self.deadline().is_some_and(|deadline| deadline <= now);
        if expires {
            self.busy_since = None;
            self.expired = true;
        }
        expires
    }

    /// True from the expiry to the next poll.
    pub(super) fn is_expired(&self) -> bool {
        self.expired
    }
}
