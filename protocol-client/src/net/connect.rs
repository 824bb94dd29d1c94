//! From an address to a connected socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::network::DisconnectReason;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::resolve::resolve;
use super::stream::Stream;
use crate::security::Security;

/// What each socket is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketOptions {
    pub(crate) send_buffer_bytes: Option<u32>,
    pub(crate) receive_buffer_bytes: Option<u32>,
}

/// Connects to a broker, and puts TLS over the connection if that is configured. Ends by itself only with the system's own
/// timeout: the caller drops it when the machine's is up.
pub(crate) async fn connect(
    host: Arc<str>,
    port: u16,
    options: SocketOptions,
    security: Arc<Security>,
) -> Result<Stream, DisconnectReason> {
    #[cfg(feature = "simulation")]
    if let Some(around) = crate::surroundings::current() {
        // Nothing is encrypted there.
        let connected = around.connect(&host, port).await;
        return connected.map(Stream::Simulated).map_err(|error| reason_of(&error));
    }
    let stream = connect_tcp(&host, port, options).await?;
    security.protect(&host, stream).await
}

/// Connects to the first address of `host` that answers.
pub(crate) async fn connect_tcp(
    host: &str,
    port: u16,
    options: SocketOptions,
) -> Result<TcpStream, DisconnectReason> {
    let addresses =
        resolve(host).await.map_err(|detail| DisconnectReason::Unresolved { detail })?;
    let mut failures: Vec<(IpAddr, DisconnectReason)> = Vec::new();
    let last = addresses.len() - 1;
    for (index, address) in addresses.into_iter().enumerate() {
        let attempt = connect_to(SocketAddr::new(address, port), options);
        // An address that drops packets must not use up the time of the others.
        let result = if index == last {
            attempt.await
        } else {
            timeout(NEXT_ADDRESS_AFTER, attempt)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match result {
            Ok(stream) => return Ok(stream),
            Err(error) => failures.push((address, reason_of(&error))),
        }
    }
    Err(summary(failures))
}

async fn connect_to(address: SocketAddr, options: SocketOptions) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One reason if all addresses agree, else each address with its own.
fn summary(failures: Vec<(IpAddr, DisconnectReason)>) -> DisconnectReason {
    let Some((_, first)) = failures.first() else {
        return DisconnectReason::Unresolved { detail: "the name has no address".to_owned() };
    };
    if failures.iter().all(|(_, reason)| reason == first) {
        return first.clone();
    }
    // A host without IPv6 says so for `::1`, which tells nothing of the broker.
    let unreachable = |address: &IpAddr, reason: &DisconnectReason| {
        address.is_ipv6() && matches!(reason, DisconnectReason::Io { .. })
    };
    let telling: Vec<_> = failures.iter().filter(|(a, r)| !unreachable(a, r)).collect();
    if let [(_, only)] = telling.as_slice() {
        return only.clone();
    }
    let list: Vec<String> =
        failures.iter().map(|(address, reason)| format!("{address}: {reason}")).collect();
    DisconnectReason::Io { detail: list.join(", ") }
}

/// What an error of the operating system means for the connection.
pub(crate) fn reason_of(error: &io::Error) -> DisconnectReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => DisconnectReason::Refused,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => DisconnectReason::Closed,
        io::ErrorKind::TimedOut => {
            DisconnectReason::Io { detail: "no answer to the connection attempt".to_owned() }
        }
        _ => DisconnectReason::Io { detail: error.to_string() },
    }
}

const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(2);
