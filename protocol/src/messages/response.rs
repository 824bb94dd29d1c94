//! Every response as one enum, and its way to and from the wire.

use bytes::Bytes;

use crate::messages::control::{Body, read_own};
use crate::messages::shape;
use crate::messages::{ApiKey, ApiVersionsResponse, FetchResponse, ProduceResponse, kp};
use crate::wire::{Direction, EncodeError, EncodedFrame, ResponseHeader, WireError, Writer};

/// A response of any API we speak.
///
/// Three APIs changed their shape between versions. Their responses may be filled in the newer shape alone, whatever the
/// version they are then encoded in: FindCoordinator with `coordinators`, OffsetFetch with `groups`, LeaveGroup with
/// `members`. Decoded from an older version they have both shapes filled; the key of the coordinator and the ids of group
/// and member are then empty.
/// AddPartitionsToTxn up to version 3 uses `results_by_topic_v3_and_below`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Response {
    /// Of [`ApiKey::Produce`].
    Produce(ProduceResponse),
    /// Of [`ApiKey::Fetch`].
    Fetch(FetchResponse),
    /// Of [`ApiKey::ListOffsets`].
    ListOffsets(kp::ListOffsetsResponse),
    /// Of [`ApiKey::Metadata`].
    Metadata(kp::MetadataResponse),
    /// Of [`ApiKey::OffsetCommit`].
    OffsetCommit(kp::OffsetCommitResponse),
    /// Of [`ApiKey::OffsetFetch`].
    OffsetFetch(kp::OffsetFetchResponse),
    /// Of [`ApiKey::FindCoordinator`].
    FindCoordinator(kp::FindCoordinatorResponse),
    /// Of [`ApiKey::ApiVersions`].
    ApiVersions(ApiVersionsResponse),
    /// Of [`ApiKey::CreateTopics`].
    CreateTopics(kp::CreateTopicsResponse),
    /// Of [`ApiKey::DeleteTopics`].
    DeleteTopics(kp::DeleteTopicsResponse),
    /// Of [`ApiKey::InitProducerId`].
    InitProducerId(kp::InitProducerIdResponse),
    /// Of [`ApiKey::AddPartitionsToTxn`].
    AddPartitionsToTxn(kp::AddPartitionsToTxnResponse),
    /// Of [`ApiKey::EndTxn`].
    EndTxn(kp::EndTxnResponse),
    /// Of [`ApiKey::DescribeConfigs`].
    DescribeConfigs(kp::DescribeConfigsResponse),
    /// Of [`ApiKey::DescribeTransactions`].
    DescribeTransactions(kp::DescribeTransactionsResponse),
    /// Of [`ApiKey::ListTransactions`].
    ListTransactions(kp::ListTransactionsResponse),
    /// Of [`ApiKey::JoinGroup`].
    JoinGroup(kp::JoinGroupResponse),
    /// Of [`ApiKey::Heartbeat`].
    Heartbeat(kp::HeartbeatResponse),
    /// Of [`ApiKey::LeaveGroup`].
    LeaveGroup(kp::LeaveGroupResponse),
    /// Of [`ApiKey::SyncGroup`].
    SyncGroup(kp::SyncGroupResponse),
    /// Of [`ApiKey::DescribeGroups`].
    DescribeGroups(kp::DescribeGroupsResponse),
    /// Of [`ApiKey::ListGroups`].
    ListGroups(kp::ListGroupsResponse),
    /// Of [`ApiKey::SaslHandshake`].
    SaslHandshake(kp::SaslHandshakeResponse),
    /// Of [`ApiKey::DeleteRecords`].
    DeleteRecords(kp::DeleteRecordsResponse),
    /// Of [`ApiKey::OffsetForLeaderEpoch`].
    OffsetForLeaderEpoch(kp::OffsetForLeaderEpochResponse),
    /// Of [`ApiKey::AddOffsetsToTxn`].
    AddOffsetsToTxn(kp::AddOffsetsToTxnResponse),
    /// Of [`ApiKey::WriteTxnMarkers`].
    WriteTxnMarkers(kp::WriteTxnMarkersResponse),
    /// Of [`ApiKey::TxnOffsetCommit`].
    TxnOffsetCommit(kp::TxnOffsetCommitResponse),
    /// Of [`ApiKey::DescribeAcls`].
    DescribeAcls(kp::DescribeAclsResponse),
    /// Of [`ApiKey::SaslAuthenticate`].
    SaslAuthenticate(kp::SaslAuthenticateResponse),
    /// Of [`ApiKey::CreatePartitions`].
    CreatePartitions(kp::CreatePartitionsResponse),
    /// Of [`ApiKey::DeleteGroups`].
    DeleteGroups(kp::DeleteGroupsResponse),
    /// Of [`ApiKey::IncrementalAlterConfigs`].
    IncrementalAlterConfigs(kp::IncrementalAlterConfigsResponse),
    /// Of [`ApiKey::OffsetDelete`].
    OffsetDelete(kp::OffsetDeleteResponse),
    /// Of [`ApiKey::DescribeCluster`].
    DescribeCluster(kp::DescribeClusterResponse),
    /// Of [`ApiKey::DescribeProducers`].
    DescribeProducers(kp::DescribeProducersResponse),
    /// Of [`ApiKey::ConsumerGroupHeartbeat`].
    ConsumerGroupHeartbeat(kp::ConsumerGroupHeartbeatResponse),
    /// Of [`ApiKey::ConsumerGroupDescribe`].
    ConsumerGroupDescribe(kp::ConsumerGroupDescribeResponse),
}

