//! The tables against the decoder they protect, and hostile bodies made from them.
//!
//! Bodies are generated from the tables, so a table that disagrees with the decoder shows at once: either the decoder
//! refuses the body, or encoding what it read does not give the same bytes.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;

use super::schema::{Field, Kind};
use super::tables;
use crate::messages::{ApiKey, Request, Response};
use crate::wire::{Direction, ReadProblem, WireError};

/// Every API with a table, direction and version.
fn guarded() -> impl Iterator<Item = (ApiKey, Direction, i16, &'static [Field])> {
    ApiKey::ALL.into_iter().flat_map(|api| {
        [Direction::Request, Direction::Response].into_iter().flat_map(move |direction| {
            let fields = tables::schema(api, direction);
            fields.into_iter().flat_map(move |fields| {
                api.codec_versions().map(move |version| (api, direction, version, fields))
            })
        })
    })
}

/// A decoded message of either direction.
#[derive(Debug, PartialEq)]
enum Decoded {
    Request(Request),
    Response(Response),
}

fn decode(
    api: ApiKey,
    direction: Direction,
    version: i16,
    body: &[u8],
) -> Result<Decoded, WireError> {
    match direction {
        Direction::Response => {
            Response::decode(api, version, Bytes::copy_from_slice(body)).map(Decoded::Response)
        }
        Direction::Request => {
            let mut frame = BytesMut::new();
            frame.put_i16(api.code());
            frame.put_i16(version);
            frame.put_i32(7);
            frame.put_i16(-1);
            if api.is_flexible(version) {
                frame.put_u8(0);
            }
            frame.put_slice(body);
            Request::decode(frame.freeze()).map(|(_, request)| Decoded::Request(request))
        }
    }
}

impl Decoded {
    fn encoded_body(&self, version: i16) -> Bytes {
        let (frame, header) = match self {
            Self::Request(request) => {
                let header = 4 + 8 + 2 + 1 + usize::from(request.api_key().is_flexible(version));
                (request.encode(version, 7, "c").expect("it was decoded in this version"), header)
            }
            Self::Response(response) => {
                let api = response.api_key();
                let header = 8 + usize::from(api.response_header_version(version) == 1);
                (response.encode(version, 7).expect("it was decoded in this version"), header)
            }
        };
        frame.to_bytes().slice(header..)
    }
}

/// Writes random bodies along a schema and remembers where the lengths are.
struct Generator {
    state: u64,
    version: i16,
    flexible: bool,
    unknown_tags: bool,
    body: Vec<u8>,
    /// Position and size of every length field.
    lengths: Vec<(usize, usize)>,
}

