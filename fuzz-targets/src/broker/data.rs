//! Produce, Fetch and offsets.

use bytes::Bytes;
use millstream_protocol::messages::kp::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use millstream_protocol::messages::kp::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use millstream_protocol::messages::kp::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
};
use millstream_protocol::messages::{
    AbortedTransaction, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse,
    ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopicResponse,
};

use super::records::Batches;
use super::{END_OFFSET, LEADER_EPOCH, PRODUCER_ID};

pub(super) fn produce(request: &ProduceRequest) -> ProduceResponse {
    let topics = request.topics.iter().map(|topic| ProduceTopicResponse {
        topic: topic.topic.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| ProducePartitionResponse {
                partition: partition.partition,
                base_offset: END_OFFSET,
                ..ProducePartitionResponse::default()
            })
            .collect(),
    });
    ProduceResponse { topics: topics.collect(), ..ProduceResponse::default() }
}

/// Without sessions, so that each request names everything.
pub(super) fn fetch(request: &FetchRequest, batches: &Batches) -> FetchResponse {
    let topics = request.topics.iter().map(|topic| FetchTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| {
                let offset = partition.fetch_offset;
                let has_data = (0..END_OFFSET).contains(&offset);
                FetchPartitionResponse {
                    partition: partition.partition,
                    high_watermark: END_OFFSET,
                    last_stable_offset: END_OFFSET,
                    aborted_transactions: Some(vec![AbortedTransaction {
                        producer_id: PRODUCER_ID,
                        first_offset: offset,
                    }]),
                    records: if has_data {
                        Bytes::from(batches.from(offset))
                    } else {
                        Bytes::new()
                    },
                    ..FetchPartitionResponse::default()
                }
            })
            .collect(),
    });
    FetchResponse { topics: topics.collect(), ..FetchResponse::default() }
}

pub(super) fn list_offsets(request: &ListOffsetsRequest, version: i16) -> ListOffsetsResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let found = ListOffsetsPartitionResponse::default()
                .with_partition_index(partition.partition_index)
                .with_offset(if partition.timestamp == EARLIEST { 0 } else { END_OFFSET });
            if version >= 4 { found.with_leader_epoch(LEADER_EPOCH) } else { found }
        });
        ListOffsetsTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

pub(super) fn offset_for_leader_epoch(
    request: &OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            EpochEndOffset::default()
                .with_partition(partition.partition)
                .with_leader_epoch(LEADER_EPOCH)
                .with_end_offset(END_OFFSET)
        });
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(partitions.collect())
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

const EARLIEST: i64 = -2;
