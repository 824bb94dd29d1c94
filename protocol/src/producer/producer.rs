//! The produce machine's face: batches and verbs in, requests and events out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::delivery::{BatchId, Report};
use super::ending::EndingVerb;
use super::partition_window::{PartitionWindow, Status};
use super::record_accumulator::RecordAccumulator;
use super::{ProducerConfig, ProducerEvent};
use crate::backoff::Jitter;
use crate::messages::Response;
use crate::network::{Metadata, OutgoingRequest, RequestError, RequestToken};
use crate::records::SealedBatch;
use crate::transaction::{
    AbortCause, FatalCause, GroupOffsets, ProduceError, TransactionEvent, TransactionManager,
    TransactionMode,
};
use crate::{NodeId, ProducerIdAndEpoch, StaleMetadata, Timestamp, TopicPartition};

/// An idempotent producer, transactional if it has a transactional id.
///
/// After every other call, [`poll_request`](Self::poll_request), [`poll_event`](Self::poll_event) and
/// [`poll_stale_metadata`](Self::poll_stale_metadata) are to be polled until they return `None`, and
/// [`poll_timeout`](Self::poll_timeout) is to be asked anew. `poll_request` also after the metadata changed.
#[derive(Debug)]
pub struct Producer {
    pub(super) config: ProducerConfig,
    pub(super) transactions: TransactionManager,
    pub(super) accumulator: RecordAccumulator,
    pub(super) windows: BTreeMap<TopicPartition, PartitionWindow>,
    /// Leaders that acknowledged a batch of the last transaction, which was committed, and the producer id that it had.
    pub(super) known_by: BTreeMap<TopicPartition, (NodeId, i64)>,
    /// Windows with a batch to be sent again or a pause, and maybe some that had: of thousands of partitions only these are looked at
    /// each turn.
    pub(super) held: BTreeSet<TopicPartition>,
    pub(super) in_flight: BTreeMap<RequestToken, ProduceInFlight>,
    /// The open transaction's tag.
    pub(super) open: Option<u64>,
    /// The last transaction that ended.
    closed: Option<u64>,
    /// A batch came too late for its transaction. Found by the next verb.
    late: Option<ProduceError>,
    pub(super) ending: Option<EndingVerb>,
    discarding: bool,
    pub(super) stale: VecDeque<StaleMetadata>,
    pub(super) events: VecDeque<ProducerEvent>,
    pub(super) jitter: Jitter,
    pub(super) next_token: u64,
    /// The partition served last.
    pub(super) cursor: Option<TopicPartition>,
}

/// A produce request that awaits its answer.
#[derive(Debug)]
pub(super) struct ProduceInFlight {
    pub(super) node: NodeId,
    pub(super) partitions: Vec<TopicPartition>,
}

/// Tokens of coordinator requests count from here, those of produce requests from 0.
const COORDINATOR_TOKENS: u64 = 1 << 63;

impl Producer {
    /// A producer without identity. `seed` decides the jitter of its waiting times.
    #[must_use]
    pub fn new(config: ProducerConfig, seed: u64) -> Self {
        let transactional = config.transaction.transactional_id.is_some();
        Self {
            transactions: TransactionManager::new(
                config.transaction.clone(),
                COORDINATOR_TOKENS,
                seed,
            ),
            accumulator: RecordAccumulator::new(transactional, config.buffer_memory),
            config,
            windows: BTreeMap::new(),
            known_by: BTreeMap::new(),
            held: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            open: None,
            closed: None,
            late: None,
            ending: None,
            discarding: false,
            stale: VecDeque::new(),
            events: VecDeque::new(),
            jitter: Jitter::new(seed.wrapping_add(1)),
            next_token: 0,
            cursor: None,
        }
    }

    /// The cluster's finalized `transaction.version`, whenever the driver learns it.
    pub fn set_transaction_version(&mut self, version: i16) {
        self.transactions.set_transaction_version(version);
    }

