//! Move the offsets of a group without members, delete them, and measure how far a group is behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_protocol::messages::kp::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use millstream_protocol::messages::kp::{GroupId, OffsetDeleteRequest, TopicName};
use millstream_protocol::{ErrorCode, IsolationLevel, Request, Response, TopicPartition};

use super::ask::Answer;
use super::groups::coordinator;
use super::leaders::{ByPartition, by_topic};
use super::list_offsets::OffsetSpec;
use super::text;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// Where a group's offsets are to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetTarget {
    /// The first record that still exists.
    Earliest,
    /// Behind the last record that a reader of committed records may see.
    Latest,
    /// The first record whose timestamp is at least this (milliseconds since 1970); the end if there is none.
    Timestamp(i64),
    /// This offset, or the nearest that exists, the end included.
    Offset(i64),
    /// So many records further (or back, if negative) than committed, or the nearest that exists. Partitions without a
    /// committed offset stay without.
    Shift(i64),
}

/// A move of one partition's offset, planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetMove {
    /// What is committed, the next to read; `None` if nothing is.
    pub from: Option<i64>,
    /// What is to be committed, the next to read. An offset that exists, or the end.
    pub to: i64,
    /// The leader epoch of the record before `to`; -1 if it is not known.
    pub leader_epoch: i32,
}

/// How far a group is behind in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionLag {
    /// The committed offset: the next to read. `None` if nothing is committed.
    pub committed: Option<i64>,
    /// The first offset that still exists; `None` if the partition does not exist any more.
    pub start: Option<i64>,
    /// The end: the last stable offset or the high watermark, as asked. `None` if the partition does not exist any more.
    pub end: Option<i64>,
}

impl PartitionLag {
    /// Offsets between what is committed, or what still exists behind it, and the end; `None` if it can not be known,
    /// which is something else than 0. Transaction markers and compacted records have offsets too, so fewer records may
    /// be left to read.
    #[must_use]
    pub fn offsets_behind(&self) -> Option<u64> {
        let from = self.committed?.max(self.start?);
        Some(u64::try_from(self.end?.saturating_sub(from)).unwrap_or(0))
    }
}

impl KafkaClient {
    /// What moving the group's offsets to `target` would mean. Nothing is changed:
    /// [`alter_group_offsets`](Self::alter_group_offsets) does that.
    ///
    /// # Errors
    ///
    /// As [`list_offsets`](Self::list_offsets) and [`fetch_offsets`](Self::fetch_offsets).
    pub async fn plan_offset_reset(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        target: ResetTarget,
    ) -> Result<BTreeMap<TopicPartition, OffsetMove>, ClientError> {
        let committed = self.fetch_offsets(group, partitions, true).await?;
        let list = |spec: OffsetSpec| {
            let asked: Vec<_> = partitions.iter().map(|tp| (tp.clone(), spec)).collect();
            async move { self.list_offsets(&asked, IsolationLevel::ReadCommitted).await }
        };
        let earliest = list(OffsetSpec::Earliest).await?;
        let latest = list(OffsetSpec::Latest).await?;
        let timed = match target {
            ResetTarget::Timestamp(at) => list(OffsetSpec::Timestamp(at)).await?,
            _ => BTreeMap::new(),
        };
        let mut moves = BTreeMap::new();
        for tp in partitions {
            let (Some(earliest), Some(latest)) = (earliest.get(tp), latest.get(tp)) else {
                continue;
            };
            let from = committed.get(tp).copied().flatten();
            let found = timed.get(tp).map(|listed| (listed.offset, listed.leader_epoch));
            let wanted = match target {
                ResetTarget::Earliest => (earliest.offset, earliest.leader_epoch),
                ResetTarget::Latest => (latest.offset, latest.leader_epoch),
                ResetTarget::Timestamp(_) => found
                    .filter(|(offset, _)| *offset >= 0)
                    .unwrap_or((latest.offset, latest.leader_epoch)),
                ResetTarget::Offset(offset) => (offset, -1),
                ResetTarget::Shift(by) => match from {
                    Some(from) => (from.saturating_add(by), -1),
                    None => continue,
                },
            };
            let (to, leader_epoch) = nearest(wanted, earliest.offset, latest.offset);
            moves.insert(tp.clone(), OffsetMove { from, to, leader_epoch });
        }
        Ok(moves)
    }

    /// Commits these offsets (the next to read, with the leader epoch of the record before; -1 if unknown) for a group
    /// that has no members. The group is made if it does not exist.
    ///
    /// # Errors
    ///
    /// [`ClientError::GroupNotEmpty`] if it has members, also if they came between our look and the commit; else as
    /// [`describe_groups`](Self::describe_groups) and [`commit_offsets`](Self::commit_offsets).
    pub async fn alter_group_offsets(
        &self,
        group: &str,
        offsets: &[(TopicPartition, i64, i32)],
    ) -> Result<(), ClientError> {
        let operation = format!("change offsets of group '{group}'");
        self.check_empty(group, &operation).await?;
        match self.commit_offsets(group, offsets).await {
            Err(ClientError::Broker { code: ErrorCode::UNKNOWN_MEMBER_ID, .. }) => {
                self.check_empty(group, &operation).await?;
                // They have left again in the meantime.
                self.commit_offsets(group, offsets).await
            }
            result => result,
        }
    }

