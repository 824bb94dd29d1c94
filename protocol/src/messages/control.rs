//! Bodies of the messages whose structs are `kafka_protocol`'s: guard, decode, and errors of our own.

use bytes::Bytes;
use kafka_protocol::protocol::{Decodable, Encodable};

use crate::guard;
use crate::messages::ApiKey;
use crate::wire::{Direction, EncodeError, ReadError, Reader, WireError, Writer};

/// Which body is meant, for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub(super) api_key: ApiKey,
    pub(super) direction: Direction,
    pub(super) version: i16,
}

impl Body {
    /// Writes `message`. It may have written a part when it fails; the caller drops the frame then.
    pub(super) fn write<M: Encodable>(
        self,
        message: &M,
        writer: &mut Writer,
    ) -> Result<(), EncodeError> {
        message
            .encode(writer.buffer_mut(), self.version)
            .map_err(|error| self.not_in_version(error.to_string()))
    }

    /// Reads a message that fills `body` exactly, after the guard has let it through.
    pub(super) fn read<M: Decodable>(self, body: Bytes) -> Result<M, WireError> {
        let mut checked = guard::check(self.api_key, self.direction, self.version, body)
            .map_err(|source| self.malformed(source))?;
        let message = M::decode(&mut checked, self.version)
            .map_err(|error| self.invalid(format!("{error:#}")))?;
        if checked.is_empty() {
            Ok(message)
        } else {
            // The guard's table and the decoder disagree about the schema.
            Err(self.invalid(format!("{} bytes not decoded", checked.len())))
        }
    }

    pub(super) fn not_in_version(self, reason: impl Into<String>) -> EncodeError {
        EncodeError::not_in_version(self.api_key, self.direction, self.version, reason)
    }

    pub(super) fn malformed(self, source: ReadError) -> WireError {
        let Self { api_key, direction, version } = self;
        WireError::MalformedBody { api_key, version, direction, source }
    }

    fn invalid(self, reason: String) -> WireError {
        let Self { api_key, direction, version } = self;
        WireError::InvalidBody { api_key, version, direction, reason }
    }
}

/// Reads a message of our own codecs that fills `bytes` exactly.
pub(super) fn read_own<M>(
    body: Body,
    bytes: Bytes,
    read: impl FnOnce(&mut Reader, i16) -> Result<M, ReadError>,
) -> Result<M, WireError> {
    let mut reader = Reader::new(bytes);
    let message = read(&mut reader, body.version).map_err(|source| body.malformed(source))?;
    reader.finish().map_err(|source| body.malformed(source))?;
    Ok(message)
}
