//! A TCP proxy before one broker that knows where frames begin and which API they belong to, and can lose, hold and delay them.
//!
//! It runs on a thread of its own, so it works the same for blocking and asynchronous tests, and on while a test's thread waits.

mod connection;
mod rule;
mod shared;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};

pub use rule::{FaultRule, api_key};
use shared::Shared;

use crate::ports::PortLease;

/// A proxy on a loopback address. Dropping it closes every connection.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Of a port that nobody else holds for it.
    _lease: Option<PortLease>,
    runtime: Handle,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts a proxy before the broker at a port of 127.0.0.1, which need not run yet.
    ///
    /// # Errors
    ///
    /// If no port is free, or no thread can be made.
    pub fn start(upstream_port: u16) -> io::Result<Self> {
        let lease = PortLease::take()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, lease.port()));
        Self::start_at(address, upstream_port, Some(lease))
    }

    /// Starts a proxy at another loopback address, whose port is the caller's.
    pub(crate) fn start_on(host: IpAddr, port: u16, upstream_port: u16) -> io::Result<Self> {
        Self::start_at(SocketAddr::from((host, port)), upstream_port, None)
    }

    fn start_at(
        address: SocketAddr,
        upstream_port: u16,
        lease: Option<PortLease>,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let shared = Arc::new(Shared::new());
        let handle = runtime.handle().clone();
        let on_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fault-proxy".to_owned())
            .spawn(move || run(&runtime, &listener, upstream_port, &on_thread))?;
        Ok(Self { shared, address, _lease: lease, runtime: handle, thread: Some(thread) })
    }

    /// The port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address for clients.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Puts a rule in force for as long as the handle lives, after the rules that are there.
    #[must_use = "dropping the handle ends the rule"]
    pub fn add_rule(&self, rule: FaultRule) -> FaultHandle {
        let id = self.shared.change(|state| state.add_rule(rule));
        FaultHandle { id, shared: Arc::clone(&self.shared), runtime: self.runtime.clone() }
    }

    /// Loses everything both ways, without closing anything: a dead network. New connections are accepted and hear nothing.
    pub fn start_blackhole(&self) {
        self.shared.change(|state| state.blackhole = true);
    }

    /// Lets everything go on, with what was under way, as TCP would send it again.
    pub fn end_blackhole(&self) {
        self.shared.change(|state| state.blackhole = false);
    }

    /// Closes new connections as soon as they are made.
    pub fn reject_connections(&self, reject: bool) {
        self.shared.change(|state| state.rejecting = reject);
    }

    /// Closes every connection there is; held frames are lost with them.
    pub fn cut_connections(&self) {
        self.shared.change(|state| state.cut_generation += 1);
    }

    /// How many requests of an API clients have sent, whatever became of them.
    #[must_use]
    pub fn request_count(&self, api: i16) -> u64 {
        self.shared.look(|state| state.requests.get(&api).copied().unwrap_or(0))
    }

    /// The versions in which clients with this `client.id` have sent requests of an API.
    #[must_use]
    pub fn request_versions(&self, client_id: &str, api: i16) -> BTreeSet<i16> {
        let key = (Arc::from(client_id), api);
        self.shared.look(|state| state.versions.get(&key).cloned().unwrap_or_default())
    }

    /// How many connections clients have made.
    #[must_use]
    pub fn connection_count(&self) -> u64 {
        self.shared.look(|state| state.connections)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.stopped = true);
        if let Some(thread) = self.thread.take() {
            // A proxy that panicked has printed why, and is not needed any more.
            let _ = thread.join();
        }
    }
}

fn run(runtime: &Runtime, listener: &TcpListener, upstream_port: u16, shared: &Arc<Shared>) {
    runtime.block_on(async {
        let accept = async {
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    // Out of file descriptors, or a client that left at once: the next one may fare better.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let rejecting = shared.change(|state| {
                    state.connections += 1;
                    state.rejecting
                });
                if !rejecting {
                    tokio::spawn(connection::serve(client, upstream_port, Arc::clone(shared)));
                }
            }
        };
        tokio::select! {
            () = accept => {}
            () = shared.wait_until(|state| state.stopped) => {}
        }
    });
}

/// A rule in force. Dropping it removes the rule and lets go what it holds.
#[derive(Debug)]
pub struct FaultHandle {
    id: u64,
    shared: Arc<Shared>,
    runtime: Handle,
}

impl FaultHandle {
    /// How many frames the rule acted on so far.
    #[must_use]
    pub fn matched(&self) -> u64 {
        self.shared.look(|state| state.matched(self.id))
    }

    /// Lets go what the rule holds, and ends it; the count stays.
    pub fn release(&self) {
        self.shared.change(|state| state.release(self.id));
    }

    /// Waits until the rule has acted on `frames`. `false` if it has not within `limit`.
    pub async fn wait_for(&self, frames: u64, limit: Duration) -> bool {
        let reached = self.shared.wait_until(|state| state.matched(self.id) >= frames);
        tokio::time::timeout(limit, reached).await.is_ok()
    }

    /// [`wait_for`](Self::wait_for) for threads outside any runtime; it blocks.
    #[must_use]
    pub fn blocking_wait_for(&self, frames: u64, limit: Duration) -> bool {
        self.runtime.block_on(self.wait_for(frames, limit))
    }
}

impl Drop for FaultHandle {
    fn drop(&mut self) {
        self.shared.change(|state| state.remove_rule(self.id));
    }
}

#[cfg(test)]
mod tests;
