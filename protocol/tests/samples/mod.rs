//! One message per API and direction, with an element in every array, so that every length field is there to be
//! damaged.

mod admin;
mod groups;

use std::sync::Arc;

use bytes::Bytes;
use millstream_protocol::messages::kp::{
    BrokerId, GroupId, ProducerId, TopicName, TransactionalId, add_partitions_to_txn_request,
    add_partitions_to_txn_response, create_topics_request, create_topics_response,
    delete_topics_request, delete_topics_response, describe_configs_request,
    describe_configs_response, describe_transactions_response, find_coordinator_response,
    list_offsets_request, list_offsets_response, list_transactions_response, metadata_request,
    metadata_response, offset_commit_request, offset_commit_response, offset_fetch_request,
    offset_fetch_response,
};
use millstream_protocol::messages::{
    AbortedTransaction, ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FetchPartition,
    FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic, FetchTopicResponse,
    FinalizedFeature, ForgottenTopic, LeaderIdAndEpoch, NodeEndpoint, ProducePartition,
    ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopic, ProduceTopicResponse,
    RecordError, StrBytes, SupportedFeature, kp, str_bytes,
};
use millstream_protocol::{Request, Response};

fn topic() -> TopicName {
    TopicName(str_bytes("flights"))
}

fn note() -> Option<StrBytes> {
    Some(str_bytes("note"))
}

fn transactional_id() -> TransactionalId {
    TransactionalId(str_bytes("job"))
}

/// Requests.
pub(crate) fn requests() -> Vec<Request> {
    let mut requests: Vec<Request> = vec![
        ApiVersionsRequest {
            client_software_name: "millstream".into(),
            client_software_version: "1".into(),
        }
        .into(),
        ProduceRequest {
            transactional_id: Some("job".into()),
            acks: -1,
            timeout_ms: 1,
            topics: vec![ProduceTopic {
                topic: Arc::from("flights"),
                partitions: vec![ProducePartition {
                    partition: 0,
                    records: Bytes::from_static(b"batch"),
                }],
            }],
        }
        .into(),
        FetchRequest {
            topics: vec![FetchTopic::by_name("flights", vec![FetchPartition::default()])],
            rack_id: "rack".into(),
            ..FetchRequest::default()
        }
        .into(),
        FetchRequest {
            forgotten_topics: vec![ForgottenTopic::by_name("flights", vec![1, 2])],
            ..FetchRequest::default()
        }
        .into(),
    ];
    requests.extend(control_requests());
    requests.extend(groups::requests());
    requests.extend(admin::requests());
    requests
}

