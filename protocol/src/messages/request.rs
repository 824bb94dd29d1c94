//! Every request as one enum, and its way to and from the wire.

use bytes::Bytes;

use crate::messages::control::{Body, read_own};
use crate::messages::shape;
use crate::messages::{ApiKey, ApiVersionsRequest, FetchRequest, ProduceRequest, kp};
use crate::wire::{Direction, EncodeError, EncodedFrame, Reader, RequestHeader, WireError, Writer};

/// A request of any API we speak.
///
/// Three APIs changed their shape between versions. Their requests may be filled in the newer shape alone, whatever the
/// version they are then encoded in: FindCoordinator with `coordinator_keys`, OffsetFetch with `groups`, DeleteTopics
/// with `topics`. The first two, decoded from an older version, have both shapes filled. AddPartitionsToTxn is the
/// exception, as its newer shape is not for clients: versions up to 3 use the `v3_and_below_*` fields.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// Produce.
    Produce(ProduceRequest),
    /// Fetch.
    Fetch(FetchRequest),
    /// ListOffsets.
    ListOffsets(kp::ListOffsetsRequest),
    /// Metadata.
    Metadata(kp::MetadataRequest),
    /// OffsetCommit.
    OffsetCommit(kp::OffsetCommitRequest),
    /// OffsetFetch.
    OffsetFetch(kp::OffsetFetchRequest),
    /// FindCoordinator.
    FindCoordinator(kp::FindCoordinatorRequest),
    /// ApiVersions.
    ApiVersions(ApiVersionsRequest),
    /// CreateTopics.
    CreateTopics(kp::CreateTopicsRequest),
    /// DeleteTopics.
    DeleteTopics(kp::DeleteTopicsRequest),
    /// InitProducerId.
    InitProducerId(kp::InitProducerIdRequest),
    /// AddPartitionsToTxn.
    AddPartitionsToTxn(kp::AddPartitionsToTxnRequest),
    /// EndTxn.
    EndTxn(kp::EndTxnRequest),
    /// DescribeConfigs.
    DescribeConfigs(kp::DescribeConfigsRequest),
    /// DescribeTransactions.
    DescribeTransactions(kp::DescribeTransactionsRequest),
    /// ListTransactions.
    ListTransactions(kp::ListTransactionsRequest),
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
        })
    }
}

impl From<ProduceRequest> for Request {
    fn from(message: ProduceRequest) -> Self {
        Self::Produce(message)
    }
}

impl From<FetchRequest> for Request {
    fn from(message: FetchRequest) -> Self {
        Self::Fetch(message)
    }
}

impl From<kp::ListOffsetsRequest> for Request {
    fn from(message: kp::ListOffsetsRequest) -> Self {
        Self::ListOffsets(message)
    }
}

impl From<kp::MetadataRequest> for Request {
    fn from(message: kp::MetadataRequest) -> Self {
        Self::Metadata(message)
    }
}

impl From<kp::OffsetCommitRequest> for Request {
    fn from(message: kp::OffsetCommitRequest) -> Self {
        Self::OffsetCommit(message)
    }
}

impl From<kp::OffsetFetchRequest> for Request {
    fn from(message: kp::OffsetFetchRequest) -> Self {
        Self::OffsetFetch(message)
    }
}

impl From<kp::FindCoordinatorRequest> for Request {
    fn from(message: kp::FindCoordinatorRequest) -> Self {
        Self::FindCoordinator(message)
    }
}

impl From<ApiVersionsRequest> for Request {
    fn from(message: ApiVersionsRequest) -> Self {
        Self::ApiVersions(message)
    }
}

impl From<kp::CreateTopicsRequest> for Request {
    fn from(message: kp::CreateTopicsRequest) -> Self {
        Self::CreateTopics(message)
    }
}

impl From<kp::DeleteTopicsRequest> for Request {
    fn from(message: kp::DeleteTopicsRequest) -> Self {
        Self::DeleteTopics(message)
    }
}

impl From<kp::InitProducerIdRequest> for Request {
    fn from(message: kp::InitProducerIdRequest) -> Self {
        Self::InitProducerId(message)
    }
}

impl From<kp::AddPartitionsToTxnRequest> for Request {
    fn from(message: kp::AddPartitionsToTxnRequest) -> Self {
        Self::AddPartitionsToTxn(message)
    }
}

impl From<kp::EndTxnRequest> for Request {
    fn from(message: kp::EndTxnRequest) -> Self {
        Self::EndTxn(message)
    }
}

impl From<kp::DescribeConfigsRequest> for Request {
    fn from(message: kp::DescribeConfigsRequest) -> Self {
        Self::DescribeConfigs(message)
    }
}

impl From<kp::DescribeTransactionsRequest> for Request {
    fn from(message: kp::DescribeTransactionsRequest) -> Self {
        Self::DescribeTransactions(message)
    }
}

impl From<kp::ListTransactionsRequest> for Request {
    fn from(message: kp::ListTransactionsRequest) -> Self {
        Self::ListTransactions(message)
    }
}

/// Room for most control messages; the buffer grows for others.
const INITIAL_CAPACITY: usize = 256;
