//! When the next heartbeat is due.

use std::time::Duration;

use crate::Timestamp;
use crate::backoff::{ExponentialBackoff, Jitter};
use crate::network::RequestToken;

/// One heartbeat at a time, an interval apart; failed ones are repeated after a backoff.
#[derive(Debug)]
pub(super) struct HeartbeatClock {
    pub(super) interval: Duration,
    due_at: Option<Timestamp>,
    in_flight: Option<(RequestToken, Timestamp)>,
    failures: u32,
    /// When the last request went out that the coordinator has answered well: its session counts from later.
    heard_at: Timestamp,
}

impl HeartbeatClock {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, due_at: None, in_flight: None, failures: 0, heard_at: Timestamp::ZERO }
    }

    /// Starts anew with a session that began with a request sent at `sent_at`.
    pub(super) fn start(&mut self, now: Timestamp, sent_at: Timestamp) {
        self.heard_at = sent_at;
        self.in_flight = None;
        self.failures = 0;
        self.due_at = Some(now.after(self.interval));
    }

    pub(super) fn stop(&mut self) {
        self.due_at = None;
        self.in_flight = None;
    }

    /// The next one is due at once.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        self.due_at = Some(now);
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.in_flight.is_none() && self.due_at.is_some_and(|at| at <= now)
    }

    pub(super) fn sent(&mut self, now: Timestamp, token: RequestToken) {
        self.in_flight = Some((token, now));
        self.due_at = None;
    }

    /// When the heartbeat of this token went out, if it is the one in flight.
    pub(super) fn answered(&mut self, token: RequestToken) -> Option<Timestamp> {
        let (expected, sent_at) = self.in_flight?;
        if expected != token {
            return None;
        }
        self.in_flight = None;
        Some(sent_at)
    }

    /// The coordinator took a heartbeat that was sent at `sent_at`.
    pub(super) fn succeeded(&mut self, now: Timestamp, sent_at: Timestamp) {
        self.heard_at = self.heard_at.max(sent_at);
        self.failures = 0;
        // Something may have asked for the next one meanwhile.
        self.due_at.get_or_insert(sent_at.after(self.interval).max(now));
    }

    pub(super) fn failed(
        &mut self,
        now: Timestamp,
        backoff: ExponentialBackoff,
        jitter: &mut Jitter,
    ) {
        self.failures = self.failures.saturating_add(1);
        self.due_at = Some(now.after(backoff.delay(self.failures, jitter)));
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn heard_at(&self) -> Timestamp {
        self.heard_at
    }

    pub(super) fn due_at(&self) -> Option<Timestamp> {
        if self.in_flight.is_some() { None } else { self.due_at }
    }
}