    async fn check_empty(&self, group: &str, operation: &str) -> Result<(), ClientError> {
        let described = self.describe_groups(&[group]).await?.remove(group);
        match described {
            Some(Ok(described)) if !described.members.is_empty() => {
                Err(ClientError::GroupNotEmpty {
                    operation: operation.to_owned(),
                    group: group.to_owned(),
                    state: described.state,
                    members: described.members.len(),
                })
            }
            Some(Err(ClientError::Broker { code: ErrorCode::GROUP_ID_NOT_FOUND, .. }))
            | Some(Ok(_))
            | None => Ok(()),
            Some(Err(error)) => Err(error),
        }
    }

    /// Forgets a group's offsets of partitions of topics that no member subscribes to: OffsetDelete 0 (KIP-496).
    ///
    /// # Errors
    ///
    /// By partition: [`ClientError::Broker`] with GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, or a permission
    /// error. As a whole: [`ClientError::Broker`] with GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members that are no
    /// consumers), or a permission error; [`ClientError::Unsupported`] before 2.4.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<(), ClientError>>, ClientError> {
        let mut attempts = self.attempts(format!("delete offsets of group '{group}'"));
        let question = |_: &Attempts| {
            let topics = by_topic(partitions).into_iter().map(|(name, indexes)| {
                let partitions = indexes.into_iter().map(|index| {
                    OffsetDeleteRequestPartition::default().with_partition_index(index)
                });
                OffsetDeleteRequestTopic::default()
                    .with_name(TopicName(text(name)))
                    .with_partitions(partitions.collect())
            });
            let request = OffsetDeleteRequest::default()
                .with_group_id(GroupId(text(group)))
                .with_topics(topics.collect());
            Ask::new(coordinator(group), Request::OffsetDelete(request))
        };
        self.ask(&mut attempts, question, |attempts, response| {
            let Response::OffsetDelete(response) = response else { return Answer::left_out() };
            let code = ErrorCode(response.error_code);
            if code.is_error() {
                return Answer::of_code(attempts, code, None::<&str>);
            }
            let mut results = ByPartition::new();
            for topic in &response.topics {
                for partition in &topic.partitions {
                    let tp = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                    let operation = format!("{} in {tp}", attempts.operation());
                    let result = ErrorCode(partition.error_code)
                        .into_result()
                        .map_err(|code| ClientError::of_code(&operation, code, None::<&str>));
                    results.insert(tp, result);
                }
            }
            Answer::Done(results)
        })
        .await
    }

    /// How far a group is behind, for every partition that it has committed an offset of or that a member owns. Under
    /// read_committed the end is the last stable offset, which is what such a reader can reach.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] with GROUP_ID_NOT_FOUND; with a permission error; else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn group_lag(
        &self,
        group: &str,
        isolation: IsolationLevel,
    ) -> Result<BTreeMap<TopicPartition, PartitionLag>, ClientError> {
        let Some(described) = self.describe_groups(&[group]).await?.remove(group) else {
            return Ok(BTreeMap::new());
        };
        let committed = self.fetch_all_offsets(group, true).await?;
        let owned = described?.members.into_iter().flat_map(|member| member.assignment);
        let partitions: BTreeSet<_> = committed.keys().cloned().chain(owned).collect();
        let topics: BTreeSet<Arc<str>> =
            partitions.iter().map(|tp| Arc::clone(&tp.topic)).collect();
        let mut existing = BTreeSet::new();
        for topic in topics {
            let described = self.describe_topic(&topic).await?;
            let indexes = described.into_iter().flat_map(|topic| topic.partitions);
            existing.extend(indexes.map(|p| TopicPartition::new(Arc::clone(&topic), p.partition)));
        }
        let list = |spec: OffsetSpec| {
            let asked = partitions.intersection(&existing).map(|tp| (tp.clone(), spec));
            let asked: Vec<_> = asked.collect();
            async move { self.list_offsets(&asked, isolation).await }
        };
        let starts = list(OffsetSpec::Earliest).await?;
        let ends = list(OffsetSpec::Latest).await?;
        let lag = partitions.into_iter().map(|tp| {
            let lag = PartitionLag {
                committed: committed.get(&tp).map(|committed| committed.offset),
                start: starts.get(&tp).map(|listed| listed.offset),
                end: ends.get(&tp).map(|listed| listed.offset),
            };
            (tp, lag)
        });
        Ok(lag.collect())
    }
}

/// The offset that exists nearest to the one wanted. Its epoch only counts if it is the one wanted.
fn nearest((offset, leader_epoch): (i64, i32), earliest: i64, latest: i64) -> (i64, i32) {
    let to = offset.max(earliest).min(latest.max(earliest));
    (to, if to == offset { leader_epoch } else { -1 })
}

#[cfg(test)]
mod tests {
    use super::{PartitionLag, nearest};

    #[test]
    fn offsets_stay_within_what_exists() {
        assert_eq!(nearest((7, 3), 5, 10), (7, 3));
        assert_eq!(nearest((2, 3), 5, 10), (5, -1));
        assert_eq!(nearest((11, 3), 5, 10), (10, -1));
        assert_eq!(nearest((i64::MAX, -1), 0, 0), (0, -1));
        // Deleted between the two looks.
        assert_eq!(nearest((7, 3), 12, 10), (12, -1));
    }

    #[test]
    fn lag_is_never_negative_and_unknown_is_not_zero() {
        let lag = |committed, start, end| PartitionLag { committed, start, end }.offsets_behind();
        assert_eq!(lag(Some(3), Some(0), Some(10)), Some(7));
        assert_eq!(lag(Some(3), Some(8), Some(10)), Some(2), "what is deleted will not be read");
        assert_eq!(lag(Some(12), Some(0), Some(10)), Some(0), "truncated, or read while listed");
        assert_eq!(lag(None, Some(0), Some(10)), None);
        assert_eq!(lag(Some(3), None, None), None, "the topic is deleted");
    }
}
