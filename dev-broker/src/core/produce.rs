//! Produce: verification with the coordinator, validation, sequences, append.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_protocol::messages::{
    ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceResponse,
    ProduceTopicResponse, RecordError,
};
use millstream_protocol::{ErrorCode, Response, TopicPartition};

use super::cluster::{Clock, Cluster};
use super::connection::Handled;
use super::log::batch::BatchInfo;
use super::log::{Refusal, SequenceCheck, validate_batch};
use super::storage::{StateRecord, StorageEffect};

/// First version in which the broker itself adds partitions to transactions (KIP-890, part 2).
const IMPLICIT_ADD_VERSION: i16 = 12;

/// First version whose clients know TRANSACTION_ABORTABLE (KIP-890).
const ABORTABLE_VERSION: i16 = 11;

impl Cluster {
    pub(crate) fn produce(
        &mut self,
        clock: Clock,
        version: i16,
        request: &ProduceRequest,
    ) -> Handled {
        let refusal = request_refusal(request);
        let mut failed = false;
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                let place =
                    TopicPartition { topic: topic.topic.clone(), partition: partition.partition };
                let answer = match refusal {
                    Some(error_code) => {
                        Err(Refusal { error_code, records: Vec::new(), message: String::new() })
                    }
                    None => self.append_from_client(clock, version, request, &place, partition),
                };
                failed |= answer.is_err();
                partitions.push(partition_answer(partition.partition, answer));
            }
            topics.push(ProduceTopicResponse { topic: topic.topic.clone(), partitions });
        }
        match request.acks {
            // There is no answer that could carry the error, so the client must notice it by the connection.
            0 if failed => Handled::Close,
            0 => Handled::Silent,
            _ => {
                Handled::Answer(Response::Produce(ProduceResponse { topics, ..Default::default() }))
            }
        }
    }

    fn append_from_client(
        &mut self,
        clock: Clock,
        version: i16,
        request: &ProduceRequest,
        place: &TopicPartition,
        partition: &ProducePartition,
    ) -> Result<AppendedAt, Refusal> {
        let plain =
            |error_code| Refusal { error_code, records: Vec::new(), message: String::new() };
        let Some((topic, log)) = self.topics.partition(&place.topic, place.partition) else {
            return Err(plain(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        };
        if log.leadership.node != Some(self.serving) {
            return Err(plain(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        }
        if request.acks == -1 && topic.config.min_insync_replicas() > self.replicas_in_sync() {
            return Err(plain(ErrorCode::NOT_ENOUGH_REPLICAS));
        }
        let rules = topic.config.append_rules(&self.config);
        let segment_bytes = topic.config.segment_bytes(&self.config);
        if let Some(batch) = BatchInfo::parse(&partition.records)
            && batch.magic == 2
            && batch.is_transactional()
        {
            self.verify(clock, version, request, place, &batch).map_err(plain)?;
        }
        let (batch, stored) =
            validate_batch(&partition.records, version, &rules, clock.wall_clock_ms)?;
        let Some(target) = self.topics.partition_mut(place) else {
            return Err(plain(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        };
        let append_time = |ms: i64| if rules.log_append_time { ms } else { -1 };
        let log_start_offset = target.log.log_start_offset();
        if batch.has_producer() {
            match target.log.producers.check(&batch, version >= IMPLICIT_ADD_VERSION) {
                SequenceCheck::Append => {}
                SequenceCheck::Duplicate { base_offset, timestamp } => {
                    let log_append_time_ms = append_time(timestamp);
                    return Ok(AppendedAt { base_offset, log_append_time_ms, log_start_offset });
                }
                SequenceCheck::Refuse(error_code) => return Err(plain(error_code)),
            }
        }
        let appended = target.log.append(stored, target.log.leadership.epoch, segment_bytes);
        let topic_id = target.id;
        self.effect(|| StorageEffect::Append {
            topic_id,
            partition: place.partition,
            batch: appended.bytes,
        });
        self.note_moved(place.clone());
        Ok(AppendedAt {
            base_offset: appended.base_offset,
            log_append_time_ms: append_time(clock.wall_clock_ms),
            log_start_offset,
        })
    }

    /// The first batch of a transaction in a partition must be known to the coordinator (KIP-890).
    fn verify(
        &mut self,
        clock: Clock,
        version: i16,
        request: &ProduceRequest,
        place: &TopicPartition,
        batch: &BatchInfo,
    ) -> Result<(), ErrorCode> {
        let implicit = version >= IMPLICIT_ADD_VERSION;
        if let Some(target) = self.topics.partition_mut(place) {
            let producers = &mut target.log.producers;
            if producers.has_open_transaction(batch.producer_id, batch.producer_epoch) {
                return Ok(());
            }
            producers.begin_verification(batch, implicit);
        }
        let transactional_id = request.transactional_id.as_deref().unwrap_or_default();
        if !self.has_transaction_coordinator(transactional_id) {
            // What a real broker makes of a coordinator that it does not find.
            return Err(ErrorCode::NOT_ENOUGH_REPLICAS);
        }
        if implicit {
            self.hurry_markers(clock, transactional_id);
        }
        let Some(transaction) = self.transactions.get_mut(transactional_id) else {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        };
        let outcome = if implicit {
            let partitions = BTreeSet::from([place.clone()]);
            transaction.add_partitions(
                clock.now,
                clock.wall_clock_ms,
                batch.producer_id,
                batch.producer_epoch,
                &partitions,
            )
        } else {
            transaction
                .verify_partition(batch.producer_id, batch.producer_epoch, place)
                .map(|()| false)
        };
        match outcome {
            Ok(changed) => {
                if changed {
                    let record = StateRecord::Transaction(transaction.clone());
                    self.store(|| record);
                }
                Ok(())
            }
            Err(ErrorCode::PRODUCER_FENCED) => Err(ErrorCode::INVALID_PRODUCER_EPOCH),
            Err(ErrorCode::TRANSACTION_ABORTABLE) if version < ABORTABLE_VERSION => {
                Err(ErrorCode::INVALID_TXN_STATE)
            }
            // Older clients know no such answer to Produce; this one makes them try again.
            Err(ErrorCode::CONCURRENT_TRANSACTIONS) if !implicit => {
                Err(ErrorCode::NOT_ENOUGH_REPLICAS)
            }
            Err(other) => Err(other),
        }
    }
}

/// How long a real broker tries again by itself before it tells a client that the last transaction is still ending
/// (`add.partitions.to.txn.retry.backoff.max.ms`).
const ADD_PARTITIONS_PATIENCE: Duration = Duration::from_millis(100);

impl Cluster {
    /// A real broker would hold this write until the markers of the last transaction are out, if that is soon. Writing
    /// them at once comes to the same.
    fn hurry_markers(&mut self, clock: Clock, transactional_id: &str) {
        let latest = clock.now.after(ADD_PARTITIONS_PATIENCE);
        let due = self.markers.iter().find(|(due, id)| id == transactional_id && *due <= latest);
        if let Some(entry) = due.cloned() {
            self.markers.remove(&entry);
            self.write_markers(clock, &entry.1);
        }
    }
}

/// Where a batch went.
#[derive(Clone, Copy, Debug)]
struct AppendedAt {
    base_offset: i64,
    log_append_time_ms: i64,
    log_start_offset: i64,
}

/// What is wrong with the request as a whole.
fn request_refusal(request: &ProduceRequest) -> Option<ErrorCode> {
    if !(-1..=1).contains(&request.acks) {
        return Some(ErrorCode::INVALID_REQUIRED_ACKS);
    }
    let transactional: BTreeSet<(i64, i16)> = request
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .filter_map(|partition| BatchInfo::parse(&partition.records))
        .filter(|batch| batch.magic == 2 && batch.is_transactional())
        .map(|batch| (batch.producer_id, batch.producer_epoch))
        .collect();
    if !transactional.is_empty() && request.transactional_id.is_none() {
        return Some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    }
    (transactional.len() > 1).then_some(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
}

fn partition_answer(
    partition: i32,
    answer: Result<AppendedAt, Refusal>,
) -> ProducePartitionResponse {
    match answer {
        Ok(appended) => ProducePartitionResponse {
            partition,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset,
            ..Default::default()
        },
        Err(refusal) => ProducePartitionResponse {
            partition,
            error_code: refusal.error_code,
            record_errors: refusal
                .records
                .into_iter()
                .map(|(batch_index, message)| RecordError { batch_index, message: Some(message) })
                .collect(),
            error_message: (!refusal.message.is_empty()).then_some(refusal.message),
            ..Default::default()
        },
    }
}
