//! One connection, one request at a time: for asking a broker about itself, outside of the driver.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use millstream_protocol::frame::FrameDecoder;
use millstream_protocol::network::DisconnectReason;
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{ApiKey, ErrorCode, Request, Response};
use tokio::time::timeout;

use super::Stream;
use super::socket::frame_reason;

/// A conversation in questions and answers.
#[derive(Debug)]
pub(crate) struct Dialogue {
    stream: Stream,
    decoder: FrameDecoder,
    client_id: String,
    limit: Duration,
    asked: i32,
}

impl Dialogue {
    /// Over a connected stream; `limit` is the time for each answer.
    pub(crate) fn new(
        stream: Stream,
        max_frame_bytes: usize,
        client_id: &str,
        limit: Duration,
    ) -> Self {
        let decoder = FrameDecoder::new(max_frame_bytes);
        Self { stream, decoder, client_id: client_id.to_owned(), limit, asked: 0 }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(
        &mut self,
        request: &Request,
        version: i16,
    ) -> Result<Response, DisconnectReason> {
        let api = request.api_key();
        let protocol = |detail: String| DisconnectReason::Protocol { detail };
        let correlation_id = self.asked;
        self.asked += 1;
        let frame = request
            .encode(version, correlation_id, &self.client_id)
            .map_err(|error| protocol(error.to_string()))?;
        let limit = self.limit;
        let answer = timeout(limit, self.exchange(frame.chunks.into_iter().collect()))
            .await
            .unwrap_or(Err(DisconnectReason::RequestTimedOut { api, after: limit }))?;
        let (header, body) = ResponseHeader::decode(api, version, answer)
            .map_err(|error| protocol(error.to_string()))?;
        if header.correlation_id != correlation_id {
            let found = header.correlation_id;
            return Err(protocol(format!("answer {found} where {correlation_id} was expected")));
        }
        // A broker that does not know the version of ApiVersions says so in version 0 (KIP-511).
        let refused = body.starts_with(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes());
        let version = if api == ApiKey::ApiVersions && refused { 0 } else { version };
        Response::decode(api, version, body).map_err(|error| protocol(error.to_string()))
    }

    async fn exchange(&mut self, mut out: VecDeque<Bytes>) -> Result<Bytes, DisconnectReason> {
        let Self { stream, decoder, .. } = self;
        poll_fn(|cx| {
            // What the peer said before it closed tells more than that it closed.
            let written = stream.poll_write(cx, &mut out);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => return Poll::Ready(Ok(frame)),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(frame_reason(&error))),
                }
                match stream.poll_read(cx, decoder.read_buffer()) {
                    Poll::Pending if written.is_err() => {
                        return Poll::Ready(Err(DisconnectReason::Closed));
                    }
                    read => match ready!(read) {
                        Ok(0) => return Poll::Ready(Err(DisconnectReason::Closed)),
                        Ok(_) => {}
                        Err(error) => return Poll::Ready(Err(stream.reason_of(&error))),
                    },
                }
            }
        })
        .await
    }
}
