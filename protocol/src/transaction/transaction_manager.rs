//! The transaction machine's face: verbs, dispatch, time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{TransactionalId, add_partitions_to_txn_response as added};
use kafka_protocol::protocol::StrBytes;

use super::markers::Markers;
use super::send_offsets::SendingOffsets;
use super::state::{Ending, Initializing, State, Transaction, TransactionMode};
use super::{AbortCause, ProduceError, TransactionConfig, TransactionEvent, end_txn};
use crate::backoff::Jitter;
use crate::messages::{ApiKey, Request, Response};
use crate::network::{ConnectionClass, Destination, OutgoingRequest, RequestError, RequestToken};
use crate::{ErrorCode, ProducerIdAndEpoch, StaleMetadata, Timestamp, TopicPartition};

/// Identity and transaction of one producer. One request is in flight at a time.
///
/// After every other call, [`poll_request`](Self::poll_request), [`poll_event`](Self::poll_event) and
/// [`poll_stale_metadata`](Self::poll_stale_metadata) are to be polled until they return `None`, and
/// [`poll_timeout`](Self::poll_timeout) is to be asked anew.
#[derive(Debug)]
pub struct TransactionManager {
    pub(super) config: TransactionConfig,
    pub(super) state: State,
    pub(super) identity: Option<ProducerIdAndEpoch>,
    /// The rules the identity was obtained under.
    pub(super) identity_mode: TransactionMode,
    /// A transaction was sent under this identity, and its end did not bring a new one.
    pub(super) identity_used: bool,
    transaction_version: i16,
    pub(super) in_flight: Option<InFlight>,
    /// Of the transaction before.
    pub(super) markers: Option<Markers>,
    /// The broker has not refused to tell of them.
    pub(super) may_describe: bool,
    /// Offsets on their way into the open transaction.
    pub(super) sending_offsets: Option<SendingOffsets>,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) events: VecDeque<TransactionEvent>,
    pub(super) stale: VecDeque<StaleMetadata>,
    pub(super) jitter: Jitter,
    next_token: u64,
}

#[derive(Clone, Debug)]
pub(super) struct InFlight {
    token: RequestToken,
    pub(super) kind: InFlightKind,
}

#[derive(Clone, Debug)]
pub(super) enum InFlightKind {
    InitProducerId,
    AddPartitions(BTreeSet<TopicPartition>),
    AddOffsets,
    TxnOffsetCommit,
    EndTxn,
    DescribeTransactions,
    /// The answer does not matter any more, but the next request waits for it.
    Superseded,
}

/// From here on an identity may not open a transaction: the coordinator renews the producer id, and EndTxn must not be the
/// request that meets this.
const EXHAUSTED_EPOCH: i16 = i16::MAX - 1;

impl TransactionManager {
    /// A manager without identity. Tokens of its requests count from `first_token`; `seed` decides the jitter of its
    /// waiting times.
    #[must_use]
    pub fn new(config: TransactionConfig, first_token: u64, seed: u64) -> Self {
        Self {
            config,
            state: State::Uninitialized,
            identity: None,
            identity_mode: TransactionMode::Tv1,
            identity_used: false,
            transaction_version: 0,
            in_flight: None,
            markers: None,
            may_describe: true,
            sending_offsets: None,
            failures: 0,
            retry_at: None,
            events: VecDeque::new(),
            stale: VecDeque::new(),
            jitter: Jitter::new(seed),
            next_token: first_token,
        }
    }

    /// The cluster's finalized `transaction.version`. Counts from the next identity or transaction on.
    pub fn set_transaction_version(&mut self, version: i16) {
        self.transaction_version = version;
    }

    /// Asks for an identity as the newest producer of the transactional id: fences the one before and aborts its open
    /// transaction. Legal in every state, and clears it.
    ///
    /// Ends with [`TransactionEvent::Initialized`]. One that meets an open transaction ends at once with
    /// [`ProduceError::ConcurrentTransactions`], so that the caller can look before it asks again.
    pub fn init(&mut self, now: Timestamp) {
        self.supersede();
        self.markers = None;
        self.identity = None;
        self.enter(State::Initializing(Initializing { bump: false, started: now, last: None }));
    }

