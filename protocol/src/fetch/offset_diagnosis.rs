//! Which side of the log a refused offset lies on. Brokers refuse without saying, so the log's bounds are asked for.

use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::fetch_partition::{Bound, Phase};
use super::fetch_response::is_lasting;
use super::fetcher::InFlight;
use super::{FetchError, Fetcher};
use crate::messages::{Request, Response};
use crate::network::OutgoingRequest;
use crate::network::{ConnectionClass, Destination, Metadata, RequestError};
use crate::{ErrorCode, Timestamp, TopicPartition};

impl Fetcher {
    pub(super) fn poll_diagnosis(
        &mut self,
        now: Timestamp,
        metadata: &Metadata,
    ) -> Option<OutgoingRequest> {
        let under_way = self.under_diagnosis();
        let due: Vec<(TopicPartition, Bound, u64)> = self
            .partitions
            .iter()
            .filter(|(key, state)| state.is_due(now) && !under_way.contains(*key))
            .filter_map(|(key, state)| match state.phase {
                Phase::Diagnosing(bound) => Some((key.clone(), bound, state.generation)),
                Phase::Fetching | Phase::Failed => None,
            })
            .collect();
        for (topic_partition, bound, generation) in due {
            let Some(leader) = metadata.leader(&topic_partition) else {
                self.leader_unknown(now, &topic_partition, true);
                continue;
            };
            let request = list_offsets(&topic_partition, leader.epoch, bound);
            let token = self.track(InFlight::Diagnosis { topic_partition, generation });
            return Some(OutgoingRequest {
                token,
                destination: Destination::Node(leader.node),
                class: ConnectionClass::Control,
                request: Request::ListOffsets(request),
                max_version: None,
                timeout: self.config.request_timeout,
            });
        }
        None
    }

    pub(super) fn handle_diagnosis(
        &mut self,
        now: Timestamp,
        topic_partition: &TopicPartition,
        generation: u64,
        result: Result<Response, RequestError>,
    ) {
        let Some(state) = self.partitions.get_mut(topic_partition) else { return };
        let Phase::Diagnosing(bound) = state.phase else { return };
        if state.generation != generation {
            return;
        }
        let answer = match result {
            Err(error) if is_lasting(&error) => {
                self.fail(topic_partition, FetchError::Request(error));
                return;
            }
            Ok(Response::ListOffsets(response)) => response
                .topics
                .iter()
                .filter(|topic| topic.name.0.as_str() == &*topic_partition.topic)
                .flat_map(|topic| &topic.partitions)
                .find(|found| found.partition_index == topic_partition.partition)
                .map(|found| (ErrorCode(found.error_code), found.offset)),
            Ok(_) | Err(_) => None,
        };
        match answer {
            Some((ErrorCode::NONE, offset)) => {
                self.handle_bound(now, topic_partition, bound, offset);
            }
            Some((code, _)) => self.handle_error_code(now, topic_partition, code, None),
            // No answer: the leader may be moving.
            None => {
                self.handle_error_code(now, topic_partition, ErrorCode::NETWORK_EXCEPTION, None)
            }
        }
    }

    fn handle_bound(
        &mut self,
        now: Timestamp,
        topic_partition: &TopicPartition,
        bound: Bound,
        found: i64,
    ) {
        let Some(state) = self.partitions.get_mut(topic_partition) else { return };
        let position = state.offset;
        match bound {
            Bound::Earliest if position < found => self.fail(
                topic_partition,
                FetchError::OffsetBelowLogStart { position, log_start_offset: found },
            ),
            Bound::Earliest => {
                state.phase = Phase::Diagnosing(Bound::Latest { log_start_offset: found });
            }
            Bound::Latest { .. } if position > found => self
                .fail(topic_partition, FetchError::OffsetBeyondEnd { position, end_offset: found }),
            Bound::Latest { log_start_offset } => {
                // In range after all: the leader changed in between, or the broker no longer knows the epoch we named, which
                // is no sign of loss by itself.
                state.phase = Phase::Fetching;
                state.leader_epoch = -1;
                self.bear(now, topic_partition, |position| FetchError::OffsetOutOfRange {
                    position,
                    log_start_offset,
                    end_offset: found,
                });
            }
        }
    }
}

fn list_offsets(
    topic_partition: &TopicPartition,
    leader_epoch: i32,
    bound: Bound,
) -> ListOffsetsRequest {
    let timestamp = match bound {
        Bound::Earliest => EARLIEST,
        Bound::Latest { .. } => LATEST,
    };
    let partition = ListOffsetsPartition::default()
        .with_partition_index(topic_partition.partition)
        .with_current_leader_epoch(leader_epoch)
        .with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic_partition.topic.to_string())))
        .with_partitions(vec![partition]);
    // The high watermark is asked for, whatever the reader's isolation: a position may lie beyond the last stable offset.
    ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(0)
        .with_topics(vec![topic])
}

const EARLIEST: i64 = -2;
const LATEST: i64 = -1;
