//! The requests that the transaction coordinator answers, and the work it does by itself.

use std::collections::BTreeSet;

use millstream_protocol::messages::kp;
use millstream_protocol::messages::kp::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use millstream_protocol::{ErrorCode, ProducerIdAndEpoch, TopicPartition};

use super::cluster::{Clock, Cluster};
use super::connection::{text, topic_name};
use super::log::batch::Marker;
use super::nodes::{CoordinatorKind, CoordinatorSeat, coordinator_slot};
use super::storage::{StateRecord, StorageEffect};
use super::transaction::{EndTxnOutcome, InitOutcome, TransactionMetadata, TransactionState};

/// First EndTxn version that bumps the epoch (KIP-890, part 2).
const EPOCH_BUMP_VERSION: i16 = 5;

impl Cluster {
    pub(crate) fn init_producer_id(
        &mut self,
        clock: Clock,
        version: i16,
        request: &kp::InitProducerIdRequest,
    ) -> kp::InitProducerIdResponse {
        let answer = kp::InitProducerIdResponse::default();
        match self.initialized(clock, request) {
            Ok(identity) => answer
                .with_producer_id(identity.producer_id.into())
                .with_producer_epoch(identity.producer_epoch),
            Err(error) => answer
                .with_error_code(known_to(error, version, 4).0)
                .with_producer_id((-1).into())
                .with_producer_epoch(-1),
        }
    }

