//! Sockets: names to addresses, addresses to connections, bytes to frames.

mod connect;
mod resolve;
mod socket;

pub(crate) use connect::{SocketOptions, connect};
pub(crate) use socket::{Socket, SocketEvent};
