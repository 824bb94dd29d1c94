//! Every response as one enum, and its way to and from the wire.

use bytes::Bytes;

use crate::messages::{ApiKey, ApiVersionsResponse, FetchResponse, ProduceResponse, kp};
use crate::wire::{EncodeError, EncodedFrame, WireError};

/// A response of any API we speak.
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
        let _ = correlation_id;
        Err(EncodeError::UnsupportedVersion { api_key: self.api_key(), version })
    }

    /// Reads the body of a response; `body` starts after the response header
    /// ([`ResponseHeader::decode`](crate::wire::ResponseHeader::decode)).
    ///
    /// # Errors
    ///
    /// [`WireError`] for anything but exactly one well-formed message.
    pub fn decode(api_key: ApiKey, version: i16, body: Bytes) -> Result<Self, WireError> {
        let _ = body;
        Err(WireError::UnsupportedVersion { api_key, version, correlation_id: 0 })
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
