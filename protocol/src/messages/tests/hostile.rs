//! Hostile and damaged bodies of the messages whose codecs are our own.

use bytes::Bytes;
use proptest::prelude::*;

use super::Message;
use super::strategies::messages;
use crate::messages::{ApiKey, Response};
use crate::wire::{Direction, ReadProblem, WireError};

const OWN: [ApiKey; 3] = [ApiKey::Produce, ApiKey::Fetch, ApiKey::ApiVersions];

fn problem(api: ApiKey, version: i16, body: &'static [u8]) -> ReadProblem {
    match Response::decode(api, version, Bytes::from_static(body)) {
        Err(WireError::MalformedBody { source, .. }) => source.problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn counts_beyond_the_body_are_refused() {
    // Fetch version 12: 4,000,000,000 topics in a body of 16 bytes.
    let body = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0xd0, 0xac, 0xf3, 0x0e, 0];
    let huge = problem(ApiKey::Fetch, 12, body);
    assert_eq!(huge, ReadProblem::TooManyElements { count: 4_000_000_000, remaining: 1 });
    let negative = problem(ApiKey::Fetch, 4, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(negative, ReadProblem::NegativeLength(-2));
    let null = problem(ApiKey::Fetch, 4, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(null, ReadProblem::UnexpectedNull);
}

#[test]
fn overlong_varints_are_refused() {
    let six_bytes = problem(ApiKey::Produce, 9, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0, 0, 0]);
    assert_eq!(six_bytes, ReadProblem::OverlongVarint);
    let thirty_three_bits =
        problem(ApiKey::Produce, 9, &[0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0]);
    assert_eq!(thirty_three_bits, ReadProblem::OverlongVarint);
}

#[test]
fn known_tag_must_fill_its_size() {
    // Tag 1 (the epoch, 64 bits) declares seven bytes, then nine.
    let short =
        problem(ApiKey::ApiVersions, 3, &[0, 0, 1, 0, 0, 0, 0, 1, 1, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(short, ReadProblem::Truncated { needed: 8, remaining: 7 });
    let long =
        problem(ApiKey::ApiVersions, 3, &[0, 0, 1, 0, 0, 0, 0, 1, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(long, ReadProblem::TaggedFieldSize { tag: 1, declared: 9, read: 8 });
}

#[test]
fn text_that_is_not_utf8_is_refused_where_it_breaks() {
    let found = Response::decode(
        ApiKey::Produce,
        3,
        Bytes::from_static(&[0, 0, 0, 1, 0, 2, b'a', 0xff, 0, 0, 0, 0, 0, 0, 0, 0]),
    );
    let Err(WireError::MalformedBody { source, .. }) = found else { panic!("{found:?}") };
    assert_eq!((source.position, source.problem), (7, ReadProblem::NotUtf8));
}

#[test]
fn unknown_isolation_level_is_refused() {
    let mut body = vec![0xff; 4];
    body.extend([0; 12]);
    body.push(2);
    body.extend([0; 4]);
    let found = Message::decode(ApiKey::Fetch, Direction::Request, 4, body.into());
    let Err(WireError::MalformedBody { source, .. }) = found else { panic!("{found:?}") };
    assert_eq!(source.problem, ReadProblem::InvalidValue(2));
}

proptest! {
    /// Case B011: also inside a compact string or a varint.
    #[test]
    fn message_cut_anywhere_is_refused(message in messages()) {
        let (api, direction) = (message.api_key(), message.direction());
        for version in api.codec_versions() {
            let body = message.body(version);
            for end in 0..body.len() {
                let cut = Message::decode(api, direction, version, body.slice(..end));
                prop_assert!(cut.is_err(), "{} {} {} cut at {}", api, direction, version, end);
            }
            let mut longer = body.to_vec();
            longer.push(0);
            let leftover = Message::decode(api, direction, version, longer.into());
            prop_assert!(leftover.is_err());
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        body in prop::collection::vec(any::<u8>(), 0..200),
        api in prop::sample::select(&OWN[..]),
        version in 0..=12_i16,
        request in any::<bool>(),
    ) {
        let direction = if request { Direction::Request } else { Direction::Response };
        let _ = Message::decode(api, direction, version, body.into());
    }

    #[test]
    fn damaged_messages_are_decoded_or_refused(
        message in messages(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (api, direction) = (message.api_key(), message.direction());
        for version in api.codec_versions() {
            let mut body = message.body(version).to_vec();
            if body.is_empty() { continue }
            for (place, byte) in &damage {
                let place = place.index(body.len());
                body[place] = *byte;
            }
            if let Ok(decoded) = Message::decode(api, direction, version, body.into()) {
                let again = Message::decode(api, direction, version, decoded.body(version));
                prop_assert_eq!(again, Ok(decoded));
            }
        }
    }
}
