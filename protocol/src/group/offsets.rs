//! Offsets of a group's member: requests, and what their answers ask for.
//!
//! One commit of a member should be under way at a time: answers may overtake each other on their way through retries, and
//! a committed offset must never go back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::MemberIdentity;
use crate::messages::StrBytes;
use crate::messages::kp::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use crate::messages::kp::offset_fetch_request::OffsetFetchRequestTopic;
use crate::messages::kp::{
    GroupId, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
    TopicName,
};
use crate::{ErrorCode, TopicPartition};

/// A committed position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the record before it (KIP-320); -1 if unknown.
    pub leader_epoch: i32,
    /// The committer's own words, at most the broker's `offset.metadata.max.bytes` (4 KiB).
    pub metadata: Arc<str>,
}

impl OffsetAndMetadata {
    /// A position without more.
    #[must_use]
    pub fn new(offset: i64, leader_epoch: i32) -> Self {
        Self { offset, leader_epoch, metadata: Arc::from("") }
    }
}

/// What an answer to OffsetCommit or OffsetFetch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Done,
    /// The same again after a while.
    Retry(ErrorCode),
    /// The coordinator does not know the member as it was when it asked, or is in a rebalance: again with what the member
    /// is by then, for what it still owns.
    NotInGeneration(ErrorCode),
    /// Again, but not for ever: the topic may be new, or gone.
    RetryForAWhile(ErrorCode),
    /// Nothing helps.
    Failed(ErrorCode),
}

impl Verdict {
    /// Of one code: the group column of the error table.
    #[must_use]
    pub const fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::NONE => Self::Done,
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::REQUEST_TIMED_OUT
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::KAFKA_STORAGE_ERROR
            | ErrorCode::UNSTABLE_OFFSET_COMMIT => Self::Retry(code),
            ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::FENCED_MEMBER_EPOCH => Self::NotInGeneration(code),
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => {
                Self::RetryForAWhile(code)
            }
            code => Self::Failed(code),
        }
    }

    /// The one of several that decides: what nothing helps against, then what takes more.
    fn worst(codes: impl Iterator<Item = ErrorCode>) -> Self {
        let rank = |verdict: &Self| match verdict {
            Self::Done => 0,
            Self::RetryForAWhile(_) => 1,
            Self::Retry(_) => 2,
            Self::NotInGeneration(_) => 3,
            Self::Failed(_) => 4,
        };
        codes.map(Self::of).max_by_key(rank).unwrap_or(Self::Done)
    }
}

/// A commit as a member; with an empty identity, as somebody outside (allowed while the group has no members).
#[must_use]
pub fn commit_request(
    group_id: &str,
    identity: &MemberIdentity,
    offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
) -> OffsetCommitRequest {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for (tp, offset) in offsets {
        topics.entry(&tp.topic).or_default().push(
            OffsetCommitRequestPartition::default()
                .with_partition_index(tp.partition)
                .with_committed_offset(offset.offset)
                .with_committed_leader_epoch(offset.leader_epoch)
                .with_committed_metadata(Some(text(&offset.metadata))),
        );
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        OffsetCommitRequestTopic::default()
            .with_name(TopicName(text(name)))
            .with_partitions(partitions)
    });
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group_id)))
        .with_generation_id_or_member_epoch(identity.generation_or_epoch)
        .with_member_id(text(&identity.member_id))
        .with_group_instance_id(identity.group_instance_id.as_deref().map(text))
        .with_topics(topics.collect())
}

/// What the answer to a commit asks for.
#[must_use]
pub fn commit_verdict(response: &OffsetCommitResponse) -> Verdict {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    Verdict::worst(partitions.map(|partition| ErrorCode(partition.error_code)))
}

/// A question for committed offsets, for versions up to 7 (one group each). The answer waits for transactions that are
/// about to commit some (`require_stable`, KIP-447), which needs version 7 (Kafka 2.5).
#[must_use]
pub fn fetch_request<'a>(
    group_id: &str,
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
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
        .with_group_id(GroupId(text(group_id)))
        .with_topics(Some(topics.collect()))
        .with_require_stable(require_stable)
}

/// What the answer to such a question holds. Partitions without a committed offset are absent. An answer that leaves out
/// one that was `asked` for says nothing of it, and must not pass for "none": reading would begin elsewhere.
#[must_use]
pub fn fetched<'a>(
    response: &OffsetFetchResponse,
    asked: impl IntoIterator<Item = &'a TopicPartition>,
) -> (Verdict, BTreeMap<TopicPartition, OffsetAndMetadata>) {
    let mut found = BTreeMap::new();
    let mut silent: BTreeSet<&TopicPartition> = asked.into_iter().collect();
    let mut codes = vec![ErrorCode(response.error_code)];
    for topic in &response.topics {
        for partition in &topic.partitions {
            codes.push(ErrorCode(partition.error_code));
            let key = TopicPartition::new(topic.name.0.as_str(), partition.partition_index);
            silent.remove(&key);
            if partition.committed_offset >= 0 {
                let metadata = partition.metadata.as_ref().map_or("", |text| text.as_str());
                found.insert(
                    key,
                    OffsetAndMetadata {
                        offset: partition.committed_offset,
                        leader_epoch: partition.committed_leader_epoch,
                        metadata: Arc::from(metadata),
                    },
                );
            }
        }
    }
    match Verdict::worst(codes.into_iter()) {
        Verdict::Done if !silent.is_empty() => {
            (Verdict::Retry(ErrorCode::UNKNOWN_SERVER_ERROR), found)
        }
        verdict => (verdict, found),
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
