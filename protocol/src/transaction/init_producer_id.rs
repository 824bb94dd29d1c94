//! Getting an identity, and the next epoch of it (KIP-98, KIP-360).

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::state::{Initializing, State};
use super::transaction_manager::is_exhausted;
use super::{FatalCause, ProduceError, TransactionEvent, TransactionManager};
use crate::messages::{ApiKey, Request};
use crate::network::RequestError;
use crate::{ErrorCode, ProducerIdAndEpoch, Timestamp};

impl TransactionManager {
    pub(super) fn init_producer_id(&self, state: &Initializing) -> Request {
        let asked = match self.identity {
            Some(identity) if state.bump => identity,
            _ => ProducerIdAndEpoch::NONE,
        };
        let timeout_ms =
            i32::try_from(self.config.transaction_timeout.as_millis()).unwrap_or(i32::MAX);
        Request::InitProducerId(
            InitProducerIdRequest::default()
                .with_transactional_id(self.wire_transactional_id())
                .with_transaction_timeout_ms(timeout_ms)
                .with_producer_id(asked.producer_id.into())
                .with_producer_epoch(asked.producer_epoch),
        )
    }

    pub(super) fn handle_init_producer_id(
        &mut self,
        now: Timestamp,
        response: &InitProducerIdResponse,
    ) {
        let State::Initializing(state) = &self.state else { return };
        let bump = state.bump;
        let code = ErrorCode(response.error_code);
        match code {
            ErrorCode::NONE => self.adopt(ProducerIdAndEpoch {
                producer_id: response.producer_id.0,
                producer_epoch: response.producer_epoch,
            }),
            // The coordinator aborts the open transaction meanwhile. Whose it is, the caller wants to know first.
            ErrorCode::CONCURRENT_TRANSACTIONS if !bump => {
                let transactional_id = self.transactional_id();
                self.finish_init(Err(ProduceError::ConcurrentTransactions { transactional_id }));
            }
            ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::KAFKA_STORAGE_ERROR
            | ErrorCode::REQUEST_TIMED_OUT => self.retry(now, code, true),
            // KIP-360: versions below 4 say INVALID_PRODUCER_EPOCH for PRODUCER_FENCED.
            ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => {
                self.finish_init(Err(self.fenced(ApiKey::InitProducerId, code)));
            }
            ErrorCode::INVALID_TRANSACTION_TIMEOUT => {
                let timeout = self.config.transaction_timeout;
                self.finish_init(Err(ProduceError::InvalidTransactionTimeout { timeout }));
            }
            ErrorCode::TRANSACTION_ABORTABLE => {
                let error = ProduceError::abortable(ApiKey::InitProducerId, code, None);
                self.finish_init(Err(error));
            }
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::INVALID_TXN_STATE
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING => {
                self.finish_init(Err(ProduceError::refused(ApiKey::InitProducerId, code)));
            }
            // Loading, a code newer than us, an unknown error: repeating is safe. A first ask fences ourselves at most,
            // and a bump with the former epoch is answered with the current one.
            _ => self.retry(now, code, false),
        }
    }

    pub(super) fn init_failed(&mut self, error: RequestError) {
        self.finish_init(Err(ProduceError::Fatal { cause: FatalCause::Request(error) }));
    }

    /// Leaves the state of asking, and says how it ended.
    pub(super) fn finish_init(&mut self, result: Result<ProducerIdAndEpoch, ProduceError>) {
        let State::Initializing(state) = &self.state else { return };
        let bump = state.bump;
        self.enter(match &result {
            Ok(_) => State::Ready,
            Err(error @ ProduceError::Fenced { .. }) => State::Fenced(error.clone()),
            Err(error @ ProduceError::Fatal { .. }) => State::Failed(error.clone()),
            // The current identity is still ours to bump.
            Err(_) if bump => State::Ready,
            Err(_) => State::Uninitialized,
        });
        self.events.push_back(if bump {
            // Whether a bump that was given up took place is unknown: the identity must not carry a transaction.
            self.identity_used |= result.is_err();
            TransactionEvent::EpochBumped(result)
        } else {
            TransactionEvent::Initialized(result)
        });
    }

    fn adopt(&mut self, identity: ProducerIdAndEpoch) {
        self.identity = Some(identity);
        self.identity_mode = self.latest();
        self.identity_used = false;
        // KIP-360: near the last epoch the next ask renews the producer id. Ask until it did, now, where no transaction
        // is open.
        if self.config.transactional_id.is_some() && is_exhausted(identity) {
            return;
        }
        self.finish_init(Ok(identity));
    }
}
