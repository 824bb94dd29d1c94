//! What can be wrong with bytes from a peer, and with a message we are asked to write.

use std::fmt;

use thiserror::Error;

use crate::messages::ApiKey;

/// Which half of an API a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Client to broker.
    Request,
    /// Broker to client.
    Response,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Response => "response",
        })
    }
}

/// A frame from a peer could not be read. The connection that carried it must be closed: its stream can no longer
/// be trusted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// A request names an API we do not speak.
    #[error("unknown api key {api_key} (version {api_version})")]
    UnknownApiKey {
        /// The key as sent.
        api_key: i16,
        /// The version as sent.
        api_version: i16,
        /// Correlation id of the request, so that a broker can still answer.
        correlation_id: i32,
    },
    /// A version outside [`ApiKey::codec_versions`].
    #[error("{api_key} version {version} is not supported")]
    UnsupportedVersion {
        /// The API.
        api_key: ApiKey,
        /// The version as sent.
        version: i16,
        /// Correlation id of the request, so that a broker can still answer; 0 for a response.
        correlation_id: i32,
    },
    /// The header is cut or malformed.
    #[error("malformed {direction} header")]
    MalformedHeader {
        /// Whose header.
        direction: Direction,
        /// What is wrong.
        source: ReadError,
    },
    /// The body does not have the shape of its schema.
    #[error("malformed {api_key} {direction} (version {version})")]
    MalformedBody {
        /// The API.
        api_key: ApiKey,
        /// The version.
        version: i16,
        /// Request or response.
        direction: Direction,
        /// What is wrong, and where.
        source: ReadError,
    },
    /// The body has the right shape but holds a value its schema does not allow (a null, bytes that are not UTF-8).
    #[error("invalid {api_key} {direction} (version {version}): {reason}")]
    InvalidBody {
        /// The API.
        api_key: ApiKey,
        /// The version.
        version: i16,
        /// Request or response.
        direction: Direction,
        /// The decoder's words.
        reason: String,
    },
}

/// Where and why reading stopped.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{problem} at byte {position}{}", in_words(.field))]
pub struct ReadError {
    /// Byte position, counted from the start of what was read (header or body).
    pub position: usize,
    /// Kafka's name of the field, where the reader knows it.
    pub field: Option<&'static str>,
    /// What was found there.
    pub problem: ReadProblem,
}

impl ReadError {
    /// `problem` at byte `position`, in a field not named.
    #[must_use]
    pub const fn new(position: usize, problem: ReadProblem) -> Self {
        Self { position, field: None, problem }
    }

    /// The same in field `name`, unless an inner field has been named already.
    #[must_use]
    pub fn in_field(mut self, name: &'static str) -> Self {
        self.field.get_or_insert(name);
        self
    }
}

fn in_words(field: &Option<&'static str>) -> String {
    field.map_or_else(String::new, |name| format!(", in field {name}"))
}

/// What a reader may stumble over.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadProblem {
    /// The bytes end inside a value.
    #[error("{needed} bytes needed, {remaining} left")]
    Truncated {
        /// Bytes the value claims.
        needed: u64,
        /// Bytes that are left.
        remaining: usize,
    },
    /// A length or count below zero that does not mean null.
    #[error("negative length {0}")]
    NegativeLength(i64),
    /// An array claims more elements than the remaining bytes can hold.
    #[error("{count} elements claimed, {remaining} bytes left")]
    TooManyElements {
        /// Elements claimed.
        count: u64,
        /// Bytes that are left.
        remaining: usize,
    },
    /// A varint that does not fit 32 bits, or does not end within five bytes.
    #[error("over-long varint")]
    OverlongVarint,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// A null where the schema allows none.
    #[error("unexpected null")]
    UnexpectedNull,
    /// Tags must ascend and appear once (KIP-482).
    #[error("tag {0} out of order")]
    TagOutOfOrder(u32),
    /// A tagged field we know is shorter or longer than its declared size.
    #[error("tagged field {tag} declares {declared} bytes and has {read}")]
    TaggedFieldSize {
        /// The tag.
        tag: u32,
        /// Its declared size.
        declared: usize,
        /// The size of its value.
        read: usize,
    },
    /// A value outside its small set (isolation level, presence byte).
    #[error("invalid value {0}")]
    InvalidValue(i64),
    /// Bytes after the end of the message.
    #[error("{0} bytes left over after the message")]
    LeftoverBytes(usize),
}

/// A message could not be written in the version asked for. Nothing was sent.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A version outside [`ApiKey::codec_versions`].
    #[error("{api_key} version {version} cannot be encoded")]
    UnsupportedVersion {
        /// The API.
        api_key: ApiKey,
        /// The version asked for.
        version: i16,
    },
    /// A field is set that this version cannot carry, or a required one is missing.
    #[error("{api_key} {direction} cannot be expressed in version {version}: {reason}")]
    NotInVersion {
        /// The API.
        api_key: ApiKey,
        /// The version asked for.
        version: i16,
        /// Request or response.
        direction: Direction,
        /// Which field, as far as known.
        reason: String,
    },
    /// A string, an array or the frame is longer than its length field can say.
    #[error("{bytes} bytes do not fit their length field")]
    TooLarge {
        /// The length that does not fit.
        bytes: usize,
    },
}

impl EncodeError {
    pub(crate) fn not_in_version(
        api_key: ApiKey,
        direction: Direction,
        version: i16,
        reason: impl Into<String>,
    ) -> Self {
        Self::NotInVersion { api_key, version, direction, reason: reason.into() }
    }
}
