//! Every request as one enum, and its way to and from the wire.

use bytes::Bytes;

use crate::messages::control::{Body, read_own};
use crate::messages::shape;
use crate::messages::{ApiKey, ApiVersionsRequest, FetchRequest, ProduceRequest, kp};
use crate::wire::{Direction, EncodeError, EncodedFrame, Reader, RequestHeader, WireError, Writer};

/// A request of any API we speak.
///
/// Four APIs changed their shape between versions. Their requests may be filled in the newer shape alone, whatever the
/// version they are then encoded in: FindCoordinator with `coordinator_keys`, OffsetFetch with `groups`, LeaveGroup with
/// `members`, DeleteTopics with `topics`. The first three, decoded from an older version, have both shapes filled.
/// AddPartitionsToTxn is the exception, as its newer shape is not for clients: versions up to 3 use the `v3_and_below_*`
/// fields.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// Of [`ApiKey::Produce`].
    Produce(ProduceRequest),
    /// Of [`ApiKey::Fetch`].
    Fetch(FetchRequest),
    /// Of [`ApiKey::ListOffsets`].
    ListOffsets(kp::ListOffsetsRequest),
    /// Of [`ApiKey::Metadata`].
    Metadata(kp::MetadataRequest),
    /// Of [`ApiKey::OffsetCommit`].
    OffsetCommit(kp::OffsetCommitRequest),
    /// Of [`ApiKey::OffsetFetch`].
    OffsetFetch(kp::OffsetFetchRequest),
    /// Of [`ApiKey::FindCoordinator`].
    FindCoordinator(kp::FindCoordinatorRequest),
    /// Of [`ApiKey::ApiVersions`].
    ApiVersions(ApiVersionsRequest),
    /// Of [`ApiKey::CreateTopics`].
    CreateTopics(kp::CreateTopicsRequest),
    /// Of [`ApiKey::DeleteTopics`].
    DeleteTopics(kp::DeleteTopicsRequest),
    /// Of [`ApiKey::InitProducerId`].
    InitProducerId(kp::InitProducerIdRequest),
    /// Of [`ApiKey::AddPartitionsToTxn`].
    AddPartitionsToTxn(kp::AddPartitionsToTxnRequest),
    /// Of [`ApiKey::EndTxn`].
    EndTxn(kp::EndTxnRequest),
    /// Of [`ApiKey::DescribeConfigs`].
    DescribeConfigs(kp::DescribeConfigsRequest),
    /// Of [`ApiKey::DescribeTransactions`].
    DescribeTransactions(kp::DescribeTransactionsRequest),
    /// Of [`ApiKey::ListTransactions`].
    ListTransactions(kp::ListTransactionsRequest),
    /// Of [`ApiKey::JoinGroup`].
    JoinGroup(kp::JoinGroupRequest),
    /// Of [`ApiKey::Heartbeat`].
    Heartbeat(kp::HeartbeatRequest),
    /// Of [`ApiKey::LeaveGroup`].
    LeaveGroup(kp::LeaveGroupRequest),
    /// Of [`ApiKey::SyncGroup`].
    SyncGroup(kp::SyncGroupRequest),
    /// Of [`ApiKey::DescribeGroups`].
    DescribeGroups(kp::DescribeGroupsRequest),
    /// Of [`ApiKey::ListGroups`].
    ListGroups(kp::ListGroupsRequest),
    /// Of [`ApiKey::SaslHandshake`].
    SaslHandshake(kp::SaslHandshakeRequest),
    /// Of [`ApiKey::DeleteRecords`].
    DeleteRecords(kp::DeleteRecordsRequest),
    /// Of [`ApiKey::OffsetForLeaderEpoch`].
    OffsetForLeaderEpoch(kp::OffsetForLeaderEpochRequest),
    /// Of [`ApiKey::AddOffsetsToTxn`].
    AddOffsetsToTxn(kp::AddOffsetsToTxnRequest),
    /// Of [`ApiKey::WriteTxnMarkers`].
    WriteTxnMarkers(kp::WriteTxnMarkersRequest),
    /// Of [`ApiKey::TxnOffsetCommit`].
    TxnOffsetCommit(kp::TxnOffsetCommitRequest),
    /// Of [`ApiKey::DescribeAcls`].
    DescribeAcls(kp::DescribeAclsRequest),
    /// Of [`ApiKey::SaslAuthenticate`].
    SaslAuthenticate(kp::SaslAuthenticateRequest),
    /// Of [`ApiKey::CreatePartitions`].
    CreatePartitions(kp::CreatePartitionsRequest),
    /// Of [`ApiKey::DeleteGroups`].
    DeleteGroups(kp::DeleteGroupsRequest),
    /// Of [`ApiKey::IncrementalAlterConfigs`].
    IncrementalAlterConfigs(kp::IncrementalAlterConfigsRequest),
    /// Of [`ApiKey::OffsetDelete`].
    OffsetDelete(kp::OffsetDeleteRequest),
    /// Of [`ApiKey::DescribeCluster`].
    DescribeCluster(kp::DescribeClusterRequest),
    /// Of [`ApiKey::DescribeProducers`].
    DescribeProducers(kp::DescribeProducersRequest),
    /// Of [`ApiKey::ConsumerGroupHeartbeat`].
    ConsumerGroupHeartbeat(kp::ConsumerGroupHeartbeatRequest),
    /// Of [`ApiKey::ConsumerGroupDescribe`].
    ConsumerGroupDescribe(kp::ConsumerGroupDescribeRequest),
}