impl Response {
    /// The API.
    #[must_use]
    pub const fn api_key(&self) -> ApiKey {
        match self {
            Self::Produce(_) => ApiKey::Produce,
            Self::Fetch(_) => ApiKey::Fetch,
            Self::ListOffsets(_) => ApiKey::ListOffsets,
            Self::Metadata(_) => ApiKey::Metadata,
            Self::OffsetCommit(_) => ApiKey::OffsetCommit,
            Self::OffsetFetch(_) => ApiKey::OffsetFetch,
            Self::FindCoordinator(_) => ApiKey::FindCoordinator,
            Self::ApiVersions(_) => ApiKey::ApiVersions,
            Self::CreateTopics(_) => ApiKey::CreateTopics,
            Self::DeleteTopics(_) => ApiKey::DeleteTopics,
            Self::InitProducerId(_) => ApiKey::InitProducerId,
            Self::AddPartitionsToTxn(_) => ApiKey::AddPartitionsToTxn,
            Self::EndTxn(_) => ApiKey::EndTxn,
            Self::DescribeConfigs(_) => ApiKey::DescribeConfigs,
            Self::DescribeTransactions(_) => ApiKey::DescribeTransactions,
            Self::ListTransactions(_) => ApiKey::ListTransactions,
            Self::JoinGroup(_) => ApiKey::JoinGroup,
            Self::Heartbeat(_) => ApiKey::Heartbeat,
            Self::LeaveGroup(_) => ApiKey::LeaveGroup,
            Self::SyncGroup(_) => ApiKey::SyncGroup,
            Self::DescribeGroups(_) => ApiKey::DescribeGroups,
            Self::ListGroups(_) => ApiKey::ListGroups,
            Self::SaslHandshake(_) => ApiKey::SaslHandshake,
            Self::DeleteRecords(_) => ApiKey::DeleteRecords,
            Self::OffsetForLeaderEpoch(_) => ApiKey::OffsetForLeaderEpoch,
            Self::AddOffsetsToTxn(_) => ApiKey::AddOffsetsToTxn,
            Self::WriteTxnMarkers(_) => ApiKey::WriteTxnMarkers,
            Self::TxnOffsetCommit(_) => ApiKey::TxnOffsetCommit,
            Self::DescribeAcls(_) => ApiKey::DescribeAcls,
            Self::SaslAuthenticate(_) => ApiKey::SaslAuthenticate,
            Self::CreatePartitions(_) => ApiKey::CreatePartitions,
            Self::DeleteGroups(_) => ApiKey::DeleteGroups,
            Self::IncrementalAlterConfigs(_) => ApiKey::IncrementalAlterConfigs,
            Self::OffsetDelete(_) => ApiKey::OffsetDelete,
            Self::DescribeCluster(_) => ApiKey::DescribeCluster,
            Self::DescribeProducers(_) => ApiKey::DescribeProducers,
            Self::ConsumerGroupHeartbeat(_) => ApiKey::ConsumerGroupHeartbeat,
            Self::ConsumerGroupDescribe(_) => ApiKey::ConsumerGroupDescribe,
        }
    }