    /// Asks for the next epoch with the current id and epoch (KIP-360), so that a newer producer is noticed. Ends with
    /// [`TransactionEvent::EpochBumped`].
    ///
    /// # Errors
    ///
    /// The state's own error, or [`ProduceError::InvalidState`], unless the producer is outside a transaction.
    pub fn bump(&mut self, now: Timestamp) -> Result<(), ProduceError> {
        match self.state {
            State::Ready => {
                let state = Initializing { bump: true, started: now, last: None };
                self.enter(State::Initializing(state));
                Ok(())
            }
            _ => Err(self.refuse("bump the epoch")),
        }
    }

    /// True if no transaction can begin before [`bump`](Self::bump): under TV1 after every transaction, on a change from
    /// TV1 to TV2, and near the last epoch.
    #[must_use]
    pub fn needs_bump(&self) -> bool {
        let switched =
            self.identity_mode == TransactionMode::Tv1 && self.latest() == TransactionMode::Tv2;
        self.identity.is_some_and(|identity| {
            self.identity_used || switched || identity.producer_epoch >= EXHAUSTED_EPOCH
        })
    }

    /// Opens a transaction. The brokers learn of it with the first partition, so nothing is sent.
    ///
    /// # Errors
    ///
    /// [`ProduceError::BumpRequired`], [`ProduceError::EpochExhausted`], the state's own error, or
    /// [`ProduceError::InvalidState`].
    pub fn begin(&mut self) -> Result<(), ProduceError> {
        let (State::Ready, Some(identity), Some(_)) =
            (&self.state, self.identity, &self.config.transactional_id)
        else {
            return Err(self.refuse("begin a transaction"));
        };
        if identity.producer_epoch >= EXHAUSTED_EPOCH {
            return Err(ProduceError::EpochExhausted { identity });
        }
        if self.identity_used {
            return Err(ProduceError::BumpRequired { identity });
        }
        // KAFKA-18227: an identity from TV1 must be bumped before TV2 rules may hold for it. Until then it stays TV1.
        let mode = self.identity_mode.min(self.latest());
        self.enter(State::InTransaction(Transaction {
            mode,
            added: BTreeSet::new(),
            to_add: BTreeSet::new(),
            attempted: false,
        }));
        Ok(())
    }

    /// The rules of the open transaction; `None` outside of one.
    #[must_use]
    pub fn mode(&self) -> Option<TransactionMode> {
        match &self.state {
            State::InTransaction(transaction) => Some(transaction.mode),
            _ => None,
        }
    }

    /// True if `topic_partition` may be written now. If not, the coordinator is told of it first, or is asked whether the
    /// transaction before is complete.
    pub fn may_write(&mut self, now: Timestamp, topic_partition: &TopicPartition) -> bool {
        let State::InTransaction(transaction) = &mut self.state else { return false };
        if transaction.mode == TransactionMode::Tv2 {
            return !self.awaits_markers(now);
        }
        if transaction.added.contains(topic_partition) {
            return true;
        }
        transaction.to_add.insert(topic_partition.clone());
        false
    }

    /// A batch of the open transaction is being sent. Even if it is never written, its partition may be registered.
    pub fn handle_written(&mut self) {
        if let State::InTransaction(transaction) = &mut self.state {
            transaction.attempted = true;
        }
    }

