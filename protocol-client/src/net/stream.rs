//! A connected stream, plain or TLS: bytes in, chunks out, never more than is ready.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use millstream_protocol::network::DisconnectReason;
use rustls::ProtocolVersion;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

use super::connect::reason_of;
use crate::security::{TlsConnection, tls_reason_of};
#[cfg(feature = "simulation")]
use crate::surroundings::SimulatedStream;

/// A connection. The plain one writes at once and without a queue of its own, as if TLS did not exist.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsConnection>),
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn SimulatedStream>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Tls(_) => "Tls",
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => "Simulated",
        })
    }
}

impl Stream {
    /// How it is protected, in words.
    pub(crate) fn protection(&self) -> String {
        let Self::Tls(connection) = self else { return "not at all".to_owned() };
        let session = connection.stream.get_ref().1;
        let version = match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
            _ => "TLS",
        };
        let suite = session.negotiated_cipher_suite();
        let suite = suite.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown");
        format!("{version}, {}", suite.replace("TLS13_", "TLS_"))
    }

    /// Writes what the socket takes at once, without asking to be woken. Errors show again when the stream is polled. A TLS
    /// stream writes when it is polled.
    pub(super) fn write_now(&mut self, out: &mut VecDeque<Bytes>) {
        if let Self::Plain(stream) = self {
            let _ = write_ready(stream, out);
        }
    }

    /// Writes until everything is out or the socket takes no more, and registers for the rest.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut VecDeque<Bytes>,
    ) -> io::Result<()> {
        match self {
            Self::Plain(stream) => {
                while !out.is_empty() {
                    match stream.poll_write_ready(cx) {
                        Poll::Pending => return Ok(()),
                        Poll::Ready(ready) => ready.and_then(|()| write_ready(stream, out))?,
                    }
                }
                Ok(())
            }
            Self::Tls(connection) => poll_write_all(&mut connection.stream, cx, out),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => poll_write_all(stream, cx, out),
        }
    }

    /// Reads what is there, at most the room of `buffer`; 0 is the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                match stream.try_read_buf(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    done => return Poll::Ready(done),
                }
            },
            // Dropped without having read, the future has taken nothing.
            Self::Tls(connection) => pin!(connection.stream.read_buf(buffer)).poll(cx),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => pin!(stream.read_buf(buffer)).poll(cx),
        }
    }

    /// What an error means for the connection.
    pub(super) fn reason_of(&self, error: &io::Error) -> DisconnectReason {
        match self {
            Self::Plain(_) => reason_of(error),
            Self::Tls(connection) => tls_reason_of(error, &connection.peer),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => reason_of(error),
        }
    }
}

/// Writes until everything is out or the stream takes no more.
fn poll_write_all<S: AsyncWrite + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    out: &mut VecDeque<Bytes>,
) -> io::Result<()> {
    while !out.is_empty() {
        let (slices, count) = slices(out);
        let slices = slices.get(..count).unwrap_or(&slices);
        match Pin::new(&mut *stream).poll_write_vectored(cx, slices) {
            Poll::Pending => return Ok(()),
            Poll::Ready(written) => advance(out, written?),
        }
    }
    // What a TLS library holds back goes out too; nothing to do if there is nothing.
    match Pin::new(stream).poll_flush(cx) {
        Poll::Pending => Ok(()),
        Poll::Ready(flushed) => flushed,
    }
}

/// Writes until the socket takes no more. Chunks go out as they are, several in one call.
fn write_ready(stream: &TcpStream, out: &mut VecDeque<Bytes>) -> io::Result<()> {
    while !out.is_empty() {
        let (slices, count) = slices(out);
        let written = match stream.try_write_vectored(slices.get(..count).unwrap_or(&slices)) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        advance(out, written);
    }
    Ok(())
}

fn slices(out: &VecDeque<Bytes>) -> ([IoSlice<'_>; SLICES], usize) {
    let slices = std::array::from_fn(|n| IoSlice::new(out.get(n).map_or(&[], |chunk| &chunk[..])));
    (slices, out.len().min(SLICES))
}

fn advance(out: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(chunk) = out.front_mut() {
        if written < chunk.len() {
            chunk.advance(written);
            break;
        }
        written -= chunk.len();
        out.pop_front();
    }
}

/// Chunks per write call.
const SLICES: usize = 64;
