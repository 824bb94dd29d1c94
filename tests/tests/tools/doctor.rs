//! `doctor`: what is wrong, where, and what to change.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use crate::fixtures::{Cluster, USER, kafka};
use crate::tool::{Tool, rows, tool};

fn doctor(servers: &str, properties: &[&str]) -> Tool {
    let patience = ["socket.connection.setup.timeout.ms=4000"];
    let properties = patience.iter().chain(properties);
    properties.fold(tool(servers, "doctor"), |tool, property| tool.arg("-X").arg(*property))
}

/// The failed row, after rows that are fine.
#[track_caller]
fn fails(tool: &Tool, code: i32, check: &str, advice: &[&str]) -> Value {
    let said = tool.clone().json().run();
    assert_eq!(said.code, code, "{}\n{}", said.out, said.err);
    let mut rows = rows(&said.out);
    let last = rows.pop().expect("a failure");
    assert!(rows.iter().all(|row| row["status"] == "ok"), "{}", said.out);
    assert_eq!(
        (last["check"].as_str(), last["status"].as_str()),
        (Some(check), Some("failed")),
        "{last}"
    );
    for word in advice {
        let text = last["advice"].as_str().unwrap_or_default();
        assert!(text.contains(word), "{word:?} is missing in {text:?}: {last}");
    }
    last
}

fn jaas(password: &str) -> String {
    format!(
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{}\" password=\"{password}\";",
        USER.0
    )
}

fn trust(cluster: &Cluster) -> [String; 2] {
    let location = cluster.certificate.display();
    [format!("ssl.truststore.location={location}"), "ssl.truststore.type=PEM".to_owned()]
}

#[test]
fn good_cluster_passes_on_every_listener() {
    let Some(cluster) = kafka("good_cluster_passes_on_every_listener") else { return };
    let [location, kind] = trust(cluster);
    let tls = ["security.protocol=SSL", location.as_str(), kind.as_str()];
    let password = jaas(USER.1);
    let sasl = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", password.as_str()];
    let kafka = &cluster.kafka;
    for (servers, properties, steps) in [
        (
            kafka.bootstrap_servers(),
            &[][..],
            &["resolve", "connect", "API versions", "metadata"][..],
        ),
        (
            kafka.listener_bootstrap_servers("TLS"),
            &tls[..],
            &["resolve", "connect", "TLS handshake", "API versions", "metadata"][..],
        ),
        (
            kafka.listener_bootstrap_servers("SASL"),
            &sasl[..],
            &["resolve", "connect", "API versions", "authenticate", "metadata"][..],
        ),
    ] {
        let rows = doctor(&servers, properties).rows();
        assert!(rows.iter().all(|row| row["status"] == "ok"), "{rows:?}");
        let checks: Vec<_> = rows.iter().map(|row| row["check"].as_str().unwrap()).collect();
        let further =
            ["APIs", "brokers", "features", "transactions", "transaction log", "offsets log"];
        assert_eq!(checks, [steps, &further[..]].concat());
    }
    let text = doctor(&kafka.bootstrap_servers(), &[]).ok();
    assert!(text.contains("transaction.version 2"), "{text}");
    assert!(text.ends_with("nothing stands in the way of a job\n"), "{text}");
    let long = doctor(&kafka.bootstrap_servers(), &["transaction.timeout.ms=86400000"]);
    let said = long.refused(78, &["a check failed"]);
    assert!(
        said.out.contains("FAIL  transactions") && said.out.contains("transaction.max.timeout.ms"),
        "{}",
        said.out
    );
}

#[test]
fn wrong_security_is_told_by_what_the_port_speaks() {
    let Some(cluster) = kafka("wrong_security_is_told_by_what_the_port_speaks") else { return };
    let kafka = &cluster.kafka;
    let (plain, tls, sasl) = (
        kafka.bootstrap_servers(),
        kafka.listener_bootstrap_servers("TLS"),
        kafka.listener_bootstrap_servers("SASL"),
    );
    fails(&doctor(&tls, &[]), 69, "API versions", &["speaks TLS", "security.protocol=SSL"]);
    let ssl = "security.protocol=SSL";
    let refused = doctor(&plain, &[ssl]).json().run();
    assert!([69, 78].contains(&refused.code), "{}", refused.err);
    assert!(
        refused.out.contains("speaks Kafka without TLS: set security.protocol=PLAINTEXT"),
        "{}",
        refused.out
    );
    fails(&doctor(&tls, &[ssl]), 78, "TLS handshake", &["ssl.truststore.location"]);
    fails(
        &doctor(&sasl, &[]),
        69,
        "metadata",
        &["security.protocol=SASL_PLAINTEXT", "it offers (PLAIN)", "sasl.jaas.config"],
    );
    let password = jaas("hunter2");
    let wrong = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", password.as_str()];
    let row = fails(&doctor(&sasl, &wrong), 78, "authenticate", &["user and password"]);
    assert!(row["found"].as_str().unwrap().contains("refused the credentials"), "{row}");
    assert!(!row.to_string().contains("hunter2"), "{row}");
    let scram = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-256",
        "sasl.jaas.config=ScramLoginModule required username=\"a\" password=\"b\";",
    ];
    let row = fails(&doctor(&sasl, &scram), 78, "authenticate", &["sasl.mechanism"]);
    assert!(row["found"].as_str().unwrap().contains("it offers PLAIN"), "{row}");
    let password = jaas(USER.1);
    let none = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", password.as_str()];
    let advice = "security.protocol without SASL";
    fails(&doctor(&plain, &none), 78, "authenticate", &[advice]);
}

#[test]
fn address_without_a_broker_is_told_by_what_is_there() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
    fails(&doctor(&port.to_string(), &[]), 69, "connect", &["the broker runs"]);
    fails(&doctor("no-such-host.invalid:9092", &[]), 69, "resolve", &["spelling"]);
    let http = server_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    fails(&doctor(&http, &[]), 69, "API versions", &["port of a Kafka listener"]);
}

/// Answers every connection with `answer` as soon as it hears something.
fn server_that_says(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut heard = [0; 64];
            if stream.read(&mut heard).is_ok() {
                let _ = stream.write_all(answer);
            }
        }
    });
    address
}
