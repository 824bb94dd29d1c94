//! One request of each API, as the client might send it.

use bytes::Bytes;
use millstream_protocol::group::consumer_protocol::Subscription;
use millstream_protocol::messages::kp::{
    self, GroupId, TopicName, TransactionalId, add_partitions_to_txn_request,
    create_partitions_request, create_topics_request, delete_records_request,
    delete_topics_request, describe_configs_request, describe_producers_request,
    incremental_alter_configs_request, join_group_request, leave_group_request,
    list_offsets_request, metadata_request, offset_commit_request, offset_delete_request,
    offset_fetch_request, offset_for_leader_epoch_request, sync_group_request,
    txn_offset_commit_request, write_txn_markers_request,
};
use millstream_protocol::messages::{
    ApiVersionsRequest, FetchPartition, FetchRequest, FetchTopic, ProducePartition, ProduceRequest,
    ProduceTopic, StrBytes,
};
use millstream_protocol::records::Compression;
use millstream_protocol::{ApiKey, Request};

use crate::broker::batch;

/// A request that can be written in `version` of the API.
#[must_use]
pub fn sample_request(api: ApiKey, version: i16) -> Request {
    match api {
        ApiKey::Produce => Request::Produce(ProduceRequest {
            acks: -1,
            timeout_ms: 1000,
            topics: vec![ProduceTopic {
                topic: "t".into(),
                partitions: vec![ProducePartition {
                    partition: 0,
                    records: Bytes::from(batch(Compression::None)),
                }],
            }],
            ..ProduceRequest::default()
        }),
        ApiKey::Fetch => {
            let partitions = [0, 1].map(|partition| FetchPartition {
                partition,
                fetch_offset: 10 + i64::from(partition),
                partition_max_bytes: 1 << 20,
                ..FetchPartition::default()
            });
            let topics = vec![FetchTopic::by_name("t", partitions.to_vec())];
            Request::Fetch(FetchRequest { topics, ..FetchRequest::default() })
        }
        ApiKey::ApiVersions => Request::ApiVersions(ApiVersionsRequest {
            client_software_name: "fuzz".to_owned(),
            client_software_version: "1".to_owned(),
        }),
        ApiKey::Metadata => {
            let named = metadata_request::MetadataRequestTopic::default().with_name(Some(topic()));
            kp::MetadataRequest::default().with_topics(Some(vec![named])).into()
        }
        ApiKey::FindCoordinator => {
            kp::FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]).into()
        }
        ApiKey::DescribeCluster => kp::DescribeClusterRequest::default().into(),
        ApiKey::ListOffsets => {
            let partition = list_offsets_request::ListOffsetsPartition::default()
                .with_partition_index(0)
                .with_timestamp(-1);
            let asked = list_offsets_request::ListOffsetsTopic::default()
                .with_name(topic())
                .with_partitions(vec![partition]);
            kp::ListOffsetsRequest::default()
                .with_replica_id((-1).into())
                .with_topics(vec![asked])
                .into()
        }
        ApiKey::OffsetForLeaderEpoch => {
            let partition = offset_for_leader_epoch_request::OffsetForLeaderPartition::default()
                .with_leader_epoch(4);
            let asked = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
                .with_topic(topic())
                .with_partitions(vec![partition]);
            kp::OffsetForLeaderEpochRequest::default()
                .with_replica_id((-1).into())
                .with_topics(vec![asked])
                .into()
        }
        ApiKey::SaslHandshake => {
            kp::SaslHandshakeRequest::default().with_mechanism(text("PLAIN")).into()
        }
        ApiKey::SaslAuthenticate => kp::SaslAuthenticateRequest::default()
            .with_auth_bytes(Bytes::from_static(b"\0u\0p"))
            .into(),
        other => group_request(other, version)
            .or_else(|| transaction_request(other))
            .or_else(|| admin_request(other, version))
            .expect("every other API has a sample"),
    }
}

