//! Key stores and trust stores as Java's `keytool` makes them, and encrypted keys as OpenSSL makes them.

use millstream_protocol_client::{ClientConfig, ClientError, KafkaClient};

use crate::certificates::{KEY_PASSWORD, STORE_PASSWORD};
use crate::cluster::{Secured, run, secured, works};

fn ssl(secured: &Secured, trust: &str, key: &str, more: &[(&str, &str)]) -> ClientConfig {
    let mut config = secured.config("JKSMTLS", &[("security.protocol", "SSL")]);
    config
        .set_all([
            ("ssl.truststore.location", secured.keytool.path(trust).as_str()),
            ("ssl.truststore.password", STORE_PASSWORD),
            ("ssl.keystore.location", secured.keytool.path(key).as_str()),
            ("ssl.keystore.password", STORE_PASSWORD),
        ])
        .unwrap();
    config.set_all(more.iter().copied()).unwrap();
    config
}

#[test]
fn jks_stores_of_keytool_are_read() {
    let Some(secured) = secured("jks_stores_of_keytool_are_read") else { return };
    let key = [
        ("ssl.key.password", KEY_PASSWORD),
        ("ssl.keystore.type", "JKS"),
        ("ssl.truststore.type", "JKS"),
    ];
    works(ssl(secured, "client-trust.jks", "client.jks", &key));
    // Java writes keys on elliptic curves without their public half.
    works(ssl(secured, "client-trust.jks", "client-ec.jks", &key));
    // A truststore may be read without its password, as in Java.
    let key = [("ssl.key.password", KEY_PASSWORD), ("ssl.truststore.password", "")];
    works(ssl(secured, "client-trust.jks", "client.jks", &key));
}

#[test]
fn pkcs12_stores_of_keytool_are_read() {
    let Some(secured) = secured("pkcs12_stores_of_keytool_are_read") else { return };
    let types = [("ssl.keystore.type", "PKCS12"), ("ssl.truststore.type", "PKCS12")];
    works(ssl(secured, "client-trust.p12", "client.p12", &types));
    works(ssl(secured, "client-trust.p12", "client-ec.p12", &types));
    // Named wrongly, as often: the file decides.
    let types = [("ssl.keystore.type", "JKS"), ("ssl.truststore.type", "JKS")];
    works(ssl(secured, "client-trust.p12", "client.p12", &types));
}

#[test]
fn what_is_wrong_with_a_store_is_named_before_anything_is_sent() {
    let Some(secured) = secured("what_is_wrong_with_a_store_is_named") else { return };
    let wrong = ("ssl.keystore.password", "hunter2");
    for (trust, key, more, part) in [
        ("client-trust.jks", "client.jks", &[wrong][..], "ssl.keystore.password is wrong"),
        (
            "client-trust.jks",
            "client.jks",
            &[("ssl.key.password", "hunter2")],
            "ssl.key.password is wrong",
        ),
        ("client-trust.jks", "client.p12", &[wrong], "ssl.keystore.password may be wrong"),
        ("client-trust.jks", "missing.p12", &[], "No such file"),
        ("client-trust.jks", "server.crt", &[], "neither JKS nor PKCS12 nor PEM"),
        ("client-trust.jks", "client-trust.p12", &[], "a private key and its certificate"),
    ] {
        let error = run(KafkaClient::connect(ssl(secured, trust, key, more))).unwrap_err();
        assert!(matches!(error, ClientError::Config(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(part) && !text.contains("hunter2"), "{key}: {text}");
    }
}
