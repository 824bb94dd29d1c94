//! One cluster for all tests, with a listener for TLS and one for SASL, and without the check that keeps transactions from
//! hanging.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millstream_protocol_client::{ClientConfig, KafkaClient};
use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
use millstream_tests::wait::wait_until;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::tool::{Tool, tool};

/// The cluster.
pub(crate) struct Cluster {
    pub(crate) kafka: KafkaCluster,
    /// The certificate of the TLS listener, PEM: whom to trust.
    pub(crate) certificate: PathBuf,
    _folder: TempDir,
}

/// The user of the SASL listener.
pub(crate) const USER: (&str, &str) = ("alice", "alice-secret");

/// The cluster; `None` (and the test is counted as skipped) where it can not run.
pub(crate) fn kafka(test_name: &str) -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    real_kafka_or_skip(test_name).then(|| CLUSTER.get_or_init(start))
}

fn start() -> Cluster {
    let folder = TempDir::new().unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let issued = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let store = folder.path().join("broker.pem");
    std::fs::write(&store, format!("{}{}", key.serialize_pem(), issued.pem())).unwrap();
    let certificate = folder.path().join("certificate.pem");
    std::fs::write(&certificate, issued.pem()).unwrap();
    let module = format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_{}=\"{}\";",
        USER.0, USER.1
    );
    let kafka = KafkaCluster::builder()
        .shared_folder(folder.path())
        .property("transaction.partition.verification.enable", "false")
        .property("connection.failed.authentication.delay.ms", "50")
        .property("group.initial.rebalance.delay.ms", "0")
        .listener("TLS", "SSL")
        .listener_property("TLS", "ssl.keystore.type", "PEM")
        .listener_property("TLS", "ssl.keystore.location", store.display().to_string())
        .listener("SASL", "SASL_PLAINTEXT")
        .listener_property("SASL", "sasl.enabled.mechanisms", "PLAIN")
        .listener_property("SASL", "plain.sasl.jaas.config", module)
        .start()
        .unwrap();
    Cluster { kafka, certificate, _folder: folder }
}

impl Cluster {
    /// `millstream` for this cluster.
    pub(crate) fn tool(&self, line: &str) -> Tool {
        tool(&self.kafka.bootstrap_servers(), line)
    }

    /// A topic that no other test uses.
    pub(crate) fn new_topic(&self, partitions: u32) -> String {
        let topic = unique("tools");
        self.tool(&format!("topic create {topic} --partitions {partitions}")).ok();
        topic
    }

    /// Works with a client of its own.
    pub(crate) fn with_client<T, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(KafkaClient) -> F,
    ) -> T {
        Runtime::new().unwrap().block_on(async {
            let config = ClientConfig::new(self.kafka.bootstrap_servers());
            let client = KafkaClient::connect(config).await.unwrap();
            let done = work(client.clone()).await;
            client.close().await;
            done
        })
    }
}

/// A name that no other test uses.
pub(crate) fn unique(prefix: &str) -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

#[track_caller]
pub(crate) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    wait_until(what, Duration::from_secs(60), condition);
}