    /// Fences: asks for an identity as the newest producer of the transactional id. Drops everything queued, forgets
    /// everything in flight, clears every error. Ends with [`ProducerEvent::Initialized`];
    /// [`ProduceError::ConcurrentTransactions`] after one try that met an open transaction. Only for a transactional id: an
    /// idempotent producer asks for its identity with its first batch, and tells no end of this.
    pub fn init_transactions(&mut self, now: Timestamp) {
        if let Err(error) = self.check_transactional("init_transactions") {
            self.events.push_back(ProducerEvent::Initialized(Err(error)));
            return;
        }
        self.reset(&ProduceError::Abortable { cause: AbortCause::Discarded });
        self.transactions.init(now);
        self.advance(now);
    }

    /// Asks for the next epoch with the current id and epoch (KIP-360), again and again near the last epoch until the id
    /// changes. Queued batches of later transactions stay. Ends with [`ProducerEvent::EpochBumped`].
    pub fn bump_epoch(&mut self, now: Timestamp) {
        let bumped =
            self.check_transactional("bump_epoch").and_then(|()| self.transactions.bump(now));
        if let Err(error) = bumped {
            self.events.push_back(ProducerEvent::EpochBumped(Err(error)));
        }
    }

    /// True if no transaction can begin before [`bump_epoch`](Self::bump_epoch).
    #[must_use]
    pub fn needs_bump(&self) -> bool {
        self.transactions.needs_bump()
    }

    /// The identity; `None` before the first `init_transactions` has succeeded, and while another is asked for.
    #[must_use]
    pub const fn identity(&self) -> Option<ProducerIdAndEpoch> {
        self.transactions.identity()
    }

    /// Opens the transaction of `tag`: its batches may be sent. Nothing is sent by this alone.
    ///
    /// # Errors
    ///
    /// [`ProduceError::BumpRequired`], [`ProduceError::EpochExhausted`], [`ProduceError::InvalidState`], or the error that
    /// the producer is in.
    pub fn begin_transaction(&mut self, now: Timestamp, tag: u64) -> Result<(), ProduceError> {
        self.check_transactional("begin_transaction")?;
        let lost = self.accumulator.tags.get(&tag).and_then(|state| state.error.as_ref());
        if let Some(error) = self.late.as_ref().or(lost) {
            return Err(error.clone());
        }
        self.transactions.begin()?;
        // Sequences belong to an identity, and this one has sent nothing yet.
        self.windows.clear();
        self.open = Some(tag);
        self.accumulator.begin(now, tag);
        self.advance(now);
        Ok(())
    }

    /// Queues a batch; batches of one tag for one partition keep their order. After a failure of its transaction a batch
    /// is dropped.
    pub fn send_batch(
        &mut self,
        now: Timestamp,
        topic_partition: TopicPartition,
        batch: SealedBatch,
        tag: u64,
    ) {
        self.queue(now, topic_partition, batch, tag, None, now);
    }

    /// As [`send_batch`](Self::send_batch), and tells what becomes of it by [`ProducerEvent::Delivered`] events that
    /// together cover each of its records once. `begun_at` is when the batch got its first record: its
    /// `delivery_timeout` counts from there.
    pub fn send_reported_batch(
        &mut self,
        now: Timestamp,
        topic_partition: TopicPartition,
        batch: SealedBatch,
        tag: u64,
        batch_id: BatchId,
        begun_at: Timestamp,
    ) {
        let report = Some(Report { batch_id, first_record: 0 });
        self.queue(now, topic_partition, batch, tag, report, begun_at);
    }

    fn queue(
        &mut self,
        now: Timestamp,
        topic_partition: TopicPartition,
        batch: SealedBatch,
        tag: u64,
        report: Option<Report>,
        begun_at: Timestamp,
    ) {
        if self.is_transactional() {
            let is_late = match self.open {
                Some(open) => tag < open,
                None => self.closed.is_some_and(|closed| tag < closed),
            };
            if is_late {
                // A bug of the caller, which must not pass as a lost record.
                let cause = FatalCause::LateBatch { topic_partition, tag };
                let error = ProduceError::Fatal { cause };
                self.accumulator.report(batch, report, Err(&error));
                self.late = Some(error.clone());
                self.transactions.fail(error);
                self.advance(now);
                return;
            }
            if self.open == Some(tag)
                && let Some(error) = self.transactions.error()
            {
                self.accumulator.report(batch, report, Err(error));
                return;
            }
        } else if self.transactions.identity().is_none() && !self.transactions.is_initializing() {
            self.transactions.init(now);
        }
        self.accumulator.push(begun_at, topic_partition, batch, tag, report);
        self.advance(now);
    }

