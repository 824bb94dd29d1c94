//! TLS: whom to trust, what names must match, who must show a certificate.

use millstream_protocol::IsolationLevel;
use millstream_protocol::records::Compression;
use millstream_protocol_client::{ClientConfig, ClientError, KafkaClient, NewTopic};
use millstream_testcontainers::JavaRecord;
use millstream_tests::random::Random;
use millstream_tests::records::{consume_all, send};

use crate::certificates::Authority;
use crate::cluster::{Secured, refused, run, secured, works};

fn ssl(secured: &Secured, listener: &str, more: &[(&str, &str)]) -> ClientConfig {
    let mut config = secured.config(listener, &[("security.protocol", "SSL")]);
    config.set_all(more.iter().copied()).unwrap();
    config
}

fn trusting(secured: &Secured, listener: &str, more: &[(&str, &str)]) -> ClientConfig {
    let mut config = ssl(secured, listener, more);
    config.set("ssl.truststore.certificates", &secured.authority.pem).unwrap();
    config
}

#[test]
fn a_broker_with_a_trusted_certificate_is_reached_in_both_versions() {
    let Some(secured) = secured("a_broker_with_a_trusted_certificate_is_reached") else { return };
    works(trusting(secured, "TLS", &[]));
    works(trusting(secured, "TLS", &[("ssl.enabled.protocols", "TLSv1.2")]));
    works(trusting(secured, "TLS", &[("ssl.enabled.protocols", "TLSv1.3")]));
    let file = secured.file("ca.pem");
    works(ssl(
        secured,
        "TLS",
        &[("ssl.truststore.type", "PEM"), ("ssl.truststore.location", &file)],
    ));
    // librdkafka's name.
    works(ssl(secured, "TLS", &[("ssl.ca.location", &file)]));
}