fn control_requests() -> Vec<Request> {
    let list_offsets = list_offsets_request::ListOffsetsTopic::default()
        .with_name(topic())
        .with_partitions(vec![list_offsets_request::ListOffsetsPartition::default()]);
    let commit = offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic())
        .with_partitions(vec![
            offset_commit_request::OffsetCommitRequestPartition::default()
                .with_committed_metadata(note()),
        ]);
    let fetch = offset_fetch_request::OffsetFetchRequestTopics::default()
        .with_name(topic())
        .with_partition_indexes(vec![0, 1]);
    let group = offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(str_bytes("job")))
        .with_topics(Some(vec![fetch]));
    let assignment = create_topics_request::CreatableReplicaAssignment::default()
        .with_broker_ids(vec![BrokerId(1), BrokerId(2)]);
    let config = create_topics_request::CreatableTopicConfig::default()
        .with_name(str_bytes("cleanup.policy"))
        .with_value(note());
    let create = create_topics_request::CreatableTopic::default()
        .with_name(topic())
        .with_assignments(vec![assignment])
        .with_configs(vec![config]);
    let delete = delete_topics_request::DeleteTopicState::default().with_name(Some(topic()));
    let add = add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
        .with_name(topic())
        .with_partitions(vec![0, 1]);
    let transaction = add_partitions_to_txn_request::AddPartitionsToTxnTransaction::default()
        .with_transactional_id(transactional_id())
        .with_topics(vec![add.clone()]);
    let resource = describe_configs_request::DescribeConfigsResource::default()
        .with_resource_name(str_bytes("flights"))
        .with_configuration_keys(Some(vec![str_bytes("cleanup.policy")]));
    vec![
        kp::ListOffsetsRequest::default().with_topics(vec![list_offsets]).into(),
        kp::MetadataRequest::default()
            .with_topics(Some(vec![
                metadata_request::MetadataRequestTopic::default().with_name(Some(topic())),
            ]))
            .into(),
        kp::OffsetCommitRequest::default()
            .with_group_id(GroupId(str_bytes("job")))
            .with_member_id(str_bytes("member"))
            .with_topics(vec![commit])
            .into(),
        kp::OffsetFetchRequest::default().with_groups(vec![group]).into(),
        kp::FindCoordinatorRequest::default().with_coordinator_keys(vec![str_bytes("job")]).into(),
        kp::CreateTopicsRequest::default().with_topics(vec![create]).into(),
        kp::DeleteTopicsRequest::default().with_topics(vec![delete]).into(),
        kp::InitProducerIdRequest::default().with_transactional_id(Some(transactional_id())).into(),
        kp::AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(transactional_id())
            .with_v3_and_below_topics(vec![add])
            .into(),
        kp::AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]).into(),
        kp::EndTxnRequest::default().with_transactional_id(transactional_id()).into(),
        kp::DescribeConfigsRequest::default().with_resources(vec![resource]).into(),
        kp::DescribeTransactionsRequest::default()
            .with_transactional_ids(vec![transactional_id()])
            .into(),
        kp::ListTransactionsRequest::default()
            .with_state_filters(vec![str_bytes("Ongoing")])
            .with_producer_id_filters(vec![ProducerId(1)])
            .into(),
    ]
}

/// Responses.
pub(crate) fn responses() -> Vec<Response> {
    let produced = ProducePartitionResponse {
        record_errors: vec![RecordError { batch_index: 1, message: Some("bad".into()) }],
        error_message: Some("refused".into()),
        current_leader: Some(LeaderIdAndEpoch { leader_id: 1, leader_epoch: 2 }),
        ..ProducePartitionResponse::default()
    };
    let fetched = FetchPartitionResponse {
        current_leader: Some(LeaderIdAndEpoch { leader_id: 1, leader_epoch: 2 }),
        aborted_transactions: Some(vec![AbortedTransaction { producer_id: 1, first_offset: 2 }]),
        records: Bytes::from_static(b"batch"),
        ..FetchPartitionResponse::default()
    };
    let mut responses: Vec<Response> = vec![
        ApiVersionsResponse {
            api_keys: vec![ApiVersion::default()],
            supported_features: vec![SupportedFeature::default()],
            finalized_features_epoch: 3,
            finalized_features: vec![FinalizedFeature::default()],
            ..ApiVersionsResponse::default()
        }
        .into(),
        ProduceResponse {
            topics: vec![ProduceTopicResponse {
                topic: Arc::from("flights"),
                partitions: vec![produced],
            }],
            throttle_time_ms: 0,
            node_endpoints: vec![NodeEndpoint { host: "broker".into(), ..NodeEndpoint::default() }],
        }
        .into(),
        FetchResponse {
            topics: vec![FetchTopicResponse::by_name("flights", vec![fetched])],
            ..FetchResponse::default()
        }
        .into(),
    ];
    responses.extend(control_responses());
    responses.extend(groups::responses());
    responses.extend(admin::responses());
    responses
}