    /// True while another batch of `tag` fits into `buffer_memory`.
    #[must_use]
    pub fn has_capacity(&self, tag: u64) -> bool {
        self.accumulator.has_capacity(self.open, tag)
    }

    /// Waits until every batch of `tag` so far is acknowledged, or one has failed. Ends with [`ProducerEvent::Flushed`].
    pub fn flush(&mut self, now: Timestamp, tag: u64) {
        if self.is_transactional() && self.open != Some(tag) {
            let error = self.transactions.error().or(self.late.as_ref()).cloned().unwrap_or(
                ProduceError::InvalidState {
                    verb: "flush",
                    state: "not in the transaction of this tag",
                },
            );
            self.events.push_back(ProducerEvent::Flushed { tag, result: Err(error) });
            return;
        }
        self.accumulator.tags.entry(tag).or_default().flushing = true;
        self.advance(now);
    }

    /// Commits offsets of a group with the open transaction (KIP-447). Ends with [`ProducerEvent::OffsetsSent`], which a
    /// commit of the transaction waits for.
    pub fn send_offsets_to_transaction(&mut self, now: Timestamp, offsets: GroupOffsets) {
        let sent = if self.open.is_none() || self.ending.is_some() {
            let state = "not in a transaction, or ending it";
            Err(ProduceError::InvalidState { verb: "send offsets", state })
        } else {
            self.transactions.send_offsets(now, offsets)
        };
        if let Err(error) = sent {
            self.events.push_back(ProducerEvent::OffsetsSent(Err(error)));
        }
        self.advance(now);
    }

    /// Commits the open transaction, once its batches are acknowledged: the same EndTxn is repeated until a definite
    /// answer or until `limit` is over. A transaction in which nothing was sent commits without a request. Ends with
    /// [`ProducerEvent::Committed`].
    pub fn commit_transaction(&mut self, now: Timestamp, limit: Duration) {
        self.end(now, true, limit);
    }

    /// Aborts the open transaction, once nothing of it is in flight. Ends with [`ProducerEvent::Aborted`].
    pub fn abort_transaction(&mut self, now: Timestamp) {
        if let Some(open) = self.open {
            let error = ProduceError::Abortable { cause: AbortCause::Discarded };
            self.accumulator.drop_queued(open, &error);
            self.drop_waiting(&error);
        }
        self.end(now, false, self.config.transaction.max_block);
    }

    /// Drops every queued batch, of all transactions, and waits until nothing is in flight. The open transaction can not be
    /// committed any more. Ends with [`ProducerEvent::Discarded`].
    pub fn discard(&mut self, now: Timestamp) {
        let error = ProduceError::Abortable { cause: AbortCause::Discarded };
        for state in self.accumulator.tags.values_mut().filter(|state| state.outstanding > 0) {
            state.error.get_or_insert_with(|| error.clone());
        }
        self.accumulator.drop_all_queued(&error);
        self.drop_waiting(&error);
        self.transactions.fail(error);
        self.discarding = true;
        self.advance(now);
    }

    /// Nothing will be sent or answered any more: whoever waits for anything is told so.
    pub fn close(&mut self) {
        self.reset(&ProduceError::Fatal { cause: FatalCause::Request(RequestError::Closed) });
    }

    /// The next request to send at `now`, if any.
    pub fn poll_request(&mut self, now: Timestamp, metadata: &Metadata) -> Option<OutgoingRequest> {
        if let Some(request) = self.transactions.poll_request(now) {
            return Some(request);
        }
        let request = if self.discarding { None } else { self.poll_produce(now, metadata) };
        // Looking for batches may have found partitions that the coordinator must be told of.
        request.or_else(|| self.transactions.poll_request(now))
    }

