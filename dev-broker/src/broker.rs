//! A running broker: one thread with its own small runtime, so that neither disturbs the caller's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use millstream_protocol::Timestamp;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::config::DevBrokerConfig;
use crate::core::{Cluster, FaultRule, Stored};
use crate::data_dir::{DataDir, DataDirError};
use crate::server::{self, Command};

/// A dev broker could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address:?}")]
    Listen {
        /// The address as configured.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The advertised address is not `host:port`.
    #[error("advertised address {address:?} is not host:port")]
    Advertised {
        /// The address as configured.
        address: String,
    },
    /// The data folder cannot be used.
    #[error("cannot open the data folder")]
    DataDir(#[from] DataDirError),
    /// The system gives no thread or event queue.
    #[error("cannot start the broker's thread")]
    Thread(#[source] io::Error),
}

/// A dev broker at work. Dropping it ends it.
#[derive(Debug)]
pub struct DevBroker {
    address: String,
    listening: SocketAddr,
    commands: mpsc::UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl DevBroker {
    /// Starts a broker; it answers when this returns. Needs no runtime.
    ///
    /// # Errors
    ///
    /// [`StartError`], and nothing is left running.
    pub fn start(config: DevBrokerConfig) -> Result<Self, StartError> {
        let listen_error = |source| StartError::Listen { address: config.listen.clone(), source };
        let listener = TcpListener::bind(&config.listen).map_err(listen_error)?;
        listener.set_nonblocking(true).map_err(listen_error)?;
        let bound = listener.local_addr().map_err(listen_error)?;
        let (host, port) = advertised(&config, bound)?;
        let (mut data_dir, stored) = match &config.data_dir {
            None => (None, Stored::default()),
            Some(path) => {
                let (data_dir, stored) = DataDir::open(path, config.fsync)?;
                (Some(data_dir), stored)
            }
        };
        let mut cluster =
            Cluster::from_stored(config.cluster_config(), seed(), stored, Timestamp::ZERO);
        cluster.set_advertised(host.as_str(), port);
        if let Some(data_dir) = &mut data_dir {
            data_dir.begin(&cluster.state_snapshot(), &cluster.topic_ids())?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let (commands, received) = mpsc::unbounded_channel();
        let request_max_bytes = config.request_max_bytes;
        let thread = std::thread::Builder::new()
            .name("dev-broker".to_owned())
            .spawn(move || {
                server::run(&runtime, listener, cluster, data_dir, request_max_bytes, received);
            })
            .map_err(StartError::Thread)?;
        let address = bootstrap_address(&host, port);
        Ok(Self { address, listening: bound, commands, thread: Some(thread) })
    }

    /// `host:port` (`[v6]:port`) for `bootstrap.servers`: where the broker sends its clients.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The socket's own address: unspecified (`0.0.0.0`, `::`) if every interface of the machine leads here.
    #[must_use]
    pub fn listening(&self) -> SocketAddr {
        self.listening
    }

    /// Adds a rule of misbehaviour; in force when this returns.
    pub fn add_fault(&self, rule: FaultRule) {
        self.with_cluster(move |cluster| cluster.faults_mut().add(rule));
    }

    /// Removes all rules of misbehaviour.
    pub fn clear_faults(&self) {
        self.with_cluster(|cluster| cluster.faults_mut().clear());
    }

    /// Compacts the topics with `cleanup.policy=compact` now, whatever their dirty ratio.
    pub fn compact(&self) {
        self.with_cluster(|cluster| cluster.compact_now(server::wall_clock_ms()));
    }

    /// Ends the broker and waits until its port and folder are free.
    pub async fn stop(mut self) {
        let _ = self.commands.send(Command::Stop);
        let Some(thread) = self.thread.take() else { return };
        let (done, joined) = oneshot::channel();
        // The thread ends within its current step; a helper waits for it so that no runtime thread blocks.
        let helper = std::thread::spawn(move || {
            let _ = thread.join();
            let _ = done.send(());
        });
        let _ = joined.await;
        let _ = helper.join();
    }

    /// Runs `step` on the broker's thread and waits for it; does nothing if the broker has ended.
    fn with_cluster(&self, step: impl FnOnce(&mut Cluster) + Send + 'static) {
        let (done, waited) = std::sync::mpsc::channel();
        let command = Command::Run(Box::new(move |cluster| {
            step(cluster);
            let _ = done.send(());
        }));
        if self.commands.send(command).is_ok() {
            let _ = waited.recv();
        }
    }
}

impl Drop for DevBroker {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn advertised(config: &DevBrokerConfig, bound: SocketAddr) -> Result<(String, u16), StartError> {
    let Some(address) = &config.advertised else {
        // A wildcard address is none that a client could connect to.
        let host = match bound.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        return Ok((host.to_string(), bound.port()));
    };
    let refused = || StartError::Advertised { address: address.clone() };
    let (host, port) = address.rsplit_once(':').ok_or_else(refused)?;
    // Metadata carries an IPv6 address bare; beside a port it needs its brackets.
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) if v6.parse::<Ipv6Addr>().is_ok() => v6,
        Some(_) => return Err(refused()),
        None if host.is_empty() || host.contains(':') => return Err(refused()),
        None => host,
    };
    Ok((host.to_owned(), port.parse().map_err(|_| refused())?))
}

fn bootstrap_address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Ids need to differ between brokers, nothing more.
fn seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(since.as_nanos()).unwrap_or_default();
    nanos ^ (u64::from(std::process::id()) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertise(address: &str) -> Option<(String, u16)> {
        let config =
            DevBrokerConfig { advertised: Some(address.to_owned()), ..DevBrokerConfig::default() };
        advertised(&config, SocketAddr::from(([127, 0, 0, 1], 1))).ok()
    }

    #[test]
    fn clients_are_sent_to_an_address_that_they_can_write_down() {
        for (bound, expected) in [
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("0.0.0.0:9", "127.0.0.1:9"),
            ("[::1]:9", "[::1]:9"),
            ("[::]:9", "[::1]:9"),
        ] {
            let bound: SocketAddr = bound.parse().unwrap();
            let (host, port) = advertised(&DevBrokerConfig::default(), bound).unwrap();
            assert_eq!(bootstrap_address(&host, port), expected);
        }
        assert_eq!(advertise("[::1]:9"), Some(("::1".to_owned(), 9)));
        assert_eq!(advertise("broker:9"), Some(("broker".to_owned(), 9)));
        for wrong in ["", ":9", "broker", "::1:9", "[::1]", "[broker]:9", "[]:9", "broker:x"] {
            assert_eq!(advertise(wrong), None, "{wrong}");
        }
    }
}
