//! What can be wrong with a batch.

use thiserror::Error;

use super::compression::{Compression, DecompressError};

/// A record batch could not be read or written.
///
/// Sizes are in bytes and include the 61 bytes of header; `base_offset` is what the batch claims.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordsError {
    /// The answer holds bytes but not one whole batch. Brokers return at least one (KIP-74).
    #[error("{available_bytes} bytes hold no complete batch (the first needs {needed_bytes})")]
    NoCompleteBatch {
        /// Bytes at hand.
        available_bytes: usize,
        /// Bytes the first batch claims; the bare minimum if its length field is cut off too.
        needed_bytes: usize,
    },
    /// A batch ends before its own length field says so.
    #[error(
        "batch at offset {base_offset} is cut: {available_bytes} of {batch_bytes} bytes present"
    )]
    Truncated {
        /// Base offset of the batch, -1 if not even that is present.
        base_offset: i64,
        /// Size the batch claims.
        batch_bytes: usize,
        /// Bytes at hand.
        available_bytes: usize,
    },
    /// The length field cannot be right: below the size of a header, or negative.
    #[error("batch at offset {base_offset} claims an impossible length of {batch_length}")]
    InvalidLength {
        /// Base offset of the batch.
        base_offset: i64,
        /// Value of the length field.
        batch_length: i32,
    },
    /// Bytes follow a batch where exactly one batch was expected.
    #[error("{extra_bytes} bytes follow the batch at offset {base_offset} ({batch_bytes} bytes)")]
    TrailingBytes {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// Bytes after it.
        extra_bytes: usize,
    },
    /// Message format 0 or 1, where only format 2 may be: nobody writes the others any more (KIP-724).
    #[error("offset {offset} is in legacy message format {magic}, which is only read")]
    LegacyMessageFormat {
        /// Offset of the first message in that format.
        offset: i64,
        /// The format's version: 0 or 1.
        magic: i8,
    },
    /// A message of format 0 or 1 (KIP-724) that no writer can have made.
    #[error(
        "message at offset {offset} ({message_bytes} bytes, legacy format {magic}) is corrupt: {reason}"
    )]
    InvalidLegacyMessage {
        /// Its offset field; that of the last record if it is compressed.
        offset: i64,
        /// The format's version: 0 or 1.
        magic: i8,
        /// Its size.
        message_bytes: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// A format version nobody has defined: damaged bytes, or a broker from the future.
    #[error("batch at offset {base_offset} ({batch_bytes} bytes) has unknown magic {magic}")]
    UnknownMagic {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size the batch claims.
        batch_bytes: usize,
        /// The magic byte.
        magic: i8,
    },
    /// The checksum does not match: the bytes were damaged on disk or on the way.
    #[error(
        "batch at offset {base_offset} ({batch_bytes} bytes) is corrupt: CRC-32C is \
         {computed:#010x}, the header says {stored:#010x}"
    )]
    CrcMismatch {
        /// Base offset of the batch (outside the checksum).
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// The header's checksum.
        stored: u32,
        /// Checksum of the bytes at hand.
        computed: u32,
    },
    /// A header field has a value no writer may produce.
    #[error("batch at offset {base_offset} ({batch_bytes} bytes) has {field} {value}")]
    InvalidHeader {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// Name of the field in Kafka's schema, in snake_case.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// The attributes name a codec that does not exist: ids 5 to 7.
    #[error("batch at offset {base_offset} ({batch_bytes} bytes) has unknown codec id {codec}")]
    UnknownCodec {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// The codec id.
        codec: u8,
    },
    /// The compressed records cannot be decoded, or exceed the cap.
    #[error("batch at offset {base_offset} ({batch_bytes} bytes, {codec}) cannot be decompressed")]
    Decompress {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// Its codec.
        codec: Compression,
        /// What the codec found.
        source: DecompressError,
    },
    /// More records are claimed than the bytes can hold.
    #[error(
        "batch at offset {base_offset} ({batch_bytes} bytes) claims {record_count} records in \
         {records_bytes} bytes"
    )]
    InvalidRecordCount {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// Value of the count field.
        record_count: i32,
        /// Bytes of records after decompression.
        records_bytes: usize,
    },
    /// A record inside the batch breaks the format although the checksum fits: a bad writer.
    #[error(
        "record {index} of the batch at offset {base_offset} ({batch_bytes} bytes, {codec}) is \
         malformed: {reason}"
    )]
    InvalidRecord {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// Its codec.
        codec: Compression,
        /// Position of the record in the batch, from 0.
        index: i32,
        /// What is wrong.
        reason: &'static str,
    },
    /// A control batch without a readable control record.
    #[error("control batch at offset {base_offset} ({batch_bytes} bytes) is malformed: {reason}")]
    InvalidControlRecord {
        /// Base offset of the batch.
        base_offset: i64,
        /// Size of the batch.
        batch_bytes: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// Kafka stores no negative timestamps but -1, "none".
    #[error("timestamp {timestamp} is negative and not -1")]
    InvalidTimestamp {
        /// The timestamp, milliseconds since the Unix epoch.
        timestamp: i64,
    },
    /// A record, or a batch of it, whose size does not fit the format's 31-bit lengths.
    #[error("a record of {record_bytes} bytes does not fit in a batch")]
    RecordTooLarge {
        /// Size of the record.
        record_bytes: usize,
    },
    /// A codec refused to compress: out of memory, or a level it does not have.
    #[error("cannot compress {records_bytes} bytes of records with {codec}: {reason}")]
    Compress {
        /// The codec.
        codec: Compression,
        /// Bytes to compress.
        records_bytes: usize,
        /// What the codec said.
        reason: String,
    },
}

impl RecordsError {
    /// Whether the bytes may have been damaged on the way, so that fetching them again, perhaps
    /// from another replica, can help. If false, the same bytes will come back.
    #[must_use]
    pub const fn is_refetch_useful(&self) -> bool {
        matches!(
            self,
            Self::NoCompleteBatch { .. }
                | Self::Truncated { .. }
                | Self::InvalidLength { .. }
                | Self::UnknownMagic { .. }
                | Self::CrcMismatch { .. }
        )
    }
}
