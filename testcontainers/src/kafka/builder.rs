//! What a cluster should be like.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kafka::cluster::KafkaCluster;
use crate::kafka::error::ClusterError;
use crate::kafka::jars::QUICK_START;

/// The release that runs if none is named.
pub const DEFAULT_VERSION: &str = "4.3.1";

/// Settings of a [`KafkaCluster`].
#[derive(Clone, Debug)]
pub struct KafkaClusterBuilder {
    pub(crate) version: String,
    pub(crate) brokers: usize,
    pub(crate) transaction_version: Option<u16>,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) fault_proxy: bool,
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
