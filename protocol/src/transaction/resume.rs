//! Finishing a transaction that another process has prepared: the same EndTxn, by whoever knows its identity.

use std::sync::Arc;

use kafka_protocol::messages::EndTxnRequest;

use super::state::{State, TransactionMode};
use super::{TransactionManager, end_txn};
use crate::{ErrorCode, ProducerIdAndEpoch};

/// A transaction whose records are acknowledged and which is not ended: what another process needs to end it.
///
/// The mode belongs to it: the coordinator picks its rules by the version of EndTxn alone, and the other version would
/// make a committed transaction look aborted or superseded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// The identity that wrote the records, both parts.
    pub producer: ProducerIdAndEpoch,
    /// The rules that it was written under.
    pub mode: TransactionMode,
}

/// What became of a prepared transaction. Never a guess: what can not be known is told as such.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionOutcome {
    /// It is committed: decided for good, and visible as soon as the markers are written.
    Committed,
    /// It is aborted, by somebody or by its timeout, or the coordinator never knew of it.
    Aborted,
    /// The id has moved on, and the coordinator can not tell any more. Under TV1 `CompleteAbort` with the next epoch is what
    /// a timeout leaves behind, but also a later owner who aborted.
    Superseded {
        /// The state of the id's last transaction, in Kafka's words.
        state: String,
        /// Who owns the id now.
        owner: ProducerIdAndEpoch,
    },
    /// The coordinator does not know the id: unused for `transactional.id.expiration.ms`, or never used.
    Expired,
}

/// What an answer to EndTxn means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumeStep {
    /// It is decided.
    Done(TransactionOutcome),
    /// The same request again.
    Again,
    /// The coordinator is to be asked for the state of the id.
    Look,
    /// It will not be done.
    Refused,
}

impl PreparedTransaction {
    /// The request that ends it; the highest version is [`max_version`](Self::max_version).
    #[must_use]
    pub fn end_request(&self, commit: bool) -> EndTxnRequest {
        end_txn::request(&self.transactional_id, self.producer, commit)
    }

    /// The highest version of EndTxn under its rules.
    #[must_use]
    pub const fn max_version(&self) -> i16 {
        end_txn::max_version(self.mode)
    }

    /// What the answer to [`end_request`](Self::end_request) means.
    #[must_use]
    pub fn judge_end(&self, commit: bool, code: ErrorCode) -> ResumeStep {
        use TransactionOutcome::{Aborted, Committed};
        match code {
            ErrorCode::NONE if commit => ResumeStep::Done(Committed),
            ErrorCode::NONE => ResumeStep::Done(Aborted),
            // To be committed and not in a state that can be: it is aborted, or nothing of it ever reached the coordinator.
            ErrorCode::INVALID_TXN_STATE if commit => ResumeStep::Done(Aborted),
            ErrorCode::INVALID_TXN_STATE
            | ErrorCode::PRODUCER_FENCED
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING => ResumeStep::Look,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::TRANSACTION_ABORTABLE => ResumeStep::Refused,
            // Anything else says nothing about the outcome.
            _ => ResumeStep::Again,
        }
    }

    /// What state and owner of the id, as DescribeTransactions gives them, say of this transaction.
    #[must_use]
    pub fn judge_state(&self, state: &str, owner: ProducerIdAndEpoch) -> TransactionOutcome {
        // Under TV2 an end takes the next epoch, and the transaction after that yet another.
        let epoch_of_end = match self.mode {
            TransactionMode::Tv1 => Some(self.producer.producer_epoch),
            TransactionMode::Tv2 => self.producer.producer_epoch.checked_add(1),
        };
        let is_ours = owner.producer_id == self.producer.producer_id
            && Some(owner.producer_epoch) == epoch_of_end;
        match state {
            "PrepareCommit" | "CompleteCommit" if is_ours => TransactionOutcome::Committed,
            "PrepareAbort" | "CompleteAbort" if is_ours => TransactionOutcome::Aborted,
            _ => TransactionOutcome::Superseded { state: state.to_owned(), owner },
        }
    }
}

impl TransactionManager {
    /// What another process needs to end the open transaction; `None` if nothing was sent in it, or it can only be aborted.
    #[must_use]
    pub fn prepared(&self) -> Option<PreparedTransaction> {
        let State::InTransaction(transaction) = &self.state else { return None };
        let transactional_id = self.config.transactional_id.clone()?;
        let (producer, mode) = (self.identity?, transaction.mode);
        transaction.attempted.then_some(PreparedTransaction { transactional_id, producer, mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(mode: TransactionMode) -> PreparedTransaction {
        let producer = ProducerIdAndEpoch { producer_id: 7, producer_epoch: 3 };
        PreparedTransaction { transactional_id: Arc::from("id"), producer, mode }
    }

    #[test]
    fn a_definite_answer_decides_and_others_are_asked_for() {
        use TransactionOutcome::{Aborted, Committed};
        let cases = [
            (true, ErrorCode::NONE, ResumeStep::Done(Committed)),
            (false, ErrorCode::NONE, ResumeStep::Done(Aborted)),
            (true, ErrorCode::INVALID_TXN_STATE, ResumeStep::Done(Aborted)),
            // It may be committed.
            (false, ErrorCode::INVALID_TXN_STATE, ResumeStep::Look),
            (true, ErrorCode::PRODUCER_FENCED, ResumeStep::Look),
            (true, ErrorCode::INVALID_PRODUCER_EPOCH, ResumeStep::Look),
            (true, ErrorCode::INVALID_PRODUCER_ID_MAPPING, ResumeStep::Look),
            (true, ErrorCode::CONCURRENT_TRANSACTIONS, ResumeStep::Again),
            (true, ErrorCode::NOT_COORDINATOR, ResumeStep::Again),
            (true, ErrorCode::UNKNOWN_SERVER_ERROR, ResumeStep::Again),
            (true, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ResumeStep::Refused),
        ];
        for mode in [TransactionMode::Tv1, TransactionMode::Tv2] {
            for (commit, code, expected) in &cases {
                assert_eq!(&prepared(mode).judge_end(*commit, *code), expected, "{code}");
            }
        }
    }

    #[test]
    fn a_state_counts_only_with_the_epoch_that_the_end_leaves() {
        use TransactionOutcome::{Aborted, Committed};
        let owner = |epoch| ProducerIdAndEpoch { producer_id: 7, producer_epoch: epoch };
        for (mode, epoch) in [(TransactionMode::Tv1, 3), (TransactionMode::Tv2, 4)] {
            let prepared = prepared(mode);
            assert_eq!(prepared.judge_state("CompleteCommit", owner(epoch)), Committed);
            assert_eq!(prepared.judge_state("PrepareCommit", owner(epoch)), Committed);
            assert_eq!(prepared.judge_state("CompleteAbort", owner(epoch)), Aborted);
            for (state, owner) in [
                ("CompleteCommit", owner(epoch + 1)),
                ("CompleteAbort", owner(epoch + 1)),
                ("Ongoing", owner(epoch)),
                ("Empty", owner(epoch)),
                ("CompleteCommit", ProducerIdAndEpoch { producer_id: 8, producer_epoch: epoch }),
            ] {
                let superseded = TransactionOutcome::Superseded { state: state.to_owned(), owner };
                assert_eq!(prepared.judge_state(state, owner), superseded);
            }
        }
    }

    #[test]
    fn the_version_is_that_of_the_mode() {
        assert_eq!(prepared(TransactionMode::Tv1).max_version(), 4);
        assert_eq!(prepared(TransactionMode::Tv2).max_version(), 5);
    }
}
