//! A request frame is decoded or refused; what was decoded can be encoded and decodes to the same.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use millstream_protocol::{EncodeError, Request};

fuzz_target!(|input: &[u8]| {
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
});
