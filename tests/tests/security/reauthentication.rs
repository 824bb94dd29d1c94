//! A broker that limits sessions (KIP-368).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use millstream_protocol_client::{KafkaClient, NewTopic};

use crate::cluster::{PLAIN, run, secured};
use crate::sasl::plain;

/// Local ports of this machine's connections to a port, by the system's own table (IPv4).
fn connections_to(port: u16) -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let established = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(2)?.ends_with(&remote) && *fields.get(3)? == "01").then(|| fields[1].to_owned())
    };
    table.lines().filter_map(established).collect()
}

#[test]
fn a_session_is_renewed_on_its_connection_as_often_as_it_ends() {
    let Some(secured) = secured("a_session_is_renewed_on_its_connection") else { return };
    let mut config = secured.config(
        "RENEWED",
        &[
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.jaas.config", &plain(PLAIN)),
        ],
    );
    // A connection that the broker closed would show as a lost request.
    config.set("retry.backoff.ms", "1").unwrap();
    let port: u16 = config.bootstrap_servers[0].rsplit(':').next().unwrap().parse().unwrap();
    run(async {
        let client = KafkaClient::connect(config).await.unwrap();
        client.create_topic(NewTopic::new("renewed", 1, 1)).await.unwrap();
        let before = connections_to(port);
        assert!(!before.is_empty());
        // More than three sessions of two seconds, with requests all the time.
        let started = Instant::now();
        let mut requests = 0;
        while started.elapsed() < Duration::from_secs(7) {
            assert!(client.describe_topic("renewed").await.unwrap().is_some());
            requests += 1;
        }
        assert!(requests > 100, "{requests} requests");
        assert_eq!(connections_to(port), before, "no connection was made anew");
        client.close().await;
    });
}
