//! Groups, their members and their offsets.

use bytes::Bytes;
use millstream_protocol::messages::kp::{
    GroupId, consumer_group_describe_response, consumer_group_heartbeat_request,
    consumer_group_heartbeat_response, delete_groups_response, describe_groups_response,
    join_group_request, join_group_response, leave_group_request, leave_group_response,
    list_groups_response, offset_delete_request, offset_delete_response,
    offset_for_leader_epoch_request, offset_for_leader_epoch_response, sync_group_request,
};
use millstream_protocol::messages::{kp, str_bytes};
use millstream_protocol::{Request, Response};

use super::{note, topic};

fn group() -> GroupId {
    GroupId(str_bytes("job"))
}

fn opaque() -> Bytes {
    Bytes::from_static(b"opaque")
}

pub(super) fn requests() -> Vec<Request> {
    let protocol = join_group_request::JoinGroupRequestProtocol::default()
        .with_name(str_bytes("range"))
        .with_metadata(opaque());
    let assignment = sync_group_request::SyncGroupRequestAssignment::default()
        .with_member_id(str_bytes("member"))
        .with_assignment(opaque());
    let member = leave_group_request::MemberIdentity::default()
        .with_member_id(str_bytes("member"))
        .with_reason(note());
    let owned =
        consumer_group_heartbeat_request::TopicPartitions::default().with_partitions(vec![0, 1]);
    let deleted = offset_delete_request::OffsetDeleteRequestTopic::default()
        .with_name(topic())
        .with_partitions(vec![offset_delete_request::OffsetDeleteRequestPartition::default()]);
    let epoch = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
        .with_topic(topic())
        .with_partitions(
            vec![offset_for_leader_epoch_request::OffsetForLeaderPartition::default()],
        );
    vec![
        kp::JoinGroupRequest::default()
            .with_group_id(group())
            .with_protocol_type(str_bytes("consumer"))
            .with_protocols(vec![protocol])
            .with_reason(note())
            .into(),
        kp::HeartbeatRequest::default().with_group_id(group()).into(),
        kp::LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member]).into(),
        kp::SyncGroupRequest::default()
            .with_group_id(group())
            .with_assignments(vec![assignment])
            .into(),
        kp::DescribeGroupsRequest::default().with_groups(vec![group()]).into(),
        kp::ListGroupsRequest::default().into(),
        kp::ListGroupsRequest::default()
            .with_states_filter(vec![str_bytes("Stable")])
            .with_types_filter(vec![str_bytes("classic")])
            .into(),
        kp::DeleteGroupsRequest::default().with_groups_names(vec![group()]).into(),
        kp::ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group())
            .with_instance_id(note())
            .with_subscribed_topic_names(Some(vec![topic()]))
            .with_topic_partitions(Some(vec![owned]))
            .into(),
        kp::ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]).into(),
        kp::OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![deleted]).into(),
        kp::OffsetForLeaderEpochRequest::default().with_topics(vec![epoch]).into(),
    ]
}

pub(super) fn responses() -> Vec<Response> {
    let joined = join_group_response::JoinGroupResponseMember::default()
        .with_member_id(str_bytes("member"))
        .with_metadata(opaque());
    let left = leave_group_response::MemberResponse::default().with_member_id(str_bytes("member"));
    let member = describe_groups_response::DescribedGroupMember::default()
        .with_member_id(str_bytes("member"))
        .with_member_metadata(opaque())
        .with_member_assignment(opaque());
    let described = describe_groups_response::DescribedGroup::default()
        .with_group_id(group())
        .with_members(vec![member]);
    let listed = list_groups_response::ListedGroup::default().with_group_id(group());
    let deleted = delete_groups_response::DeletableGroupResult::default().with_group_id(group());
    let owned =
        consumer_group_heartbeat_response::TopicPartitions::default().with_partitions(vec![0, 1]);
    let assignment =
        consumer_group_heartbeat_response::Assignment::default().with_topic_partitions(vec![owned]);
    let partitions = consumer_group_describe_response::TopicPartitions::default()
        .with_topic_name(topic())
        .with_partitions(vec![0, 1]);
    let assigned = consumer_group_describe_response::Assignment::default()
        .with_topic_partitions(vec![partitions]);
    let consumer = consumer_group_describe_response::Member::default()
        .with_member_id(str_bytes("member"))
        .with_instance_id(note())
        .with_subscribed_topic_names(vec![topic()])
        .with_subscribed_topic_regex(note())
        .with_assignment(assigned.clone())
        .with_target_assignment(assigned);
    let described_consumer = consumer_group_describe_response::DescribedGroup::default()
        .with_error_message(note())
        .with_group_id(group())
        .with_members(vec![consumer]);
    let offsets = offset_delete_response::OffsetDeleteResponseTopic::default()
        .with_name(topic())
        .with_partitions(vec![offset_delete_response::OffsetDeleteResponsePartition::default()]);
    let epoch = offset_for_leader_epoch_response::OffsetForLeaderTopicResult::default()
        .with_topic(topic())
        .with_partitions(vec![offset_for_leader_epoch_response::EpochEndOffset::default()]);
    vec![
        kp::JoinGroupResponse::default()
            .with_protocol_name(Some(str_bytes("range")))
            .with_members(vec![joined])
            .into(),
        kp::HeartbeatResponse::default().into(),
        kp::LeaveGroupResponse::default().with_members(vec![left]).into(),
        kp::SyncGroupResponse::default().with_assignment(opaque()).into(),
        kp::DescribeGroupsResponse::default().with_groups(vec![described.clone()]).into(),
        kp::DescribeGroupsResponse::default()
            .with_groups(vec![described.with_error_message(note())])
            .into(),
        kp::ListGroupsResponse::default().with_groups(vec![listed]).into(),
        kp::DeleteGroupsResponse::default().with_results(vec![deleted]).into(),
        kp::ConsumerGroupHeartbeatResponse::default()
            .with_error_message(note())
            .with_member_id(note())
            .with_assignment(Some(assignment))
            .into(),
        kp::ConsumerGroupDescribeResponse::default().with_groups(vec![described_consumer]).into(),
        kp::OffsetDeleteResponse::default().with_topics(vec![offsets]).into(),
        kp::OffsetForLeaderEpochResponse::default().with_topics(vec![epoch]).into(),
    ]
}
