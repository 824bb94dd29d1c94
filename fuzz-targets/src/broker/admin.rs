//! Administration.

use millstream_protocol::messages::kp::{
    self, consumer_group_describe_response as modern, create_partitions_response,
    create_topics_response, delete_groups_response, delete_records_response,
    delete_topics_response, describe_acls_response as acls, describe_configs_response as configs,
    describe_groups_response as classic, describe_producers_response as producers,
    describe_transactions_response, incremental_alter_configs_response, list_transactions_response,
    offset_delete_response, write_txn_markers_response as markers,
};
use millstream_protocol::{Request, Response};

use super::{END_OFFSET, PRODUCER_ID, TOPIC_ID, group_id, text, topic_name, transactional_id};

pub(super) fn answer(request: &Request, version: i16) -> Option<Response> {
    Some(match request {
        Request::CreateTopics(request) => {
            let topics = request.topics.iter().map(|topic| {
                let created = create_topics_response::CreatableTopicResult::default()
                    .with_name(topic.name.clone());
                if version < 5 {
                    return created;
                }
                let config = create_topics_response::CreatableTopicConfigs::default()
                    .with_name(text("cleanup.policy"))
                    .with_value(Some(text("delete")));
                created
                    .with_num_partitions(2)
                    .with_replication_factor(1)
                    .with_configs(Some(vec![config]))
            });
            kp::CreateTopicsResponse::default().with_topics(topics.collect()).into()
        }
        Request::DeleteTopics(request) => {
            let newer = request.topics.iter().filter_map(|topic| topic.name.clone());
            let names = request.topic_names.iter().cloned().chain(newer);
            let responses = names.map(|name| {
                delete_topics_response::DeletableTopicResult::default().with_name(Some(name))
            });
            kp::DeleteTopicsResponse::default().with_responses(responses.collect()).into()
        }
        Request::CreatePartitions(request) => {
            let results = request.topics.iter().map(|topic| {
                create_partitions_response::CreatePartitionsTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_error_message(Some(text("")))
            });
            kp::CreatePartitionsResponse::default().with_results(results.collect()).into()
        }
        Request::DeleteRecords(request) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    delete_records_response::DeleteRecordsPartitionResult::default()
                        .with_partition_index(partition.partition_index)
                        .with_low_watermark(partition.offset.max(0))
                });
                delete_records_response::DeleteRecordsTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            kp::DeleteRecordsResponse::default().with_topics(topics.collect()).into()
        }
        Request::DescribeConfigs(request) => {
            let results = request.resources.iter().map(|resource| {
                let synonym = configs::DescribeConfigsSynonym::default()
                    .with_name(text("log.retention.ms"))
                    .with_value(Some(text("1")))
                    .with_source(5);
                let entry = configs::DescribeConfigsResourceResult::default()
                    .with_name(text("retention.ms"))
                    .with_value(Some(text("1")))
                    .with_config_source(5)
                    .with_synonyms(vec![synonym]);
                configs::DescribeConfigsResult::default()
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name.clone())
                    .with_configs(vec![entry])
            });
            kp::DescribeConfigsResponse::default().with_results(results.collect()).into()
        }
        Request::IncrementalAlterConfigs(request) => {
            let responses = request.resources.iter().map(|resource| {
                incremental_alter_configs_response::AlterConfigsResourceResponse::default()
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name.clone())
            });
            kp::IncrementalAlterConfigsResponse::default()
                .with_responses(responses.collect())
                .into()
        }
        Request::DescribeAcls(_) => {
            let acl = acls::AclDescription::default()
                .with_principal(text("User:ann"))
                .with_host(text("*"))
                .with_operation(3)
                .with_permission_type(3);
            let resource = acls::DescribeAclsResource::default()
                .with_resource_type(2)
                .with_resource_name(text("t"))
                .with_pattern_type(3)
                .with_acls(vec![acl]);
            kp::DescribeAclsResponse::default().with_resources(vec![resource]).into()
        }
        Request::ListGroups(_) => list_groups(version).into(),
        Request::DescribeGroups(request) => {
            let groups = request.groups.iter().map(|group| {
                let member = classic::DescribedGroupMember::default()
                    .with_member_id(text("member-1"))
                    .with_client_id(text("c"))
                    .with_client_host(text("/127.0.0.1"));
                classic::DescribedGroup::default()
                    .with_group_id(group.clone())
                    .with_group_state(text("Empty"))
                    .with_protocol_type(text("consumer"))
                    .with_protocol_data(text("range"))
                    .with_members(vec![member])
            });
            kp::DescribeGroupsResponse::default().with_groups(groups.collect()).into()
        }
        Request::ConsumerGroupDescribe(request) => {
            let groups = request.group_ids.iter().map(|group| {
                let owned = modern::TopicPartitions::default()
                    .with_topic_id(TOPIC_ID)
                    .with_topic_name(topic_name("t"))
                    .with_partitions(vec![0]);
                let member = modern::Member::default()
                    .with_member_id(text("member-1"))
                    .with_subscribed_topic_names(vec![topic_name("t")])
                    .with_assignment(
                        modern::Assignment::default().with_topic_partitions(vec![owned]),
                    );
                modern::DescribedGroup::default()
                    .with_group_id(group.clone())
                    .with_group_state(text("Stable"))
                    .with_assignor_name(text("uniform"))
                    .with_members(vec![member])
            });
            kp::ConsumerGroupDescribeResponse::default().with_groups(groups.collect()).into()
        }
        Request::DeleteGroups(request) => {
            let results = request.groups_names.iter().map(|group| {
                delete_groups_response::DeletableGroupResult::default().with_group_id(group.clone())
            });
            kp::DeleteGroupsResponse::default().with_results(results.collect()).into()
        }
        Request::OffsetDelete(request) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    offset_delete_response::OffsetDeleteResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                });
                offset_delete_response::OffsetDeleteResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            kp::OffsetDeleteResponse::default().with_topics(topics.collect()).into()
        }
        other => return transactions(other),
    })
}

