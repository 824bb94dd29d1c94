//! Whole exchanges with a scripted broker.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use crate::messages::{Request, Response, StrBytes, kp};
use crate::sasl::scram::{ScramError, ScramHash};
use crate::sasl::{SaslError, SaslExchange, SaslLogin, SaslMechanism, SaslProgress, Secret};
use crate::{ApiKey, ErrorCode};

fn handshake(code: ErrorCode, mechanisms: &[&str]) -> Response {
    let names = mechanisms.iter().map(|name| StrBytes::from_string((*name).to_owned())).collect();
    Response::SaslHandshake(
        kp::SaslHandshakeResponse::default().with_error_code(code.0).with_mechanisms(names),
    )
}

fn authenticate(bytes: &[u8], lifetime_ms: i64) -> Response {
    Response::SaslAuthenticate(
        kp::SaslAuthenticateResponse::default()
            .with_auth_bytes(Bytes::copy_from_slice(bytes))
            .with_session_lifetime_ms(lifetime_ms),
    )
}

fn failed(code: ErrorCode, message: &str) -> Response {
    Response::SaslAuthenticate(
        kp::SaslAuthenticateResponse::default()
            .with_error_code(code.0)
            .with_error_message(Some(StrBytes::from_string(message.to_owned()))),
    )
}

fn plain() -> SaslLogin {
    SaslLogin::Plain { username: "alice".to_owned(), password: "wonder".into() }
}

fn scram() -> SaslLogin {
    SaslLogin::Scram {
        hash: ScramHash::Sha256,
        username: "user".to_owned(),
        password: "pencil".into(),
        token_auth: false,
        nonce: "rOprNGfwEbeRWgbNEkqO".to_owned(),
    }
}

fn bearer(token: &str) -> SaslLogin {
    SaslLogin::OAuthBearer { token: token.into(), extensions: BTreeMap::new() }
}

