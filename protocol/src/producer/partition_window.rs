//! The batches of one partition that have sequence numbers and are not acknowledged (KIP-98).

use std::collections::VecDeque;
use std::sync::Arc;

use super::delivery::Report;
use super::record_accumulator::QueuedBatch;
use crate::network::RequestToken;
use crate::records::{SealedBatch, increment_sequence};
use crate::{NodeId, ProducerIdAndEpoch, Timestamp};

/// Sequences of one partition under one identity.
#[derive(Debug)]
pub(super) struct PartitionWindow {
    pub(super) identity: ProducerIdAndEpoch,
    next_sequence: i32,
    /// Who acknowledged a batch under this identity last: the partition is part of the transaction there.
    pub(super) acked_by: Option<NodeId>,
    pub(super) batches: VecDeque<SentBatch>,
    /// Sequences start anew, under a new epoch, once no batch is in flight (idempotent producers only).
    pub(super) reset_pending: bool,
    /// A batch was given up: what follows it is out of order for the broker.
    pub(super) gap: bool,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Timestamp>,
}

/// A batch with its sequence numbers.
#[derive(Debug)]
pub(super) struct SentBatch {
    pub(super) batch: SealedBatch,
    pub(super) tag: u64,
    pub(super) enqueued_at: Timestamp,
    pub(super) status: Status,
    /// A broker may have written it although we do not know.
    pub(super) maybe_written: bool,
    pub(super) attempts: u32,
    pub(super) last_error: Option<Arc<str>>,
    pub(super) report: Option<Report>,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Under way to a broker.
    InFlight(RequestToken, NodeId),
    /// To be sent again.
    Waiting,
}

/// What may be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The oldest batch again.
    Retry,
    /// A batch without a sequence yet.
    New,
    /// Nothing.
    Nothing,
}

impl PartitionWindow {
    pub(super) fn new(identity: ProducerIdAndEpoch) -> Self {
        Self {
            identity,
            next_sequence: 0,
            acked_by: None,
            batches: VecDeque::new(),
            reset_pending: false,
            gap: false,
            failures: 0,
            retry_at: None,
        }
    }

    /// Takes a new identity if nothing of the old one is unresolved: sequences start anew with each.
    pub(super) fn adopt(&mut self, identity: ProducerIdAndEpoch) {
        if self.batches.is_empty() && self.identity != identity {
            *self = Self::new(identity);
        }
    }

    /// What may be sent to `node` now, with at most `limit` batches unresolved.
    pub(super) fn next(&self, node: NodeId, limit: usize, now: Timestamp) -> Next {
        if self.reset_pending || self.retry_at.is_some_and(|at| now < at) {
            return Next::Nothing;
        }
        // Retries go one at a time, oldest first: a broker takes sequences in order only.
        if self.batches.iter().any(|sent| sent.status == Status::Waiting) {
            return match self.batches.front() {
                Some(front) if front.status == Status::Waiting => Next::Retry,
                _ => Next::Nothing,
            };
        }
        // A new leader may not have what is under way to the old one.
        let elsewhere = self
            .batches
            .iter()
            .any(|sent| matches!(sent.status, Status::InFlight(_, other) if other != node));
        if elsewhere || self.batches.len() >= limit { Next::Nothing } else { Next::New }
    }

    /// Gives `batch` the next sequence numbers and takes it, as in flight.
    pub(super) fn push(&mut self, queued: QueuedBatch, transactional: bool) -> &mut SentBatch {
        let QueuedBatch { mut batch, tag, enqueued_at, report } = queued;
        let base_sequence = self.next_sequence;
        batch.stamp(self.identity, base_sequence, transactional);
        self.next_sequence = increment_sequence(base_sequence, batch.record_count());
        self.batches.push_back(SentBatch {
            batch,
            tag,
            enqueued_at,
            status: Status::Waiting,
            maybe_written: false,
            attempts: 0,
            last_error: None,
            report,
        });
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }

    /// The batch that `token` carried, by its place in the window.
    pub(super) fn position(&self, token: RequestToken) -> Option<usize> {
        self.batches
            .iter()
            .position(|sent| matches!(sent.status, Status::InFlight(of, _) if of == token))
    }

    /// True while a batch is under way.
    pub(super) fn is_in_flight(&self) -> bool {
        self.batches.iter().any(|sent| sent.status != Status::Waiting)
    }
}

#[cfg(test)]
mod tests;
