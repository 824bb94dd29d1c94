//! ApiVersions: what the broker speaks (KIP-35, KIP-511, KIP-584). Schema versions 0 to 4.

use crate::error_code::ErrorCode;
use crate::messages::ApiKey;
use crate::wire::{EncodeError, ReadError, Reader, Writer};

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

impl ApiVersionsRequest {
    pub(super) fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        let flexible = is_flexible(version);
        if version >= 3 {
            writer.string(&self.client_software_name, flexible)?;
            writer.string(&self.client_software_version, flexible)?;
        }
        writer.no_tags(flexible);
        Ok(())
    }

    pub(super) fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let flexible = is_flexible(version);
        let mut request = Self::default();
        if version >= 3 {
            request.client_software_name = reader.string(flexible)?.to_owned();
            request.client_software_version = reader.string(flexible)?.to_owned();
        }
        reader.skip_tags(flexible)?;
        Ok(request)
    }
}

impl ApiVersionsResponse {
    pub(super) fn write(&self, version: i16, writer: &mut Writer) -> Result<(), EncodeError> {
        // KIP-511: the client that asked in a version unknown to us can read only version 0.
        let version = if self.error_code == ErrorCode::UNSUPPORTED_VERSION { 0 } else { version };
        let flexible = is_flexible(version);
        writer.i16(self.error_code.0);
        writer.array_length(Some(self.api_keys.len()), flexible)?;
        for api in &self.api_keys {
            writer.i16(api.api_key);
            writer.i16(api.min_version);
            writer.i16(api.max_version);
            writer.no_tags(flexible);
        }
        if version >= 1 {
            writer.i32(self.throttle_time_ms);
        }
        if flexible { self.write_tags(writer) } else { Ok(()) }
    }

    /// The tagged fields that differ from their defaults.
    fn write_tags(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        let supported = !self.supported_features.is_empty();
        let epoch = self.finalized_features_epoch != -1;
        let finalized = !self.finalized_features.is_empty();
        writer.unsigned_varint(u32::from(supported) + u32::from(epoch) + u32::from(finalized));
        if supported {
            writer.tagged(TAG_SUPPORTED_FEATURES, |writer| {
                writer.array_length(Some(self.supported_features.len()), true)?;
                for feature in &self.supported_features {
                    writer.string(&feature.name, true)?;
                    writer.i16(feature.min_version);
                    writer.i16(feature.max_version);
                    writer.no_tags(true);
                }
                Ok(())
            })?;
        }
        if epoch {
            writer.tagged(TAG_FINALIZED_FEATURES_EPOCH, |writer| {
                writer.i64(self.finalized_features_epoch);
                Ok(())
            })?;
        }
        if finalized {
            writer.tagged(TAG_FINALIZED_FEATURES, |writer| {
                writer.array_length(Some(self.finalized_features.len()), true)?;
                for feature in &self.finalized_features {
                    writer.string(&feature.name, true)?;
                    writer.i16(feature.max_version_level);
                    writer.i16(feature.min_version_level);
                    writer.no_tags(true);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    pub(super) fn read(reader: &mut Reader, version: i16) -> Result<Self, ReadError> {
        let error_code = ErrorCode(reader.i16()?);
        // KIP-511: a broker that does not know the version asked for answers in version 0.
        let version = if error_code == ErrorCode::UNSUPPORTED_VERSION { 0 } else { version };
        let flexible = is_flexible(version);
        let mut response = Self { error_code, ..Self::default() };
        response.api_keys = reader.elements(flexible, API_VERSION_BYTES, |reader| {
            let api = ApiVersion {
                api_key: reader.i16()?,
                min_version: reader.i16()?,
                max_version: reader.i16()?,
            };
            reader.skip_tags(flexible)?;
            Ok(api)
        })?;
        if version >= 1 {
            response.throttle_time_ms = reader.i32()?;
        }
        reader.tags(flexible, |reader, tag| response.read_tag(reader, tag))?;
        Ok(response)
    }

    fn read_tag(&mut self, reader: &mut Reader, tag: u32) -> Result<bool, ReadError> {
        match tag {
            TAG_SUPPORTED_FEATURES => {
                self.supported_features = reader.elements(true, FEATURE_BYTES, |reader| {
                    let feature = SupportedFeature {
                        name: reader.string(true)?.to_owned(),
                        min_version: reader.i16()?,
                        max_version: reader.i16()?,
                    };
                    reader.skip_tags(true)?;
                    Ok(feature)
                })?;
            }
            TAG_FINALIZED_FEATURES_EPOCH => self.finalized_features_epoch = reader.i64()?,
            TAG_FINALIZED_FEATURES => {
                self.finalized_features = reader.elements(true, FEATURE_BYTES, |reader| {
                    let feature = FinalizedFeature {
                        name: reader.string(true)?.to_owned(),
                        max_version_level: reader.i16()?,
                        min_version_level: reader.i16()?,
                    };
                    reader.skip_tags(true)?;
                    Ok(feature)
                })?;
            }
            // Among them 3, zk_migration_ready, which only controllers read.
            _ => return Ok(false),
        }
        Ok(true)
    }
}

const fn is_flexible(version: i16) -> bool {
    ApiKey::ApiVersions.is_flexible(version)
}

const TAG_SUPPORTED_FEATURES: u32 = 0;
const TAG_FINALIZED_FEATURES_EPOCH: u32 = 1;
const TAG_FINALIZED_FEATURES: u32 = 2;

/// Smallest size of an element on the wire, over all versions.
const API_VERSION_BYTES: usize = 6;
const FEATURE_BYTES: usize = 6;
