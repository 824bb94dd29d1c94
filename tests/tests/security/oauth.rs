//! OAUTHBEARER: tokens from a token endpoint, from a file, given, and made for tests.

use millstream_protocol_client::{ClientConfig, KafkaClient};

use crate::cluster::{Secured, refused, run, secured, works};
use crate::token_endpoint::{TokenEndpoint, unsigned_jwt};

const MODULE: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";

fn bearer(secured: &Secured, more: &[(&str, &str)]) -> ClientConfig {
    let mut config = secured.config(
        "SASLTLS",
        &[
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", "OAUTHBEARER"),
            ("ssl.truststore.certificates", &secured.authority.pem),
        ],
    );
    config.set_all(more.iter().copied()).unwrap();
    config
}

fn with_endpoint(
    secured: &Secured,
    url: &str,
    secret: &str,
    more: &[(&str, &str)],
) -> ClientConfig {
    let module =
        format!("{MODULE} clientId=\"the-client\" clientSecret=\"{secret}\" scope=\"kafka read\";");
    let mut config = bearer(
        secured,
        &[
            (
                "sasl.login.callback.handler.class",
                "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
            ),
            ("sasl.oauthbearer.token.endpoint.url", url),
            ("sasl.jaas.config", &module),
        ],
    );
    config.set_all(more.iter().copied()).unwrap();
    config
}

#[test]
fn a_token_endpoint_gives_one_token_for_many_connections() {
    let Some(secured) = secured("a_token_endpoint_gives_one_token") else { return };
    run(async {
        let client = ("the-client", "the-secret");
        let endpoint = TokenEndpoint::start(&secured.authority, client, 3600, 2).await;
        let config = with_endpoint(secured, &endpoint.url, "the-secret", &[]);
        let client = KafkaClient::connect(config).await.unwrap();
        // Two failures, then one token for the connection to the address given and the one advertised.
        let requests = endpoint.requests();
        assert_eq!(requests.len(), 3, "{requests:?}");
        let request = &requests[2];
        assert!(request.starts_with("POST /oauth2/token HTTP/1.1\r\n"), "{request}");
        assert!(request.ends_with("grant_type=client_credentials&scope=kafka+read"), "{request}");
        client.close().await;
    });
}

#[test]
fn credentials_that_the_endpoint_does_not_know_are_told_at_once() {
    let Some(secured) = secured("credentials_that_the_endpoint_does_not_know") else { return };
    run(async {
        let client = ("the-client", "the-secret");
        let endpoint = TokenEndpoint::start(&secured.authority, client, 3600, 0).await;
        let config = with_endpoint(secured, &endpoint.url, "hunter2", &[]);
        let text = KafkaClient::connect(config).await.unwrap_err().to_string();
        let expected = "it answered 401 Unauthorized (invalid_client: no such client)";
        assert!(text.contains(expected) && text.contains("token endpoint localhost:"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(endpoint.requests().len(), 1);
    });
}

#[test]
fn an_endpoint_with_an_unknown_certificate_gets_no_secret() {
    let Some(secured) = secured("an_endpoint_with_an_unknown_certificate") else { return };
    run(async {
        let other = crate::certificates::Authority::new("another CA");
        let client = ("the-client", "the-secret");
        let endpoint = TokenEndpoint::start(&other, client, 3600, 0).await;
        let config = with_endpoint(secured, &endpoint.url, "the-secret", &[]);
        let text = KafkaClient::connect(config).await.unwrap_err().to_string();
        assert!(text.contains("its certificate is not signed by a CA"), "{text}");
        assert!(endpoint.requests().is_empty());
    });
}

#[test]
fn tokens_from_elsewhere_are_accepted() {
    let Some(secured) = secured("tokens_from_elsewhere_are_accepted") else { return };
    works(bearer(secured, &[("sasl.oauthbearer.token", &unsigned_jwt("static", 600))]));
    let file = secured.file("token.jwt");
    std::fs::write(&file, unsigned_jwt("file", 600) + "\n").unwrap();
    let url = format!("file://{file}");
    works(bearer(secured, &[("sasl.oauthbearer.token.endpoint.url", &url)]));
    let module = format!("{MODULE} unsecuredLoginStringClaim_sub=\"thePrincipalName\";");
    works(bearer(secured, &[("sasl.jaas.config", &module)]));
}

#[test]
fn a_token_that_has_expired_is_refused_in_the_brokers_words() {
    let Some(secured) = secured("a_token_that_has_expired_is_refused") else { return };
    let expired = unsigned_jwt("late", 0);
    let text = refused(bearer(secured, &[("sasl.oauthbearer.token", &expired)]));
    assert!(
        text.contains("OAUTHBEARER: the broker refused the token with status invalid_token"),
        "{text}"
    );
}
