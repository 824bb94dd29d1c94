//! Each message is a [`Request`] or [`Response`].

use crate::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchResponse, ProduceRequest,
    ProduceResponse, Request, Response, kp,
};

macro_rules! messages {
    ($($variant:ident: $request:ty, $response:ty;)*) => {$(
        impl From<$request> for Request {
            fn from(message: $request) -> Self {
                Self::$variant(message)
            }
        }

        impl From<$response> for Response {
            fn from(message: $response) -> Self {
                Self::$variant(message)
            }
        }
    )*};
}

messages! {
    Produce: ProduceRequest, ProduceResponse;
    Fetch: FetchRequest, FetchResponse;
    ListOffsets: kp::ListOffsetsRequest, kp::ListOffsetsResponse;
    Metadata: kp::MetadataRequest, kp::MetadataResponse;
    OffsetCommit: kp::OffsetCommitRequest, kp::OffsetCommitResponse;
    OffsetFetch: kp::OffsetFetchRequest, kp::OffsetFetchResponse;
    FindCoordinator: kp::FindCoordinatorRequest, kp::FindCoordinatorResponse;
    JoinGroup: kp::JoinGroupRequest, kp::JoinGroupResponse;
    Heartbeat: kp::HeartbeatRequest, kp::HeartbeatResponse;
    LeaveGroup: kp::LeaveGroupRequest, kp::LeaveGroupResponse;
    SyncGroup: kp::SyncGroupRequest, kp::SyncGroupResponse;
    DescribeGroups: kp::DescribeGroupsRequest, kp::DescribeGroupsResponse;
    ListGroups: kp::ListGroupsRequest, kp::ListGroupsResponse;
    SaslHandshake: kp::SaslHandshakeRequest, kp::SaslHandshakeResponse;
    ApiVersions: ApiVersionsRequest, ApiVersionsResponse;
    CreateTopics: kp::CreateTopicsRequest, kp::CreateTopicsResponse;
    DeleteTopics: kp::DeleteTopicsRequest, kp::DeleteTopicsResponse;
    DeleteRecords: kp::DeleteRecordsRequest, kp::DeleteRecordsResponse;
    InitProducerId: kp::InitProducerIdRequest, kp::InitProducerIdResponse;
    OffsetForLeaderEpoch: kp::OffsetForLeaderEpochRequest, kp::OffsetForLeaderEpochResponse;
    AddPartitionsToTxn: kp::AddPartitionsToTxnRequest, kp::AddPartitionsToTxnResponse;
    AddOffsetsToTxn: kp::AddOffsetsToTxnRequest, kp::AddOffsetsToTxnResponse;
    EndTxn: kp::EndTxnRequest, kp::EndTxnResponse;
    WriteTxnMarkers: kp::WriteTxnMarkersRequest, kp::WriteTxnMarkersResponse;
    TxnOffsetCommit: kp::TxnOffsetCommitRequest, kp::TxnOffsetCommitResponse;
    DescribeAcls: kp::DescribeAclsRequest, kp::DescribeAclsResponse;
    DescribeConfigs: kp::DescribeConfigsRequest, kp::DescribeConfigsResponse;
    SaslAuthenticate: kp::SaslAuthenticateRequest, kp::SaslAuthenticateResponse;
    CreatePartitions: kp::CreatePartitionsRequest, kp::CreatePartitionsResponse;
    DeleteGroups: kp::DeleteGroupsRequest, kp::DeleteGroupsResponse;
    IncrementalAlterConfigs: kp::IncrementalAlterConfigsRequest, kp::IncrementalAlterConfigsResponse;
    OffsetDelete: kp::OffsetDeleteRequest, kp::OffsetDeleteResponse;
    DescribeCluster: kp::DescribeClusterRequest, kp::DescribeClusterResponse;
    DescribeProducers: kp::DescribeProducersRequest, kp::DescribeProducersResponse;
    DescribeTransactions: kp::DescribeTransactionsRequest, kp::DescribeTransactionsResponse;
    ListTransactions: kp::ListTransactionsRequest, kp::ListTransactionsResponse;
    ConsumerGroupHeartbeat: kp::ConsumerGroupHeartbeatRequest, kp::ConsumerGroupHeartbeatResponse;
    ConsumerGroupDescribe: kp::ConsumerGroupDescribeRequest, kp::ConsumerGroupDescribeResponse;
}
