//! Every response as one enum, and its way to and from the wire.

use bytes::Bytes;

use crate::messages::control::{Body, read_own};
use crate::messages::shape;
use crate::messages::{ApiKey, ApiVersionsResponse, FetchResponse, ProduceResponse, kp};
use crate::wire::{Direction, EncodeError, EncodedFrame, ResponseHeader, WireError, Writer};

/// A response of any API we speak.
///
/// Two APIs changed their shape between versions. Their responses may be filled in the newer shape alone, whatever the
/// version they are then encoded in: FindCoordinator with `coordinators`, OffsetFetch with `groups`. Decoded from an
/// older version they have both shapes filled; the key of the coordinator and the id of the group are then empty.
/// AddPartitionsToTxn up to version 3 uses `results_by_topic_v3_and_below`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Response {
    /// Produce.
    Produce(ProduceResponse),
    /// Fetch.
    Fetch(FetchResponse),
    /// ListOffsets.
    ListOffsets(kp::ListOffsetsResponse),
    /// Metadata.
    Metadata(kp::MetadataResponse),
    /// OffsetCommit.
    OffsetCommit(kp::OffsetCommitResponse),
    /// OffsetFetch.
    OffsetFetch(kp::OffsetFetchResponse),
    /// FindCoordinator.
    FindCoordinator(kp::FindCoordinatorResponse),
    /// ApiVersions.
    ApiVersions(ApiVersionsResponse),
    /// CreateTopics.
    CreateTopics(kp::CreateTopicsResponse),
    /// DeleteTopics.
    DeleteTopics(kp::DeleteTopicsResponse),
    /// InitProducerId.
    InitProducerId(kp::InitProducerIdResponse),
    /// AddPartitionsToTxn.
    AddPartitionsToTxn(kp::AddPartitionsToTxnResponse),
    /// EndTxn.
    EndTxn(kp::EndTxnResponse),
    /// DescribeConfigs.
    DescribeConfigs(kp::DescribeConfigsResponse),
    /// DescribeTransactions.
    DescribeTransactions(kp::DescribeTransactionsResponse),
    /// ListTransactions.
    ListTransactions(kp::ListTransactionsResponse),
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
        })
    }
}

impl From<ProduceResponse> for Response {
    fn from(message: ProduceResponse) -> Self {
        Self::Produce(message)
    }
}

impl From<FetchResponse> for Response {
    fn from(message: FetchResponse) -> Self {
        Self::Fetch(message)
    }
}

impl From<kp::ListOffsetsResponse> for Response {
    fn from(message: kp::ListOffsetsResponse) -> Self {
        Self::ListOffsets(message)
    }
}

impl From<kp::MetadataResponse> for Response {
    fn from(message: kp::MetadataResponse) -> Self {
        Self::Metadata(message)
    }
}

impl From<kp::OffsetCommitResponse> for Response {
    fn from(message: kp::OffsetCommitResponse) -> Self {
        Self::OffsetCommit(message)
    }
}

impl From<kp::OffsetFetchResponse> for Response {
    fn from(message: kp::OffsetFetchResponse) -> Self {
        Self::OffsetFetch(message)
    }
}

impl From<kp::FindCoordinatorResponse> for Response {
    fn from(message: kp::FindCoordinatorResponse) -> Self {
        Self::FindCoordinator(message)
    }
}

impl From<ApiVersionsResponse> for Response {
    fn from(message: ApiVersionsResponse) -> Self {
        Self::ApiVersions(message)
    }
}

impl From<kp::CreateTopicsResponse> for Response {
    fn from(message: kp::CreateTopicsResponse) -> Self {
        Self::CreateTopics(message)
    }
}

impl From<kp::DeleteTopicsResponse> for Response {
    fn from(message: kp::DeleteTopicsResponse) -> Self {
        Self::DeleteTopics(message)
    }
}

impl From<kp::InitProducerIdResponse> for Response {
    fn from(message: kp::InitProducerIdResponse) -> Self {
        Self::InitProducerId(message)
    }
}

impl From<kp::AddPartitionsToTxnResponse> for Response {
    fn from(message: kp::AddPartitionsToTxnResponse) -> Self {
        Self::AddPartitionsToTxn(message)
    }
}

impl From<kp::EndTxnResponse> for Response {
    fn from(message: kp::EndTxnResponse) -> Self {
        Self::EndTxn(message)
    }
}

impl From<kp::DescribeConfigsResponse> for Response {
    fn from(message: kp::DescribeConfigsResponse) -> Self {
        Self::DescribeConfigs(message)
    }
}

impl From<kp::DescribeTransactionsResponse> for Response {
    fn from(message: kp::DescribeTransactionsResponse) -> Self {
        Self::DescribeTransactions(message)
    }
}

impl From<kp::ListTransactionsResponse> for Response {
    fn from(message: kp::ListTransactionsResponse) -> Self {
        Self::ListTransactions(message)
    }
}

/// Room for most control messages; the buffer grows for others.
const INITIAL_CAPACITY: usize = 256;
