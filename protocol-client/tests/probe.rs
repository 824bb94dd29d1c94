//! Probes of one address: each step in its order, and the first that fails is the last.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::net::TcpListener;
use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_protocol::network::DisconnectReason;
use millstream_protocol_client::{
    BrokerProbe, ClientConfig, ProbeStep, offered_mechanisms, probe_broker,
};

fn config(properties: &[&str]) -> ClientConfig {
    let quick = ["socket.connection.setup.timeout.ms=1000"];
    ClientConfig::new("unused:1").with(quick.iter().chain(properties)).unwrap()
}

fn steps(probe: &BrokerProbe) -> Vec<ProbeStep> {
    probe.steps.iter().map(|step| step.step).collect()
}

#[tokio::test]
async fn every_step_to_a_broker_is_taken_and_told() {
    let config_of_broker =
        DevBrokerConfig { listen: "127.0.0.1:0".to_owned(), ..DevBrokerConfig::default() };
    let broker = DevBroker::start(config_of_broker).unwrap();
    let probe = probe_broker(&config(&[]), broker.address()).await.unwrap();
    assert_eq!(probe.failure(), None);
    let expected =
        [ProbeStep::Resolve, ProbeStep::Connect, ProbeStep::ApiVersions, ProbeStep::Metadata];
    assert_eq!(steps(&probe), expected);
    assert_eq!(probe.steps[0].result, Ok("127.0.0.1".to_owned()));
    let advertised: Vec<_> = probe.advertised.iter().map(|(_, address)| address.as_str()).collect();
    assert_eq!(advertised, [broker.address()]);
    assert!(probe.api_versions.is_some_and(|versions| !versions.api_keys.is_empty()));
    let offered = offered_mechanisms(&config(&[]), broker.address()).await;
    assert_eq!(offered, Ok(None), "it has no SASL");
}

#[tokio::test]
async fn tls_to_a_plain_port_fails_in_the_handshake() {
    let config_of_broker =
        DevBrokerConfig { listen: "127.0.0.1:0".to_owned(), ..DevBrokerConfig::default() };
    let broker = DevBroker::start(config_of_broker).unwrap();
    let config = config(&["security.protocol=SSL"]);
    let probe = probe_broker(&config, broker.address()).await.unwrap();
    let (step, reason) = probe.failure().expect("no TLS there");
    assert_eq!(step, ProbeStep::TlsHandshake);
    assert!(matches!(reason, DisconnectReason::TlsFailed(_)), "{reason}");
    assert_eq!(probe.steps.len(), 3);
}

#[tokio::test]
async fn what_is_not_there_or_says_nothing_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Accepted by the system, and never answered.
    let probe = probe_broker(&config(&[]), &address).await.unwrap();
    let silent = DisconnectReason::Silent { after: Duration::from_secs(1) };
    assert_eq!(probe.failure(), Some((ProbeStep::ApiVersions, &silent)));
    drop(listener);
    let probe = probe_broker(&config(&[]), &address).await.unwrap();
    assert_eq!(probe.failure(), Some((ProbeStep::Connect, &DisconnectReason::Refused)));
    let error = probe_broker(&config(&[]), "no-port").await.unwrap_err().to_string();
    assert!(error.contains("no-port") && error.contains("host:port"), "{error}");
}
