//! Every request as one enum, and its way to and from the wire.

use bytes::Bytes;

use crate::messages::{ApiKey, ApiVersionsRequest, FetchRequest, ProduceRequest, kp};
use crate::wire::{EncodeError, EncodedFrame, RequestHeader, WireError};

/// A request of any API we speak.
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
        let _ = (correlation_id, client_id);
        Err(EncodeError::UnsupportedVersion { api_key: self.api_key(), version })
    }

    /// Reads a request frame (without its size), as a broker does.
    ///
    /// # Errors
    ///
    /// [`WireError`]; [`WireError::UnsupportedVersion`] and [`WireError::UnknownApiKey`] carry what an answer needs.
    pub fn decode(frame: Bytes) -> Result<(RequestHeader, Self), WireError> {
        let _ = frame;
        Err(WireError::UnknownApiKey { api_key: 0, api_version: 0, correlation_id: 0 })
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
