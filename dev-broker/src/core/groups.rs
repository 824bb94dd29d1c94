//! Offsets of groups without members: what a client that assigns partitions itself commits and reads.

use std::collections::BTreeMap;

use millstream_protocol::messages::kp;
use millstream_protocol::messages::kp::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use millstream_protocol::{ErrorCode, TopicPartition};

use super::cluster::Cluster;
use super::connection::{text, topic_name};
use super::nodes::CoordinatorKind;
use super::storage::StateRecord;

/// `offset.metadata.max.bytes`, counted in UTF-16 units as brokers from 4.0 do.
const MAX_METADATA: usize = 4096;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedOffset {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

impl CommittedOffset {
    fn none() -> Self {
        Self { offset: -1, leader_epoch: -1, metadata: String::new() }
    }
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    offsets: BTreeMap<String, BTreeMap<TopicPartition, CommittedOffset>>,
}

impl Groups {
    pub(crate) fn commit(
        &mut self,
        group: &str,
        place: TopicPartition,
        committed: CommittedOffset,
    ) {
        self.offsets.entry(group.to_owned()).or_default().insert(place, committed);
    }

    /// Every committed offset.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &TopicPartition, &CommittedOffset)> {
        self.offsets.iter().flat_map(|(group, offsets)| {
            offsets.iter().map(move |(place, committed)| (group.as_str(), place, committed))
        })
    }

    pub(crate) fn forget_topic(&mut self, topic: &str) {
        for offsets in self.offsets.values_mut() {
            offsets.retain(|place, _| &*place.topic != topic);
        }
    }

    fn committed(&self, group: &str, place: &TopicPartition) -> CommittedOffset {
        let offset = self.offsets.get(group).and_then(|offsets| offsets.get(place));
        offset.cloned().unwrap_or_else(CommittedOffset::none)
    }

    /// What to answer: the places asked for, or all that the group has.
    fn fetched<'a>(
        &self,
        group: &str,
        wanted: Option<impl Iterator<Item = (&'a str, &'a [i32])>>,
    ) -> Vec<(String, Vec<(i32, CommittedOffset)>)> {
        if let Some(wanted) = wanted {
            return wanted
                .map(|(topic, partitions)| {
                    let offsets = partitions
                        .iter()
                        .map(|index| {
                            (*index, self.committed(group, &TopicPartition::new(topic, *index)))
                        })
                        .collect();
                    (topic.to_owned(), offsets)
                })
                .collect();
        }
        let mut topics: Vec<(String, Vec<(i32, CommittedOffset)>)> = Vec::new();
        for (place, committed) in self.offsets.get(group).into_iter().flatten() {
            let offset = (place.partition, committed.clone());
            match topics.last_mut() {
                Some((topic, offsets)) if **topic == *place.topic => offsets.push(offset),
                _ => topics.push((place.topic.to_string(), vec![offset])),
            }
        }
        topics
    }
}

