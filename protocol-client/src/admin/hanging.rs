//! Producers as the partitions know them, and transactions that no coordinator will end (KIP-664).
//!
//! A transaction hangs if records of it are in a partition, and its coordinator does not know that they belong to an
//! open transaction: nobody will write the marker that ends it, and readers of committed records wait for ever behind
//! it. Brokers with `transaction.version` 2 refuse such records; older ones have let them in (KAFKA-10888).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_protocol::Response;
use millstream_protocol::messages::kp::describe_producers_request::TopicRequest;
use millstream_protocol::messages::kp::describe_producers_response as described;
use millstream_protocol::messages::kp::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic,
};
use millstream_protocol::messages::kp::{
    DescribeProducersRequest, TopicName, WriteTxnMarkersRequest,
};
use millstream_protocol::{ErrorCode, TopicPartition};

use super::leaders::{ByPartition, by_topic};
use super::text;
use super::transactions::{TransactionDescription, TransactionFilter};
use crate::attempts::Attempts;
use crate::surroundings::wall_time;
use crate::{ClientError, KafkaClient};

/// A producer as a partition knows it (DescribeProducers, KIP-664), for as long as it is remembered there
/// (`producer.id.expiration.ms`, a day by default).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerState {
    /// Its id.
    pub producer_id: i64,
    /// The epoch of its last batch or marker.
    pub producer_epoch: i16,
    /// The sequence of its last record; -1 if none is remembered.
    pub last_sequence: i32,
    /// The timestamp of its last batch or marker, in milliseconds since 1970; -1 if none is remembered.
    pub last_timestamp: i64,
    /// The epoch of the coordinator that wrote its last marker; `None` if none did.
    pub coordinator_epoch: Option<i32>,
    /// The first offset of its open transaction in this partition; `None` if it has none.
    pub transaction_start_offset: Option<i64>,
}

/// A transaction in one partition that no coordinator will end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HangingTransaction {
    /// Where it hangs.
    pub partition: TopicPartition,
    /// Whose it is.
    pub producer: ProducerState,
    /// The transactional id that the producer id belongs to now, if a coordinator knows one.
    pub transactional_id: Option<String>,
}

/// Names the transaction to be aborted in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortTransaction {
    /// Where.
    pub partition: TopicPartition,
    /// Whose.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// The last coordinator epoch that the partition has seen of this producer; 0 if none, which no epoch is below.
    pub coordinator_epoch: i32,
}

impl HangingTransaction {
    /// What aborts it.
    #[must_use]
    pub fn abort(&self) -> AbortTransaction {
        AbortTransaction {
            partition: self.partition.clone(),
            producer_id: self.producer.producer_id,
            producer_epoch: self.producer.producer_epoch,
            coordinator_epoch: self.producer.coordinator_epoch.unwrap_or(0),
        }
    }
}

