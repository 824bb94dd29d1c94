//! A response body is decoded or refused; what was decoded can be encoded and decodes to the same.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{ApiKey, EncodeError, Response};

fuzz_target!(|input: &[u8]| {
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
});