    /// The whole frame of this response: size, header, body. Record bytes are chunks of their own.
    ///
    /// An ApiVersions response that carries UNSUPPORTED_VERSION is written in version 0, whatever `version` says.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the message cannot be expressed in `version`; nothing has been written then.
    pub fn encode(&self, version: i16, correlation_id: i32) -> Result<EncodedFrame, EncodeError> {
        let api_key = self.api_key();
        if !api_key.codec_versions().contains(&version) {
            return Err(EncodeError::UnsupportedVersion { api_key, version });
        }
        let mut writer = Writer::with_capacity(INITIAL_CAPACITY);
        ResponseHeader { correlation_id }.write(api_key, version, &mut writer);
        let body = Body { api_key, direction: Direction::Response, version };
        self.write_body(body, &mut writer)?;
        writer.finish()
    }

    /// Reads the body of a response; `body` starts after the response header
    /// ([`ResponseHeader::decode`](crate::wire::ResponseHeader::decode)).
    ///
    /// # Errors
    ///
    /// [`WireError`] for anything but exactly one well-formed message.
    pub fn decode(api_key: ApiKey, version: i16, body: Bytes) -> Result<Self, WireError> {
        if !api_key.codec_versions().contains(&version) {
            return Err(WireError::UnsupportedVersion { api_key, version, correlation_id: 0 });
        }
        Self::read_body(Body { api_key, direction: Direction::Response, version }, body)
    }

    fn write_body(&self, body: Body, writer: &mut Writer) -> Result<(), EncodeError> {
        let version = body.version;
        match self {
            Self::Produce(message) => message.write(version, writer),
            Self::Fetch(message) => message.write(version, writer),
            Self::ListOffsets(message) => {
                body.write(&*shape::list_offsets_response(message, version), writer)
            }
            Self::Metadata(message) => body.write(message, writer),
            Self::OffsetCommit(message) => body.write(message, writer),
            Self::OffsetFetch(message) => {
                let message = shape::offset_fetch_response(message, version);
                body.write(&*message.map_err(|reason| body.not_in_version(reason))?, writer)
            }
            Self::FindCoordinator(message) => {
                let message = shape::find_coordinator_response(message, version);
                body.write(&*message.map_err(|reason| body.not_in_version(reason))?, writer)
            }
            Self::ApiVersions(message) => message.write(version, writer),
            Self::CreateTopics(message) => body.write(message, writer),
            Self::DeleteTopics(message) => body.write(message, writer),
            Self::InitProducerId(message) => body.write(message, writer),
            Self::AddPartitionsToTxn(message) => body.write(message, writer),
            Self::EndTxn(message) => body.write(message, writer),
            Self::DescribeConfigs(message) => body.write(message, writer),
            Self::DescribeTransactions(message) => body.write(message, writer),
            Self::ListTransactions(message) => body.write(message, writer),
            Self::JoinGroup(message) => body.write(message, writer),
            Self::Heartbeat(message) => body.write(message, writer),
            Self::LeaveGroup(message) => {
                let message = shape::leave_group_response(message, version);
                body.write(&*message.map_err(|reason| body.not_in_version(reason))?, writer)
            }
            Self::SyncGroup(message) => body.write(message, writer),
            Self::DescribeGroups(message) => body.write(message, writer),
            Self::ListGroups(message) => body.write(message, writer),
            Self::SaslHandshake(message) => body.write(message, writer),
            Self::DeleteRecords(message) => body.write(message, writer),
            Self::OffsetForLeaderEpoch(message) => body.write(message, writer),
            Self::AddOffsetsToTxn(message) => body.write(message, writer),
            Self::WriteTxnMarkers(message) => body.write(message, writer),
            Self::TxnOffsetCommit(message) => body.write(message, writer),
            Self::DescribeAcls(message) => body.write(message, writer),
            Self::SaslAuthenticate(message) => body.write(message, writer),
            Self::CreatePartitions(message) => body.write(message, writer),
            Self::DeleteGroups(message) => body.write(message, writer),
            Self::IncrementalAlterConfigs(message) => body.write(message, writer),
            Self::OffsetDelete(message) => body.write(message, writer),
            Self::DescribeCluster(message) => body.write(message, writer),
            Self::DescribeProducers(message) => body.write(message, writer),
            Self::ConsumerGroupHeartbeat(message) => body.write(message, writer),
            Self::ConsumerGroupDescribe(message) => body.write(message, writer),
        }
    }