impl KafkaClient {
    /// The producers that each partition remembers, sorted by id: DescribeProducers 0 (KIP-664), asked of the leaders.
    ///
    /// # Errors
    ///
    /// By partition: [`ClientError::UnknownTopic`]; [`ClientError::Broker`] for a missing permission (READ on the topic).
    /// As a whole: [`ClientError::Unsupported`] for brokers before 2.8; else as [any call](KafkaClient#errors-of-any-call).
    pub async fn describe_producers(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<Vec<ProducerState>, ClientError>>, ClientError>
    {
        let mut attempts = self.attempts("describe producers");
        let question = |_: &Attempts, partitions: &[TopicPartition]| {
            let topics = by_topic(partitions).into_iter().map(|(name, indexes)| {
                TopicRequest::default()
                    .with_name(TopicName(text(name)))
                    .with_partition_indexes(indexes)
            });
            DescribeProducersRequest::default().with_topics(topics.collect()).into()
        };
        self.ask_leaders(&mut attempts, partitions.iter().cloned(), question, |response| {
            let Response::DescribeProducers(response) = response else { return Vec::new() };
            let mut results = Vec::new();
            for topic in response.topics {
                for partition in topic.partitions {
                    let tp = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                    let result = ErrorCode(partition.error_code).into_result();
                    let message = partition.error_message.map(|message| message.to_string());
                    let result = result.map_err(|code| (code, message));
                    results.push((tp, result.map(|()| states(&partition.active_producers))));
                }
            }
            results
        })
        .await
    }

    /// Transactions in these partitions that hang, oldest offset first. Only those whose last record is older than
    /// `quiet_for` are looked at; give it at least the brokers' `transaction.max.timeout.ms` (15 minutes by default), or
    /// a transaction that has just begun may be taken for one that hangs.
    ///
    /// # Errors
    ///
    /// As [`describe_producers`](Self::describe_producers), of any partition, and
    /// [`list_transactions`](Self::list_transactions).
    pub async fn find_hanging_transactions(
        &self,
        partitions: &[TopicPartition],
        quiet_for: Duration,
    ) -> Result<Vec<HangingTransaction>, ClientError> {
        let mut open = Vec::new();
        let now = wall_time();
        for (partition, producers) in self.describe_producers(partitions).await? {
            let producers = producers?.into_iter();
            let quiet = producers.filter(|producer| is_open_and_quiet(producer, now, quiet_for));
            open.extend(quiet.map(|producer| (partition.clone(), producer)));
        }
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let producer_ids: BTreeSet<i64> = open.iter().map(|(_, p)| p.producer_id).collect();
        let filter = TransactionFilter {
            producer_ids: producer_ids.into_iter().collect(),
            ..TransactionFilter::default()
        };
        let listed = self.list_transactions(&filter).await?;
        let ids: BTreeMap<i64, &str> =
            listed.iter().map(|l| (l.producer_id, l.transactional_id.as_str())).collect();
        let described = ids.values().copied().collect::<Vec<_>>();
        let mut known = BTreeMap::new();
        for (id, description) in self.describe_transactions(&described).await {
            match description {
                Ok(description) => drop(known.insert(id, description)),
                // Expired since it was listed: its coordinator will end nothing any more.
                Err(ClientError::Broker {
                    code: ErrorCode::TRANSACTIONAL_ID_NOT_FOUND, ..
                }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut hanging = Vec::new();
        for (partition, producer) in open {
            let id = ids.get(&producer.producer_id).copied();
            let description = id.and_then(|id| known.get(id));
            if !is_in_good_hands(&partition, &producer, description) {
                let transactional_id = id.map(str::to_owned);
                hanging.push(HangingTransaction { partition, producer, transactional_id });
            }
        }
        hanging.sort_by_key(|hanging| hanging.producer.transaction_start_offset);
        Ok(hanging)
    }

    /// Aborts a transaction in one partition by writing the marker that its coordinator does not write: WriteTxnMarkers 1,
    /// asked of the partition's leader (KIP-664). This is for
    /// transactions that hang: a producer that is alive loses the records of its transaction in this partition, and
    /// only in this one.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if the partition has seen a
    /// newer epoch, with CLUSTER_AUTHORIZATION_FAILED without ALTER or CLUSTER_ACTION on the cluster;
    /// [`ClientError::UnknownTopic`]; else as [any call](KafkaClient#errors-of-any-call).
    pub async fn abort_transaction(&self, abort: &AbortTransaction) -> Result<(), ClientError> {
        let operation = format!("abort the transaction of producer {}", abort.producer_id);
        let mut attempts = self.attempts(operation);
        let question = |_: &Attempts, partitions: &[TopicPartition]| {
            let topics = by_topic(partitions).into_iter().map(|(name, indexes)| {
                WritableTxnMarkerTopic::default()
                    .with_name(TopicName(text(name)))
                    .with_partition_indexes(indexes)
            });
            let marker = WritableTxnMarker::default()
                .with_producer_id(abort.producer_id.into())
                .with_producer_epoch(abort.producer_epoch)
                .with_transaction_result(ABORT)
                .with_topics(topics.collect())
                .with_coordinator_epoch(abort.coordinator_epoch);
            WriteTxnMarkersRequest::default().with_markers(vec![marker]).into()
        };
        let partition = [abort.partition.clone()];
        let results: ByPartition<()> = self
            .ask_leaders(&mut attempts, partition, question, |response| {
                let Response::WriteTxnMarkers(response) = response else { return Vec::new() };
                let topics = response.markers.iter().flat_map(|marker| &marker.topics);
                let results = topics.flat_map(|topic| {
                    topic.partitions.iter().map(|p| {
                        let tp = TopicPartition::new(topic.name.as_str(), p.partition_index);
                        let result = ErrorCode(p.error_code).into_result();
                        (tp, result.map_err(|code| (code, None)))
                    })
                });
                results.collect()
            })
            .await?;
        results.into_values().collect()
    }
}

fn states(producers: &[described::ProducerState]) -> Vec<ProducerState> {
    let mut states: Vec<_> = producers
        .iter()
        .map(|producer| ProducerState {
            producer_id: producer.producer_id.0,
            producer_epoch: i16::try_from(producer.producer_epoch).unwrap_or(-1),
            last_sequence: producer.last_sequence,
            last_timestamp: producer.last_timestamp,
            coordinator_epoch: Some(producer.coordinator_epoch).filter(|epoch| *epoch >= 0),
            transaction_start_offset: Some(producer.current_txn_start_offset)
                .filter(|offset| *offset >= 0),
        })
        .collect();
    states.sort_by_key(|producer| producer.producer_id);
    states
}

/// `now` is the time since 1970.
fn is_open_and_quiet(producer: &ProducerState, now: Duration, quiet_for: Duration) -> bool {
    let last = Duration::from_millis(u64::try_from(producer.last_timestamp).unwrap_or(0));
    producer.transaction_start_offset.is_some() && last.saturating_add(quiet_for) <= now
}

/// A coordinator knows that this partition belongs to an open transaction of this producer: it will end it.
fn is_in_good_hands(
    partition: &TopicPartition,
    producer: &ProducerState,
    description: Option<&TransactionDescription>,
) -> bool {
    description.is_some_and(|transaction| {
        transaction.producer.producer_id == producer.producer_id
            && transaction.partitions.contains(partition)
    })
}

/// `transaction_result` of a marker that aborts.
const ABORT: bool = false;

#[cfg(test)]
mod tests {
    use millstream_protocol::ProducerIdAndEpoch;

    use super::*;

    fn producer() -> ProducerState {
        ProducerState {
            producer_id: 4000,
            producer_epoch: 2,
            last_sequence: 9,
            last_timestamp: 1_000_000,
            coordinator_epoch: None,
            transaction_start_offset: Some(17),
        }
    }

    #[test]
    fn only_open_transactions_whose_last_record_is_old_are_looked_at() {
        let quiet_for = Duration::from_secs(900);
        let at = |ms| Duration::from_millis(ms);
        assert!(!is_open_and_quiet(&producer(), at(1_899_999), quiet_for));
        assert!(is_open_and_quiet(&producer(), at(1_900_000), quiet_for));
        let ended = ProducerState { transaction_start_offset: None, ..producer() };
        assert!(!is_open_and_quiet(&ended, at(9_000_000), quiet_for));
        // A timestamp ahead of our clock, or a wish for eternity.
        let ahead = ProducerState { last_timestamp: i64::MAX, ..producer() };
        assert!(!is_open_and_quiet(&ahead, at(9_000_000), Duration::MAX));
    }

    #[test]
    fn transaction_that_its_coordinator_knows_does_not_hang() {
        let partition = TopicPartition::new("out", 1);
        let known = |producer_id, partition: &TopicPartition| TransactionDescription {
            state: "Ongoing".to_owned(),
            timeout: Duration::from_secs(60),
            start_time_ms: Some(0),
            producer: ProducerIdAndEpoch { producer_id, producer_epoch: 2 },
            partitions: vec![partition.clone()],
        };
        let good = |known: Option<&_>| is_in_good_hands(&partition, &producer(), known);
        assert!(good(Some(&known(4000, &partition))));
        assert!(!good(Some(&known(4000, &TopicPartition::new("out", 0)))), "another partition");
        assert!(!good(Some(&known(4001, &partition))), "the id has another producer now");
        assert!(!good(None), "no coordinator knows the producer");
    }

    #[test]
    fn abort_names_the_last_coordinator_epoch_or_the_lowest() {
        let hanging = |coordinator_epoch| HangingTransaction {
            partition: TopicPartition::new("out", 1),
            producer: ProducerState { coordinator_epoch, ..producer() },
            transactional_id: None,
        };
        assert_eq!(hanging(None).abort().coordinator_epoch, 0);
        let abort = hanging(Some(5)).abort();
        assert_eq!(
            (abort.coordinator_epoch, abort.producer_id, abort.producer_epoch),
            (5, 4000, 2)
        );
    }
}
