//! Committing and aborting: the same EndTxn again until its outcome is known.

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use super::state::{State, TransactionMode};
use super::transaction_manager::wire_id;
use super::{ProduceError, TransactionEvent, TransactionManager};
use crate::messages::ApiKey;
use crate::{ErrorCode, ProducerIdAndEpoch, Timestamp};

/// The request that ends a transaction. It is repeated as it is, so that a broker that has carried it out knows it again.
pub(super) fn request(
    transactional_id: &str,
    identity: ProducerIdAndEpoch,
    committed: bool,
) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(wire_id(transactional_id))
        .with_producer_id(identity.producer_id.into())
        .with_producer_epoch(identity.producer_epoch)
        .with_committed(committed)
}

/// The coordinator picks its rules by the version of this request alone (KIP-890).
pub(super) const fn max_version(mode: TransactionMode) -> i16 {
    match mode {
        TransactionMode::Tv1 => 4,
        TransactionMode::Tv2 => 5,
    }
}

impl TransactionManager {
    pub(super) fn handle_end_txn(
        &mut self,
        now: Timestamp,
        version: i16,
        response: &EndTxnResponse,
    ) {
        let State::Ending(ending) = &self.state else { return };
        let committed = ending.request.committed;
        let mode = ending.transaction.mode;
        let code = ErrorCode(response.error_code);
        match code {
            ErrorCode::NONE => {
                self.identity_used = true;
                if mode == TransactionMode::Tv2 && version >= 5 && response.producer_id.0 >= 0 {
                    // KIP-890: the answer carries the identity of the next transaction.
                    self.identity = Some(ProducerIdAndEpoch {
                        producer_id: response.producer_id.0,
                        producer_epoch: response.producer_epoch,
                    });
                    self.identity_mode = TransactionMode::Tv2;
                    self.identity_used = false;
                    self.expect_markers(now);
                }
                self.finish_end(State::Ready, committed, Ok(()));
            }
            // Being carried out, or about to be.
            ErrorCode::CONCURRENT_TRANSACTIONS | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => {
                self.retry(now, code, false);
            }
            // Below version 2 INVALID_PRODUCER_EPOCH stands for PRODUCER_FENCED; from the coordinator both mean the same.
            ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => {
                let error = self.fenced(ApiKey::EndTxn, code);
                self.finish_end(State::Fenced(error.clone()), committed, Err(error));
            }
            ErrorCode::INVALID_TXN_STATE if !committed && mode == TransactionMode::Tv1 => {
                // No partition was added after all, so there is nothing to abort.
                self.identity_used = true;
                self.finish_end(State::Ready, committed, Ok(()));
            }
            ErrorCode::TRANSACTION_ABORTABLE if !committed => {
                // Aborting what can only be aborted: again would be for ever.
                let error = ProduceError::refused(ApiKey::EndTxn, code);
                self.finish_end(State::Failed(error.clone()), committed, Err(error));
            }
            // The producer id was renewed, by whom and after what is not said: a try before may have been carried out.
            ErrorCode::INVALID_PRODUCER_ID_MAPPING if ending.uncertain => {
                if let State::Ending(ending) = &mut self.state {
                    ending.last = Some(std::sync::Arc::from(code.to_string()));
                }
                self.end_in_doubt(now);
            }
            ErrorCode::INVALID_TXN_STATE
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
            | ErrorCode::TRANSACTION_ABORTABLE => {
                let error = ProduceError::abortable(ApiKey::EndTxn, code, None);
                let transaction = ending.transaction.clone();
                let state = State::AbortRequired(transaction, error.clone());
                self.finish_end(state, committed, Err(error));
            }
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST => {
                let error = ProduceError::refused(ApiKey::EndTxn, code);
                self.finish_end(State::Failed(error.clone()), committed, Err(error));
            }
            // Anything else says nothing about the outcome, so the request is repeated; perhaps elsewhere.
            _ => self.retry(now, code, true),
        }
    }

    /// Time is up. What becomes of the transaction is not known, and may still be decided by a request under way.
    pub(super) fn end_in_doubt(&mut self, now: Timestamp) {
        let State::Ending(ending) = &self.state else { return };
        let committed = ending.request.committed;
        let error = ProduceError::UnknownOutcome {
            transactional_id: self.transactional_id(),
            after: now.since(ending.started),
            last: ending.last.clone(),
        };
        self.finish_end(State::InDoubt(error.clone()), committed, Err(error));
    }

    fn finish_end(&mut self, next: State, committed: bool, result: Result<(), ProduceError>) {
        self.enter(next);
        self.events.push_back(TransactionEvent::Ended { committed, result });
    }
}
