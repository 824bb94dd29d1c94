//! A process's end of a connection.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Network;

/// A stream of bytes to a broker. Dropping it closes the connection.
pub struct NetworkStream {
    network: Network,
    id: u64,
}

impl fmt::Debug for NetworkStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkStream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl NetworkStream {
    pub(super) fn new(network: Network, id: u64) -> Self {
        Self { network, id }
    }

    /// Waits until the connection is there, or refused.
    pub(super) async fn opened(&self) -> io::Result<()> {
        poll_fn(|cx| {
            let opened = self.network.with(|world, _| world.poll_opened(self.id, cx.waker()));
            opened.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl AsyncRead for NetworkStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        let read = self.network.with(|world, _| world.read(self.id, room, cx.waker()));
        match read {
            None => Poll::Pending,
            Some(Ok(bytes)) => {
                buffer.put_slice(&bytes);
                Poll::Ready(Ok(()))
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for NetworkStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = bytes.len();
        let bytes = Bytes::copy_from_slice(bytes);
        let result = self.network.with(|world, now| world.write(self.id, bytes, now));
        Poll::Ready(result.map(|()| written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut joined = BytesMut::new();
        for slice in slices {
            joined.extend_from_slice(slice);
        }
        self.poll_write(cx, &joined)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.network.with(|world, now| world.close(self.id, now));
        Poll::Ready(Ok(()))
    }
}

impl Drop for NetworkStream {
    fn drop(&mut self) {
        self.network.with(|world, now| world.close(self.id, now));
    }
}
