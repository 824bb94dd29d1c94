//! Offsets that are kept under a group's name, without being a member of it.

use std::collections::{BTreeMap, BTreeSet};

use millstream_protocol::messages::kp::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use millstream_protocol::messages::kp::offset_fetch_request::OffsetFetchRequestTopic;
use millstream_protocol::messages::kp::{
    GroupId, OffsetCommitRequest, OffsetFetchRequest, TopicName,
};
use millstream_protocol::{ErrorCode, Request, Response, TopicPartition};

use super::ask::Answer;
use super::groups::coordinator;
use super::leaders::by_topic;
use super::text;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// An offset that a group has committed, as OffsetFetch tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next to read.
    pub offset: i64,
    /// The leader epoch of the record before (KIP-320); -1 if it was not told.
    pub leader_epoch: i32,
    /// What the committer noted; mostly empty.
    pub metadata: String,
}

impl KafkaClient {
    /// Commits offsets (the next to read, with the leader epoch of the record before; -1 if unknown) for a group without
    /// members: OffsetCommit 2 to 9. Without offsets it does nothing. Kept for `offsets.retention.minutes` (7 days by
    /// default) while the group stays empty (KIP-211).
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] with UNKNOWN_MEMBER_ID if the group has members, or with a permission error (READ on group and
    /// topics); of several refusals one is told, and the other partitions may be committed. Else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &[(TopicPartition, i64, i32)],
    ) -> Result<(), ClientError> {
        if offsets.is_empty() {
            return Ok(());
        }
        let mut attempts = self.attempts(format!("commit offsets of group '{group}'"));
        let destination = coordinator(group);
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

    /// Offsets committed for a group, the next to read; `None` where there is none, also if the group does not exist:
    /// OffsetFetch 1 to 7. With `require_stable` the answer waits for transactions that are about to commit some (KIP-447).
    ///
    /// # Errors
    ///
    /// [`ClientError::Request`] if `require_stable` is wanted of a broker before 2.5; [`ClientError::TimedOut`] if a
    /// transaction stays open for so long; else as [any call](KafkaClient#errors-of-any-call).
    pub async fn fetch_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, Option<i64>>, ClientError> {
        let committed = self.fetch_committed(group, Some(partitions), require_stable).await?;
        let offset = |tp: &TopicPartition| committed.get(tp).map(|committed| committed.offset);
        Ok(partitions.iter().map(|tp| (tp.clone(), offset(tp))).collect())
    }

    /// Everything committed for a group; empty if the group does not exist. With `require_stable` as
    /// [`fetch_offsets`](Self::fetch_offsets).
    ///
    /// # Errors
    ///
    /// As [`fetch_offsets`](Self::fetch_offsets).
    pub async fn fetch_all_offsets(
        &self,
        group: &str,
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
        self.fetch_committed(group, None, require_stable).await
    }

    async fn fetch_committed(
        &self,
        group: &str,
        partitions: Option<&[TopicPartition]>,
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
        let mut attempts = self.attempts(format!("fetch offsets of group '{group}'"));
        let question = |_: &Attempts| {
            let request = Request::OffsetFetch(fetch_request(group, partitions, require_stable));
            // Version 8 asks for several groups in another shape.
            Ask::new(coordinator(group), request).up_to(7)
        };
        self.ask(&mut attempts, question, |attempts, response| {
            let Response::OffsetFetch(response) = response else { return Answer::left_out() };
            let mut committed = BTreeMap::new();
            let mut failed = ErrorCode(response.error_code);
            let mut silent: BTreeSet<&TopicPartition> = partitions.into_iter().flatten().collect();
            for topic in &response.topics {
                for partition in &topic.partitions {
                    let code = ErrorCode(partition.error_code);
                    if code.is_error() && (!failed.is_error() || may_pass(failed)) {
                        failed = code;
                    }
                    let tp = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                    silent.remove(&tp);
                    if partition.committed_offset >= 0 {
                        let offset = CommittedOffset {
                            offset: partition.committed_offset,
                            leader_epoch: partition.committed_leader_epoch,
                            metadata: partition.metadata.as_deref().unwrap_or_default().to_owned(),
                        };
                        committed.insert(tp, offset);
                    }
                }
            }
            match failed {
                // What is left out is not known, which is not the same as not committed.
                ErrorCode::NONE if !silent.is_empty() => Answer::left_out(),
                ErrorCode::NONE => Answer::Done(committed),
                code if may_pass(code) => Answer::Again(code.to_string()),
                code => Answer::of_code(attempts, code, None::<&str>),
            }
        })
        .await
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
    partitions: Option<&[TopicPartition]>,
    require_stable: bool,
) -> OffsetFetchRequest {
    // Null asks for all.
    let topics = partitions.map(|partitions| {
        let topics = by_topic(partitions).into_iter().map(|(name, indexes)| {
            OffsetFetchRequestTopic::default()
                .with_name(TopicName(text(name)))
                .with_partition_indexes(indexes)
        });
        topics.collect()
    });
    OffsetFetchRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_topics(topics)
        .with_require_stable(require_stable)
}