fn group_request(api: ApiKey, version: i16) -> Option<Request> {
    Some(match api {
        ApiKey::JoinGroup => {
            let subscription =
                Subscription { topics: ["t".into()].into(), ..Subscription::default() };
            let protocol = join_group_request::JoinGroupRequestProtocol::default()
                .with_name(text("range"))
                .with_metadata(subscription.encode().expect("short names"));
            kp::JoinGroupRequest::default()
                .with_group_id(group())
                .with_protocol_type(text("consumer"))
                .with_protocols(vec![protocol])
                .into()
        }
        ApiKey::SyncGroup => {
            let given = sync_group_request::SyncGroupRequestAssignment::default()
                .with_member_id(text("another"));
            kp::SyncGroupRequest::default()
                .with_group_id(group())
                .with_member_id(text("m"))
                .with_assignments(vec![given])
                .into()
        }
        ApiKey::Heartbeat => {
            kp::HeartbeatRequest::default().with_group_id(group()).with_member_id(text("m")).into()
        }
        ApiKey::LeaveGroup => {
            let request = kp::LeaveGroupRequest::default().with_group_id(group());
            if version < 3 {
                return Some(request.with_member_id(text("m")).into());
            }
            let member = leave_group_request::MemberIdentity::default().with_member_id(text("m"));
            request.with_members(vec![member]).into()
        }
        ApiKey::ConsumerGroupHeartbeat => kp::ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group())
            .with_member_id(text("m"))
            .with_subscribed_topic_names(Some(vec![topic()]))
            .into(),
        ApiKey::OffsetCommit => {
            let partition = offset_commit_request::OffsetCommitRequestPartition::default()
                .with_committed_offset(10)
                .with_committed_metadata(Some(text("")));
            let committed = offset_commit_request::OffsetCommitRequestTopic::default()
                .with_name(topic())
                .with_partitions(vec![partition]);
            kp::OffsetCommitRequest::default()
                .with_group_id(group())
                .with_topics(vec![committed])
                .into()
        }
        ApiKey::OffsetFetch => {
            let asked = offset_fetch_request::OffsetFetchRequestTopic::default()
                .with_name(topic())
                .with_partition_indexes(vec![0, 1]);
            let request = kp::OffsetFetchRequest::default();
            if version < 8 {
                return Some(request.with_group_id(group()).with_topics(Some(vec![asked])).into());
            }
            let asked = offset_fetch_request::OffsetFetchRequestTopics::default()
                .with_name(topic())
                .with_partition_indexes(vec![0, 1]);
            let asked = offset_fetch_request::OffsetFetchRequestGroup::default()
                .with_group_id(group())
                .with_topics(Some(vec![asked]));
            request.with_groups(vec![asked]).into()
        }
        ApiKey::OffsetDelete => {
            let asked = offset_delete_request::OffsetDeleteRequestTopic::default()
                .with_name(topic())
                .with_partitions(vec![
                    offset_delete_request::OffsetDeleteRequestPartition::default(),
                ]);
            kp::OffsetDeleteRequest::default()
                .with_group_id(group())
                .with_topics(vec![asked])
                .into()
        }
        ApiKey::DescribeGroups => {
            kp::DescribeGroupsRequest::default().with_groups(vec![group()]).into()
        }
        ApiKey::ListGroups => kp::ListGroupsRequest::default().into(),
        ApiKey::DeleteGroups => {
            kp::DeleteGroupsRequest::default().with_groups_names(vec![group()]).into()
        }
        ApiKey::ConsumerGroupDescribe => {
            kp::ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]).into()
        }
        _ => return None,
    })
}