impl Generator {
    fn body(
        api: ApiKey,
        version: i16,
        fields: &[Field],
        seed: u64,
        unknown_tags: bool,
    ) -> (Vec<u8>, Vec<(usize, usize)>) {
        let mut generator = Self {
            state: seed,
            version,
            flexible: api.is_flexible(version),
            unknown_tags,
            body: Vec::new(),
            lengths: Vec::new(),
        };
        generator.structure(fields);
        (generator.body, generator.lengths)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn structure(&mut self, fields: &[Field]) {
        for field in
            fields.iter().filter(|field| field.is_plain(self.version)).copied().collect::<Vec<_>>()
        {
            self.value(field.kind);
        }
        if !self.flexible {
            return;
        }
        let known = fields.iter().find(|field| field.is_tagged(0, self.version));
        let known = known.filter(|_| self.next().is_multiple_of(2));
        let unknown = self.unknown_tags && self.next().is_multiple_of(2);
        self.body.push(u8::from(known.is_some()) + 2 * u8::from(unknown));
        if let Some(field) = known {
            let Kind::Fixed(bytes) = field.kind else { panic!("only fixed sizes are tagged") };
            self.body.extend([0, u8::try_from(bytes).expect("small")]);
            self.body.extend(std::iter::repeat_n(9, bytes));
        }
        if unknown {
            self.body.extend([100, 3, 0xff, 0xff, 0xff, 101, 0]);
        }
    }

    fn value(&mut self, kind: Kind) {
        match kind {
            // One byte may be a boolean, which is written back as 0 or 1.
            Kind::Fixed(1) => {
                let bit = u8::from(self.next().is_multiple_of(2));
                self.body.push(bit);
            }
            Kind::Fixed(bytes) => {
                for _ in 0..bytes {
                    let byte = self.next().to_le_bytes()[0];
                    self.body.push(byte);
                }
            }
            Kind::Text => {
                let text = ["", "a", "flights", "\u{e9}t\u{e9}"][self.next() as usize % 4];
                self.length(text.len(), 2);
                self.body.extend(text.as_bytes());
            }
            Kind::Array(element) => {
                let count = self.next() as usize % 4;
                self.length(count, 4);
                for _ in 0..count {
                    self.value(*element);
                }
            }
            Kind::Bytes => {
                let count = self.next() as usize % 4;
                self.length(count, 4);
                self.body.extend([0, 0xff, 1].iter().cycle().take(count));
            }
            Kind::Struct(fields) => self.structure(fields),
            Kind::Nullable(fields) => {
                if self.next().is_multiple_of(2) {
                    self.body.push(1);
                    self.structure(fields);
                } else {
                    self.body.push(0xff);
                }
            }
        }
    }

    fn length(&mut self, length: usize, plain_bytes: usize) {
        let place = self.body.len();
        if self.flexible {
            self.body.push(u8::try_from(length + 1).expect("short"));
        } else {
            let bytes = u32::try_from(length).expect("short").to_be_bytes();
            self.body.extend(&bytes[4 - plain_bytes..]);
        }
        self.lengths.push((place, self.body.len() - place));
    }
}

#[test]
fn every_table_describes_what_the_decoder_reads() {
    let mut compared = 0;
    for (api, direction, version, fields) in guarded() {
        for seed in 0..40 {
            let (body, _) = Generator::body(api, version, fields, seed, false);
            let decoded = decode(api, direction, version, &body);
            let decoded = decoded.unwrap_or_else(|e| panic!("{api} {direction} {version}: {e:?}"));
            assert_eq!(decoded.encoded_body(version), body, "{api} {direction} {version}");
            compared += 1;
        }
    }
    assert!(compared > 4000, "{compared}");
}

/// Case B007: unknown tagged fields on several elements must not shift what follows them.
#[test]
fn unknown_tagged_fields_are_stepped_over_wherever_they_stand() {
    for (api, direction, version, fields) in guarded().filter(|case| case.0.is_flexible(case.2)) {
        for seed in 0..20 {
            let (body, _) = Generator::body(api, version, fields, seed, true);
            let decoded = decode(api, direction, version, &body);
            let decoded = decoded.unwrap_or_else(|e| panic!("{api} {direction} {version}: {e:?}"));
            // What was read is written without them, and reads as the same message.
            let clean = decoded.encoded_body(version);
            assert!(clean.len() <= body.len());
            assert_eq!(decode(api, direction, version, &clean), Ok(decoded));
        }
    }
}

#[test]
fn hostile_lengths_are_refused() {
    let hostile_varints: [&[u8]; 4] = [
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    let mut refused = 0;
    for (api, direction, version, fields) in guarded() {
        let (body, lengths) = Generator::body(api, version, fields, 3, false);
        for (place, size) in lengths {
            let plain = [i32::MAX, i32::MIN, -2, 0x7f00_0000].map(|value| value.to_be_bytes());
            let replacements: Vec<&[u8]> = match size {
                1 => hostile_varints.to_vec(),
                size => plain.iter().map(|bytes| &bytes[4 - size..]).collect(),
            };
            for replacement in replacements {
                // The last two bytes of that value are zero: a legal length.
                if replacement == [0, 0] {
                    continue;
                }
                let mut hostile = body.clone();
                hostile.splice(place..place + size, replacement.iter().copied());
                let result = decode(api, direction, version, &hostile);
                let null = replacement == [0xff, 0xff] && result.is_ok();
                assert!(result.is_err() || null, "{api} {direction} {version} at {place}");
                refused += usize::from(result.is_err());
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// Case B011: also inside a compact string or a varint.
#[test]
fn body_cut_anywhere_is_refused() {
    for (api, direction, version, fields) in guarded() {
        for seed in 0..4 {
            let (body, _) = Generator::body(api, version, fields, seed, true);
            for end in 0..body.len() {
                let result = decode(api, direction, version, &body[..end]);
                assert!(result.is_err(), "{api} {direction} {version} cut at {end}");
            }
            let mut longer = body.clone();
            longer.push(0);
            assert!(
                decode(api, direction, version, &longer).is_err(),
                "{api} {direction} {version}"
            );
        }
    }
}

/// Case B001: 0x033c0c00 topics claimed, one byte left.
#[test]
fn topic_count_beyond_the_body_is_refused_by_name() {
    let body = Bytes::from_static(&[0x03, 0x3c, 0x0c, 0x00, 0xb6]);
    let error = super::check(ApiKey::Metadata, Direction::Request, 0, body).expect_err("hostile");
    assert_eq!(error.problem, ReadProblem::TooManyElements { count: 0x033c_0c00, remaining: 1 });
    assert_eq!(
        error.to_string(),
        "54266880 elements claimed, 1 bytes left at byte 0, in field topics"
    );
}

#[test]
fn known_tag_with_a_wrong_size_is_refused() {
    // CreateTopics response version 5, one topic; tag 0 is 16 bits and declares 3 bytes.
    let body = [0, 0, 0, 0, 2, 2, b't', 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 3, 0, 9, 9, 0];
    let error = decode(ApiKey::CreateTopics, Direction::Response, 5, &body).expect_err("hostile");
    let WireError::MalformedBody { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.field, Some("topic_config_error_code"));
    assert_eq!(source.problem, ReadProblem::TaggedFieldSize { tag: 0, declared: 3, read: 2 });
}

#[test]
fn tags_out_of_order_are_refused() {
    // EndTxn response version 3 with tags 5 and 5.
    let body = [0, 0, 0, 0, 0, 0, 2, 5, 0, 5, 0];
    let error = decode(ApiKey::EndTxn, Direction::Response, 3, &body).expect_err("hostile");
    let WireError::MalformedBody { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.problem, ReadProblem::TagOutOfOrder(5));
}

/// The decoder behind the guard takes any byte but 1 for null, and so for the end of the body.
#[test]
fn struct_that_is_neither_there_nor_null_is_refused() {
    let head = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5];
    for (present, problem) in [(0_u8, 0), (2, 2), (0xfe, -2)] {
        let body = [&head[..], &[present, 0]].concat();
        let error = decode(ApiKey::ConsumerGroupHeartbeat, Direction::Response, 0, &body);
        let Err(WireError::MalformedBody { source, .. }) = error else { panic!("{error:?}") };
        assert_eq!(source.field, Some("assignment"));
        assert_eq!(source.problem, ReadProblem::InvalidValue(problem));
    }
    let null = [&head[..], &[0xff, 0]].concat();
    assert!(decode(ApiKey::ConsumerGroupHeartbeat, Direction::Response, 0, &null).is_ok());
}

#[test]
fn elements_have_a_size_in_every_version_and_tagged_fields_are_scalars() {
    fn visit(kind: Kind, version: i16, flexible: bool) {
        match kind {
            Kind::Array(element) => {
                assert!(element.smallest_size(version, flexible) > 0);
                visit(*element, version, flexible);
            }
            Kind::Struct(fields) | Kind::Nullable(fields) => visit_all(fields, version, flexible),
            Kind::Fixed(_) | Kind::Text | Kind::Bytes => {}
        }
    }
    fn visit_all(fields: &[Field], version: i16, flexible: bool) {
        for field in fields {
            // The guard rewrites one tag section at a time, so none may lie inside another's value.
            if (0..8).any(|tag| field.is_tagged(tag, version)) {
                assert!(matches!(field.kind, Kind::Fixed(_)));
            } else if field.is_plain(version) {
                visit(field.kind, version, flexible);
            }
        }
    }
    for (api, _, version, fields) in guarded() {
        visit_all(fields, version, api.is_flexible(version));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        body in prop::collection::vec(any::<u8>(), 0..200),
        case in 0..guarded().count(),
    ) {
        let (api, direction, version, _) = guarded().nth(case).expect("counted");
        let _ = decode(api, direction, version, &body);
    }

    #[test]
    fn damaged_bodies_are_decoded_or_refused(
        seed in any::<u64>(),
        case in 0..guarded().count(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (api, direction, version, fields) = guarded().nth(case).expect("counted");
        let (mut body, _) = Generator::body(api, version, fields, seed, true);
        if body.is_empty() { return Ok(()) }
        for (place, byte) in damage {
            let place = place.index(body.len());
            body[place] = byte;
        }
        if let Ok(decoded) = decode(api, direction, version, &body) {
            let clean = decoded.encoded_body(version);
            prop_assert_eq!(decode(api, direction, version, &clean), Ok(decoded));
        }
    }
}
