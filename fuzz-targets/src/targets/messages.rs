//! Requests, responses, and what members of a group write to each other: decoded or refused; what was decoded can be
//! encoded, and decodes to the same.

use bytes::Bytes;
use millstream_protocol::group::consumer_protocol::{Assignment, StickyUserData, Subscription};
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{ApiKey, EncodeError, Request, Response};

pub(super) fn request(input: &[u8]) {
    let Ok((header, request)) = Request::decode(Bytes::copy_from_slice(input)) else { return };
    let client_id = header.client_id.as_deref().unwrap_or_default();
    match request.encode(header.api_version, header.correlation_id, client_id) {
        Ok(frame) => {
            let again = Request::decode(frame.to_bytes().slice(4..)).map(|(_, request)| request);
            assert_eq!(again, Ok(request));
        }
        // Compact strings may be longer on the wire than Kafka allows.
        Err(EncodeError::TooLarge { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The first byte chooses the API, the second the version.
pub(super) fn response(input: &[u8]) {
    let [api, version, body @ ..] = input else { return };
    let api = ApiKey::ALL[usize::from(*api) % ApiKey::ALL.len()];
    let versions: Vec<i16> = api.codec_versions().collect();
    let version = versions[usize::from(*version) % versions.len()];
    let Ok(response) = Response::decode(api, version, Bytes::copy_from_slice(body)) else { return };
    match response.encode(version, 1) {
        Ok(frame) => {
            let frame = frame.to_bytes().slice(4..);
            let (_, body) = ResponseHeader::decode(api, version, frame).expect("our own header");
            assert_eq!(Response::decode(api, version, body), Ok(response));
        }
        // Compact strings may be longer on the wire than Kafka allows.
        Err(EncodeError::TooLarge { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The first byte chooses the structure.
pub(super) fn consumer_protocol(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    match kind % 4 {
        0 => {
            let written = |read: Assignment| read.encode().expect("it was read");
            if let Ok(read) = Assignment::decode(bytes).map(written) {
                assert_eq!(Assignment::decode(read.clone()).map(written), Ok(read));
            }
        }
        1 => {
            let written = |read: Subscription| read.encode().expect("it was read");
            if let Ok(read) = Subscription::decode(bytes).map(written) {
                assert_eq!(Subscription::decode(read.clone()).map(written), Ok(read));
            }
        }
        2 => {
            let written = |read: StickyUserData| read.encode().expect("it was read");
            if let Ok(read) = StickyUserData::decode(bytes).map(written) {
                assert_eq!(StickyUserData::decode(read.clone()).map(written), Ok(read));
            }
        }
        _ => drop(StickyUserData::decode_generation(bytes)),
    }
}
