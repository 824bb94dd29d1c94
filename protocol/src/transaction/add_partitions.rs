//! Telling the coordinator which partitions a TV1 transaction writes, before it writes them (KIP-98).

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
};
use kafka_protocol::messages::add_partitions_to_txn_response::AddPartitionsToTxnTopicResult;
use kafka_protocol::protocol::StrBytes;

use super::state::State;
use super::{FatalCause, ProduceError, TransactionManager};
use crate::messages::{ApiKey, Request};
use crate::{ErrorCode, Timestamp, TopicPartition};

/// What the answer for one partition means, worst last.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Added,
    /// A sibling of the request failed, so this one was not tried.
    NotAttempted,
    /// The transaction before is almost complete.
    RetrySoon,
    Retry {
        code: ErrorCode,
        moved: bool,
    },
    Failed(ProduceError),
}

impl TransactionManager {
    pub(super) fn add_partitions(&self, partitions: &BTreeSet<TopicPartition>) -> Option<Request> {
        let identity = self.identity?;
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for key in partitions {
            topics.entry(&key.topic).or_default().push(key.partition);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            AddPartitionsToTxnTopic::default()
                .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
                .with_partitions(partitions)
        });
        Some(Request::AddPartitionsToTxn(
            AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(self.wire_transactional_id()?)
                .with_v3_and_below_producer_id(identity.producer_id.into())
                .with_v3_and_below_producer_epoch(identity.producer_epoch)
                .with_v3_and_below_topics(topics.collect()),
        ))
    }

    pub(super) fn handle_add_partitions(
        &mut self,
        now: Timestamp,
        asked: &BTreeSet<TopicPartition>,
        results: &[AddPartitionsToTxnTopicResult],
    ) {
        let mut verdicts: BTreeMap<TopicPartition, Verdict> = BTreeMap::new();
        for topic in results {
            for partition in &topic.results_by_partition {
                let key = TopicPartition::new(topic.name.0.as_str(), partition.partition_index);
                let verdict = self.verdict(ErrorCode(partition.partition_error_code), &key);
                verdicts.insert(key, verdict);
            }
        }
        let State::InTransaction(transaction) = &mut self.state else { return };
        for key in asked {
            if verdicts.get(key) == Some(&Verdict::Added) {
                transaction.to_add.remove(key);
                transaction.added.insert(key.clone());
            }
        }
        let of_kind = |wanted: fn(&Verdict) -> bool| verdicts.values().find(|v| wanted(v)).cloned();
        let failed = of_kind(|verdict| matches!(verdict, Verdict::Failed(_)));
        let retry = of_kind(|verdict| matches!(verdict, Verdict::Retry { .. }));
        let soon = of_kind(|verdict| matches!(verdict, Verdict::RetrySoon));
        let whole = asked.iter().all(|key| verdicts.get(key) == Some(&Verdict::Added));
        match (failed, retry, soon) {
            (Some(Verdict::Failed(error)), ..) => self.fail(error),
            (_, Some(Verdict::Retry { code, moved }), _) => self.retry(now, code, moved),
            (_, _, Some(_)) => self.retry_soon(now),
            _ if whole => self.failures = 0,
            // Not attempted without a sibling to blame, or left out: ask again.
            _ => self.retry(now, ErrorCode::OPERATION_NOT_ATTEMPTED, false),
        }
    }

    /// Below version 2 INVALID_PRODUCER_EPOCH stands for PRODUCER_FENCED, which came later; from the coordinator both say
    /// the same in every version.
    fn verdict(&self, code: ErrorCode, key: &TopicPartition) -> Verdict {
        let api = ApiKey::AddPartitionsToTxn;
        match code {
            ErrorCode::NONE => Verdict::Added,
            ErrorCode::OPERATION_NOT_ATTEMPTED => Verdict::NotAttempted,
            ErrorCode::CONCURRENT_TRANSACTIONS => Verdict::RetrySoon,
            ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::REQUEST_TIMED_OUT
            | ErrorCode::KAFKA_STORAGE_ERROR => Verdict::Retry { code, moved: true },
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::UNKNOWN_SERVER_ERROR => Verdict::Retry { code, moved: false },
            ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => {
                Verdict::Failed(self.fenced(api, code))
            }
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST => Verdict::Failed(ProduceError::Fatal {
                cause: FatalCause::Refused {
                    api,
                    code,
                    topic_partition: Some(key.clone()),
                    message: None,
                },
            }),
            _ => Verdict::Failed(ProduceError::abortable(api, code, Some(key.clone()))),
        }
    }
}