    /// Takes the answer, of `version`, to the request of `token`, or why there is none. Unknown tokens are ignored.
    pub fn handle_response(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        version: i16,
        result: Result<Response, RequestError>,
    ) {
        if token.0 >= COORDINATOR_TOKENS {
            self.transactions.handle_response(now, token, version, result);
        } else if let Some(in_flight) = self.in_flight.remove(&token) {
            self.handle_produce(now, token, in_flight, result);
        }
        self.advance(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing else happens first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        // In one go: there may be thousands of partitions, and this is asked for again and again.
        let windows = self.held.iter().filter_map(|key| {
            let window = self.windows.get(key)?;
            let front = window.batches.front().filter(|front| front.status == Status::Waiting);
            let expiry = front.map(|front| front.enqueued_at.after(self.config.delivery_timeout));
            window.retry_at.into_iter().chain(expiry).min()
        });
        let queued = self
            .accumulator
            .oldest(self.sending())
            .map(|enqueued_at| enqueued_at.after(self.config.delivery_timeout));
        let ending = self.ending.map(|ending| ending.deadline);
        windows.chain(queued).chain(ending).chain(self.transactions.poll_timeout()).min()
    }

    /// Time has come to `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for window in self.windows.values_mut() {
            if window.retry_at.is_some_and(|at| at <= now) {
                window.retry_at = None;
            }
        }
        self.expire(now);
        self.transactions.handle_timeout(now);
        if let Some(ending) = self.ending
            && ending.deadline <= now
        {
            // Batches were not acknowledged in time, so EndTxn was never sent.
            let cause = AbortCause::FlushTimedOut { after: now.since(ending.started) };
            let error = ProduceError::Abortable { cause };
            self.transactions.fail(error.clone());
            self.finish_verb(ending.committed, Some(error));
        }
        self.advance(now);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ProducerEvent> {
        // A flush ends after the batches that it waited for.
        let delivery = self.accumulator.poll_delivery().map(ProducerEvent::Delivered);
        delivery.or_else(|| self.events.pop_front())
    }

    /// Metadata that turned out to be old.
    pub fn poll_stale_metadata(&mut self) -> Option<StaleMetadata> {
        self.transactions.poll_stale_metadata().or_else(|| self.stale.pop_front())
    }