    fn read_body(body: Body, bytes: Bytes) -> Result<Self, WireError> {
        let version = body.version;
        Ok(match body.api_key {
            ApiKey::Produce => read_own(body, bytes, ProduceResponse::read)?.into(),
            ApiKey::Fetch => read_own(body, bytes, FetchResponse::read)?.into(),
            ApiKey::ListOffsets => Self::ListOffsets(body.read(bytes)?),
            ApiKey::Metadata => Self::Metadata(body.read(bytes)?),
            ApiKey::OffsetCommit => Self::OffsetCommit(body.read(bytes)?),
            ApiKey::OffsetFetch => {
                shape::newer_offset_fetch_response(body.read(bytes)?, version).into()
            }
            ApiKey::FindCoordinator => {
                shape::newer_find_coordinator_response(body.read(bytes)?, version).into()
            }
            ApiKey::ApiVersions => read_own(body, bytes, ApiVersionsResponse::read)?.into(),
            ApiKey::CreateTopics => Self::CreateTopics(body.read(bytes)?),
            ApiKey::DeleteTopics => Self::DeleteTopics(body.read(bytes)?),
            ApiKey::InitProducerId => Self::InitProducerId(body.read(bytes)?),
            ApiKey::AddPartitionsToTxn => Self::AddPartitionsToTxn(body.read(bytes)?),
            ApiKey::EndTxn => Self::EndTxn(body.read(bytes)?),
            ApiKey::DescribeConfigs => Self::DescribeConfigs(body.read(bytes)?),
            ApiKey::DescribeTransactions => Self::DescribeTransactions(body.read(bytes)?),
            ApiKey::ListTransactions => Self::ListTransactions(body.read(bytes)?),
            ApiKey::JoinGroup => Self::JoinGroup(body.read(bytes)?),
            ApiKey::Heartbeat => Self::Heartbeat(body.read(bytes)?),
            ApiKey::LeaveGroup => {
                shape::newer_leave_group_response(body.read(bytes)?, version).into()
            }
            ApiKey::SyncGroup => Self::SyncGroup(body.read(bytes)?),
            ApiKey::DescribeGroups => Self::DescribeGroups(body.read(bytes)?),
            ApiKey::ListGroups => Self::ListGroups(body.read(bytes)?),
            ApiKey::SaslHandshake => Self::SaslHandshake(body.read(bytes)?),
            ApiKey::DeleteRecords => Self::DeleteRecords(body.read(bytes)?),
            ApiKey::OffsetForLeaderEpoch => Self::OffsetForLeaderEpoch(body.read(bytes)?),
            ApiKey::AddOffsetsToTxn => Self::AddOffsetsToTxn(body.read(bytes)?),
            ApiKey::WriteTxnMarkers => Self::WriteTxnMarkers(body.read(bytes)?),
            ApiKey::TxnOffsetCommit => Self::TxnOffsetCommit(body.read(bytes)?),
            ApiKey::DescribeAcls => Self::DescribeAcls(body.read(bytes)?),
            ApiKey::SaslAuthenticate => Self::SaslAuthenticate(body.read(bytes)?),
            ApiKey::CreatePartitions => Self::CreatePartitions(body.read(bytes)?),
            ApiKey::DeleteGroups => Self::DeleteGroups(body.read(bytes)?),
            ApiKey::IncrementalAlterConfigs => Self::IncrementalAlterConfigs(body.read(bytes)?),
            ApiKey::OffsetDelete => Self::OffsetDelete(body.read(bytes)?),
            ApiKey::DescribeCluster => Self::DescribeCluster(body.read(bytes)?),
            ApiKey::DescribeProducers => Self::DescribeProducers(body.read(bytes)?),
            ApiKey::ConsumerGroupHeartbeat => Self::ConsumerGroupHeartbeat(body.read(bytes)?),
            ApiKey::ConsumerGroupDescribe => Self::ConsumerGroupDescribe(body.read(bytes)?),
        })
    }
}

/// Room for most control messages; the buffer grows for others.
const INITIAL_CAPACITY: usize = 256;
