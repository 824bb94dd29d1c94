//! Offsets that are kept under a group's name, without being a member of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_protocol::messages::kp::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use millstream_protocol::messages::kp::offset_fetch_request::OffsetFetchRequestTopic;
use millstream_protocol::messages::kp::{
    GroupId, OffsetCommitRequest, OffsetFetchRequest, TopicName,
};
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, Request, Response, TopicPartition};

use super::text;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

impl KafkaClient {
    /// Commits offsets (the next to read, with the leader epoch of the record before; -1 if unknown) for a group without
    /// members.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] with UNKNOWN_MEMBER_ID if the group has members; with a permission error; else as any call.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &[(TopicPartition, i64, i32)],
    ) -> Result<(), ClientError> {
        if offsets.is_empty() {
            return Ok(());
        }
        let mut attempts = self.attempts(format!("commit offsets of group '{group}'"));
        let destination = Destination::GroupCoordinator(Arc::from(group));
        loop {
            let request = Request::OffsetCommit(commit_request(group, offsets));
            let ask = Ask::new(destination.clone(), request);
            let response = match self.request(ask, attempts.remaining()).await {
                Ok(response) => response,
                Err(error) => {
                    attempts.after(error).await?;
                    continue;
                }
            };
            let Response::OffsetCommit(response) = response else { continue };
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            let errors: Vec<_> = partitions
                .map(|p| ErrorCode(p.error_code))
                .filter(|code| code.is_error())
                .collect();
            match errors.iter().find(|code| !may_pass(**code)).or(errors.first()) {
                None => return Ok(()),
                Some(code) if may_pass(*code) => attempts.pause(&code.to_string()).await?,
                Some(code) => {
                    return Err(ClientError::of_code(attempts.operation(), *code, None::<&str>));
                }
            }
        }
    }

    /// Offsets committed for a group; `None` where there is none. With `require_stable` the answer waits for transactions
    /// that are about to commit some (KIP-447).
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`] if `require_stable` is wanted of a broker before 2.5; else as any call.
    pub async fn fetch_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, Option<i64>>, ClientError> {
        let mut attempts = self.attempts(format!("fetch offsets of group '{group}'"));
        let destination = Destination::GroupCoordinator(Arc::from(group));
        loop {
            let request = Request::OffsetFetch(fetch_request(group, partitions, require_stable));
            // Version 8 asks for several groups in another shape.
            let ask = Ask::new(destination.clone(), request).up_to(7);
            let response = match self.request(ask, attempts.remaining()).await {
                Ok(response) => response,
                Err(error) => {
                    attempts.after(error).await?;
                    continue;
                }
            };
            let Response::OffsetFetch(response) = response else { continue };
            let mut found: BTreeMap<_, _> =
                partitions.iter().map(|tp| (tp.clone(), None)).collect();
            let mut failed = ErrorCode(response.error_code);
            for topic in &response.topics {
                for partition in &topic.partitions {
                    let code = ErrorCode(partition.error_code);
                    if code.is_error() && (!failed.is_error() || may_pass(failed)) {
                        failed = code;
                    }
                    let tp = TopicPartition::new(topic.name.0.as_str(), partition.partition_index);
                    let offset = partition.committed_offset;
                    found.insert(tp, (offset >= 0).then_some(offset));
                }
            }
            match failed {
                ErrorCode::NONE => return Ok(found),
                code if may_pass(code) => attempts.pause(&code.to_string()).await?,
                code => {
                    return Err(ClientError::of_code(attempts.operation(), code, None::<&str>));
                }
            }
        }
    }
}

/// Coordinators move and load; transactions end.
fn may_pass(code: ErrorCode) -> bool {
    code.is_retriable() || code.is_coordinator_moved() || code == ErrorCode::UNSTABLE_OFFSET_COMMIT
}

fn commit_request(group: &str, offsets: &[(TopicPartition, i64, i32)]) -> OffsetCommitRequest {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for (tp, offset, leader_epoch) in offsets {
        topics.entry(&tp.topic).or_default().push(
            OffsetCommitRequestPartition::default()
                .with_partition_index(tp.partition)
                .with_committed_offset(*offset)
                .with_committed_leader_epoch(*leader_epoch)
                .with_committed_metadata(Some(text(""))),
        );
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        OffsetCommitRequestTopic::default()
            .with_name(TopicName(text(name)))
            .with_partitions(partitions)
    });
    // Generation -1 and no member: the form for groups without members (KIP-211).
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect())
}

fn fetch_request(
    group: &str,
    partitions: &[TopicPartition],
    require_stable: bool,
) -> OffsetFetchRequest {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for tp in partitions {
        topics.entry(&tp.topic).or_default().push(tp.partition);
    }
    let topics = topics.into_iter().map(|(name, indexes)| {
        OffsetFetchRequestTopic::default()
            .with_name(TopicName(text(name)))
            .with_partition_indexes(indexes)
    });
    OffsetFetchRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_topics(Some(topics.collect()))
        .with_require_stable(require_stable)
}