#[test]
fn an_unknown_authority_is_refused() {
    let Some(secured) = secured("an_unknown_authority_is_refused") else { return };
    let mut config = ssl(secured, "TLS", &[]);
    let expected = "the broker's certificate is not signed by a CA that is trusted here: set ssl.truststore.location";
    // The system's certificates.
    let text = refused(config.clone());
    assert!(text.contains(expected) && text.contains("localhost:"), "{text}");
    // Another authority.
    let other = Authority::new("another CA");
    config.set("ssl.truststore.certificates", &other.pem).unwrap();
    let text = refused(config);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_certificate_for_another_host_is_refused_unless_names_are_left_unchecked() {
    let Some(secured) = secured("a_certificate_for_another_host_is_refused") else { return };
    let text = refused(trusting(secured, "ELSEWHERE", &[]));
    let expected =
        "the broker's certificate is not valid for 'localhost', only for elsewhere.example";
    assert!(text.contains(expected), "{text}");
    works(trusting(secured, "ELSEWHERE", &[("ssl.endpoint.identification.algorithm", "")]));
    // Leaving names unchecked leaves everything else checked.
    let unchecked = [("ssl.endpoint.identification.algorithm", "")];
    let text = refused(ssl(secured, "ELSEWHERE", &unchecked));
    assert!(text.contains("not signed by a CA"), "{text}");
}

#[test]
fn an_expired_certificate_is_refused() {
    let Some(secured) = secured("an_expired_certificate_is_refused") else { return };
    let text = refused(trusting(secured, "EXPIRED", &[]));
    assert!(text.contains("the broker's certificate has expired"), "{text}");
}

#[test]
fn a_client_certificate_in_pem_is_accepted() {
    let Some(secured) = secured("a_client_certificate_in_pem_is_accepted") else { return };
    let client = secured.authority.issue(&["client"]);
    let inline = [
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.key", client.key.as_str()),
        ("ssl.keystore.certificate.chain", client.certificate.as_str()),
    ];
    works(trusting(secured, "PEMMTLS", &inline));
    works(trusting(
        secured,
        "PEMMTLS",
        &[&inline[..], &[("ssl.enabled.protocols", "TLSv1.2")]].concat(),
    ));
    client.write_store(&secured.folder.join("client.pem"));
    let file = secured.file("client.pem");
    let located = [("ssl.keystore.type", "PEM"), ("ssl.keystore.location", file.as_str())];
    works(trusting(secured, "PEMMTLS", &located));
}

/// Case B119: the broker knows only the root.
#[test]
fn a_client_certificate_is_sent_with_its_whole_chain() {
    let Some(secured) = secured("a_client_certificate_is_sent_with_its_whole_chain") else {
        return;
    };
    let between = secured.authority.intermediate("intermediate CA");
    let client = between.issue(&["client"]);
    let chain = format!("{}{}", client.certificate, between.pem);
    let keys = [
        ("ssl.keystore.key", client.key.as_str()),
        ("ssl.keystore.certificate.chain", chain.as_str()),
    ];
    works(trusting(secured, "PEMMTLS", &keys));
}

#[test]
fn megabytes_go_through_tls_both_ways_unchanged() {
    let Some(secured) = secured("megabytes_go_through_tls_both_ways") else { return };
    let config = trusting(secured, "TLS", &[]);
    let mut random = Random::new(7);
    let records: Vec<JavaRecord> = (0..400)
        .map(|n| JavaRecord {
            partition: Some(0),
            timestamp: Some(1_700_000_000_000 + n),
            key: Some(n.to_be_bytes().to_vec()),
            value: Some(random.bytes(20_000)),
            headers: Vec::new(),
        })
        .collect();
    let read = run(async {
        let client = KafkaClient::connect(config).await.unwrap();
        client.create_topic(NewTopic::new("through-tls", 1, 1)).await.unwrap();
        send(&client.producer(None), "through-tls", Compression::None, &records, 0).await;
        let read = consume_all(&client, "through-tls", IsolationLevel::ReadCommitted).await;
        client.close().await;
        read
    });
    assert_eq!(read.len(), records.len());
    for (read, sent) in read.iter().zip(&records) {
        assert_eq!((&read.key, &read.value), (&sent.key, &sent.value), "offset {}", read.offset);
    }
}

#[test]
fn a_missing_client_certificate_is_named() {
    let Some(secured) = secured("a_missing_client_certificate_is_named") else { return };
    for version in ["TLSv1.2", "TLSv1.3"] {
        let text = refused(trusting(secured, "PEMMTLS", &[("ssl.enabled.protocols", version)]));
        assert!(text.contains("the broker requires a client certificate"), "{version}: {text}");
        assert!(text.contains("ssl.keystore.location"), "{version}: {text}");
    }
}

#[test]
fn a_client_certificate_of_an_unknown_authority_is_named() {
    let Some(secured) = secured("a_client_certificate_of_an_unknown_authority_is_named") else {
        return;
    };
    let client = Authority::new("another CA").issue(&["client"]);
    for version in ["TLSv1.2", "TLSv1.3"] {
        let text = refused(trusting(
            secured,
            "PEMMTLS",
            &[
                ("ssl.enabled.protocols", version),
                ("ssl.keystore.key", &client.key),
                ("ssl.keystore.certificate.chain", &client.certificate),
            ],
        ));
        assert!(text.contains("the broker does not accept this client's certificate"), "{text}");
    }
}

/// What connecting to a listener with another protocol says, within a short limit.
fn mismatch(mut config: ClientConfig) -> String {
    config.set("default.api.timeout.ms", "4000").unwrap();
    let error = run(KafkaClient::connect(config)).expect_err("this must not connect");
    assert!(
        matches!(error, ClientError::Security { .. } | ClientError::NoBrokerReachable { .. }),
        "{error:?}"
    );
    error.to_string()
}

#[test]
fn tls_on_a_plain_port_is_named() {
    let Some(secured) = secured("tls_on_a_plain_port_is_named") else { return };
    let mut config = ClientConfig::new(secured.kafka.bootstrap_servers());
    config.set("security.protocol", "SSL").unwrap();
    let text = mismatch(config);
    assert!(text.contains("the port may be a PLAINTEXT or SASL_PLAINTEXT listener"), "{text}");
}

#[test]
fn plain_text_on_a_tls_port_is_named() {
    let Some(secured) = secured("plain_text_on_a_tls_port_is_named") else { return };
    let text = mismatch(secured.config("TLS", &[]));
    assert!(text.contains("TLS") && text.contains("security.protocol"), "{text}");
}