/// The token bytes of the next request, which must be a SaslAuthenticate.
fn sent(exchange: &mut SaslExchange) -> Vec<u8> {
    match exchange.poll_request() {
        Some(Request::SaslAuthenticate(request)) => request.auth_bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// An exchange whose handshake is done.
fn accepted(login: SaslLogin) -> SaslExchange {
    let name = login.mechanism().name();
    let mut exchange = SaslExchange::new(login).unwrap();
    match exchange.poll_request() {
        Some(Request::SaslHandshake(request)) => assert_eq!(&*request.mechanism, name),
        other => panic!("{other:?}"),
    }
    assert_eq!(exchange.poll_request(), None, "one request at a time");
    let (exchange, progress) =
        exchange.handle_response(&handshake(ErrorCode::NONE, &[name])).unwrap();
    assert_eq!(progress, SaslProgress::Continue);
    exchange
}

fn progress(exchange: SaslExchange, response: &Response) -> (SaslExchange, SaslProgress) {
    exchange.handle_response(response).unwrap()
}

fn error(exchange: SaslExchange, response: &Response) -> SaslError {
    exchange.handle_response(response).unwrap_err()
}

#[test]
fn plain_takes_one_round() {
    let mut exchange = accepted(plain());
    assert_eq!(sent(&mut exchange), b"\0alice\0wonder");
    let (_, done) = progress(exchange, &authenticate(b"", 0));
    assert_eq!(done, SaslProgress::Done { session_lifetime: None });
}

#[test]
fn a_limited_session_is_told() {
    let mut exchange = accepted(plain());
    sent(&mut exchange);
    let (_, done) = progress(exchange, &authenticate(b"", 90_000));
    let session_lifetime = Some(Duration::from_secs(90));
    assert_eq!(done, SaslProgress::Done { session_lifetime });
}

#[test]
fn scram_takes_two_rounds_and_checks_the_broker() {
    let mut exchange = accepted(scram());
    assert_eq!(sent(&mut exchange), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let first =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let (mut exchange, step) = progress(exchange, &authenticate(first, 0));
    assert_eq!(step, SaslProgress::Continue);
    assert!(sent(&mut exchange).starts_with(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYD"));
    let last = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    let (_, done) = progress(exchange, &authenticate(last, 0));
    assert_eq!(done, SaslProgress::Done { session_lifetime: None });
}

#[test]
fn a_scram_broker_that_skips_its_signature_is_refused() {
    let mut exchange = accepted(scram());
    sent(&mut exchange);
    let first = b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let (mut exchange, _) = progress(exchange, &authenticate(first, 0));
    sent(&mut exchange);
    let error = error(exchange, &authenticate(b"", 0));
    let SaslError::Scram { mechanism: SaslMechanism::ScramSha256, source } = error else {
        panic!("{error:?}")
    };
    assert!(matches!(source, ScramError::Malformed { message: "final", .. }));
}

#[test]
fn a_bearer_message_has_the_form_of_rfc_7628() {
    let extensions = BTreeMap::from([("logicalCluster".to_owned(), "lkc-1".to_owned())]);
    let token = Secret::from("aa.bb.cc=");
    let mut exchange = accepted(SaslLogin::OAuthBearer { token, extensions });
    assert_eq!(
        sent(&mut exchange),
        b"n,,\x01auth=Bearer aa.bb.cc=\x01logicalCluster=lkc-1\x01\x01"
    );
}

#[test]
fn a_refused_token_is_acknowledged_and_the_brokers_reason_told() {
    let mut exchange = accepted(bearer("abc"));
    sent(&mut exchange);
    let json =
        br#"{"status":"insufficient_scope","scope":"kafka","openid-configuration":"https://x"}"#;
    let (mut exchange, step) = progress(exchange, &authenticate(json, 0));
    assert_eq!(step, SaslProgress::Continue);
    assert_eq!(sent(&mut exchange), [1]);
    let refusal = failed(ErrorCode::SASL_AUTHENTICATION_FAILED, "Authentication failed");
    assert_eq!(
        error(exchange, &refusal).to_string(),
        "OAUTHBEARER: the broker refused the token with status insufficient_scope, it wants the scope 'kafka' (see https://x)"
    );
}

#[test]
fn a_refused_token_stays_refused_whatever_the_broker_says_then() {
    let mut exchange = accepted(bearer("abc"));
    sent(&mut exchange);
    let (mut exchange, _) = progress(exchange, &authenticate(b"no json", 0));
    sent(&mut exchange);
    let error = error(exchange, &authenticate(b"", 0));
    assert!(matches!(error, SaslError::TokenRefused { status, .. } if status == "no json"));
}

#[test]
fn logins_that_would_break_the_message_are_refused() {
    let extension = |name: &str, value: &str| SaslLogin::OAuthBearer {
        token: "t".into(),
        extensions: BTreeMap::from([(name.to_owned(), value.to_owned())]),
    };
    for login in [
        SaslLogin::Plain { username: "a\0b".to_owned(), password: "p".into() },
        SaslLogin::Plain { username: "a".to_owned(), password: "p\0q".into() },
        bearer(""),
        bearer("a b"),
        bearer("a\u{1}auth=Bearer x"),
        extension("auth", "x"),
        extension("a-b", "x"),
        extension("a", "x\u{1}"),
        extension("a", ""),
    ] {
        let error = SaslExchange::new(login.clone()).unwrap_err();
        assert!(matches!(error, SaslError::InvalidLogin { .. }), "{login:?}");
    }
}

#[test]
fn a_mechanism_that_is_not_offered_is_answered_with_those_that_are() {
    let mut exchange = SaslExchange::new(plain()).unwrap();
    exchange.poll_request();
    let answer =
        handshake(ErrorCode::UNSUPPORTED_SASL_MECHANISM, &["SCRAM-SHA-512", "OAUTHBEARER"]);
    assert_eq!(
        error(exchange, &answer).to_string(),
        "the broker does not offer PLAIN on this listener; it offers SCRAM-SHA-512, OAUTHBEARER: set sasl.mechanism to one of them, or use another port"
    );
}

#[test]
fn a_listener_without_sasl_is_named() {
    let mut exchange = SaslExchange::new(plain()).unwrap();
    exchange.poll_request();
    let answer = handshake(ErrorCode::ILLEGAL_SASL_STATE, &[]);
    assert_eq!(error(exchange, &answer), SaslError::NotASaslListener);
}

#[test]
fn a_wrong_password_is_told_in_the_brokers_words() {
    let mut exchange = accepted(plain());
    sent(&mut exchange);
    let answer = failed(ErrorCode::SASL_AUTHENTICATION_FAILED, "Invalid username or password\n");
    assert_eq!(
        error(exchange, &answer).to_string(),
        "PLAIN: the broker refused the credentials (Invalid username or password)"
    );
}

#[test]
fn an_answer_to_another_question_is_refused() {
    let mut exchange = SaslExchange::new(plain()).unwrap();
    exchange.poll_request();
    assert!(matches!(
        error(exchange, &authenticate(b"", 0)),
        SaslError::Unexpected { mechanism: SaslMechanism::Plain, .. }
    ));
}

#[test]
fn mechanisms_have_their_registered_names() {
    for mechanism in SaslMechanism::ALL {
        assert_eq!(mechanism.name().parse(), Ok(mechanism));
    }
    assert_eq!("plain".parse::<SaslMechanism>(), Err(()));
    assert_eq!(ApiKey::SaslHandshake.code(), 17);
}

#[test]
fn nothing_printed_holds_a_secret() {
    let payload = Secret::from("hunter2");
    for login in [
        SaslLogin::Plain { username: "u".to_owned(), password: "hunter2".into() },
        bearer("hunter2"),
        SaslLogin::AwsMskIam { payload },
    ] {
        let mut exchange = accepted(login.clone());
        assert!(!format!("{login:?} {exchange:?}").contains("hunter2"));
        sent(&mut exchange);
    }
}

proptest! {
    #[test]
    fn no_message_of_a_broker_makes_a_client_panic_or_believe(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..4)
    ) {
        let mut exchange = accepted(scram());
        for message in messages {
            exchange.poll_request();
            match exchange.handle_response(&authenticate(&message, 0)) {
                Ok((next, SaslProgress::Continue)) => exchange = next,
                Ok((_, SaslProgress::Done { .. })) => panic!("believed {message:?}"),
                Err(_) => break,
            }
        }
    }
}
