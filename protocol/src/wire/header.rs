//! Request and response headers.

use bytes::Bytes;

use crate::messages::ApiKey;
use crate::wire::{Direction, EncodeError, ReadError, ReadProblem, Reader, WireError, Writer};

/// Header of a request, versions 1 and 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api_key: ApiKey,
    /// Its version.
    pub api_version: i16,
    /// Copied into the response; per connection, strictly increasing.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<String>,
}

impl RequestHeader {
    /// Reads a header and leaves `reader` at the body.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownApiKey`] and [`WireError::UnsupportedVersion`] for what this crate does not speak, both
    /// with the correlation id that an answer needs; [`WireError::MalformedHeader`] for a cut or malformed header.
    pub fn decode(reader: &mut Reader) -> Result<Self, WireError> {
        let malformed =
            |source| WireError::MalformedHeader { direction: Direction::Request, source };
        let key = reader.i16().map_err(malformed)?;
        let api_version = reader.i16().map_err(malformed)?;
        let correlation_id = reader.i32().map_err(malformed)?;
        let Some(api_key) = ApiKey::from_code(key) else {
            return Err(WireError::UnknownApiKey { api_key: key, api_version, correlation_id });
        };
        if !api_key.codec_versions().contains(&api_version) {
            return Err(WireError::UnsupportedVersion {
                api_key,
                version: api_version,
                correlation_id,
            });
        }
        // The client id keeps its 16 bit length also in header version 2.
        let client_id = reader.nullable_string(false).map_err(malformed)?.map(str::to_owned);
        reader.skip_tags(api_key.is_flexible(api_version)).map_err(malformed)?;
        Ok(Self { api_key, api_version, correlation_id, client_id })
    }

    pub(crate) fn write(
        api_key: ApiKey,
        version: i16,
        correlation_id: i32,
        client_id: Option<&str>,
        writer: &mut Writer,
    ) -> Result<(), EncodeError> {
        writer.i16(api_key.code());
        writer.i16(version);
        writer.i32(correlation_id);
        writer.nullable_string(client_id, false)?;
        writer.no_tags(api_key.is_flexible(version));
        Ok(())
    }
}

/// Header of a response, versions 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The request's.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// The correlation id alone, which every header version starts with: what a client needs to find the request a
    /// frame answers, and so the API and version to decode it by.
    ///
    /// # Errors
    ///
    /// [`WireError::MalformedHeader`] if the frame is shorter than four bytes.
    pub fn peek_correlation_id(frame: &Bytes) -> Result<i32, WireError> {
        match frame.first_chunk::<4>() {
            Some(bytes) => Ok(i32::from_be_bytes(*bytes)),
            None => Err(WireError::MalformedHeader {
                direction: Direction::Response,
                source: ReadError::new(
                    0,
                    ReadProblem::Truncated { needed: 4, remaining: frame.len() },
                ),
            }),
        }
    }

    /// Splits a response frame (without its size) into header and body.
    ///
    /// # Errors
    ///
    /// [`WireError::MalformedHeader`] for a cut or malformed header.
    pub fn decode(api_key: ApiKey, version: i16, frame: Bytes) -> Result<(Self, Bytes), WireError> {
        let malformed =
            |source| WireError::MalformedHeader { direction: Direction::Response, source };
        let mut reader = Reader::new(frame);
        let correlation_id = reader.i32().map_err(malformed)?;
        reader.skip_tags(api_key.response_header_version(version) == 1).map_err(malformed)?;
        Ok((Self { correlation_id }, reader.into_rest()))
    }

    pub(crate) fn write(self, api_key: ApiKey, version: i16, writer: &mut Writer) {
        writer.i32(self.correlation_id);
        writer.no_tags(api_key.response_header_version(version) == 1);
    }
}
