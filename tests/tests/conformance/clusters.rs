//! The clusters, one of each kind for the whole suite, and what tests do with them.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millstream_dev_broker::DevBrokerConfig;
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{ClientConfig, KafkaClient, NewTopic, OffsetSpec};
use millstream_testcontainers::{
    Availability, Cluster, DevCluster, FaultHandle, FaultRule, KafkaCluster, OLDER_VERSION,
    availability, real_kafka_or_skip,
};
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout};

/// A machine may be busy with more than this test.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// What kind of cluster. The number is the level of `transaction.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Dev(i16),
    Kafka(u16),
    ThreeBrokers,
    Older,
}

/// A cluster behind fault proxies.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) kind: Kind,
    pub(crate) cluster: Cluster,
}

/// Runs a test on the cluster of a kind, within a time limit.
pub(crate) fn run<F: Future<Output = ()>>(
    kind: Kind,
    name: &str,
    test: impl FnOnce(&'static Arena) -> F,
) {
    if !matches!(kind, Kind::Dev(_)) && !real_kafka_or_skip(name) {
        return;
    }
    let arena = arena(kind);
    let within = async { timeout(LIMIT, test(arena)).await.expect("the test ends in time") };
    Runtime::new().unwrap().block_on(within);
}

fn arena(kind: Kind) -> &'static Arena {
    static ARENAS: [OnceLock<Arena>; 7] = [const { OnceLock::new() }; 7];
    let place = match kind {
        Kind::Dev(level) => usize::from(level == 2),
        Kind::Kafka(level) => 2 + usize::from(level),
        Kind::ThreeBrokers => 5,
        Kind::Older => 6,
    };
    ARENAS[place].get_or_init(|| Arena { kind, cluster: start(kind) })
}

fn start(kind: Kind) -> Cluster {
    let mut builder = KafkaCluster::builder()
        .fault_proxy()
        .property("log.cleaner.backoff.ms", "200")
        .property("offsets.retention.check.interval.ms", "1000");
    if *availability() == Availability::Jars {
        builder = builder.links();
    }
    builder = match kind {
        Kind::Dev(level) => {
            let config = DevBrokerConfig {
                transaction_version: level,
                transaction_abort_scan_interval: Duration::from_millis(200),
                ..DevBrokerConfig::default()
            };
            return Cluster::Dev(DevCluster::start_behind_proxy(config).unwrap());
        }
        // No room for any session: a broker may refuse them for good.
        Kind::Kafka(1) => builder
            .transaction_version(1)
            .property("max.incremental.fetch.session.cache.slots", "1"),
        Kind::Kafka(level) => builder.transaction_version(level),
        Kind::ThreeBrokers => builder.brokers(3).heap("384m"),
        Kind::Older => builder.version(OLDER_VERSION),
    };
    Cluster::Kafka(builder.start().unwrap())
}

impl Arena {
    /// Addresses for clients, through the proxies.
    pub(crate) fn servers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// A client whose name no other client has, so that rules and versions can be told apart.
    pub(crate) async fn client(&self, id: &str, properties: &[&str]) -> KafkaClient {
        let config = ClientConfig::new(self.servers());
        let config = config.with([format!("client.id={id}")]).unwrap();
        KafkaClient::connect(config.with(properties).unwrap()).await.unwrap()
    }

    /// A topic that no other test uses.
    pub(crate) async fn topic(
        &self,
        client: &KafkaClient,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> String {
        let name = unique("conformance");
        let replicas = if self.kind == Kind::ThreeBrokers { 3 } else { 1 };
        let configs = configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let topic =
            NewTopic { configs: configs.collect(), ..NewTopic::new(&name, partitions, replicas) };
        assert!(client.create_topic(topic).await.unwrap());
        name
    }

    /// Puts a rule in force before every broker.
    pub(crate) fn rule(&self, rule: &FaultRule) -> Vec<FaultHandle> {
        self.cluster.proxies().map(|proxy| proxy.add_rule(rule.clone())).collect()
    }

    /// The versions in which a client has sent requests of an API.
    pub(crate) fn versions(&self, client: &str, api: i16) -> BTreeSet<i16> {
        self.cluster.proxies().flat_map(|proxy| proxy.request_versions(client, api)).collect()
    }

    /// The finalized level of `transaction.version`.
    pub(crate) fn transaction_version(&self) -> i16 {
        match self.kind {
            Kind::Dev(level) => level,
            Kind::Kafka(level) => i16::try_from(level).unwrap(),
            Kind::ThreeBrokers => 2,
            Kind::Older => 0,
        }
    }

    /// The real cluster.
    pub(crate) fn kafka(&self) -> Option<&KafkaCluster> {
        match &self.cluster {
            Cluster::Kafka(kafka) => Some(kafka),
            Cluster::Dev(_) => None,
        }
    }
}

/// How often a rule acted, before all brokers.
pub(crate) fn matched(rule: &[FaultHandle]) -> u64 {
    rule.iter().map(FaultHandle::matched).sum()
}

/// A name that no other test uses.
pub(crate) fn unique(prefix: &str) -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn partition(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// Waits until no transaction is open in the partition: a commit is decided when it is answered, and visible once its markers
/// are written.
pub(crate) async fn settled(client: &KafkaClient, tp: &TopicPartition) {
    let asked = [(tp.clone(), OffsetSpec::Latest)];
    let end = async |isolation| client.list_offsets(&asked, isolation).await.unwrap()[tp].offset;
    eventually("the markers", || async {
        let stable = end(IsolationLevel::ReadCommitted).await;
        (stable == end(IsolationLevel::ReadUncommitted).await).then_some(())
    })
    .await;
}

/// Looks until `found` gives something.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
