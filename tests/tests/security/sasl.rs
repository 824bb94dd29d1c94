//! SASL: each mechanism, and each way to be turned away.

use millstream_protocol_client::{ClientConfig, KafkaClient};

use crate::cluster::{PLAIN, SCRAM, Secured, refused, run, secured, works};

fn module(class: &str, user: (&str, &str)) -> String {
    let (name, password) = user;
    format!(
        "org.apache.kafka.common.security.{class} required username=\"{name}\" password='{password}';"
    )
}

pub(crate) fn plain(user: (&str, &str)) -> String {
    module("plain.PlainLoginModule", user)
}

fn scram(user: (&str, &str)) -> String {
    module("scram.ScramLoginModule", user)
}

fn sasl(secured: &Secured, mechanism: &str, module: &str) -> ClientConfig {
    secured.config(
        "SASL",
        &[
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", mechanism),
            ("sasl.jaas.config", module),
        ],
    )
}

fn sasl_ssl(secured: &Secured, mechanism: &str, module: &str) -> ClientConfig {
    secured.config(
        "SASLTLS",
        &[
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", mechanism),
            ("sasl.jaas.config", module),
            ("ssl.truststore.certificates", &secured.authority.pem),
        ],
    )
}

#[test]
fn plain_is_accepted() {
    let Some(secured) = secured("plain_is_accepted") else { return };
    works(sasl(secured, "PLAIN", &plain(PLAIN)));
    // By librdkafka's names, and the mechanism's name in small letters.
    let properties = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanisms", "plain"),
        ("sasl.username", PLAIN.0),
        ("sasl.password", PLAIN.1),
    ];
    works(secured.config("SASL", &properties));
}

#[test]
fn scram_is_accepted_with_both_hashes_and_under_tls() {
    let Some(secured) = secured("scram_is_accepted") else { return };
    works(sasl(secured, "SCRAM-SHA-256", &scram(SCRAM)));
    works(sasl(secured, "SCRAM-SHA-512", &scram(SCRAM)));
    works(sasl_ssl(secured, "SCRAM-SHA-512", &scram(SCRAM)));
}

#[test]
fn a_wrong_password_is_told_at_once() {
    let Some(secured) = secured("a_wrong_password_is_told_at_once") else { return };
    let text = refused(sasl(secured, "PLAIN", &plain((PLAIN.0, "hunter2"))));
    let expected = "authentication failed: PLAIN: the broker refused the credentials (Authentication failed: Invalid username or password)";
    assert!(text.contains(expected), "{text}");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for user in [(SCRAM.0, "hunter2"), ("nobody", SCRAM.1)] {
            let text = refused(sasl(secured, mechanism, &scram(user)));
            let expected = format!("{mechanism}: the broker refused the credentials");
            assert!(text.contains(&expected) && !text.contains("hunter2"), "{text}");
        }
    }
    let text = refused(sasl_ssl(secured, "SCRAM-SHA-512", &scram((SCRAM.0, "hunter2"))));
    assert!(text.contains("SCRAM-SHA-512: the broker refused the credentials"), "{text}");
}

#[test]
fn a_mechanism_that_is_not_offered_is_answered_with_those_that_are() {
    let Some(secured) = secured("a_mechanism_that_is_not_offered") else { return };
    let text = refused(sasl_ssl(secured, "PLAIN", &plain(PLAIN)));
    assert!(text.contains("the broker does not offer PLAIN on this listener"), "{text}");
    assert!(text.contains("SCRAM-SHA-512") && text.contains("OAUTHBEARER"), "{text}");
}

#[test]
fn sasl_on_a_listener_without_it_is_named() {
    let Some(secured) = secured("sasl_on_a_listener_without_it_is_named") else { return };
    let mut config = sasl(secured, "PLAIN", &plain(PLAIN));
    config.set("bootstrap.servers", &secured.kafka.bootstrap_servers()).unwrap();
    let text = refused(config);
    assert!(text.contains("this listener does not use SASL"), "{text}");
}

#[test]
fn no_sasl_on_a_listener_with_it_is_named() {
    let Some(secured) = secured("no_sasl_on_a_listener_with_it_is_named") else { return };
    let config = secured.config("SASL", &[("default.api.timeout.ms", "3000")]);
    let text = run(KafkaClient::connect(config)).unwrap_err().to_string();
    assert!(
        text.contains("a SASL listener does so with a client that does not authenticate"),
        "{text}"
    );
}
