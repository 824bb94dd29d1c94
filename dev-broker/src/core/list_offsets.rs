//! ListOffsets: earliest, latest, by timestamp (KIP-79, KIP-734).

use millstream_protocol::messages::kp;
use millstream_protocol::messages::kp::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use millstream_protocol::{ErrorCode, IsolationLevel};

use super::cluster::Cluster;
use super::fetch::check_leader_epoch;
use super::log::PartitionLog;
use super::log::batch::BatchInfo;
use super::log::for_each_record;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;

/// An offset and what is known of the record there; -1 where unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
}

const NOT_FOUND: Found = Found { offset: -1, timestamp: -1, leader_epoch: -1 };

impl Cluster {
    pub(crate) fn list_offsets(
        &self,
        version: i16,
        request: &kp::ListOffsetsRequest,
    ) -> kp::ListOffsetsResponse {
        let isolation = match request.isolation_level {
            1 => IsolationLevel::ReadCommitted,
            _ => IsolationLevel::ReadUncommitted,
        };
        let topics = request
            .topics
            .iter()
            .map(|topic| {
                let partitions = topic
                    .partitions
                    .iter()
                    .map(|partition| {
                        self.listed(version, isolation, topic.name.as_str(), partition)
                    })
                    .collect();
                ListOffsetsTopicResponse::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions)
            })
            .collect();
        kp::ListOffsetsResponse::default().with_topics(topics)
    }

    fn listed(
        &self,
        version: i16,
        isolation: IsolationLevel,
        topic: &str,
        wanted: &kp::list_offsets_request::ListOffsetsPartition,
    ) -> ListOffsetsPartitionResponse {
        let answer =
            ListOffsetsPartitionResponse::default().with_partition_index(wanted.partition_index);
        match self.found(version, isolation, topic, wanted) {
            Err(error) => answer
                .with_error_code(error.0)
                .with_timestamp(-1)
                .with_offset(-1)
                .with_leader_epoch(-1),
            Ok(found) => answer
                .with_timestamp(found.timestamp)
                .with_offset(found.offset)
                .with_leader_epoch(found.leader_epoch),
        }
    }

    fn found(
        &self,
        version: i16,
        isolation: IsolationLevel,
        topic: &str,
        wanted: &kp::list_offsets_request::ListOffsetsPartition,
    ) -> Result<Found, ErrorCode> {
        let Some((_, log)) = self.topics.partition(topic, wanted.partition_index) else {
            return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        };
        if log.leadership.node != Some(self.serving) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        check_leader_epoch(wanted.current_leader_epoch, log.leadership.epoch)?;
        let end = log.readable_end(isolation);
        let leader_epoch = log.leadership.epoch;
        match wanted.timestamp {
            LATEST => Ok(Found { offset: end, timestamp: -1, leader_epoch }),
            EARLIEST | EARLIEST_LOCAL => {
                let leader_epoch = log.first_leader_epoch().unwrap_or(leader_epoch);
                Ok(Found { offset: log.log_start_offset(), timestamp: -1, leader_epoch })
            }
            MAX_TIMESTAMP if version >= 7 => Ok(newest(log, end)),
            timestamp if timestamp >= 0 => Ok(first_at_or_after(log, timestamp, end)),
            _ => Err(ErrorCode::UNSUPPORTED_VERSION),
        }
    }
}

fn newest(log: &PartitionLog, end: i64) -> Found {
    log.max_timestamp(end).map_or(NOT_FOUND, |timestamp| first_at_or_after(log, timestamp, end))
}

fn first_at_or_after(log: &PartitionLog, timestamp: i64, end: i64) -> Found {
    for batch in log.batches_reaching(timestamp) {
        let Some(info) = BatchInfo::parse(&batch) else { continue };
        if info.base_offset >= end {
            break;
        }
        if info.is_control() {
            continue;
        }
        let mut found = None;
        for_each_record(&batch, |record| {
            if found.is_none() && record.timestamp >= timestamp && record.offset < end {
                found = Some(Found {
                    offset: record.offset,
                    timestamp: record.timestamp,
                    leader_epoch: info.leader_epoch,
                });
            }
        });
        if let Some(found) = found {
            return found;
        }
    }
    NOT_FOUND
}
