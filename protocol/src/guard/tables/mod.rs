//! The schemas, one table per API and direction, as of Kafka 4.1 (`clients/src/main/resources/common/message`). They
//! cover the versions of [`ApiKey::codec_versions`].

/// An array of structs.
macro_rules! each {
    ($($field:expr),* $(,)?) => {
        Kind::Array(&Kind::Struct(&[$($field),*]))
    };
}

mod cluster;
mod groups;
mod offsets;
mod security;
mod topics;
mod transactions;

use super::schema::Field;
use crate::messages::ApiKey;
use crate::wire::Direction::{self, Request, Response};

/// The schema of a body, or `None` for the APIs whose codecs are our own.
pub(super) const fn schema(api_key: ApiKey, direction: Direction) -> Option<&'static [Field]> {
    Some(match (api_key, direction) {
        (ApiKey::Produce | ApiKey::Fetch | ApiKey::ApiVersions, _) => return None,
        (ApiKey::Metadata, Request) => cluster::METADATA_REQUEST,
        (ApiKey::Metadata, Response) => cluster::METADATA_RESPONSE,
        (ApiKey::FindCoordinator, Request) => cluster::FIND_COORDINATOR_REQUEST,
        (ApiKey::FindCoordinator, Response) => cluster::FIND_COORDINATOR_RESPONSE,
        (ApiKey::DescribeCluster, Request) => cluster::DESCRIBE_CLUSTER_REQUEST,
        (ApiKey::DescribeCluster, Response) => cluster::DESCRIBE_CLUSTER_RESPONSE,
        (ApiKey::CreateTopics, Request) => topics::CREATE_TOPICS_REQUEST,
        (ApiKey::CreateTopics, Response) => topics::CREATE_TOPICS_RESPONSE,
        (ApiKey::DeleteTopics, Request) => topics::DELETE_TOPICS_REQUEST,
        (ApiKey::DeleteTopics, Response) => topics::DELETE_TOPICS_RESPONSE,
        (ApiKey::CreatePartitions, Request) => topics::CREATE_PARTITIONS_REQUEST,
        (ApiKey::CreatePartitions, Response) => topics::CREATE_PARTITIONS_RESPONSE,
        (ApiKey::DeleteRecords, Request) => topics::DELETE_RECORDS_REQUEST,
        (ApiKey::DeleteRecords, Response) => topics::DELETE_RECORDS_RESPONSE,
        (ApiKey::DescribeConfigs, Request) => topics::DESCRIBE_CONFIGS_REQUEST,
        (ApiKey::DescribeConfigs, Response) => topics::DESCRIBE_CONFIGS_RESPONSE,
        (ApiKey::IncrementalAlterConfigs, Request) => topics::INCREMENTAL_ALTER_CONFIGS_REQUEST,
        (ApiKey::IncrementalAlterConfigs, Response) => topics::INCREMENTAL_ALTER_CONFIGS_RESPONSE,
        (ApiKey::ListOffsets, Request) => offsets::LIST_OFFSETS_REQUEST,
        (ApiKey::ListOffsets, Response) => offsets::LIST_OFFSETS_RESPONSE,
        (ApiKey::OffsetForLeaderEpoch, Request) => offsets::OFFSET_FOR_LEADER_EPOCH_REQUEST,
        (ApiKey::OffsetForLeaderEpoch, Response) => offsets::OFFSET_FOR_LEADER_EPOCH_RESPONSE,
        (ApiKey::OffsetCommit, Request) => offsets::OFFSET_COMMIT_REQUEST,
        (ApiKey::OffsetCommit, Response) => offsets::OFFSET_COMMIT_RESPONSE,
        (ApiKey::OffsetFetch, Request) => offsets::OFFSET_FETCH_REQUEST,
        (ApiKey::OffsetFetch, Response) => offsets::OFFSET_FETCH_RESPONSE,
        (ApiKey::OffsetDelete, Request) => offsets::OFFSET_DELETE_REQUEST,
        (ApiKey::OffsetDelete, Response) => offsets::OFFSET_DELETE_RESPONSE,
        (ApiKey::JoinGroup, Request) => groups::JOIN_GROUP_REQUEST,
        (ApiKey::JoinGroup, Response) => groups::JOIN_GROUP_RESPONSE,
        (ApiKey::SyncGroup, Request) => groups::SYNC_GROUP_REQUEST,
        (ApiKey::SyncGroup, Response) => groups::SYNC_GROUP_RESPONSE,
        (ApiKey::Heartbeat, Request) => groups::HEARTBEAT_REQUEST,
        (ApiKey::Heartbeat, Response) => groups::HEARTBEAT_RESPONSE,
        (ApiKey::LeaveGroup, Request) => groups::LEAVE_GROUP_REQUEST,
        (ApiKey::LeaveGroup, Response) => groups::LEAVE_GROUP_RESPONSE,
        (ApiKey::ConsumerGroupHeartbeat, Request) => groups::CONSUMER_GROUP_HEARTBEAT_REQUEST,
        (ApiKey::ConsumerGroupHeartbeat, Response) => groups::CONSUMER_GROUP_HEARTBEAT_RESPONSE,
        (ApiKey::DescribeGroups, Request) => groups::DESCRIBE_GROUPS_REQUEST,
        (ApiKey::DescribeGroups, Response) => groups::DESCRIBE_GROUPS_RESPONSE,
        (ApiKey::ConsumerGroupDescribe, Request) => groups::CONSUMER_GROUP_DESCRIBE_REQUEST,
        (ApiKey::ConsumerGroupDescribe, Response) => groups::CONSUMER_GROUP_DESCRIBE_RESPONSE,
        (ApiKey::ListGroups, Request) => groups::LIST_GROUPS_REQUEST,
        (ApiKey::ListGroups, Response) => groups::LIST_GROUPS_RESPONSE,
        (ApiKey::DeleteGroups, Request) => groups::DELETE_GROUPS_REQUEST,
        (ApiKey::DeleteGroups, Response) => groups::DELETE_GROUPS_RESPONSE,
        (ApiKey::InitProducerId, Request) => transactions::INIT_PRODUCER_ID_REQUEST,
        (ApiKey::InitProducerId, Response) => transactions::INIT_PRODUCER_ID_RESPONSE,
        (ApiKey::AddPartitionsToTxn, Request) => transactions::ADD_PARTITIONS_TO_TXN_REQUEST,
        (ApiKey::AddPartitionsToTxn, Response) => transactions::ADD_PARTITIONS_TO_TXN_RESPONSE,
        (ApiKey::AddOffsetsToTxn, Request) => transactions::ADD_OFFSETS_TO_TXN_REQUEST,
        (ApiKey::AddOffsetsToTxn, Response) => transactions::ADD_OFFSETS_TO_TXN_RESPONSE,
        (ApiKey::TxnOffsetCommit, Request) => transactions::TXN_OFFSET_COMMIT_REQUEST,
        (ApiKey::TxnOffsetCommit, Response) => transactions::TXN_OFFSET_COMMIT_RESPONSE,
        (ApiKey::EndTxn, Request) => transactions::END_TXN_REQUEST,
        (ApiKey::EndTxn, Response) => transactions::END_TXN_RESPONSE,
        (ApiKey::WriteTxnMarkers, Request) => transactions::WRITE_TXN_MARKERS_REQUEST,
        (ApiKey::WriteTxnMarkers, Response) => transactions::WRITE_TXN_MARKERS_RESPONSE,
        (ApiKey::DescribeTransactions, Request) => transactions::DESCRIBE_TRANSACTIONS_REQUEST,
        (ApiKey::DescribeTransactions, Response) => transactions::DESCRIBE_TRANSACTIONS_RESPONSE,
        (ApiKey::ListTransactions, Request) => transactions::LIST_TRANSACTIONS_REQUEST,
        (ApiKey::ListTransactions, Response) => transactions::LIST_TRANSACTIONS_RESPONSE,
        (ApiKey::DescribeProducers, Request) => transactions::DESCRIBE_PRODUCERS_REQUEST,
        (ApiKey::DescribeProducers, Response) => transactions::DESCRIBE_PRODUCERS_RESPONSE,
        (ApiKey::SaslHandshake, Request) => security::SASL_HANDSHAKE_REQUEST,
        (ApiKey::SaslHandshake, Response) => security::SASL_HANDSHAKE_RESPONSE,
        (ApiKey::SaslAuthenticate, Request) => security::SASL_AUTHENTICATE_REQUEST,
        (ApiKey::SaslAuthenticate, Response) => security::SASL_AUTHENTICATE_RESPONSE,
        (ApiKey::DescribeAcls, Request) => security::DESCRIBE_ACLS_REQUEST,
        (ApiKey::DescribeAcls, Response) => security::DESCRIBE_ACLS_RESPONSE,
    })
}
