//! One broker with a listener for each case.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_protocol_client::{ClientConfig, ClientError, KafkaClient, NewTopic};
use millstream_testcontainers::{
    Availability, KafkaCluster, availability, real_kafka_or_skip, skip,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::certificates::{Authority, KeytoolStores, STORE_PASSWORD};

/// The broker, and what its certificates were made of.
pub(crate) struct Secured {
    pub(crate) kafka: KafkaCluster,
    pub(crate) authority: Authority,
    pub(crate) keytool: KeytoolStores,
    pub(crate) folder: PathBuf,
    _folder: TempDir,
}

/// A user of PLAIN and one of SCRAM.
pub(crate) const PLAIN: (&str, &str) = ("alice", "alice-secret");
pub(crate) const SCRAM: (&str, &str) = ("sandra", "scram-secret");

/// The broker for all tests; `None` (and the test is counted as skipped) where it can not run.
pub(crate) fn secured(test_name: &str) -> Option<&'static Secured> {
    static SECURED: OnceLock<Secured> = OnceLock::new();
    if !real_kafka_or_skip(test_name) {
        return None;
    }
    if *availability() != Availability::Jars {
        skip(test_name, "no JVM with keytool");
        return None;
    }
    Some(SECURED.get_or_init(start))
}

fn start() -> Secured {
    let temp = TempDir::new().unwrap();
    let folder = temp.path().to_owned();
    let path = |name: &str| folder.join(name).display().to_string();
    let authority = Authority::new("Millstream test CA");
    authority.issue(&["localhost", "127.0.0.1"]).write_store(&folder.join("good.pem"));
    authority.issue(&["elsewhere.example"]).write_store(&folder.join("elsewhere.pem"));
    authority.issue_until(&["localhost"], 2001).write_store(&folder.join("expired.pem"));
    std::fs::write(folder.join("ca.pem"), &authority.pem).unwrap();
    let keytool = KeytoolStores::make(&folder);

    let mut builder = KafkaCluster::builder().shared_folder(&folder);
    for (listener, store) in [
        ("TLS", "good.pem"),
        ("PEMMTLS", "good.pem"),
        ("ELSEWHERE", "elsewhere.pem"),
        ("EXPIRED", "expired.pem"),
        ("SASLTLS", "good.pem"),
    ] {
        let protocol = if listener == "SASLTLS" { "SASL_SSL" } else { "SSL" };
        builder = builder
            .listener(listener, protocol)
            .listener_property(listener, "ssl.keystore.type", "PEM")
            .listener_property(listener, "ssl.keystore.location", path(store));
    }
    builder = builder
        .listener_property("PEMMTLS", "ssl.client.auth", "required")
        .listener_property("PEMMTLS", "ssl.truststore.type", "PEM")
        .listener_property("PEMMTLS", "ssl.truststore.location", path("ca.pem"))
        .listener("JKSMTLS", "SSL")
        .listener_property("JKSMTLS", "ssl.client.auth", "required")
        .listener_property("JKSMTLS", "ssl.keystore.type", "JKS")
        .listener_property("JKSMTLS", "ssl.keystore.location", keytool.path("server.jks"))
        .listener_property("JKSMTLS", "ssl.keystore.password", STORE_PASSWORD)
        .listener_property("JKSMTLS", "ssl.key.password", STORE_PASSWORD)
        .listener_property("JKSMTLS", "ssl.truststore.type", "JKS")
        .listener_property("JKSMTLS", "ssl.truststore.location", keytool.path("server-trust.jks"))
        .listener_property("JKSMTLS", "ssl.truststore.password", STORE_PASSWORD)
        .listener("SASL", "SASL_PLAINTEXT")
        .listener_property(
            "SASL",
            "sasl.enabled.mechanisms",
            "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        )
        .listener("RENEWED", "SASL_PLAINTEXT")
        .listener_property("RENEWED", "sasl.enabled.mechanisms", "PLAIN")
        .listener_property("RENEWED", "plain.connections.max.reauth.ms", "2000")
        .listener_property("SASLTLS", "sasl.enabled.mechanisms", "SCRAM-SHA-512,OAUTHBEARER")
        .scram_user("SCRAM-SHA-256", SCRAM.0, SCRAM.1)
        .scram_user("SCRAM-SHA-512", SCRAM.0, SCRAM.1);
    let plain = format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_{}=\"{}\";",
        PLAIN.0, PLAIN.1
    );
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";";
    for (listener, mechanism, module) in [
        ("SASL", "plain", plain.as_str()),
        ("RENEWED", "plain", plain.as_str()),
        ("SASL", "scram-sha-256", scram),
        ("SASL", "scram-sha-512", scram),
        ("SASLTLS", "scram-sha-512", scram),
        ("SASL", "oauthbearer", bearer),
        ("SASLTLS", "oauthbearer", bearer),
    ] {
        builder =
            builder.listener_property(listener, &format!("{mechanism}.sasl.jaas.config"), module);
    }
    // Kafka waits before it tells a failure, and closes then.
    let builder = builder.property("connection.failed.authentication.delay.ms", "50");
    let kafka = builder.start().unwrap();
    Secured { kafka, authority, keytool, folder, _folder: temp }
}

impl Secured {
    /// A configuration for a listener with these properties.
    pub(crate) fn config(&self, listener: &str, properties: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new(self.kafka.listener_bootstrap_servers(listener));
        config.set_all(properties.iter().copied()).unwrap();
        config
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// Connects, creates a topic and finds it: requests after the handshakes work too, on both connections.
#[track_caller]
pub(crate) fn works(config: ClientConfig) {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    let topic = format!("security-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
    run(async {
        let client = KafkaClient::connect(config).await.unwrap();
        client.create_topic(NewTopic::new(&topic, 1, 1)).await.unwrap();
        assert!(client.describe_topic(&topic).await.unwrap().is_some());
        client.close().await;
    });
}

/// The error of connecting, its text, and that it came at once and not after a time limit.
#[track_caller]
pub(crate) fn refused(config: ClientConfig) -> String {
    let started = std::time::Instant::now();
    let error = run(KafkaClient::connect(config)).expect_err("this must not connect");
    assert!(started.elapsed().as_secs() < 7, "it took {:?}: {error}", started.elapsed());
    assert!(matches!(error, ClientError::Security { .. }), "{error:?}");
    error.to_string()
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}
