//! Offsets by position or time, from the leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_protocol::messages::kp::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsTopic,
};
use millstream_protocol::messages::kp::{
    ListOffsetsRequest, ListOffsetsResponse, MetadataResponse, TopicName,
};
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, IsolationLevel, NodeId, Request, Response, TopicPartition};

use super::text;
use super::topics::find;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// Which offset of a partition (KIP-79).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first that still exists.
    Earliest,
    /// Behind the last: the last stable offset under read_committed, else the high watermark.
    Latest,
    /// The first whose record's timestamp is at least this (milliseconds since 1970; below 0 counts as 0).
    Timestamp(i64),
}

/// An offset a leader named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 if no record is as young as the timestamp asked for.
    pub offset: i64,
    /// The leader epoch of the record there; -1 if the broker does not tell.
    pub leader_epoch: i32,
    /// The record's timestamp, for [`OffsetSpec::Timestamp`]; else -1.
    pub timestamp: i64,
}

impl KafkaClient {
    /// Offsets of partitions: ListOffsets 1 to 10, asked of their leaders. Moves of leaders are followed. `isolation` counts
    /// for [`OffsetSpec::Latest`] and timestamps (KIP-98).
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownTopic`] if a topic or partition does not exist; [`ClientError::Broker`] for a missing
    /// permission; [`ClientError::TimedOut`] if a partition had no leader all the time; else as
    /// [any call](KafkaClient#errors-of-any-call). One partition that fails fails the call.
    pub async fn list_offsets(
        &self,
        partitions: &[(TopicPartition, OffsetSpec)],
        isolation: IsolationLevel,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, ClientError> {
        let mut attempts = self.attempts("list offsets");
        let mut open: BTreeMap<TopicPartition, OffsetSpec> = partitions.iter().cloned().collect();
        let mut listed = BTreeMap::new();
        while !open.is_empty() {
            let topics: BTreeSet<_> = open.keys().map(|tp| Arc::clone(&tp.topic)).collect();
            let topics: Vec<_> = topics.into_iter().collect();
            let metadata = self.cluster_metadata(&mut attempts, &topics).await?;
            let mut last = String::from("a partition has no leader");
            for (leader, request) in by_leader(&metadata, &open, isolation) {
                let ask = Ask::new(Destination::Node(leader), Request::ListOffsets(request));
                let response = match self.request(ask, attempts.remaining()).await {
                    Ok(response) => response,
                    Err(error) if error.is_retriable() => {
                        last = error.to_string();
                        continue;
                    }
                    Err(error) => {
                        return Err(ClientError::of_request(attempts.operation(), error));
                    }
                };
                let Response::ListOffsets(response) = response else { continue };
                for (partition, result) in results(&response) {
                    match result {
                        Ok(offset) => {
                            open.remove(&partition);
                            listed.insert(partition, offset);
                        }
                        Err(code) if code.is_retriable() => last = format!("{partition}: {code}"),
                        Err(code) => {
                            let operation = format!("{} of {partition}", attempts.operation());
                            return Err(ClientError::of_code(&operation, code, None::<&str>));
                        }
                    }
                }
            }
            if let Some(missing) =
                open.keys().find(|tp| attempts.failures() >= 5 && is_missing(&metadata, tp))
            {
                let operation = format!("{} of {missing}", attempts.operation());
                return Err(ClientError::UnknownTopic {
                    operation,
                    topic: missing.topic.to_string(),
                });
            }
            if !open.is_empty() {
                attempts.pause(&last).await?;
            }
        }
        Ok(listed)
    }
}

/// One request per leader; partitions without a leader are left for the next round.
fn by_leader(
    metadata: &MetadataResponse,
    open: &BTreeMap<TopicPartition, OffsetSpec>,
    isolation: IsolationLevel,
) -> BTreeMap<NodeId, ListOffsetsRequest> {
    let mut requests: BTreeMap<NodeId, ListOffsetsRequest> = BTreeMap::new();
    for (tp, spec) in open {
        let Some(topic) = find(metadata, &tp.topic) else { continue };
        let known = topic.partitions.iter().find(|p| p.partition_index == tp.partition);
        let Some(known) = known.filter(|p| p.leader_id.0 >= 0) else { continue };
        let request = requests.entry(NodeId(known.leader_id.0)).or_insert_with(|| {
            ListOffsetsRequest::default().with_replica_id((-1).into()).with_isolation_level(
                match isolation {
                    IsolationLevel::ReadUncommitted => 0,
                    IsolationLevel::ReadCommitted => 1,
                },
            )
        });
        let partition = ListOffsetsPartition::default()
            .with_partition_index(tp.partition)
            .with_current_leader_epoch(known.leader_epoch)
            .with_timestamp(match spec {
                OffsetSpec::Latest => -1,
                OffsetSpec::Earliest => -2,
                OffsetSpec::Timestamp(at) => (*at).max(0),
            });
        // `open` is ordered, so partitions of one topic come together.
        match request.topics.last_mut() {
            Some(last) if last.name.0.as_str() == &*tp.topic => last.partitions.push(partition),
            _ => request.topics.push(
                ListOffsetsTopic::default()
                    .with_name(TopicName(text(&tp.topic)))
                    .with_partitions(vec![partition]),
            ),
        }
    }
    requests
}

fn results(
    response: &ListOffsetsResponse,
) -> impl Iterator<Item = (TopicPartition, Result<ListedOffset, ErrorCode>)> + '_ {
    response.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|p| {
            let partition = TopicPartition::new(topic.name.0.as_str(), p.partition_index);
            let listed = ListedOffset {
                offset: p.offset,
                leader_epoch: p.leader_epoch,
                timestamp: p.timestamp,
            };
            (partition, ErrorCode(p.error_code).into_result().map(|()| listed))
        })
    })
}

fn is_missing(metadata: &MetadataResponse, tp: &TopicPartition) -> bool {
    find(metadata, &tp.topic).is_none_or(|topic| {
        !topic.partitions.iter().any(|partition| partition.partition_index == tp.partition)
    })
}