impl Request {
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

    /// The whole frame of this request: size, header, body. Record bytes are chunks of their own.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the message cannot be expressed in `version`; nothing has been written then.
    pub fn encode(
        &self,
        version: i16,
        correlation_id: i32,
        client_id: &str,
    ) -> Result<EncodedFrame, EncodeError> {
        let api_key = self.api_key();
        if !api_key.codec_versions().contains(&version) {
            return Err(EncodeError::UnsupportedVersion { api_key, version });
        }
        let mut writer = Writer::with_capacity(INITIAL_CAPACITY);
        RequestHeader::write(api_key, version, correlation_id, Some(client_id), &mut writer)?;
        let body = Body { api_key, direction: Direction::Request, version };
        self.write_body(body, &mut writer)?;
        writer.finish()
    }

    /// Reads a request frame (without its size), as a broker does.
    ///
    /// # Errors
    ///
    /// [`WireError`]; [`WireError::UnsupportedVersion`] and [`WireError::UnknownApiKey`] carry what an answer needs.
    pub fn decode(frame: Bytes) -> Result<(RequestHeader, Self), WireError> {
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader)?;
        let body = Body {
            api_key: header.api_key,
            direction: Direction::Request,
            version: header.api_version,
        };
        Ok((header, Self::read_body(body, reader.into_rest())?))
    }

    fn write_body(&self, body: Body, writer: &mut Writer) -> Result<(), EncodeError> {
        let version = body.version;
        match self {
            Self::Produce(message) => message.write(version, writer),
            Self::Fetch(message) => message.write(version, writer),
            Self::ListOffsets(message) => body.write(message, writer),
            Self::Metadata(message) => body.write(message, writer),
            Self::OffsetCommit(message) => body.write(message, writer),
            Self::OffsetFetch(message) => {
                let message = shape::offset_fetch_request(message, version);
                body.write(&*message.map_err(|reason| body.not_in_version(reason))?, writer)
            }
            Self::FindCoordinator(message) => {
                let message = shape::find_coordinator_request(message, version);
                body.write(&*message.map_err(|reason| body.not_in_version(reason))?, writer)
            }
            Self::ApiVersions(message) => message.write(version, writer),
            Self::CreateTopics(message) => body.write(message, writer),
            Self::DeleteTopics(message) => {
                let message = shape::delete_topics_request(message, version);
                body.write(&*message.map_err(|reason| body.not_in_version(reason))?, writer)
            }
            Self::InitProducerId(message) => body.write(message, writer),
            Self::AddPartitionsToTxn(message) => body.write(message, writer),
            Self::EndTxn(message) => body.write(message, writer),
            Self::DescribeConfigs(message) => body.write(message, writer),
            Self::DescribeTransactions(message) => body.write(message, writer),
            Self::ListTransactions(message) => body.write(message, writer),
            Self::JoinGroup(message) => body.write(message, writer),
            Self::Heartbeat(message) => body.write(message, writer),
            Self::LeaveGroup(message) => {
                let message = shape::leave_group_request(message, version);
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
            ApiKey::Produce => read_own(body, bytes, ProduceRequest::read)?.into(),
            ApiKey::Fetch => read_own(body, bytes, FetchRequest::read)?.into(),
            ApiKey::ListOffsets => Self::ListOffsets(body.read(bytes)?),
            ApiKey::Metadata => Self::Metadata(body.read(bytes)?),
            ApiKey::OffsetCommit => Self::OffsetCommit(body.read(bytes)?),
            ApiKey::OffsetFetch => {
                shape::newer_offset_fetch_request(body.read(bytes)?, version).into()
            }
            ApiKey::FindCoordinator => {
                shape::newer_find_coordinator_request(body.read(bytes)?, version).into()
            }
            ApiKey::ApiVersions => read_own(body, bytes, ApiVersionsRequest::read)?.into(),
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
                shape::newer_leave_group_request(body.read(bytes)?, version).into()
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
