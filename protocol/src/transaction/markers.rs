//! Waiting for the markers of the transaction before (KIP-890).
//!
//! EndTxn is answered once the end is decided; the markers are written after that, within moments. A broker that meets the first
//! batch of the next transaction in between holds it, and with it the whole connection, and looks again after 20 ms
//! (`add.partitions.to.txn.retry.backoff.ms`): for who commits each 100 ms a fifth of the time, for who commits each 10 ms all
//! of it. So who has something to write right after a commit asks the coordinator first (DescribeTransactions), which takes
//! what the markers take. It is only about time: a broker holds what comes too early in any case, so every doubt here ends with
//! writing.

use std::time::Duration;

use kafka_protocol::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};

use super::TransactionManager;
use super::transaction_manager::wire_id;
use crate::messages::Request;
use crate::network::RequestError;
use crate::{ErrorCode, Timestamp};

/// A transaction was ended under TV2, and its markers may be on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Markers {
    /// From here on the broker's own wait is no longer than ours would be.
    pub(super) until: Timestamp,
    /// Something is to be written.
    wanted: bool,
}

/// Markers take a millisecond or two on an idle broker, several on a busy one; nothing is written meanwhile. At most
/// [`BROKERS_WAIT`] of questions.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(1);

/// What a broker waits for before it looks again.
const BROKERS_WAIT: Duration = Duration::from_millis(20);

impl TransactionManager {
    /// EndTxn was carried out just now.
    pub(super) fn expect_markers(&mut self, now: Timestamp) {
        let until = now.after(BROKERS_WAIT);
        self.markers = self.may_describe.then_some(Markers { until, wanted: false });
    }

    /// Whether the next transaction's first batch is better kept until the coordinator has been asked.
    pub(super) fn awaits_markers(&mut self, now: Timestamp) -> bool {
        self.markers.take_if(|markers| markers.until <= now);
        let Some(markers) = &mut self.markers else { return false };
        markers.wanted = true;
        true
    }

    /// The question, if there is something to write and the markers may be missing.
    pub(super) fn ask_for_markers(&self) -> Option<Request> {
        let id = self.config.transactional_id.as_deref()?;
        self.markers.filter(|markers| markers.wanted)?;
        let request =
            DescribeTransactionsRequest::default().with_transactional_ids(vec![wire_id(id)]);
        Some(Request::DescribeTransactions(request))
    }

    pub(super) fn handle_markers(
        &mut self,
        now: Timestamp,
        response: &DescribeTransactionsResponse,
    ) {
        if self.markers.is_none() {
            return;
        }
        let state = response.transaction_states.first();
        if state.is_some_and(|state| {
            is_under_way(ErrorCode(state.error_code), &state.transaction_state)
        }) {
            self.retry_at = Some(now.after(BETWEEN_QUESTIONS));
            return;
        }
        let refused = state.is_some_and(|state| {
            ErrorCode(state.error_code) == ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        });
        self.may_describe &= !refused;
        self.markers = None;
    }

    /// There is no answer.
    pub(super) fn no_word_of_markers(&mut self, error: Option<&RequestError>) {
        let unsupported = matches!(error, Some(RequestError::UnsupportedByBroker { .. }));
        self.may_describe &= !unsupported;
        self.markers = None;
    }

    /// When waiting ends, if somebody waits.
    pub(super) fn markers_deadline(&self) -> Option<Timestamp> {
        self.markers.filter(|markers| markers.wanted).map(|markers| markers.until)
    }
}

fn is_under_way(code: ErrorCode, state: &str) -> bool {
    code == ErrorCode::NONE && matches!(state, "PrepareCommit" | "PrepareAbort")
}
