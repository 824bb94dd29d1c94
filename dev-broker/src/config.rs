//! What a dev broker is told at its start.

use std::path::PathBuf;
use std::time::Duration;

use crate::core::ClusterConfig;

/// Settings of a [`DevBroker`](crate::DevBroker). The default is in memory, on a free port of loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevBrokerConfig {
    /// `host:port` (`[v6]:port`) to listen on; port 0 takes a free one. Nobody is asked who they are: anything but loopback
    /// lets everyone who can reach the machine read, write and delete.
    pub listen: String,
    /// `host:port` that clients are sent to, if it differs: a proxy in front, a name for an address.
    pub advertised: Option<String>,
    /// Folder that keeps topics, logs, transactions and offsets; `None` keeps them in memory only.
    ///
    /// Answers are sent after the write calls returned, so the death of the process loses nothing. The death of the
    /// machine may, unless `fsync` is set.
    pub data_dir: Option<PathBuf>,
    /// Force writes to disk before each answer.
    pub fsync: bool,
    /// Finalized level of `transaction.version`: 0, 1 or 2 (KIP-890).
    pub transaction_version: i16,
    /// `transaction.max.timeout.ms`.
    pub transaction_max_timeout: Duration,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    pub transaction_abort_scan_interval: Duration,
    /// Largest request (`socket.request.max.bytes`); a larger one closes its connection.
    pub request_max_bytes: usize,
    /// Everything else. `advertised_*`, `durable` and the transaction settings above are filled in at the start.
    pub cluster: ClusterConfig,
}

impl Default for DevBrokerConfig {
    fn default() -> Self {
        let cluster = ClusterConfig::default();
        Self {
            listen: "127.0.0.1:0".to_owned(),
            advertised: None,
            data_dir: None,
            fsync: false,
            transaction_version: cluster.transaction_version,
            transaction_max_timeout: cluster.transaction_max_timeout,
            transaction_abort_scan_interval: cluster.transaction_abort_scan_interval,
            request_max_bytes: 100 << 20,
            cluster,
        }
    }
}

impl DevBrokerConfig {
    pub(crate) fn cluster_config(&self) -> ClusterConfig {
        ClusterConfig {
            transaction_version: self.transaction_version,
            transaction_max_timeout: self.transaction_max_timeout,
            transaction_abort_scan_interval: self.transaction_abort_scan_interval,
            durable: self.data_dir.is_some(),
            ..self.cluster.clone()
        }
    }
}