impl Cluster {
    pub(crate) fn offset_commit(
        &mut self,
        version: i16,
        request: &kp::OffsetCommitRequest,
    ) -> kp::OffsetCommitResponse {
        let seat = self.check_coordinator(
            self.serving,
            CoordinatorKind::Group,
            request.group_id.0.as_str(),
        );
        let refusal = if let Err(error) = seat {
            Some(error)
        // There are no members here, so whoever claims to be one is from another cluster.
        } else if request.generation_id_or_member_epoch >= 0 {
            Some(if version >= 9 {
                ErrorCode::GROUP_ID_NOT_FOUND
            } else {
                ErrorCode::ILLEGAL_GENERATION
            })
        } else if !request.member_id.is_empty() || request.group_instance_id.is_some() {
            Some(ErrorCode::UNKNOWN_MEMBER_ID)
        } else {
            None
        };
        let topics = request
            .topics
            .iter()
            .map(|topic| {
                let partitions = topic
                    .partitions
                    .iter()
                    .map(|partition| {
                        let error = refusal.unwrap_or_else(|| {
                            self.commit_one(
                                request.group_id.0.as_str(),
                                topic.name.as_str(),
                                partition,
                            )
                        });
                        kp::offset_commit_response::OffsetCommitResponsePartition::default()
                            .with_partition_index(partition.partition_index)
                            .with_error_code(error.0)
                    })
                    .collect();
                kp::offset_commit_response::OffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions)
            })
            .collect();
        kp::OffsetCommitResponse::default().with_topics(topics)
    }

    fn commit_one(
        &mut self,
        group: &str,
        topic: &str,
        partition: &kp::offset_commit_request::OffsetCommitRequestPartition,
    ) -> ErrorCode {
        if self.topics.partition(topic, partition.partition_index).is_none() {
            return ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        }
        let metadata =
            partition.committed_metadata.as_ref().map(ToString::to_string).unwrap_or_default();
        if metadata.encode_utf16().count() > MAX_METADATA {
            return ErrorCode::OFFSET_METADATA_TOO_LARGE;
        }
        let place = TopicPartition::new(topic, partition.partition_index);
        let committed = CommittedOffset {
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata,
        };
        self.store(|| StateRecord::Offset {
            group: group.to_owned(),
            topic_partition: place.clone(),
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: committed.metadata.clone(),
        });
        self.groups.commit(group, place, committed);
        ErrorCode::NONE
    }

    /// Answers are always stable: offsets inside transactions (TxnOffsetCommit) are not done.
    pub(crate) fn offset_fetch(
        &self,
        version: i16,
        request: &kp::OffsetFetchRequest,
    ) -> kp::OffsetFetchResponse {
        if version >= 8 {
            let groups = request.groups.iter().map(|group| self.fetched_group(group)).collect();
            return kp::OffsetFetchResponse::default().with_groups(groups);
        }
        if let Err(error) = self.check_coordinator(
            self.serving,
            CoordinatorKind::Group,
            request.group_id.0.as_str(),
        ) {
            return kp::OffsetFetchResponse::default().with_error_code(error.0);
        }
        let wanted = request.topics.as_ref().map(|topics| {
            topics.iter().map(|topic| (topic.name.as_str(), topic.partition_indexes.as_slice()))
        });
        let topics = self
            .groups
            .fetched(request.group_id.0.as_str(), wanted)
            .into_iter()
            .map(|(topic, offsets)| {
                let partitions = offsets
                    .into_iter()
                    .map(|(index, committed)| {
                        OffsetFetchResponsePartition::default()
                            .with_partition_index(index)
                            .with_committed_offset(committed.offset)
                            .with_committed_leader_epoch(committed.leader_epoch)
                            .with_metadata(Some(text(&committed.metadata)))
                    })
                    .collect();
                OffsetFetchResponseTopic::default()
                    .with_name(topic_name(&topic))
                    .with_partitions(partitions)
            })
            .collect();
        kp::OffsetFetchResponse::default().with_topics(topics)
    }

    fn fetched_group(
        &self,
        group: &kp::offset_fetch_request::OffsetFetchRequestGroup,
    ) -> OffsetFetchResponseGroup {
        if let Err(error) =
            self.check_coordinator(self.serving, CoordinatorKind::Group, group.group_id.0.as_str())
        {
            return OffsetFetchResponseGroup::default()
                .with_group_id(group.group_id.clone())
                .with_error_code(error.0);
        }
        let wanted = group.topics.as_ref().map(|topics| {
            topics.iter().map(|topic| (topic.name.as_str(), topic.partition_indexes.as_slice()))
        });
        let topics = self
            .groups
            .fetched(group.group_id.0.as_str(), wanted)
            .into_iter()
            .map(|(topic, offsets)| {
                let partitions = offsets
                    .into_iter()
                    .map(|(index, committed)| {
                        OffsetFetchResponsePartitions::default()
                            .with_partition_index(index)
                            .with_committed_offset(committed.offset)
                            .with_committed_leader_epoch(committed.leader_epoch)
                            .with_metadata(Some(text(&committed.metadata)))
                    })
                    .collect();
                OffsetFetchResponseTopics::default()
                    .with_name(topic_name(&topic))
                    .with_partitions(partitions)
            })
            .collect();
        OffsetFetchResponseGroup::default()
            .with_group_id(group.group_id.clone())
            .with_topics(topics)
    }
}
