//! One socket: frames in, chunks out, never more than is ready.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use millstream_protocol::frame::{FrameDecoder, FrameError};
use millstream_protocol::network::DisconnectReason;
use millstream_protocol::wire::EncodedFrame;

use super::stream::Stream;

/// A connection attempt, then a connection.
pub(crate) struct Socket {
    state: State,
    max_frame_bytes: usize,
}

enum State {
    Connecting(Connecting),
    Open { stream: Stream, decoder: FrameDecoder, out: VecDeque<Bytes> },
    Ended,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Stream, DisconnectReason>> + Send>>;

/// What a socket reports.
#[derive(Debug)]
pub(crate) enum SocketEvent {
    Connected,
    Frame(Bytes),
    Ended(DisconnectReason),
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Connecting(_) => "connecting",
            State::Open { .. } => "open",
            State::Ended => "ended",
        };
        f.debug_struct("Socket").field("state", &state).finish_non_exhaustive()
    }
}

impl Socket {
    pub(crate) fn new(
        connecting: impl Future<Output = Result<Stream, DisconnectReason>> + Send + 'static,
        max_frame_bytes: usize,
    ) -> Self {
        Self { state: State::Connecting(Box::pin(connecting)), max_frame_bytes }
    }

    /// Queues a frame and writes what the socket takes at once.
    pub(crate) fn send(&mut self, frame: EncodedFrame) {
        if let State::Open { stream, out, .. } = &mut self.state {
            out.extend(frame.chunks);
            stream.write_now(out);
        }
    }

    /// Reads, writes and connects as far as possible now; true if `events` has grown. Registers for the rest.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, events: &mut Vec<SocketEvent>) -> bool {
        let before = events.len();
        if let State::Connecting(connecting) = &mut self.state {
            match connecting.as_mut().poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok(stream)) => {
                    let decoder = FrameDecoder::new(self.max_frame_bytes);
                    self.state = State::Open { stream, decoder, out: VecDeque::new() };
                    events.push(SocketEvent::Connected);
                }
                Poll::Ready(Err(reason)) => {
                    self.state = State::Ended;
                    events.push(SocketEvent::Ended(reason));
                }
            }
        }
        if let State::Open { stream, decoder, out } = &mut self.state {
            let written = stream.poll_write(cx, out);
            // Also after a failed write: what the peer said before it closed tells why.
            let read = poll_read(cx, stream, decoder, events);
            let ended = match (written, read) {
                (Ok(()), read) => read.err(),
                (Err(error), Ok(()) | Err(DisconnectReason::Closed)) => {
                    Some(stream.reason_of(&error))
                }
                (Err(_), Err(reason)) => Some(reason),
            };
            if let Some(reason) = ended {
                self.state = State::Ended;
                events.push(SocketEvent::Ended(reason));
            }
        }
        events.len() > before
    }
}

/// Reads frames until the socket is empty or a turn's share is taken.
fn poll_read(
    cx: &mut Context<'_>,
    stream: &mut Stream,
    decoder: &mut FrameDecoder,
    events: &mut Vec<SocketEvent>,
) -> Result<(), DisconnectReason> {
    let (mut taken, mut frames) = (0, 0);
    loop {
        while frames < TURN_FRAMES {
            match decoder.next_frame() {
                Ok(Some(frame)) => events.push(SocketEvent::Frame(frame)),
                Ok(None) => break,
                Err(error) => return Err(frame_reason(&error)),
            }
            frames += 1;
        }
        if taken >= TURN_BYTES || frames >= TURN_FRAMES {
            // The other sockets are next; this one goes on after them.
            cx.waker().wake_by_ref();
            break;
        }
        let Poll::Ready(read) = stream.poll_read(cx, decoder.read_buffer()) else { break };
        let read = read.map_err(|error| stream.reason_of(&error))?;
        if read == 0 {
            return Err(DisconnectReason::Closed);
        }
        taken += read;
    }
    Ok(())
}

pub(super) fn frame_reason(error: &FrameError) -> DisconnectReason {
    match error {
        FrameError::HttpResponse | FrameError::HttpRequest => DisconnectReason::Http,
        FrameError::TlsAlert | FrameError::TlsHandshake => DisconnectReason::Tls,
        other => DisconnectReason::Protocol { detail: other.to_string() },
    }
}

/// Bytes one socket may deliver before the others have their turn.
const TURN_BYTES: usize = 4 << 20;
/// And frames: tiny ones take more memory here than on the wire.
const TURN_FRAMES: usize = 1024;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_sends_empty_frames_has_its_turn_like_any_other() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let frames = 100_000;
        let sending = tokio::spawn(async move { peer.write_all(&vec![0; 4 * frames]).await });
        let mut socket = Socket::new(async move { Ok(Stream::Plain(stream)) }, 1 << 20);
        let (mut received, mut events) = (0, Vec::new());
        while received < frames {
            poll_fn(
                |cx| {
                    if socket.poll(cx, &mut events) { Poll::Ready(()) } else { Poll::Pending }
                },
            )
            .await;
            // Connected and the end are events as well.
            assert!(events.len() <= TURN_FRAMES + 2, "{} events in one turn", events.len());
            let is_frame = |event: &SocketEvent| matches!(event, SocketEvent::Frame(_));
            received += events.drain(..).filter(is_frame).count();
        }
        assert_eq!(received, frames);
        sending.await.unwrap().unwrap();
    }
}
