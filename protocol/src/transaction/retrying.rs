//! What is done where an answer is missing, or says to ask again; and when that ends.

use std::sync::Arc;
use std::time::Duration;

use super::state::State;
use super::transaction_manager::InFlightKind;
use super::{FatalCause, ProduceError, TransactionManager};
use crate::backoff::ExponentialBackoff;
use crate::messages::ApiKey;
use crate::network::RequestError;
use crate::{ErrorCode, StaleMetadata, Timestamp};

/// For what meets CONCURRENT_TRANSACTIONS in the middle of a transaction: markers of the one before are being written.
const CONCURRENT_BACKOFF: Duration = Duration::from_millis(20);

impl TransactionManager {
    /// Repeats the request after a delay. `moved`: at another coordinator, perhaps.
    pub(super) fn retry(&mut self, now: Timestamp, code: ErrorCode, moved: bool) {
        self.failures = self.failures.saturating_add(1);
        let backoff = if code == ErrorCode::CONCURRENT_TRANSACTIONS {
            // Between two transactions nothing else can be done, and markers take a millisecond or two as a rule.
            ExponentialBackoff::new(Duration::from_millis(1), Duration::from_secs(1))
        } else {
            self.config.retry_backoff
        };
        self.retry_at = Some(now.after(backoff.delay(self.failures, &mut self.jitter)));
        if let State::Ending(ending) = &mut self.state {
            ending.uncertain = true;
        }
        self.remember(Arc::from(code.to_string()));
        if moved {
            self.stale.push_back(StaleMetadata::Coordinator(self.coordinator()));
        }
    }

    /// Repeats the request after the shortest delay: the transaction before is almost complete.
    pub(super) fn retry_soon(&mut self, now: Timestamp) {
        self.failures = 0;
        self.retry_at = Some(now.after(CONCURRENT_BACKOFF));
    }

    fn remember(&mut self, text: Arc<str>) {
        match &mut self.state {
            State::Initializing(state) => state.last = Some(text),
            State::Ending(state) => state.last = Some(text),
            _ => {}
        }
    }

    /// No answer, or one to another request.
    pub(super) fn handle_no_answer(
        &mut self,
        now: Timestamp,
        kind: &InFlightKind,
        error: Option<RequestError>,
    ) {
        let lasting = error.as_ref().is_some_and(|error| {
            matches!(
                error,
                RequestError::UnsupportedByBroker { .. }
                    | RequestError::Encode(_)
                    | RequestError::CoordinatorRefused { .. }
                    | RequestError::Security { .. }
                    | RequestError::Closed
            )
        });
        match (kind, error) {
            (InFlightKind::InitProducerId, Some(error)) if lasting => self.init_failed(error),
            (
                InFlightKind::AddPartitions(_)
                | InFlightKind::AddOffsets
                | InFlightKind::TxnOffsetCommit,
                Some(error),
            ) if lasting => {
                self.fail(ProduceError::Fatal { cause: FatalCause::Request(error) });
            }
            (InFlightKind::EndTxn, Some(RequestError::Closed)) => self.give_up(now),
            (InFlightKind::DescribeTransactions, error) => self.no_word_of_markers(error.as_ref()),
            (_, error) => {
                self.retry(now, ErrorCode::NETWORK_EXCEPTION, true);
                if let Some(error) = error {
                    self.remember(Arc::from(error.to_string()));
                }
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match &self.state {
            State::Initializing(state) => Some(state.started.after(self.config.max_block)),
            State::Ending(state) => Some(state.started.after(state.limit)),
            State::InTransaction(_) => {
                let sending = self.sending_offsets.as_ref()?;
                Some(sending.started.after(self.config.max_block))
            }
            _ => None,
        }
    }

    pub(super) fn give_up(&mut self, now: Timestamp) {
        match &self.state {
            State::Initializing(state) => {
                let error = ProduceError::TimedOut {
                    api: ApiKey::InitProducerId,
                    after: now.since(state.started),
                    last: state.last.clone(),
                };
                self.finish_init(Err(error));
            }
            State::Ending(_) => self.end_in_doubt(now),
            State::InTransaction(_) => {
                if let Some(sending) = &self.sending_offsets {
                    let error = ProduceError::TimedOut {
                        api: ApiKey::TxnOffsetCommit,
                        after: now.since(sending.started),
                        last: sending.last.clone(),
                    };
                    self.fail(error);
                }
            }
            _ => {}
        }
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.kind = InFlightKind::Superseded;
        }
    }
}