    fn initialized(
        &mut self,
        clock: Clock,
        request: &kp::InitProducerIdRequest,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let claimed = ProducerIdAndEpoch {
            producer_id: request.producer_id.0,
            producer_epoch: request.producer_epoch,
        };
        let expected = match (claimed.producer_id, claimed.producer_epoch) {
            (-1, -1) => None,
            (-1, _) | (_, -1) => return Err(ErrorCode::INVALID_REQUEST),
            _ => Some(claimed),
        };
        let Some(id) = request.transactional_id.as_ref().map(|id| id.0.to_string()) else {
            let producer_id = self.fresh_producer_id();
            return Ok(ProducerIdAndEpoch { producer_id, producer_epoch: 0 });
        };
        if id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.check_coordinator(self.serving, CoordinatorKind::Transaction, &id)?;
        let timeout_ms = request.transaction_timeout_ms;
        let max_ms = self.config.transaction_max_timeout.as_millis();
        if !u128::try_from(timeout_ms).is_ok_and(|timeout| (1..=max_ms).contains(&timeout)) {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        let mut transaction = match self.transactions.remove(&id) {
            Some(transaction) => transaction,
            None => TransactionMetadata::new(&id, self.fresh_producer_id(), timeout_ms),
        };
        let outcome = transaction.init(timeout_ms, expected, || self.fresh_producer_id());
        match outcome {
            InitOutcome::Ready(identity) => {
                self.keep(transaction);
                Ok(identity)
            }
            InitOutcome::AbortOngoing => {
                transaction.fence_and_abort(self.config.transaction_version);
                self.schedule_markers(clock, &id);
                self.keep(transaction);
                Err(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            InitOutcome::Refused(error) => {
                self.transactions.insert(id, transaction);
                Err(error)
            }
        }
    }

    pub(crate) fn add_partitions_to_txn(
        &mut self,
        clock: Clock,
        version: i16,
        request: &kp::AddPartitionsToTxnRequest,
    ) -> kp::AddPartitionsToTxnResponse {
        let topics = &request.v3_and_below_topics;
        let is_known =
            |name: &str, partition: i32| self.topics.partition(name, partition).is_some();
        let partitions: BTreeSet<TopicPartition> = topics
            .iter()
            .flat_map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|index| TopicPartition::new(topic.name.as_str(), *index))
            })
            .collect();
        let unknown: BTreeSet<TopicPartition> = partitions
            .iter()
            .filter(|place| !is_known(&place.topic, place.partition))
            .cloned()
            .collect();
        let outcome = if unknown.is_empty() {
            self.add_partitions(clock, request, &partitions)
        } else {
            // All or nothing: the known ones were not attempted.
            Err(ErrorCode::OPERATION_NOT_ATTEMPTED)
        };
        let error = known_to(outcome.err().unwrap_or(ErrorCode::NONE), version, 2);
        let results = topics
            .iter()
            .map(|topic| {
                let results = topic
                    .partitions
                    .iter()
                    .map(|index| {
                        let place = TopicPartition::new(topic.name.as_str(), *index);
                        let error = if unknown.contains(&place) {
                            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                        } else {
                            error
                        };
                        AddPartitionsToTxnPartitionResult::default()
                            .with_partition_index(*index)
                            .with_partition_error_code(error.0)
                    })
                    .collect();
                AddPartitionsToTxnTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_results_by_partition(results)
            })
            .collect();
        kp::AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results)
    }

    fn add_partitions(
        &mut self,
        clock: Clock,
        request: &kp::AddPartitionsToTxnRequest,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<(), ErrorCode> {
        let id = request.v3_and_below_transactional_id.0.as_str();
        if id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.check_coordinator(self.serving, CoordinatorKind::Transaction, id)?;
        let Some(transaction) = self.transactions.get_mut(id) else {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        };
        let changed = transaction.add_partitions(
            clock.now,
            clock.wall_clock_ms,
            request.v3_and_below_producer_id.0,
            request.v3_and_below_producer_epoch,
            partitions,
        )?;
        if changed {
            let record = StateRecord::Transaction(transaction.clone());
            self.store(|| record);
        }
        Ok(())
    }

    pub(crate) fn end_txn(
        &mut self,
        clock: Clock,
        version: i16,
        request: &kp::EndTxnRequest,
    ) -> kp::EndTxnResponse {
        let outcome = self.ended(clock, version, request);
        let (error, identity) = match outcome {
            EndTxnOutcome::Prepared(identity) | EndTxnOutcome::Already(identity) => {
                (ErrorCode::NONE, identity)
            }
            EndTxnOutcome::Refused(error) => (error, ProducerIdAndEpoch::NONE),
        };
        kp::EndTxnResponse::default()
            .with_error_code(known_to(error, version, 2).0)
            .with_producer_id(identity.producer_id.into())
            .with_producer_epoch(identity.producer_epoch)
    }

    fn ended(&mut self, clock: Clock, version: i16, request: &kp::EndTxnRequest) -> EndTxnOutcome {
        let id = request.transactional_id.0.to_string();
        if id.is_empty() {
            return EndTxnOutcome::Refused(ErrorCode::INVALID_REQUEST);
        }
        let seat = self.check_coordinator(self.serving, CoordinatorKind::Transaction, &id);
        if let Err(error) = seat {
            return EndTxnOutcome::Refused(error);
        }
        let Some(mut transaction) = self.transactions.remove(&id) else {
            return EndTxnOutcome::Refused(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        };
        let identity = ProducerIdAndEpoch {
            producer_id: request.producer_id.0,
            producer_epoch: request.producer_epoch,
        };
        let outcome = if version >= EPOCH_BUMP_VERSION {
            transaction.end_v2(identity, request.committed, || self.fresh_producer_id())
        } else {
            transaction.end_v1(identity, request.committed)
        };
        if let EndTxnOutcome::Prepared(_) = outcome {
            self.schedule_markers(clock, &id);
            self.keep(transaction);
        } else {
            self.transactions.insert(id, transaction);
        }
        outcome
    }

    pub(crate) fn schedule_markers(&mut self, clock: Clock, id: &str) {
        let due = self.marker_due(clock.now);
        self.markers.insert((due, id.to_owned()));
    }

    /// Puts an entry (back) into the table and into the state log.
    fn keep(&mut self, transaction: TransactionMetadata) {
        self.store(|| StateRecord::Transaction(transaction.clone()));
        self.transactions.insert(transaction.transactional_id.clone(), transaction);
    }

    /// Writes the markers of a decided transaction to its partitions and completes it. What can not be written yet, for
    /// want of a leader or because the settings spread markers over time, is written later.
    pub(crate) fn write_markers(&mut self, clock: Clock, id: &str) {
        if !self.has_transaction_coordinator(id) {
            return self.stall_markers(id);
        }
        let Some(mut transaction) = self.transactions.remove(id) else { return };
        let marker = match transaction.state {
            TransactionState::PrepareCommit => Some(Marker::Commit),
            TransactionState::PrepareAbort => Some(Marker::Abort),
            _ => None,
        };
        let Some(marker) = marker else {
            self.transactions.insert(id.to_owned(), transaction);
            return;
        };
        let spread = self.config.transaction_marker_spread;
        let (mut later, mut leaderless) = (BTreeSet::new(), false);
        for place in std::mem::take(&mut transaction.partitions) {
            let log = self.topics.partition(&place.topic, place.partition).map(|(_, log)| log);
            let no_leader = log.is_some_and(|log| log.leadership.node.is_none());
            if no_leader || (!spread.is_zero() && self.random.next_u64() & 1 == 0) {
                leaderless |= no_leader;
                later.insert(place);
            } else {
                self.write_marker(clock, &place, marker, transaction.identity());
            }
        }
        if later.is_empty() {
            transaction.complete();
            return self.keep(transaction);
        }
        transaction.partitions = later;
        self.keep(transaction);
        if leaderless {
            self.stall_markers(id);
        } else {
            self.markers.insert((clock.now.after(spread), id.to_owned()));
        }
    }

    fn write_marker(
        &mut self,
        clock: Clock,
        place: &TopicPartition,
        marker: Marker,
        identity: ProducerIdAndEpoch,
    ) {
        // A topic deleted meanwhile needs no marker.
        let Some(target) = self.topics.partition_mut(place) else { return };
        let segment_bytes = target.config.segment_bytes(&self.config);
        let appended = target.log.append_marker(
            marker,
            identity,
            clock.wall_clock_ms,
            target.log.leadership.epoch,
            segment_bytes,
        );
        let topic_id = target.id;
        self.effect(|| StorageEffect::Append {
            topic_id,
            partition: place.partition,
            batch: appended.bytes,
        });
        self.note_moved(place.clone());
    }

    /// Aborts and fences what has been open for longer than its timeout.
    pub(crate) fn abort_timed_out_transactions(&mut self, clock: Clock) {
        let late: Vec<String> = self
            .transactions
            .values()
            .filter(|transaction| {
                transaction.state == TransactionState::Ongoing
                    && transaction.deadline.is_some_and(|deadline| deadline <= clock.now)
                    && self.has_transaction_coordinator(&transaction.transactional_id)
            })
            .map(|transaction| transaction.transactional_id.clone())
            .collect();
        for id in late {
            let Some(mut transaction) = self.transactions.remove(&id) else { continue };
            transaction.fence_and_abort(self.config.transaction_version);
            self.schedule_markers(clock, &id);
            self.keep(transaction);
        }
    }

    pub(crate) fn list_transactions(
        &self,
        wall_clock_ms: i64,
        request: &kp::ListTransactionsRequest,
    ) -> kp::ListTransactionsResponse {
        let known = |name: &str| TransactionState::ALL.iter().any(|state| state.name() == name);
        let unknown =
            request.state_filters.iter().filter(|name| !known(name.as_str())).cloned().collect();
        let matches = |transaction: &TransactionMetadata| {
            let state = transaction.state.name();
            let by_state = request.state_filters.is_empty()
                || request.state_filters.iter().any(|filter| filter.as_str() == state);
            let by_id = request.producer_id_filters.is_empty()
                || request.producer_id_filters.iter().any(|id| id.0 == transaction.producer_id);
            let open_for = wall_clock_ms.saturating_sub(transaction.start_ms);
            let by_age = request.duration_filter < 0
                || (transaction.start_ms >= 0 && open_for > request.duration_filter);
            let slot = coordinator_slot(&transaction.transactional_id);
            let here = self.coordinator(CoordinatorKind::Transaction, slot)
                == CoordinatorSeat::Taken(self.serving);
            here && by_state && by_id && by_age
        };
        let states = self
            .transactions
            .values()
            .filter(|transaction| matches(transaction))
            .map(|transaction| {
                kp::list_transactions_response::TransactionState::default()
                    .with_transactional_id(kp::TransactionalId(text(&transaction.transactional_id)))
                    .with_producer_id(transaction.producer_id.into())
                    .with_transaction_state(text(transaction.state.name()))
            })
            .collect();
        kp::ListTransactionsResponse::default()
            .with_unknown_state_filters(unknown)
            .with_transaction_states(states)
    }

    pub(crate) fn describe_transactions(
        &self,
        request: &kp::DescribeTransactionsRequest,
    ) -> kp::DescribeTransactionsResponse {
        let states = request
            .transactional_ids
            .iter()
            .map(|id| {
                let answer = kp::describe_transactions_response::TransactionState::default()
                    .with_transactional_id(id.clone());
                if id.0.is_empty() {
                    return answer.with_error_code(ErrorCode::INVALID_REQUEST.0);
                }
                let seat = self.check_coordinator(
                    self.serving,
                    CoordinatorKind::Transaction,
                    id.0.as_str(),
                );
                if let Err(error) = seat {
                    return answer.with_error_code(error.0);
                }
                match self.transactions.get(id.0.as_str()) {
                    None => answer.with_error_code(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND.0),
                    Some(transaction) => described(answer, transaction),
                }
            })
            .collect();
        kp::DescribeTransactionsResponse::default().with_transaction_states(states)
    }
}

fn described(
    answer: kp::describe_transactions_response::TransactionState,
    transaction: &TransactionMetadata,
) -> kp::describe_transactions_response::TransactionState {
    let mut topics: Vec<kp::describe_transactions_response::TopicData> = Vec::new();
    for place in &transaction.partitions {
        match topics.last_mut() {
            Some(last) if last.topic.as_str() == &*place.topic => {
                last.partitions.push(place.partition)
            }
            _ => topics.push(
                kp::describe_transactions_response::TopicData::default()
                    .with_topic(topic_name(&place.topic))
                    .with_partitions(vec![place.partition]),
            ),
        }
    }
    answer
        .with_transaction_state(text(transaction.state.name()))
        .with_transaction_timeout_ms(transaction.timeout_ms)
        .with_transaction_start_time_ms(transaction.start_ms)
        .with_producer_id(transaction.producer_id.into())
        .with_producer_epoch(transaction.producer_epoch)
        .with_topics(topics)
}

/// PRODUCER_FENCED exists from `since` on; older clients know the same as INVALID_PRODUCER_EPOCH (KIP-588).
fn known_to(error: ErrorCode, version: i16, since: i16) -> ErrorCode {
    if error == ErrorCode::PRODUCER_FENCED && version < since {
        ErrorCode::INVALID_PRODUCER_EPOCH
    } else {
        error
    }
}
