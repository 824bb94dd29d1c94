//! One socket: frames in, chunks out, never more than is ready.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use millstream_protocol::frame::{FrameDecoder, FrameError};
use millstream_protocol::network::DisconnectReason;
use millstream_protocol::wire::EncodedFrame;
use tokio::net::TcpStream;

use super::connect::reason_of;

/// A connection attempt, then a connection.
pub(crate) struct Socket {
    state: State,
    max_frame_bytes: usize,
}

enum State {
    Connecting(Connecting),
    Open { stream: TcpStream, decoder: FrameDecoder, out: VecDeque<Bytes> },
    Ended,
}

type Connecting = Pin<Box<dyn Future<Output = Result<TcpStream, DisconnectReason>> + Send>>;

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
        connecting: impl Future<Output = Result<TcpStream, DisconnectReason>> + Send + 'static,
        max_frame_bytes: usize,
    ) -> Self {
        Self { state: State::Connecting(Box::pin(connecting)), max_frame_bytes }
    }

    /// Queues a frame and writes what the socket takes at once.
    pub(crate) fn send(&mut self, frame: EncodedFrame) {
        if let State::Open { stream, out, .. } = &mut self.state {
            out.extend(frame.chunks);
            // An error shows again when the socket is polled, where it can be reported.
            let _ = write_ready(stream, out);
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
            let ended = poll_write(cx, stream, out)
                .and_then(|()| poll_read(cx, stream, decoder, events))
                .err();
            if let Some(reason) = ended {
                self.state = State::Ended;
                events.push(SocketEvent::Ended(reason));
            }
        }
        events.len() > before
    }
}

fn poll_write(
    cx: &mut Context<'_>,
    stream: &TcpStream,
    out: &mut VecDeque<Bytes>,
) -> Result<(), DisconnectReason> {
    while !out.is_empty() {
        match stream.poll_write_ready(cx) {
            Poll::Pending => return Ok(()),
            Poll::Ready(ready) => {
                ready.and_then(|()| write_ready(stream, out)).map_err(|e| reason_of(&e))?;
            }
        }
    }
    Ok(())
}

/// Writes until the socket takes no more. Chunks go out as they are, several in one call.
fn write_ready(stream: &TcpStream, out: &mut VecDeque<Bytes>) -> io::Result<()> {
    while !out.is_empty() {
        let slices: [IoSlice<'_>; SLICES] =
            std::array::from_fn(|n| IoSlice::new(out.get(n).map_or(&[], |chunk| &chunk[..])));
        let count = out.len().min(SLICES);
        let mut written = match stream.try_write_vectored(slices.get(..count).unwrap_or(&slices)) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        while let Some(chunk) = out.front_mut() {
            if written < chunk.len() {
                chunk.advance(written);
                break;
            }
            written -= chunk.len();
            out.pop_front();
        }
    }
    Ok(())
}

/// Reads frames until the socket is empty or a turn's share is taken.
fn poll_read(
    cx: &mut Context<'_>,
    stream: &TcpStream,
    decoder: &mut FrameDecoder,
    events: &mut Vec<SocketEvent>,
) -> Result<(), DisconnectReason> {
    let mut taken = 0;
    while let Poll::Ready(ready) = stream.poll_read_ready(cx) {
        ready.map_err(|error| reason_of(&error))?;
        match stream.try_read_buf(decoder.read_buffer()) {
            Ok(0) => return Err(DisconnectReason::Closed),
            Ok(read) => {
                taken += read;
                loop {
                    match decoder.next_frame() {
                        Ok(Some(frame)) => events.push(SocketEvent::Frame(frame)),
                        Ok(None) => break,
                        Err(error) => return Err(frame_reason(&error)),
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(reason_of(&error)),
        }
        if taken >= TURN_BYTES {
            // The other sockets are next; this one goes on after them.
            cx.waker().wake_by_ref();
            break;
        }
    }
    Ok(())
}

fn frame_reason(error: &FrameError) -> DisconnectReason {
    match error {
        FrameError::HttpResponse | FrameError::HttpRequest => DisconnectReason::Http,
        FrameError::TlsAlert | FrameError::TlsHandshake => DisconnectReason::Tls,
        other => DisconnectReason::Protocol { detail: other.to_string() },
    }
}

/// Chunks per write call.
const SLICES: usize = 64;
/// Bytes one socket may deliver before the others have their turn.
const TURN_BYTES: usize = 4 << 20;
