//! Sockets: names to addresses, addresses to connections, bytes to frames.

mod connect;
mod dialogue;
mod resolve;
mod socket;
mod stream;

pub(crate) use connect::{SocketOptions, connect, connect_tcp, reason_of};
pub(crate) use dialogue::Dialogue;
pub(crate) use resolve::resolve;
pub(crate) use socket::{Socket, SocketEvent};
pub(crate) use stream::Stream;