fn control_responses() -> Vec<Response> {
    let list_offsets = list_offsets_response::ListOffsetsTopicResponse::default()
        .with_name(topic())
        .with_partitions(vec![list_offsets_response::ListOffsetsPartitionResponse::default()]);
    let broker = metadata_response::MetadataResponseBroker::default()
        .with_host(str_bytes("broker"))
        .with_rack(note());
    let partition = metadata_response::MetadataResponsePartition::default()
        .with_replica_nodes(vec![BrokerId(1)])
        .with_isr_nodes(vec![BrokerId(1)])
        .with_offline_replicas(vec![BrokerId(1)]);
    let described = metadata_response::MetadataResponseTopic::default()
        .with_name(Some(topic()))
        .with_partitions(vec![partition]);
    let committed = offset_commit_response::OffsetCommitResponseTopic::default()
        .with_name(topic())
        .with_partitions(vec![offset_commit_response::OffsetCommitResponsePartition::default()]);
    let offsets = offset_fetch_response::OffsetFetchResponseTopics::default()
        .with_name(topic())
        .with_partitions(vec![
            offset_fetch_response::OffsetFetchResponsePartitions::default().with_metadata(note()),
        ]);
    let coordinator = find_coordinator_response::Coordinator::default()
        .with_host(str_bytes("broker"))
        .with_error_message(note());
    let created = create_topics_response::CreatableTopicResult::default()
        .with_name(topic())
        .with_topic_config_error_code(29)
        .with_error_message(note())
        .with_configs(Some(vec![
            create_topics_response::CreatableTopicConfigs::default().with_value(note()),
        ]));
    let deleted = delete_topics_response::DeletableTopicResult::default()
        .with_name(Some(topic()))
        .with_error_message(note());
    let added = add_partitions_to_txn_response::AddPartitionsToTxnTopicResult::default()
        .with_name(topic())
        .with_results_by_partition(vec![
            add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult::default(),
        ]);
    let added_by_transaction = add_partitions_to_txn_response::AddPartitionsToTxnResult::default()
        .with_topic_results(vec![added.clone()]);
    let config = describe_configs_response::DescribeConfigsResourceResult::default()
        .with_value(note())
        .with_synonyms(vec![
            describe_configs_response::DescribeConfigsSynonym::default().with_value(note()),
        ]);
    let configs = describe_configs_response::DescribeConfigsResult::default()
        .with_error_message(note())
        .with_configs(vec![config]);
    let data = describe_transactions_response::TopicData::default()
        .with_topic(topic())
        .with_partitions(vec![0, 1]);
    let transaction =
        describe_transactions_response::TransactionState::default().with_topics(vec![data]);
    let listed = list_transactions_response::TransactionState::default()
        .with_transactional_id(transactional_id());
    vec![
        kp::ListOffsetsResponse::default().with_topics(vec![list_offsets]).into(),
        kp::MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_cluster_id(note())
            .with_topics(vec![described])
            .into(),
        kp::OffsetCommitResponse::default().with_topics(vec![committed]).into(),
        kp::OffsetFetchResponse::default()
            .with_groups(vec![
                offset_fetch_response::OffsetFetchResponseGroup::default()
                    .with_topics(vec![offsets]),
            ])
            .into(),
        kp::FindCoordinatorResponse::default().with_coordinators(vec![coordinator]).into(),
        kp::CreateTopicsResponse::default().with_topics(vec![created]).into(),
        kp::DeleteTopicsResponse::default().with_responses(vec![deleted]).into(),
        kp::InitProducerIdResponse::default().into(),
        kp::AddPartitionsToTxnResponse::default()
            .with_results_by_topic_v3_and_below(vec![added])
            .into(),
        kp::AddPartitionsToTxnResponse::default()
            .with_results_by_transaction(vec![added_by_transaction])
            .into(),
        kp::EndTxnResponse::default().into(),
        kp::DescribeConfigsResponse::default().with_results(vec![configs]).into(),
        kp::DescribeTransactionsResponse::default()
            .with_transaction_states(vec![transaction])
            .into(),
        kp::ListTransactionsResponse::default()
            .with_unknown_state_filters(vec![str_bytes("Odd")])
            .with_transaction_states(vec![listed])
            .into(),
    ]
}
