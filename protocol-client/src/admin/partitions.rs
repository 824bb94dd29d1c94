//! Add partitions, and delete records from their beginning.

use std::collections::BTreeMap;

use millstream_protocol::messages::kp::create_partitions_request::CreatePartitionsTopic;
use millstream_protocol::messages::kp::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use millstream_protocol::messages::kp::{CreatePartitionsRequest, DeleteRecordsRequest, TopicName};
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, Request, Response, TopicPartition};

use super::ask::Answer;
use super::leaders::by_topic;
use super::text;
use super::topics::{is_led, timeout_ms};
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

impl KafkaClient {
    /// Adds partitions, so that the topic has `total`, and waits until every broker that answers knows a leader of each:
    /// CreatePartitions 0 to 3 (KIP-195), asked of the controller.
    /// Keys are spread over more partitions from then on: what was written before stays where it is.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] with INVALID_PARTITIONS if the topic has `total` partitions or more; with a permission
    /// error or a policy's. [`ClientError::UnknownTopic`] if there is no such topic. [`ClientError::TimedOut`] also if the
    /// partitions were added and are not seen everywhere in time.
    pub async fn create_partitions(&self, topic: &str, total: i32) -> Result<(), ClientError> {
        let mut attempts = self.attempts(format!("add partitions to topic '{topic}'"));
        let question = |attempts: &Attempts| {
            let grown = CreatePartitionsTopic::default()
                .with_name(TopicName(text(topic)))
                .with_count(total)
                .with_assignments(None);
            let request = CreatePartitionsRequest::default()
                .with_topics(vec![grown])
                .with_timeout_ms(timeout_ms(attempts));
            Ask::new(Destination::Controller, Request::CreatePartitions(request)).slow()
        };
        let refusal = self
            .ask(&mut attempts, question, |attempts, response| {
                let Response::CreatePartitions(response) = response else {
                    return Answer::left_out();
                };
                let Some(result) = response.results.into_iter().next() else {
                    return Answer::left_out();
                };
                let message = result.error_message.as_deref();
                match ErrorCode(result.error_code) {
                    ErrorCode::NONE => Answer::Done(None),
                    // A lost answer may have been our own success: the number of partitions tells.
                    code @ ErrorCode::INVALID_PARTITIONS if attempts.outcome_unknown() => {
                        Answer::Done(Some((code, message.map(str::to_owned))))
                    }
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                        if attempts.failures() >= MISSING_TRIES =>
                    {
                        Answer::Refused(ClientError::UnknownTopic {
                            operation: attempts.operation().to_owned(),
                            topic: topic.to_owned(),
                        })
                    }
                    code => Answer::of_code(attempts, code, message),
                }
            })
            .await?;
        let expected = usize::try_from(total).unwrap_or(0);
        if let Some((code, message)) = refusal {
            let found = self.describe_topic(topic).await?;
            if found.is_none_or(|topic| topic.partitions.len() != expected) {
                return Err(ClientError::of_code(attempts.operation(), code, message));
            }
        }
        self.wait_everywhere(&mut attempts, topic, |topic| {
            is_led(topic) && topic.is_some_and(|topic| topic.partitions.len() >= expected)
        })
        .await
    }

    /// Deletes the records before an offset (before the high watermark for `None`), for each partition by itself:
    /// DeleteRecords 0 to 2 (KIP-107), asked of the leaders. The
    /// result is the first offset that is left. Readers that are before it find their position out of range.
    ///
    /// # Errors
    ///
    /// By partition: [`ClientError::Broker`] with OFFSET_OUT_OF_RANGE beyond the high watermark, POLICY_VIOLATION for a
    /// topic that is only compacted, or a permission error; [`ClientError::UnknownTopic`]. As a whole: as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn delete_records(
        &self,
        before: &BTreeMap<TopicPartition, Option<i64>>,
    ) -> Result<BTreeMap<TopicPartition, Result<i64, ClientError>>, ClientError> {
        let mut attempts = self.attempts("delete records");
        let question = |attempts: &Attempts, partitions: &[TopicPartition]| {
            let topics = by_topic(partitions).into_iter().map(|(name, indexes)| {
                let partitions = indexes.into_iter().map(|index| {
                    let offset = before.get(&TopicPartition::new(name, index)).copied().flatten();
                    DeleteRecordsPartition::default()
                        .with_partition_index(index)
                        .with_offset(offset.unwrap_or(HIGH_WATERMARK))
                });
                DeleteRecordsTopic::default()
                    .with_name(TopicName(text(name)))
                    .with_partitions(partitions.collect())
            });
            DeleteRecordsRequest::default()
                .with_topics(topics.collect())
                .with_timeout_ms(timeout_ms(attempts))
                .into()
        };
        self.ask_leaders(&mut attempts, before.keys().cloned(), question, |response| {
            let Response::DeleteRecords(response) = response else { return Vec::new() };
            let results = response.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|p| {
                    let tp = TopicPartition::new(topic.name.0.as_str(), p.partition_index);
                    let code = ErrorCode(p.error_code).into_result();
                    (tp, code.map(|()| p.low_watermark).map_err(|code| (code, None)))
                })
            });
            results.collect()
        })
        .await
    }
}

/// The offset that stands for all records there are.
const HIGH_WATERMARK: i64 = -1;

/// How often "unknown" is not believed yet.
const MISSING_TRIES: u32 = 3;
