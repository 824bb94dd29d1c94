//! The dev broker behind the same face as real Kafka.

use std::fmt::Display;

use millstream_dev_broker::{DevBroker, DevBrokerConfig, StartError};

use crate::fault_proxy::FaultProxy;
use crate::kafka::KafkaCluster;
use crate::ports::PortLease;

/// A dev broker on a port of its own, with a [`FaultProxy`] before it if wanted. Dropping it ends it.
#[derive(Debug)]
pub struct DevCluster {
    config: DevBrokerConfig,
    broker: Option<DevBroker>,
    proxy: Option<FaultProxy>,
    lease: PortLease,
}

impl DevCluster {
    /// Starts a dev broker. The addresses in `config` are replaced.
    ///
    /// # Errors
    ///
    /// What [`DevBroker::start`] meets, or no free port.
    pub fn start(config: DevBrokerConfig) -> Result<Self, StartError> {
        Self::start_with(config, false)
    }

    /// Starts a dev broker whose clients are told the address of a fault proxy.
    ///
    /// # Errors
    ///
    /// What [`DevBroker::start`] meets, or no free port.
    pub fn start_behind_proxy(config: DevBrokerConfig) -> Result<Self, StartError> {
        Self::start_with(config, true)
    }

    fn start_with(config: DevBrokerConfig, behind_proxy: bool) -> Result<Self, StartError> {
        let no_port =
            |source| StartError::Listen { address: "a free port of 127.0.0.1".to_owned(), source };
        let lease = PortLease::take().map_err(no_port)?;
        let proxy = match behind_proxy {
            true => Some(FaultProxy::start(lease.port()).map_err(no_port)?),
            false => None,
        };
        let config = DevBrokerConfig {
            listen: format!("127.0.0.1:{}", lease.port()),
            advertised: proxy.as_ref().map(FaultProxy::address),
            ..config
        };
        let broker = DevBroker::start(config.clone())?;
        Ok(Self { config, broker: Some(broker), proxy, lease })
    }

    /// Ends the broker; its port stays ours. What it kept in memory is gone.
    pub fn stop(&mut self) {
        self.broker = None;
    }

    /// Starts the broker again at the same address, with what lies in its data folder if it has one.
    ///
    /// # Errors
    ///
    /// What [`DevBroker::start`] meets.
    pub fn start_again(&mut self) -> Result<(), StartError> {
        self.stop();
        self.broker = Some(DevBroker::start(self.config.clone())?);
        Ok(())
    }

    /// The address for clients: that of the fault proxy if there is one.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.proxy.as_ref().map_or_else(|| self.direct_bootstrap_servers(), FaultProxy::address)
    }

    /// The address that goes around the fault proxy.
    #[must_use]
    pub fn direct_bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.lease.port())
    }

    /// The broker, while it runs: for its own scripted faults.
    #[must_use]
    pub fn broker(&self) -> Option<&DevBroker> {
        self.broker.as_ref()
    }

    /// The fault proxy, if there is one.
    #[must_use]
    pub fn proxy(&self) -> Option<&FaultProxy> {
        self.proxy.as_ref()
    }
}

/// A cluster of either kind, for tests that hold on both.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a test holds one or two of them")]
pub enum Cluster {
    /// The dev broker.
    Dev(DevCluster),
    /// Real Apache Kafka.
    Kafka(KafkaCluster),
}

impl Cluster {
    /// Addresses for clients, `host:port` with commas between.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        match self {
            Self::Dev(cluster) => cluster.bootstrap_servers(),
            Self::Kafka(cluster) => cluster.bootstrap_servers(),
        }
    }

    /// Addresses that go around the fault proxies.
    #[must_use]
    pub fn direct_bootstrap_servers(&self) -> String {
        match self {
            Self::Dev(cluster) => cluster.direct_bootstrap_servers(),
            Self::Kafka(cluster) => cluster.direct_bootstrap_servers(),
        }
    }

    /// The fault proxies, one per broker, if the cluster was started with them.
    pub fn proxies(&self) -> impl Iterator<Item = &FaultProxy> {
        let (one, many) = match self {
            Self::Dev(cluster) => (cluster.proxy(), None),
            Self::Kafka(cluster) => (None, Some(cluster.proxies())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

impl Display for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dev(_) => write!(f, "dev broker"),
            Self::Kafka(cluster) => {
                write!(f, "Apache Kafka {}, {} brokers", cluster.version(), cluster.broker_count())
            }
        }
    }
}
