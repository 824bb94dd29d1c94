//! Ending a transaction: what EndTxn answers in every state, for both transaction versions (KIP-98, KIP-890).
//!
//! The version of the request alone decides which rules hold, not the cluster's feature level.

use millstream_protocol::{ErrorCode, ProducerIdAndEpoch};

use super::{LAST_CLIENT_EPOCH, NO_EPOCH, NO_PRODUCER_ID, TransactionMetadata, TransactionState};

/// What became of an EndTxn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndTxnOutcome {
    /// The decision stands; markers are still to be written. Carries the identity for the next transaction.
    Prepared(ProducerIdAndEpoch),
    /// It was decided like that before.
    Already(ProducerIdAndEpoch),
    Refused(ErrorCode),
}

impl TransactionMetadata {
    /// EndTxn of version 4 or lower: the epoch stays.
    pub(crate) fn end_v1(&mut self, identity: ProducerIdAndEpoch, commit: bool) -> EndTxnOutcome {
        use TransactionState::{
            CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit,
        };
        if identity.producer_id != self.producer_id {
            return EndTxnOutcome::Refused(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if identity.producer_epoch != self.producer_epoch {
            return EndTxnOutcome::Refused(ErrorCode::PRODUCER_FENCED);
        }
        match (self.state, commit) {
            (Ongoing, _) => {
                self.prepare(commit);
                self.epoch_bumped = false;
                EndTxnOutcome::Prepared(ProducerIdAndEpoch::NONE)
            }
            (PrepareCommit, true) | (PrepareAbort, false) => {
                EndTxnOutcome::Refused(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            (CompleteCommit, true) | (CompleteAbort, false) => {
                EndTxnOutcome::Already(ProducerIdAndEpoch::NONE)
            }
            (Empty, _)
            | (PrepareCommit | CompleteCommit, false)
            | (PrepareAbort | CompleteAbort, true) => {
                EndTxnOutcome::Refused(ErrorCode::INVALID_TXN_STATE)
            }
        }
    }

    /// EndTxn of version 5 or higher: every end bumps the epoch, so a retry is told from the next end by its epoch.
    ///
    /// `fresh_producer_id` is taken if the epochs have run out.
    pub(crate) fn end_v2(
        &mut self,
        identity: ProducerIdAndEpoch,
        commit: bool,
        fresh_producer_id: impl FnOnce() -> i64,
    ) -> EndTxnOutcome {
        use TransactionState::{
            CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit,
        };
        // The answer to the end that used up the last epoch was lost: the id is a new one by now.
        let retry_after_rotation = self.epoch_bumped
            && identity.producer_id == self.previous_producer_id
            && identity.producer_epoch == LAST_CLIENT_EPOCH
            && self.producer_epoch == 0
            && self.producer_id != self.previous_producer_id;
        if identity.producer_id != self.producer_id && !retry_after_rotation {
            return EndTxnOutcome::Refused(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        let current = !retry_after_rotation && identity.producer_epoch == self.producer_epoch;
        let retry_after_bump = self.epoch_bumped
            && identity.producer_id == self.producer_id
            && self.producer_epoch.checked_sub(1) == Some(identity.producer_epoch);
        let retry = match self.state {
            Empty | Ongoing => false,
            PrepareCommit | PrepareAbort => retry_after_bump,
            CompleteCommit | CompleteAbort => retry_after_bump || retry_after_rotation,
        };
        let may_be_current = !self.state.is_prepared();
        if !(retry || (current && may_be_current)) {
            return EndTxnOutcome::Refused(ErrorCode::PRODUCER_FENCED);
        }
        match (self.state, commit) {
            (Ongoing, _) => {
                EndTxnOutcome::Prepared(self.prepare_with_bump(commit, fresh_producer_id))
            }
            (PrepareCommit, true) | (PrepareAbort, false) => {
                EndTxnOutcome::Refused(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            (PrepareCommit, false) | (PrepareAbort, true) | (Empty, true) => {
                EndTxnOutcome::Refused(ErrorCode::INVALID_TXN_STATE)
            }
            (CompleteCommit, true) | (CompleteAbort, false) if retry => {
                EndTxnOutcome::Already(self.identity())
            }
            // KIP-890: an abort without a transaction is legal, for a client may not know whether its first write
            // was registered; it only bumps the epoch.
            (Empty | CompleteCommit | CompleteAbort, false) if !retry => {
                EndTxnOutcome::Prepared(self.prepare_with_bump(false, fresh_producer_id))
            }
            (Empty | CompleteCommit | CompleteAbort, _) => {
                EndTxnOutcome::Refused(ErrorCode::INVALID_TXN_STATE)
            }
        }
    }

    /// The coordinator itself aborts the open transaction: timeout, or a new owner. Its epoch becomes stale.
    ///
    /// `transaction_version` is the cluster's: below 2, nobody may know the fenced epoch as "the last one".
    /// Epochs that run out here are left to the next InitProducerId, as the new epoch is told to no client.
    pub(crate) fn fence_and_abort(&mut self, transaction_version: i16) {
        self.epoch_bumped = transaction_version >= 2;
        self.last_producer_epoch = if self.epoch_bumped { self.producer_epoch } else { NO_EPOCH };
        self.producer_epoch = self.producer_epoch.saturating_add(1);
        self.prepare(false);
    }

    /// All markers are written.
    pub(crate) fn complete(&mut self) {
        let complete = match self.state {
            TransactionState::PrepareCommit => TransactionState::CompleteCommit,
            TransactionState::PrepareAbort => TransactionState::CompleteAbort,
            _ => return,
        };
        self.step(complete);
        self.partitions.clear();
        if self.next_producer_id != NO_PRODUCER_ID {
            self.producer_id = self.next_producer_id;
            self.next_producer_id = NO_PRODUCER_ID;
            self.producer_epoch = 0;
        }
    }

    pub(crate) fn identity(&self) -> ProducerIdAndEpoch {
        ProducerIdAndEpoch { producer_id: self.producer_id, producer_epoch: self.producer_epoch }
    }

    fn prepare(&mut self, commit: bool) {
        self.step(if commit {
            TransactionState::PrepareCommit
        } else {
            TransactionState::PrepareAbort
        });
        self.deadline = None;
    }

    fn prepare_with_bump(
        &mut self,
        commit: bool,
        fresh_producer_id: impl FnOnce() -> i64,
    ) -> ProducerIdAndEpoch {
        if self.epoch_is_exhausted() {
            self.next_producer_id = fresh_producer_id();
        }
        self.prepare(commit);
        self.epoch_bumped = true;
        self.last_producer_epoch = self.producer_epoch;
        self.producer_epoch = self.producer_epoch.saturating_add(1);
        if self.next_producer_id == NO_PRODUCER_ID {
            self.identity()
        } else {
            ProducerIdAndEpoch { producer_id: self.next_producer_id, producer_epoch: 0 }
        }
    }
}
