//! What a fetcher knows of one partition.

use std::time::Duration;

use super::FetchError;
use crate::backoff::{ExponentialBackoff, Jitter};
use crate::{NodeId, Timestamp};

/// A partition's position and how things stand with it.
#[derive(Debug)]
pub(super) struct FetchedState {
    /// The next offset to ask for.
    pub(super) offset: i64,
    /// Leader epoch of the record before `offset`; -1 if unknown.
    pub(super) leader_epoch: i32,
    /// Differs for every position set from outside, so answers to requests made before are recognised.
    pub(super) generation: u64,
    /// Id of the topic that the position is of, once it is known.
    pub(super) topic_id: Option<[u8; 16]>,
    pub(super) phase: Phase,
    pub(super) paused: bool,
    /// Bytes handed out and not released.
    pub(super) unread_bytes: usize,
    pub(super) high_watermark: i64,
    pub(super) last_stable_offset: i64,
    /// When data came last, as a running number: who waited longest is served first.
    pub(super) served: u64,
    /// The last of its events that nobody has taken yet tells of progress.
    pub(super) progress_is_last: bool,
    /// The replica that the leader named for reading (KIP-392), and until when that holds.
    read_replica: Option<(NodeId, Timestamp)>,
    trouble: Trouble,
}

/// What is done about a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fetching,
    /// The broker refused the offset; its log's bounds are being asked for.
    Diagnosing(Bound),
    Failed,
}

/// A bound of the log, and what is known when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Earliest,
    Latest { log_start_offset: i64 },
}

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    failures: u32,
    since: Option<Timestamp>,
    retry_at: Option<Timestamp>,
}

impl FetchedState {
    pub(super) fn new(offset: i64, leader_epoch: i32, generation: u64) -> Self {
        Self {
            offset,
            leader_epoch,
            generation,
            topic_id: None,
            phase: Phase::Fetching,
            paused: false,
            unread_bytes: 0,
            high_watermark: -1,
            last_stable_offset: -1,
            served: 0,
            progress_is_last: false,
            read_replica: None,
            trouble: Trouble::default(),
        }
    }

    /// True if a request for it may be made at `now`.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.trouble.retry_at.is_none_or(|at| at <= now)
    }

    /// The replica to read from instead of the leader.
    pub(super) fn read_replica(&self, now: Timestamp) -> Option<NodeId> {
        self.read_replica.filter(|(_, until)| now < *until).map(|(node, _)| node)
    }

    /// The leader named a replica for reading, until `until`.
    pub(super) fn read_from(&mut self, node: NodeId, until: Timestamp) {
        self.read_replica = Some((node, until));
    }

    /// The leader is read again. True if a replica had been.
    pub(super) fn read_from_leader(&mut self) -> bool {
        self.read_replica.take().is_some()
    }

    /// When it may be asked for again, if that is a matter of time.
    pub(super) fn retry_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Failed => None,
            Phase::Fetching if self.paused => None,
            Phase::Fetching | Phase::Diagnosing(_) => self.trouble.retry_at,
        }
    }

    /// A waiting time that is over is forgotten, so that it is not reported again.
    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.is_due(now) {
            self.trouble.retry_at = None;
        }
    }

    /// Waits before the next try. Returns how long trouble has lasted.
    pub(super) fn back_off(
        &mut self,
        now: Timestamp,
        backoff: &ExponentialBackoff,
        jitter: &mut Jitter,
    ) -> Duration {
        self.trouble.failures = self.trouble.failures.saturating_add(1);
        self.trouble.retry_at = Some(now.after(backoff.delay(self.trouble.failures, jitter)));
        now.since(*self.trouble.since.get_or_insert(now))
    }

    /// The broker answered as it should.
    pub(super) fn recover(&mut self) {
        self.trouble = Trouble::default();
    }

    /// Ends fetching until the position is set anew.
    pub(super) fn fail(&mut self, error: FetchError) -> FetchError {
        self.phase = Phase::Failed;
        self.progress_is_last = false;
        self.trouble = Trouble::default();
        error
    }
}