    /// The open transaction can not be committed any more.
    pub fn fail(&mut self, error: ProduceError) {
        let State::InTransaction(transaction) = &self.state else { return };
        let transaction = transaction.clone();
        self.retry_at = None;
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.kind = InFlightKind::Superseded;
        }
        self.events.push_back(TransactionEvent::Failed(error.clone()));
        self.drop_offsets(&error);
        match error {
            ProduceError::Fenced { .. } => self.enter(State::Fenced(error)),
            ProduceError::Fatal { .. } => self.enter(State::Failed(error)),
            _ => self.enter(State::AbortRequired(transaction, error)),
        }
    }

    /// Ends the open transaction: commits or aborts it. The same request is repeated until a definite answer or until
    /// `limit` is over. Ends with [`TransactionEvent::Ended`]; without a request if nothing was sent in the transaction.
    ///
    /// # Errors
    ///
    /// The state's own error, or [`ProduceError::InvalidState`], if there is no transaction that can end so.
    pub fn end(
        &mut self,
        now: Timestamp,
        committed: bool,
        limit: Duration,
    ) -> Result<(), ProduceError> {
        let transaction = match &self.state {
            State::InTransaction(transaction) => transaction.clone(),
            State::AbortRequired(transaction, _) if !committed => transaction.clone(),
            _ => return Err(self.refuse(if committed { "commit" } else { "abort" })),
        };
        if committed && self.sending_offsets.is_some() {
            let state = "sending offsets of a group";
            return Err(ProduceError::InvalidState { verb: "commit", state });
        }
        self.drop_offsets(&ProduceError::Abortable { cause: AbortCause::Discarded });
        let (Some(identity), Some(transactional_id)) =
            (self.identity, &self.config.transactional_id)
        else {
            return Err(self.refuse("end a transaction"));
        };
        if !transaction.attempted {
            self.enter(State::Ready);
            self.events.push_back(TransactionEvent::Ended { committed, result: Ok(()) });
            return Ok(());
        }
        let request = end_txn::request(transactional_id, identity, committed);
        self.enter(State::Ending(Ending {
            transaction,
            request,
            started: now,
            limit,
            uncertain: false,
            last: None,
        }));
        Ok(())
    }

    /// The identity; `None` before the first `init` has succeeded, and while another is asked for.
    #[must_use]
    pub const fn identity(&self) -> Option<ProducerIdAndEpoch> {
        self.identity
    }

    /// The error that explains why the producer can not go on, if it can not.
    #[must_use]
    pub fn error(&self) -> Option<&ProduceError> {
        self.state.error()
    }

    /// True while an identity is asked for.
    #[must_use]
    pub const fn is_initializing(&self) -> bool {
        matches!(self.state, State::Initializing(_))
    }

    /// The next epoch of an idempotent producer, which needs no coordinator for it (KIP-360). After the last epoch a new
    /// identity is asked for.
    pub fn bump_locally(&mut self, now: Timestamp) {
        let Some(identity) = &mut self.identity else { return };
        match identity.producer_epoch.checked_add(1) {
            Some(epoch) => identity.producer_epoch = epoch,
            None => self.init(now),
        }
    }

    /// The next request to send at `now`, if any.
    pub fn poll_request(&mut self, now: Timestamp) -> Option<OutgoingRequest> {
        if self.in_flight.is_some() || self.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        let mut destination = self.coordinator();
        let sends_offsets = self.sending_offsets.is_some();
        let is_open = matches!(self.state, State::InTransaction(_));
        if is_open && sends_offsets {
            self.awaits_markers(now);
        }
        let markers = if is_open { self.ask_for_markers() } else { None };
        let (request, kind, max_version) = match &self.state {
            State::Initializing(state) => {
                (self.init_producer_id(state), InFlightKind::InitProducerId, None)
            }
            State::InTransaction(_) if markers.is_some() => {
                (markers?, InFlightKind::DescribeTransactions, None)
            }
            State::InTransaction(transaction) if !transaction.to_add.is_empty() => {
                let partitions = transaction.to_add.clone();
                let request = self.add_partitions(&partitions)?;
                (request, InFlightKind::AddPartitions(partitions), Some(3))
            }
            State::InTransaction(transaction) => {
                let sending = self.sending_offsets.as_ref()?;
                if sending.added {
                    destination = self.offsets_destination(sending);
                    let request = self.txn_offset_commit(&sending.offsets)?;
                    // KIP-890: from version 5 on the group's coordinator adds the group to the transaction.
                    let max_version = match transaction.mode {
                        TransactionMode::Tv1 => 4,
                        TransactionMode::Tv2 => 5,
                    };
                    (request, InFlightKind::TxnOffsetCommit, Some(max_version))
                } else {
                    let request = self.add_offsets(&sending.offsets.group_id)?;
                    (request, InFlightKind::AddOffsets, None)
                }
            }
            State::Ending(ending) => {
                let max_version = end_txn::max_version(ending.transaction.mode);
                (Request::EndTxn(ending.request.clone()), InFlightKind::EndTxn, Some(max_version))
            }
            _ => return None,
        };
        if let State::InTransaction(transaction) = &mut self.state {
            transaction.attempted |= !matches!(kind, InFlightKind::DescribeTransactions);
        }
        self.retry_at = None;
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        self.in_flight = Some(InFlight { token, kind });
        Some(OutgoingRequest {
            destination,
            class: ConnectionClass::Control,
            request,
            token,
            max_version,
            timeout: self.config.request_timeout,
        })
    }

    /// Takes the answer, of `version`, to the request of `token`, or why there is none. Unknown tokens are ignored.
    pub fn handle_response(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        version: i16,
        result: Result<Response, RequestError>,
    ) {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.token == token) else {
            return;
        };
        match (in_flight.kind, result) {
            (InFlightKind::Superseded, _) => {}
            (InFlightKind::InitProducerId, Ok(Response::InitProducerId(response))) => {
                self.handle_init_producer_id(now, &response);
            }
            (
                InFlightKind::AddPartitions(asked),
                Ok(Response::AddPartitionsToTxn(added::AddPartitionsToTxnResponse {
                    results_by_topic_v3_and_below,
                    ..
                })),
            ) => self.handle_add_partitions(now, &asked, &results_by_topic_v3_and_below),
            (InFlightKind::AddOffsets, Ok(Response::AddOffsetsToTxn(response))) => {
                self.handle_add_offsets(now, &response);
            }
            (InFlightKind::TxnOffsetCommit, Ok(Response::TxnOffsetCommit(response))) => {
                self.handle_txn_offset_commit(now, &response);
            }
            (InFlightKind::EndTxn, Ok(Response::EndTxn(response))) => {
                self.handle_end_txn(now, version, &response);
            }
            (InFlightKind::DescribeTransactions, Ok(Response::DescribeTransactions(response))) => {
                self.handle_markers(now, &response);
            }
            (kind, Ok(_)) => self.handle_no_answer(now, &kind, None),
            (kind, Err(error)) => self.handle_no_answer(now, &kind, Some(error)),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing else happens first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let retry = if self.in_flight.is_none() { self.retry_at } else { None };
        retry.into_iter().chain(self.deadline()).chain(self.markers_deadline()).min()
    }

    /// Time has come to `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        self.markers.take_if(|markers| markers.until <= now);
        if self.deadline().is_some_and(|at| at <= now) {
            self.give_up(now);
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<TransactionEvent> {
        self.events.pop_front()
    }

    /// Metadata that turned out to be old.
    pub fn poll_stale_metadata(&mut self) -> Option<StaleMetadata> {
        self.stale.pop_front()
    }

    /// The one place where the state changes.
    pub(super) fn enter(&mut self, next: State) {
        debug_assert!(
            self.state.kind().may_become(next.kind()),
            "{:?} can not become {:?}",
            self.state.kind(),
            next.kind()
        );
        self.failures = 0;
        self.retry_at = None;
        self.state = next;
    }

    /// Rules that a new identity gets.
    pub(super) const fn latest(&self) -> TransactionMode {
        if self.transaction_version >= 2 { TransactionMode::Tv2 } else { TransactionMode::Tv1 }
    }

    pub(super) fn refuse(&self, verb: &'static str) -> ProduceError {
        self.state
            .error()
            .cloned()
            .unwrap_or(ProduceError::InvalidState { verb, state: self.state.name() })
    }

    pub(super) fn wire_transactional_id(&self) -> Option<TransactionalId> {
        self.config.transactional_id.as_deref().map(wire_id)
    }

    pub(super) fn fenced(&self, api: ApiKey, code: ErrorCode) -> ProduceError {
        ProduceError::Fenced { transactional_id: self.transactional_id(), api, code }
    }

    pub(super) fn transactional_id(&self) -> Arc<str> {
        self.config.transactional_id.clone().unwrap_or_else(|| Arc::from(""))
    }

    pub(super) fn coordinator(&self) -> Destination {
        match &self.config.transactional_id {
            Some(id) => Destination::TransactionCoordinator(Arc::clone(id)),
            None => Destination::AnyBroker,
        }
    }

    /// Whatever is under way ends without an outcome.
    fn supersede(&mut self) {
        let dropped = self.refuse("initialize");
        self.drop_offsets(&dropped);
        let event = match &self.state {
            State::Initializing(state) => {
                let refused = Err(self.refuse("initialize again"));
                Some(if state.bump {
                    TransactionEvent::EpochBumped(refused)
                } else {
                    TransactionEvent::Initialized(refused)
                })
            }
            State::Ending(state) => Some(TransactionEvent::Ended {
                committed: state.request.committed,
                result: Err(self.refuse("initialize")),
            }),
            _ => None,
        };
        self.events.extend(event);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.kind = InFlightKind::Superseded;
        }
    }
}

pub(super) fn wire_id(transactional_id: &str) -> TransactionalId {
    TransactionalId(StrBytes::from_string(transactional_id.to_owned()))
}

pub(super) const fn is_exhausted(identity: ProducerIdAndEpoch) -> bool {
    identity.producer_epoch >= EXHAUSTED_EPOCH
}

#[cfg(test)]
mod tests;
