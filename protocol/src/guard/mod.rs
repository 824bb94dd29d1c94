//! The structural guard: walks a body along its schema before a decoder that trusts lengths sees it.
//!
//! The decoder of crate `kafka_protocol` reserves memory for as many elements as a length field claims; a body of 20
//! bytes can so ask for hundreds of gigabytes and abort the process. The guard proves first that every length and
//! count is backed by bytes that are really there, that the body ends where its schema ends, and that tagged fields
//! fill exactly their declared size. What it lets through can make the decoder allocate only a small multiple of the
//! body's size: each element the decoder makes room for has been seen.
//!
//! Tagged fields the schema does not know are cut out of what the decoder sees. They carry nothing we could use, and
//! the decoder would keep a tree node for each.
//!
//! Nulls, text encoding and values are left to the decoder: they cost no memory.

mod schema;
mod tables;

use bytes::{Bytes, BytesMut};

use self::schema::{Field, Kind};
use crate::messages::ApiKey;
use crate::wire::{Direction, ReadError, ReadProblem, Reader};

/// Checks `body` against the schema of the API. The result is the body, without unknown tagged fields.
///
/// APIs whose codecs are our own (Produce, Fetch, ApiVersions) have no schema here and pass unseen: their decoders
/// make the same checks themselves.
///
/// # Errors
///
/// [`ReadError`] naming the place and the field.
pub fn check(
    api_key: ApiKey,
    direction: Direction,
    version: i16,
    body: Bytes,
) -> Result<Bytes, ReadError> {
    let Some(fields) = tables::schema(api_key, direction) else { return Ok(body) };
    let mut walk = Walk {
        reader: Reader::new(body.clone()),
        version,
        flexible: api_key.is_flexible(version),
        kept: BytesMut::new(),
        kept_until: 0,
    };
    walk.structure(fields)?;
    walk.reader.finish()?;
    Ok(walk.into_checked(body))
}

struct Walk {
    reader: Reader,
    version: i16,
    flexible: bool,
    /// The body rewritten without unknown tags, up to `kept_until`; empty while none was met.
    kept: BytesMut,
    kept_until: usize,
}

impl Walk {
    fn structure(&mut self, fields: &[Field]) -> Result<(), ReadError> {
        let version = self.version;
        for field in fields.iter().filter(|field| field.is_plain(version)) {
            self.value(field.kind).map_err(|error| error.in_field(field.name))?;
        }
        if self.flexible { self.tags(fields) } else { Ok(()) }
    }

    fn value(&mut self, kind: Kind) -> Result<(), ReadError> {
        match kind {
            Kind::Fixed(bytes) => self.reader.skip(bytes),
            Kind::Text => match self.reader.string_length(self.flexible)? {
                Some(bytes) => self.reader.skip(bytes),
                None => Ok(()),
            },
            Kind::Array(element) => {
                let smallest = element.smallest_size(self.version, self.flexible);
                let count = self.reader.nullable_array_length(self.flexible, smallest)?;
                if let Kind::Fixed(bytes) = *element {
                    // The count fits the remaining bytes, so the product cannot overflow.
                    return self.reader.skip(count.unwrap_or_default() * bytes);
                }
                for _ in 0..count.unwrap_or_default() {
                    self.value(*element)?;
                }
                Ok(())
            }
            Kind::Bytes => self.reader.nullable_bytes(self.flexible).map(drop),
            Kind::Struct(fields) => self.structure(fields),
            Kind::Nullable(fields) => match self.reader.i8()? {
                -1 => Ok(()),
                1 => self.structure(fields),
                // The decoder would take any other for null, and go on in the middle of what was meant.
                other => Err(self.reader.error(ReadProblem::InvalidValue(i64::from(other)))),
            },
        }
    }

    fn tags(&mut self, fields: &[Field]) -> Result<(), ReadError> {
        let section = self.reader.position();
        let mut known = Vec::new();
        let mut unknown_met = false;
        let count = self.reader.unsigned_varint()?;
        let mut next_tag = 0;
        for _ in 0..count {
            let start = self.reader.position();
            let (tag, size) = self.reader.tag_header(&mut next_tag)?;
            let value = self.reader.position();
            match fields.iter().find(|field| field.is_tagged(tag, self.version)) {
                Some(field) => {
                    self.value(field.kind).map_err(|error| error.in_field(field.name))?;
                    let read = self.reader.position() - value;
                    if read != size {
                        let problem = ReadProblem::TaggedFieldSize { tag, declared: size, read };
                        return Err(self.reader.error(problem).in_field(field.name));
                    }
                    known.push((start, self.reader.position()));
                }
                None => {
                    unknown_met = true;
                    self.reader.skip(size)?;
                }
            }
        }
        if unknown_met {
            self.keep_until(section);
            // Every schema has fewer known tags than a one-byte varint can count.
            self.kept.extend_from_slice(&[u8::try_from(known.len()).unwrap_or(u8::MAX)]);
            for (start, end) in known {
                self.kept.extend_from_slice(self.reader.passed(start, end));
            }
            self.kept_until = self.reader.position();
        }
        Ok(())
    }

    fn keep_until(&mut self, position: usize) {
        if self.kept.is_empty() {
            self.kept.reserve(self.reader.position() + self.reader.remaining());
        }
        self.kept.extend_from_slice(self.reader.passed(self.kept_until, position));
        self.kept_until = position;
    }

    fn into_checked(mut self, body: Bytes) -> Bytes {
        if self.kept_until == 0 {
            return body;
        }
        self.keep_until(self.reader.position());
        self.kept.freeze()
    }
}

#[cfg(test)]
mod tests;
