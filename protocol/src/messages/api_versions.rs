//! ApiVersions: what the broker speaks (KIP-35, KIP-511, KIP-584). Schema versions 0 to 4.

use crate::error_code::ErrorCode;

/// ApiVersions request, versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiVersionsRequest {
    /// Version 3+. Must match `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`, or the broker answers INVALID_REQUEST.
    pub client_software_name: String,
    /// Version 3+. Same alphabet as the name.
    pub client_software_version: String,
}

/// One API a broker speaks. The key stays a number: brokers speak more APIs than we do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiVersion {
    /// API key.
    pub api_key: i16,
    /// Lowest version, inclusive.
    pub min_version: i16,
    /// Highest version, inclusive.
    pub max_version: i16,
}

/// A feature the broker supports (KIP-584).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SupportedFeature {
    /// Feature name, as `transaction.version`.
    pub name: String,
    /// Lowest level, inclusive.
    pub min_version: i16,
    /// Highest level, inclusive.
    pub max_version: i16,
}

/// A feature level the whole cluster has agreed on (KIP-584).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalizedFeature {
    /// Feature name, as `transaction.version`.
    pub name: String,
    /// Highest finalized level.
    pub max_version_level: i16,
    /// Lowest finalized level.
    pub min_version_level: i16,
}

/// ApiVersions response, versions 0 to 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiVersionsResponse {
    /// UNSUPPORTED_VERSION if the request's version is unknown; the body is then in the format of version 0.
    pub error_code: ErrorCode,
    /// The APIs of the broker.
    pub api_keys: Vec<ApiVersion>,
    /// Version 1+. Milliseconds the request was throttled.
    pub throttle_time_ms: i32,
    /// Version 3+.
    pub supported_features: Vec<SupportedFeature>,
    /// Version 3+. Epoch of `finalized_features`; -1 if unknown.
    pub finalized_features_epoch: i64,
    /// Version 3+. Meaningful only if `finalized_features_epoch` is not -1.
    pub finalized_features: Vec<FinalizedFeature>,
}

impl Default for ApiVersionsResponse {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            api_keys: Vec::new(),
            throttle_time_ms: 0,
            supported_features: Vec::new(),
            finalized_features_epoch: -1,
            finalized_features: Vec::new(),
        }
    }
}
