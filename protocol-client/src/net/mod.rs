//! Sockets: names to addresses, addresses to connections, bytes to frames.

mod connect;
mod resolve;
mod socket;
mod stream;

pub(crate) use connect::{SocketOptions, connect, connect_tcp, reason_of};
pub(crate) use socket::{Socket, SocketEvent};
pub(crate) use stream::Stream;
