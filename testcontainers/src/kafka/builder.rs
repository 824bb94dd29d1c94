//! What a cluster should be like.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::kafka::cluster::KafkaCluster;
use crate::kafka::error::ClusterError;
use crate::kafka::jars::QUICK_START;

/// The release that runs if none is named.
pub const DEFAULT_VERSION: &str = "4.3.1";

/// An older release that tests run against too: the last line before 4.0, where many old request versions still exist.
pub const OLDER_VERSION: &str = "3.9.1";

/// A listener beside the cluster's own.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) security_protocol: String,
}

/// Settings of a [`KafkaCluster`].
#[derive(Clone, Debug)]
pub struct KafkaClusterBuilder {
    pub(crate) version: String,
    pub(crate) brokers: usize,
    pub(crate) transaction_version: Option<u16>,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) fault_proxy: bool,
    pub(crate) links: bool,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) scram_users: Vec<String>,
    pub(crate) shared_folder: Option<PathBuf>,
    pub(crate) heap: String,
    pub(crate) jvm_flags: Vec<String>,
    pub(crate) ready_limit: Duration,
}

impl Default for KafkaClusterBuilder {
    fn default() -> Self {
        Self {
            version: DEFAULT_VERSION.to_owned(),
            brokers: 1,
            transaction_version: None,
            properties: BTreeMap::new(),
            fault_proxy: false,
            links: false,
            listeners: Vec::new(),
            scram_users: Vec::new(),
            shared_folder: None,
            heap: "512m".to_owned(),
            jvm_flags: QUICK_START.map(str::to_owned).to_vec(),
            ready_limit: Duration::from_secs(120),
        }
    }
}

impl KafkaClusterBuilder {
    /// The release, default [`DEFAULT_VERSION`]. KRaft only, so 3.3 or later.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Number of nodes, each broker and controller, default 1. Topics are replicated three times from 3 on, with two in sync.
    #[must_use]
    pub fn brokers(mut self, brokers: usize) -> Self {
        self.brokers = brokers.max(1);
        self
    }

    /// Level of the feature `transaction.version` (KIP-1022, KIP-890): 2 brings a new epoch with every transaction. The default is
    /// the newest level that the release knows. Needs 3.9 or later.
    #[must_use]
    pub fn transaction_version(mut self, level: u16) -> Self {
        self.transaction_version = Some(level);
        self
    }

    /// Sets a broker property, over the light defaults.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Puts a [`FaultProxy`](crate::FaultProxy) before each broker: clients are told its port. Tools go around it.
    #[must_use]
    pub fn fault_proxy(mut self) -> Self {
        self.fault_proxy = true;
        self
    }

    /// Puts a fault proxy on every way from node to node, replication and controllers: see
    /// [`KafkaCluster::isolate_broker`] and [`KafkaCluster::link`]. Only for brokers from jars.
    #[must_use]
    pub fn links(mut self) -> Self {
        self.links = true;
        self
    }

    /// Adds a listener under `name` (capital letters and digits) with a security protocol as Kafka names it: PLAINTEXT, SSL,
    /// SASL_PLAINTEXT, SASL_SSL. It is advertised as `localhost`; its port is found by
    /// [`KafkaCluster::listener_bootstrap_servers`]. What it needs is set by
    /// [`listener_property`](Self::listener_property). The cluster's own listeners stay PLAINTEXT.
    #[must_use]
    pub fn listener(mut self, name: &str, security_protocol: &str) -> Self {
        let listener =
            Listener { name: name.to_owned(), security_protocol: security_protocol.to_owned() };
        self.listeners.push(listener);
        self
    }

    /// Sets a property of one listener, such as `ssl.keystore.location` or `plain.sasl.jaas.config`.
    #[must_use]
    pub fn listener_property(self, listener: &str, name: &str, value: impl Into<String>) -> Self {
        let name = format!("listener.name.{}.{name}", listener.to_lowercase());
        self.property(name, value)
    }

    /// Creates a user for SCRAM when the storage is formatted. `mechanism`: `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    #[must_use]
    pub fn scram_user(mut self, mechanism: &str, name: &str, password: &str) -> Self {
        self.scram_users.push(format!("{mechanism}=[name={name},password={password}]"));
        self
    }

    /// A folder that brokers see under the same path, for key stores. Only brokers in containers need to be told.
    #[must_use]
    pub fn shared_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.shared_folder = Some(folder.into());
        self
    }

    /// Largest heap of a broker as `java -Xmx` takes it, default `512m`.
    #[must_use]
    pub fn heap(mut self, heap: impl Into<String>) -> Self {
        self.heap = heap.into();
        self
    }

    /// Leaves the JVM its own collector and compilers: slower to start, faster under load.
    #[must_use]
    pub fn for_benchmarks(mut self) -> Self {
        self.jvm_flags.clear();
        self
    }

    /// How long the cluster may take to become ready, default 2 minutes.
    #[must_use]
    pub fn ready_limit(mut self, limit: Duration) -> Self {
        self.ready_limit = limit;
        self
    }

    /// Starts the cluster and returns when every broker knows every other as alive. Blocks; from asynchronous code that drives
    /// something else on the same thread, call it on a thread of its own.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Unavailable`] where neither jars nor images can be run, else what went wrong, with the folder of the logs.
    pub fn start(self) -> Result<KafkaCluster, ClusterError> {
        KafkaCluster::start(&self)
    }
}