fn transaction_request(api: ApiKey) -> Option<Request> {
    Some(match api {
        ApiKey::InitProducerId => kp::InitProducerIdRequest::default()
            .with_transactional_id(Some(transactional_id()))
            .with_transaction_timeout_ms(1000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1)
            .into(),
        ApiKey::AddPartitionsToTxn => {
            let asked = add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
                .with_name(topic())
                .with_partitions(vec![0, 1]);
            kp::AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(transactional_id())
                .with_v3_and_below_topics(vec![asked])
                .into()
        }
        ApiKey::AddOffsetsToTxn => kp::AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional_id())
            .with_group_id(group())
            .into(),
        ApiKey::TxnOffsetCommit => {
            let partition = txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()
                .with_committed_offset(10)
                .with_committed_metadata(Some(text("")));
            let committed = txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
                .with_name(topic())
                .with_partitions(vec![partition]);
            kp::TxnOffsetCommitRequest::default()
                .with_transactional_id(transactional_id())
                .with_group_id(group())
                .with_topics(vec![committed])
                .into()
        }
        ApiKey::EndTxn => {
            kp::EndTxnRequest::default().with_transactional_id(transactional_id()).into()
        }
        ApiKey::WriteTxnMarkers => {
            let named = write_txn_markers_request::WritableTxnMarkerTopic::default()
                .with_name(topic())
                .with_partition_indexes(vec![0]);
            let marker =
                write_txn_markers_request::WritableTxnMarker::default().with_topics(vec![named]);
            kp::WriteTxnMarkersRequest::default().with_markers(vec![marker]).into()
        }
        ApiKey::DescribeTransactions => kp::DescribeTransactionsRequest::default()
            .with_transactional_ids(vec![transactional_id()])
            .into(),
        ApiKey::ListTransactions => kp::ListTransactionsRequest::default().into(),
        ApiKey::DescribeProducers => {
            let asked = describe_producers_request::TopicRequest::default()
                .with_name(topic())
                .with_partition_indexes(vec![0, 1]);
            kp::DescribeProducersRequest::default().with_topics(vec![asked]).into()
        }
        _ => return None,
    })
}

fn admin_request(api: ApiKey, version: i16) -> Option<Request> {
    Some(match api {
        ApiKey::CreateTopics => {
            let created = create_topics_request::CreatableTopic::default()
                .with_name(topic())
                .with_num_partitions(2)
                .with_replication_factor(1);
            kp::CreateTopicsRequest::default().with_topics(vec![created]).into()
        }
        ApiKey::DeleteTopics => {
            let request = kp::DeleteTopicsRequest::default();
            if version < 6 {
                return Some(request.with_topic_names(vec![topic()]).into());
            }
            let deleted =
                delete_topics_request::DeleteTopicState::default().with_name(Some(topic()));
            request.with_topics(vec![deleted]).into()
        }
        ApiKey::DeleteRecords => {
            let deleted = delete_records_request::DeleteRecordsTopic::default()
                .with_name(topic())
                .with_partitions(vec![delete_records_request::DeleteRecordsPartition::default()]);
            kp::DeleteRecordsRequest::default().with_topics(vec![deleted]).into()
        }
        ApiKey::CreatePartitions => {
            let grown = create_partitions_request::CreatePartitionsTopic::default()
                .with_name(topic())
                .with_count(3)
                .with_assignments(None);
            kp::CreatePartitionsRequest::default().with_topics(vec![grown]).into()
        }
        ApiKey::DescribeConfigs => {
            let resource = describe_configs_request::DescribeConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text("t"))
                .with_configuration_keys(None);
            kp::DescribeConfigsRequest::default().with_resources(vec![resource]).into()
        }
        ApiKey::IncrementalAlterConfigs => {
            let resource = incremental_alter_configs_request::AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text("t"));
            kp::IncrementalAlterConfigsRequest::default().with_resources(vec![resource]).into()
        }
        ApiKey::DescribeAcls => kp::DescribeAclsRequest::default()
            .with_resource_type_filter(1)
            .with_pattern_type_filter(1)
            .with_operation(1)
            .with_permission_type(1)
            .into(),
        _ => return None,
    })
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic() -> TopicName {
    TopicName(text("t"))
}

fn group() -> GroupId {
    GroupId(text("g"))
}

fn transactional_id() -> TransactionalId {
    TransactionalId(text("tx"))
}
