//! Nothing that is printed, logged or returned as an error shows a secret.

use std::io::Write;
use std::sync::{Arc, Mutex};

use millstream_protocol_client::{ClientConfig, KafkaClient};
use tracing_subscriber::fmt::MakeWriter;

use crate::cluster::{PLAIN, secured};
use crate::sasl::plain;

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Case B121.
#[test]
fn debug_output_and_logs_hold_no_secret() {
    let mut config = ClientConfig::new("localhost:1");
    let secrets = [
        ("sasl.jaas.config", plain(("alice", "hunter2-jaas"))),
        ("sasl.password", "hunter2-sasl".to_owned()),
        ("ssl.keystore.password", "hunter2-store".to_owned()),
        ("ssl.truststore.password", "hunter2-trust".to_owned()),
        ("ssl.key.password", "hunter2-key".to_owned()),
        ("ssl.keystore.key", "hunter2-pem".to_owned()),
        ("sasl.oauthbearer.client.credentials.client.secret", "hunter2-client".to_owned()),
        ("sasl.oauthbearer.token", "hunter2-token".to_owned()),
    ];
    for (name, value) in &secrets {
        config.set(name, value).unwrap();
    }
    let printed = format!("{config:?} {config:#?}");
    assert!(!printed.contains("hunter2"), "{printed}");

    let Some(secured) = secured("debug_output_and_logs_hold_no_secret") else { return };
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    for password in [PLAIN.1, "hunter2"] {
        let properties = [
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.jaas.config", &plain((PLAIN.0, password))),
        ];
        // A runtime of many threads would log elsewhere.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = secured.config("SASL", &properties);
        let outcome = runtime.block_on(KafkaClient::connect(config));
        let printed = format!("{outcome:?}");
        assert!(!printed.contains(password), "{printed}");
    }
    drop(guard);
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("SASL_PLAINTEXT"), "the warning is there: {logged}");
    for secret in ["hunter2", PLAIN.1] {
        assert!(!logged.contains(secret), "{logged}");
    }
}
