//! Administration, permissions, authentication, and transactions beyond producing.

use bytes::Bytes;
use millstream_protocol::messages::kp::{
    BrokerId, GroupId, create_partitions_request, create_partitions_response,
    delete_records_request, delete_records_response, describe_acls_response,
    describe_cluster_response, describe_producers_request, describe_producers_response,
    incremental_alter_configs_request, incremental_alter_configs_response,
    txn_offset_commit_request, txn_offset_commit_response, write_txn_markers_request,
    write_txn_markers_response,
};
use millstream_protocol::messages::{kp, str_bytes};
use millstream_protocol::{Request, Response};

use super::{note, topic, transactional_id};

pub(super) fn requests() -> Vec<Request> {
    let assignment = create_partitions_request::CreatePartitionsAssignment::default()
        .with_broker_ids(vec![BrokerId(1), BrokerId(2)]);
    let grown = create_partitions_request::CreatePartitionsTopic::default()
        .with_name(topic())
        .with_assignments(Some(vec![assignment]));
    let records = delete_records_request::DeleteRecordsTopic::default()
        .with_name(topic())
        .with_partitions(vec![delete_records_request::DeleteRecordsPartition::default()]);
    let config = incremental_alter_configs_request::AlterableConfig::default()
        .with_name(str_bytes("retention.ms"))
        .with_value(note());
    let altered = incremental_alter_configs_request::AlterConfigsResource::default()
        .with_resource_name(str_bytes("flights"))
        .with_configs(vec![config]);
    let producers = describe_producers_request::TopicRequest::default()
        .with_name(topic())
        .with_partition_indexes(vec![0, 1]);
    let offsets = txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
        .with_name(topic())
        .with_partitions(vec![
            txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()
                .with_committed_metadata(note()),
        ]);
    let marked = write_txn_markers_request::WritableTxnMarkerTopic::default()
        .with_name(topic())
        .with_partition_indexes(vec![0, 1]);
    let marker = write_txn_markers_request::WritableTxnMarker::default().with_topics(vec![marked]);
    vec![
        kp::SaslHandshakeRequest::default().with_mechanism(str_bytes("PLAIN")).into(),
        kp::SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(b"token")).into(),
        kp::DescribeAclsRequest::default()
            .with_resource_name_filter(note())
            .with_principal_filter(note())
            .with_host_filter(note())
            .into(),
        kp::CreatePartitionsRequest::default().with_topics(vec![grown]).into(),
        kp::DeleteRecordsRequest::default().with_topics(vec![records]).into(),
        kp::IncrementalAlterConfigsRequest::default().with_resources(vec![altered]).into(),
        kp::DescribeClusterRequest::default().into(),
        kp::DescribeProducersRequest::default().with_topics(vec![producers]).into(),
        kp::AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional_id())
            .with_group_id(GroupId(str_bytes("job")))
            .into(),
        kp::TxnOffsetCommitRequest::default()
            .with_transactional_id(transactional_id())
            .with_group_id(GroupId(str_bytes("job")))
            .with_topics(vec![offsets])
            .into(),
        kp::WriteTxnMarkersRequest::default().with_markers(vec![marker]).into(),
    ]
}

pub(super) fn responses() -> Vec<Response> {
    let acl = describe_acls_response::AclDescription::default()
        .with_principal(str_bytes("User:ann"))
        .with_host(str_bytes("*"));
    let acls = describe_acls_response::DescribeAclsResource::default()
        .with_resource_name(str_bytes("flights"))
        .with_acls(vec![acl]);
    let grown = create_partitions_response::CreatePartitionsTopicResult::default()
        .with_name(topic())
        .with_error_message(note());
    let records = delete_records_response::DeleteRecordsTopicResult::default()
        .with_name(topic())
        .with_partitions(vec![delete_records_response::DeleteRecordsPartitionResult::default()]);
    let altered = incremental_alter_configs_response::AlterConfigsResourceResponse::default()
        .with_error_message(note())
        .with_resource_name(str_bytes("flights"));
    let broker = describe_cluster_response::DescribeClusterBroker::default()
        .with_host(str_bytes("broker"))
        .with_rack(note());
    let producers = describe_producers_response::PartitionResponse::default()
        .with_error_message(note())
        .with_active_producers(vec![describe_producers_response::ProducerState::default()]);
    let producers = describe_producers_response::TopicResponse::default()
        .with_name(topic())
        .with_partitions(vec![producers]);
    let offsets = txn_offset_commit_response::TxnOffsetCommitResponseTopic::default()
        .with_name(topic())
        .with_partitions(vec![
            txn_offset_commit_response::TxnOffsetCommitResponsePartition::default(),
        ]);
    let marked = write_txn_markers_response::WritableTxnMarkerTopicResult::default()
        .with_name(topic())
        .with_partitions(vec![
            write_txn_markers_response::WritableTxnMarkerPartitionResult::default(),
        ]);
    let marker =
        write_txn_markers_response::WritableTxnMarkerResult::default().with_topics(vec![marked]);
    vec![
        kp::SaslHandshakeResponse::default().with_mechanisms(vec![str_bytes("PLAIN")]).into(),
        kp::SaslAuthenticateResponse::default()
            .with_error_message(note())
            .with_auth_bytes(Bytes::from_static(b"token"))
            .into(),
        kp::DescribeAclsResponse::default()
            .with_error_message(note())
            .with_resources(vec![acls])
            .into(),
        kp::CreatePartitionsResponse::default().with_results(vec![grown]).into(),
        kp::DeleteRecordsResponse::default().with_topics(vec![records]).into(),
        kp::IncrementalAlterConfigsResponse::default().with_responses(vec![altered]).into(),
        kp::DescribeClusterResponse::default()
            .with_error_message(note())
            .with_cluster_id(str_bytes("cluster"))
            .with_brokers(vec![broker])
            .into(),
        kp::DescribeProducersResponse::default().with_topics(vec![producers]).into(),
        kp::AddOffsetsToTxnResponse::default().into(),
        kp::TxnOffsetCommitResponse::default().with_topics(vec![offsets]).into(),
        kp::WriteTxnMarkersResponse::default().with_markers(vec![marker]).into(),
    ]
}