fn list_groups(version: i16) -> kp::ListGroupsResponse {
    let groups = ["g", "modern"].into_iter().map(|name| {
        let mut group = kp::list_groups_response::ListedGroup::default()
            .with_group_id(group_id(name))
            .with_protocol_type(text("consumer"));
        if version >= 4 {
            group.group_state = text("Stable");
        }
        if version >= 5 {
            group.group_type = text(if name == "g" { "classic" } else { "consumer" });
        }
        group
    });
    kp::ListGroupsResponse::default().with_groups(groups.collect())
}

fn transactions(request: &Request) -> Option<Response> {
    Some(match request {
        Request::ListTransactions(_) => {
            let listed = list_transactions_response::TransactionState::default()
                .with_transactional_id(transactional_id("tx"))
                .with_producer_id(PRODUCER_ID.into())
                .with_transaction_state(text("Ongoing"));
            kp::ListTransactionsResponse::default().with_transaction_states(vec![listed]).into()
        }
        Request::DescribeTransactions(request) => {
            let states = request.transactional_ids.iter().map(|id| {
                let topic = describe_transactions_response::TopicData::default()
                    .with_topic(topic_name("t"))
                    .with_partitions(vec![0]);
                describe_transactions_response::TransactionState::default()
                    .with_transactional_id(id.clone())
                    .with_transaction_state(text("Ongoing"))
                    .with_producer_id(PRODUCER_ID.into())
                    .with_topics(vec![topic])
            });
            kp::DescribeTransactionsResponse::default()
                .with_transaction_states(states.collect())
                .into()
        }
        Request::DescribeProducers(request) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partition_indexes.iter().map(|index| {
                    let producer = producers::ProducerState::default()
                        .with_producer_id(PRODUCER_ID.into())
                        .with_last_timestamp(1)
                        .with_current_txn_start_offset(END_OFFSET - 10);
                    producers::PartitionResponse::default()
                        .with_partition_index(*index)
                        .with_active_producers(vec![producer])
                });
                producers::TopicResponse::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            kp::DescribeProducersResponse::default().with_topics(topics.collect()).into()
        }
        Request::WriteTxnMarkers(request) => {
            let markers = request.markers.iter().map(|marker| {
                let topics = marker.topics.iter().map(|topic| {
                    let partitions = topic.partition_indexes.iter().map(|index| {
                        markers::WritableTxnMarkerPartitionResult::default()
                            .with_partition_index(*index)
                    });
                    markers::WritableTxnMarkerTopicResult::default()
                        .with_name(topic.name.clone())
                        .with_partitions(partitions.collect())
                });
                markers::WritableTxnMarkerResult::default()
                    .with_producer_id(marker.producer_id)
                    .with_topics(topics.collect())
            });
            kp::WriteTxnMarkersResponse::default().with_markers(markers.collect()).into()
        }
        _ => return None,
    })
}
