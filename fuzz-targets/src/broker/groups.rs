//! Groups, transactions and logins.

use bytes::Bytes;
use millstream_protocol::group::consumer_protocol::Assignment;
use millstream_protocol::messages::kp::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use millstream_protocol::messages::kp::consumer_group_heartbeat_response as heartbeat;
use millstream_protocol::messages::kp::join_group_response::JoinGroupResponseMember;
use millstream_protocol::messages::kp::leave_group_response::MemberResponse;
use millstream_protocol::messages::kp::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use millstream_protocol::messages::kp::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use millstream_protocol::messages::kp::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use millstream_protocol::messages::kp::{self, TopicName};
use millstream_protocol::{Request, Response, TopicPartition};

use super::{LEADER_EPOCH, PRODUCER_ID, TOPIC_ID, text, topic_name};

pub(super) fn answer(request: &Request, version: i16) -> Option<Response> {
    Some(match request {
        Request::JoinGroup(request) => join_group(request, version).into(),
        Request::SyncGroup(request) => sync_group(request, version).into(),
        Request::Heartbeat(_) => kp::HeartbeatResponse::default().into(),
        Request::LeaveGroup(request) => {
            let members = request.members.iter().map(|member| {
                MemberResponse::default()
                    .with_member_id(member.member_id.clone())
                    .with_group_instance_id(member.group_instance_id.clone())
            });
            let response = kp::LeaveGroupResponse::default();
            if version >= 3 { response.with_members(members.collect()) } else { response }.into()
        }
        Request::ConsumerGroupHeartbeat(request) => {
            let owned = heartbeat::TopicPartitions::default()
                .with_topic_id(TOPIC_ID)
                .with_partitions(vec![0, 1]);
            kp::ConsumerGroupHeartbeatResponse::default()
                .with_member_id(Some(request.member_id.clone()))
                .with_member_epoch(request.member_epoch.clamp(0, i32::MAX - 1) + 1)
                .with_heartbeat_interval_ms(20)
                .with_assignment(Some(
                    heartbeat::Assignment::default().with_topic_partitions(vec![owned]),
                ))
                .into()
        }
        Request::OffsetCommit(request) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                });
                OffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            kp::OffsetCommitResponse::default().with_topics(topics.collect()).into()
        }
        Request::OffsetFetch(request) => offset_fetch(request, version).into(),
        Request::InitProducerId(_) => kp::InitProducerIdResponse::default()
            .with_producer_id(PRODUCER_ID.into())
            .with_producer_epoch(0)
            .into(),
        Request::AddPartitionsToTxn(request) => add_partitions(request, version).into(),
        Request::AddOffsetsToTxn(_) => kp::AddOffsetsToTxnResponse::default().into(),
        Request::TxnOffsetCommit(request) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    TxnOffsetCommitResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                });
                TxnOffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            kp::TxnOffsetCommitResponse::default().with_topics(topics.collect()).into()
        }
        Request::EndTxn(request) => {
            let response = kp::EndTxnResponse::default();
            if version < 5 {
                return Some(response.into());
            }
            response
                .with_producer_id(request.producer_id)
                .with_producer_epoch(request.producer_epoch.saturating_add(1))
                .into()
        }
        Request::SaslHandshake(_) => kp::SaslHandshakeResponse::default()
            .with_mechanisms(vec![text("PLAIN"), text("SCRAM-SHA-256"), text("OAUTHBEARER")])
            .into(),
        Request::SaslAuthenticate(_) => kp::SaslAuthenticateResponse::default().into(),
        _ => return None,
    })
}

