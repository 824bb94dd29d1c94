//! The codecs that are our own: hand-written bytes, the same bytes as `kafka_protocol` writes, hostile bodies. And
//! hand-written bytes of messages behind the guard.

mod differential;
mod golden;
mod golden_control;
mod hostile;
mod strategies;

use bytes::Bytes;

use super::{ApiKey, Request, Response};
use crate::wire::{Direction, Reader, RequestHeader, ResponseHeader, WireError};

/// Hexadecimal digits and quoted text, as `0003 'ab' 00`; `|` and spaces only separate.
fn bytes(text: &str) -> Bytes {
    let mut bytes = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend(part.as_bytes());
            continue;
        }
        let digits: Vec<u32> = part.chars().filter_map(|digit| digit.to_digit(16)).collect();
        assert_eq!(digits.len() % 2, 0, "whole bytes: {part}");
        bytes.extend(
            digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("byte")),
        );
    }
    bytes.into()
}

/// A message of either direction.
#[derive(Clone, Debug, PartialEq)]
enum Message {
    Request(Request),
    Response(Response),
}

impl Message {
    const fn direction(&self) -> Direction {
        match self {
            Self::Request(_) => Direction::Request,
            Self::Response(_) => Direction::Response,
        }
    }

    const fn api_key(&self) -> ApiKey {
        match self {
            Self::Request(request) => request.api_key(),
            Self::Response(response) => response.api_key(),
        }
    }

    /// The encoded body, without size and header.
    fn body(&self, version: i16) -> Bytes {
        match self {
            Self::Request(request) => {
                let frame = request.encode(version, 7, "test").expect("expressible").to_bytes();
                let mut reader = Reader::new(frame.slice(4..));
                RequestHeader::decode(&mut reader).expect("our own header");
                reader.into_rest()
            }
            Self::Response(response) => {
                let frame = response.encode(version, 7).expect("expressible").to_bytes();
                let api = response.api_key();
                ResponseHeader::decode(api, version, frame.slice(4..)).expect("our own header").1
            }
        }
    }

    fn decode(
        api: ApiKey,
        direction: Direction,
        version: i16,
        body: Bytes,
    ) -> Result<Self, WireError> {
        match direction {
            Direction::Request => {
                let mut frame = Vec::new();
                frame.extend(api.code().to_be_bytes());
                frame.extend(version.to_be_bytes());
                frame.extend([0, 0, 0, 7, 0xff, 0xff]);
                if api.is_flexible(version) {
                    frame.push(0);
                }
                frame.extend(&body);
                Request::decode(frame.into()).map(|(_, request)| Self::Request(request))
            }
            Direction::Response => Response::decode(api, version, body).map(Self::Response),
        }
    }
}