    /// Whether it has a transactional id.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.config.transaction.transactional_id.is_some()
    }

    pub(super) fn transactional_id(&self) -> Option<Arc<str>> {
        self.config.transaction.transactional_id.clone()
    }

    /// The open transaction's rules; TV1's where there is none any more.
    pub(super) fn mode(&self) -> TransactionMode {
        self.transactions.mode().unwrap_or(TransactionMode::Tv1)
    }

    /// A batch of `tag` failed: the transaction dies of it, or the next flush of the tag says so.
    pub(super) fn fail_tag(&mut self, tag: u64, error: ProduceError) {
        if self.is_transactional() {
            if self.open == Some(tag) {
                self.transactions.fail(error);
            }
            return;
        }
        let state = self.accumulator.tags.entry(tag).or_default();
        state.error.get_or_insert(error);
    }

    fn sending(&self) -> Option<u64> {
        if self.is_transactional() { self.open } else { Some(0) }
    }

    fn check_transactional(&self, verb: &'static str) -> Result<(), ProduceError> {
        if self.is_transactional() {
            return Ok(());
        }
        Err(ProduceError::InvalidState { verb, state: "without a transactional id" })
    }

    /// Lets everything follow that follows from a change.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.drain_transaction_events();
        self.advance_ending(now);
        self.drain_transaction_events();
        self.finish_flushes();
        if self.discarding && self.in_flight.is_empty() {
            self.discarding = false;
            self.events.push_back(ProducerEvent::Discarded);
        }
        if self.accumulator.take_relief(self.open) {
            self.events.push_back(ProducerEvent::Capacity);
        }
    }

    fn drain_transaction_events(&mut self) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                TransactionEvent::Initialized(result) => self.handle_initialized(result),
                TransactionEvent::EpochBumped(result) => {
                    self.events.push_back(ProducerEvent::EpochBumped(result));
                }
                TransactionEvent::OffsetsSent(result) => {
                    self.events.push_back(ProducerEvent::OffsetsSent(result));
                }
                TransactionEvent::Ended { committed, result } => {
                    if result.is_ok() {
                        self.close_transaction(committed);
                    }
                    self.finish_verb(committed, result.err());
                }
                TransactionEvent::Failed(error) => {
                    if let Some(open) = self.open {
                        self.accumulator.drop_queued(open, &error);
                        self.drop_waiting(&error);
                        self.accumulator.tags.entry(open).or_default().error.get_or_insert(error);
                    }
                }
            }
        }
    }

    fn handle_initialized(&mut self, result: Result<ProducerIdAndEpoch, ProduceError>) {
        if self.is_transactional() {
            self.events.push_back(ProducerEvent::Initialized(result));
        } else if let Err(error) = result {
            // Nobody asked for this identity but the batches that need one.
            self.accumulator.drop_all_queued(&error);
            for state in self.accumulator.tags.values_mut() {
                state.error.get_or_insert(error.clone());
            }
        }
    }

    fn close_transaction(&mut self, committed: bool) {
        if let Some(open) = self.open.take() {
            self.closed = Some(open);
            self.finish_flush(open);
            self.accumulator.tags.remove(&open);
        }
        self.known_by.clear();
        let closed = std::mem::take(&mut self.windows);
        let known = closed.into_iter().filter_map(|(key, window)| {
            Some((key, (window.acked_by?, window.identity.producer_id)))
        });
        self.known_by.extend(known.filter(|_| committed));
    }

    fn finish_flushes(&mut self) {
        let done: Vec<u64> = self
            .accumulator
            .tags
            .iter()
            .filter(|(tag, state)| {
                // A transaction's failure is final at once; other batches may still be on their way.
                let failed =
                    state.error.is_some() && self.is_transactional() && self.open == Some(**tag);
                state.flushing && (state.outstanding == 0 || failed)
            })
            .map(|(tag, _)| *tag)
            .collect();
        for tag in done {
            self.finish_flush(tag);
        }
        if !self.is_transactional() {
            // A tag without anything to tell is forgotten, or an endless stream of tags would fill the memory.
            let newest = self.accumulator.tags.keys().next_back().copied();
            self.accumulator.tags.retain(|tag, state| {
                let silent = state.outstanding == 0 && !state.flushing && state.error.is_none();
                !silent || Some(*tag) == newest
            });
        }
    }

    fn finish_flush(&mut self, tag: u64) {
        let transactional = self.is_transactional();
        let Some(state) = self.accumulator.tags.get_mut(&tag) else { return };
        if !std::mem::take(&mut state.flushing) {
            return;
        }
        let error = if transactional { state.error.clone() } else { state.error.take() };
        let result = match error {
            Some(error) => Err(error),
            None => Ok(state.offsets.clone()),
        };
        self.events.push_back(ProducerEvent::Flushed { tag, result });
    }

    /// Drops batches that wait to be sent again; those in flight are still answered.
    fn drop_waiting(&mut self, error: &ProduceError) {
        for window in self.windows.values_mut() {
            window.retry_at = None;
            for sent in std::mem::take(&mut window.batches) {
                if sent.status == Status::Waiting {
                    self.accumulator.settle(sent.tag, sent.batch, sent.report, Err(error));
                } else {
                    window.batches.push_back(sent);
                }
            }
        }
    }

    /// Forgets everything but the configuration. Whoever waits for a flush is told `error`.
    fn reset(&mut self, error: &ProduceError) {
        for (tag, state) in &self.accumulator.tags {
            if state.flushing {
                let error = state.error.clone().unwrap_or_else(|| error.clone());
                self.events.push_back(ProducerEvent::Flushed { tag: *tag, result: Err(error) });
            }
        }
        if let Some(ending) = self.ending {
            self.finish_verb(ending.committed, Some(error.clone()));
        }
        for sent in std::mem::take(&mut self.windows).into_values().flat_map(|w| w.batches) {
            self.accumulator.settle(sent.tag, sent.batch, sent.report, Err(error));
        }
        self.accumulator.clear(error);
        self.in_flight.clear();
        self.known_by.clear();
        self.open = None;
        self.closed = None;
        self.late = None;
    }
}

#[cfg(test)]
mod tests;