fn join_group(request: &kp::JoinGroupRequest, version: i16) -> kp::JoinGroupResponse {
    let member_id =
        if request.member_id.is_empty() { text("member-1") } else { request.member_id.clone() };
    let protocol = request.protocols.first();
    let name = protocol.map_or_else(|| text("range"), |protocol| protocol.name.clone());
    let member = JoinGroupResponseMember::default()
        .with_member_id(member_id.clone())
        .with_metadata(protocol.map_or_else(Bytes::new, |protocol| protocol.metadata.clone()));
    let response = kp::JoinGroupResponse::default()
        .with_generation_id(4)
        .with_protocol_name(Some(name))
        .with_leader(member_id.clone())
        .with_member_id(member_id)
        .with_members(vec![member]);
    if version >= 7 { response.with_protocol_type(Some(text("consumer"))) } else { response }
}

fn sync_group(request: &kp::SyncGroupRequest, version: i16) -> kp::SyncGroupResponse {
    let given = request.assignments.iter().find(|given| given.member_id == request.member_id);
    let assignment = match given {
        Some(given) => given.assignment.clone(),
        None => {
            let partitions = vec![TopicPartition::new("t", 0), TopicPartition::new("t", 1)];
            Assignment { partitions, user_data: None }.encode().unwrap()
        }
    };
    let response = kp::SyncGroupResponse::default().with_assignment(assignment);
    if version < 5 {
        return response;
    }
    response
        .with_protocol_type(request.protocol_type.clone())
        .with_protocol_name(request.protocol_name.clone())
}

fn offset_fetch(request: &kp::OffsetFetchRequest, version: i16) -> kp::OffsetFetchResponse {
    let asked: Vec<(TopicName, Vec<i32>)> = match request.groups.first() {
        Some(group) => {
            let topics = group.topics.iter().flatten();
            topics.map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
        }
        None => {
            let topics = request.topics.iter().flatten();
            topics.map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
        }
    };
    let asked = if asked.is_empty() { vec![(topic_name("t"), vec![0, 1])] } else { asked };
    if version < 8 {
        let topics = asked.into_iter().map(|(name, indexes)| {
            let partitions = indexes.into_iter().map(|index| {
                let partition = OffsetFetchResponsePartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(10)
                    .with_metadata(Some(text("")));
                if version >= 5 {
                    partition.with_committed_leader_epoch(LEADER_EPOCH)
                } else {
                    partition
                }
            });
            OffsetFetchResponseTopic::default()
                .with_name(name)
                .with_partitions(partitions.collect())
        });
        return kp::OffsetFetchResponse::default().with_topics(topics.collect());
    }
    let topics = asked.into_iter().map(|(name, indexes)| {
        let partitions = indexes.into_iter().map(|index| {
            OffsetFetchResponsePartitions::default()
                .with_partition_index(index)
                .with_committed_offset(10)
                .with_committed_leader_epoch(LEADER_EPOCH)
                .with_metadata(Some(text("")))
        });
        OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions.collect())
    });
    let group = request.groups.first().map_or(&request.group_id, |group| &group.group_id);
    let group = OffsetFetchResponseGroup::default()
        .with_group_id(group.clone())
        .with_topics(topics.collect());
    kp::OffsetFetchResponse::default().with_groups(vec![group])
}

fn add_partitions(
    request: &kp::AddPartitionsToTxnRequest,
    version: i16,
) -> kp::AddPartitionsToTxnResponse {
    let topics = |asked: &[kp::add_partitions_to_txn_request::AddPartitionsToTxnTopic]| {
        asked
            .iter()
            .map(|topic| {
                let partitions = topic.partitions.iter().map(|index| {
                    AddPartitionsToTxnPartitionResult::default().with_partition_index(*index)
                });
                AddPartitionsToTxnTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_results_by_partition(partitions.collect())
            })
            .collect()
    };
    let response = kp::AddPartitionsToTxnResponse::default();
    if version < 4 {
        return response.with_results_by_topic_v3_and_below(topics(&request.v3_and_below_topics));
    }
    let transactions = request.transactions.iter().map(|transaction| {
        AddPartitionsToTxnResult::default()
            .with_transactional_id(transaction.transactional_id.clone())
            .with_topic_results(topics(&transaction.topics))
    });
    response.with_results_by_transaction(transactions.collect())
}
