//! InitProducerId: taking over a transactional id, or going on after an error (KIP-98, KIP-360).

use millstream_protocol::{ErrorCode, ProducerIdAndEpoch};

use super::{LAST_CLIENT_EPOCH, NO_EPOCH, TransactionMetadata, TransactionState};

/// What became of an InitProducerId.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitOutcome {
    /// The identity to write under.
    Ready(ProducerIdAndEpoch),
    /// The open transaction must be aborted first; the client asks again.
    AbortOngoing,
    Refused(ErrorCode),
}

impl TransactionMetadata {
    /// InitProducerId for this id. `expected` is the identity that the client believes it holds.
    ///
    /// `fresh_producer_id` is taken if the epochs have run out.
    pub(crate) fn init(
        &mut self,
        timeout_ms: i32,
        expected: Option<ProducerIdAndEpoch>,
        fresh_producer_id: impl FnOnce() -> i64,
    ) -> InitOutcome {
        if expected.is_some_and(|expected| !self.may_claim(expected)) {
            return InitOutcome::Refused(ErrorCode::PRODUCER_FENCED);
        }
        match self.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                InitOutcome::Refused(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            TransactionState::Ongoing => InitOutcome::AbortOngoing,
            TransactionState::Empty
            | TransactionState::CompleteCommit
            | TransactionState::CompleteAbort => {
                self.next_identity(timeout_ms, expected, fresh_producer_id)
            }
        }
    }

    fn may_claim(&self, expected: ProducerIdAndEpoch) -> bool {
        self.producer_epoch == NO_EPOCH
            || expected.producer_id == self.producer_id
            || (expected.producer_id == self.previous_producer_id
                && expected.producer_epoch >= LAST_CLIENT_EPOCH)
    }

    fn next_identity(
        &mut self,
        timeout_ms: i32,
        expected: Option<ProducerIdAndEpoch>,
        fresh_producer_id: impl FnOnce() -> i64,
    ) -> InitOutcome {
        let expects_current =
            expected.is_none_or(|expected| expected.producer_epoch == self.producer_epoch);
        if self.epoch_is_exhausted() && expects_current {
            let last = expected.map_or(NO_EPOCH, |_| self.producer_epoch);
            self.step(TransactionState::Empty);
            self.producer_id = fresh_producer_id();
            self.producer_epoch = 0;
            self.last_producer_epoch = last;
        } else {
            let (epoch, last) = match expected {
                None => (self.producer_epoch.saturating_add(1), NO_EPOCH),
                Some(_) if self.producer_epoch == NO_EPOCH || expects_current => {
                    (self.producer_epoch.saturating_add(1), self.producer_epoch)
                }
                // A retry whose first answer was lost. A new owner would have cleared the last epoch.
                Some(expected) if expected.producer_epoch == self.last_producer_epoch => {
                    (self.producer_epoch, self.last_producer_epoch)
                }
                Some(_) => return InitOutcome::Refused(ErrorCode::PRODUCER_FENCED),
            };
            self.step(TransactionState::Empty);
            self.producer_epoch = epoch;
            self.last_producer_epoch = last;
        }
        self.timeout_ms = timeout_ms;
        self.epoch_bumped = false;
        self.start_ms = -1;
        self.partitions.clear();
        InitOutcome::Ready(self.identity())
    }
}
