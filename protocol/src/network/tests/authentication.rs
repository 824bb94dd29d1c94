//! SASL on connections: before the first request, again before the session ends, and what failing does to those who wait.

use std::time::Duration;

use super::script::{Script, answer, ask, cluster, versions};
use crate::messages::{ApiVersion, ApiVersionsResponse, StrBytes, kp};
use crate::network::{ConnectionId, Destination, DisconnectReason, RequestError, TlsProblem};
use crate::sasl::{SaslError, SaslLogin, SaslMechanism};
use crate::{ApiKey, ErrorCode, NodeId, Response};

fn script() -> Script {
    Script::with_config(&["boot"], |config| config.authenticate = true)
}

fn login() -> SaslLogin {
    SaslLogin::Plain { username: "u".to_owned(), password: "p".into() }
}

fn give_login(script: &mut Script) -> ConnectionId {
    let connection = script.logins.pop_front().expect("a login is asked for");
    script.client.handle_login(script.now, connection, Ok(login()));
    script.drain();
    connection
}

fn accept_handshake(script: &mut Script) {
    let sent = script.next();
    assert_eq!((sent.header.api_key, sent.header.api_version), (ApiKey::SaslHandshake, 1));
    script.reply(&sent, Response::SaslHandshake(kp::SaslHandshakeResponse::default()));
}

fn accept_password(script: &mut Script, lifetime: Duration) {
    let sent = script.next();
    assert_eq!((sent.header.api_key, sent.header.api_version), (ApiKey::SaslAuthenticate, 2));
    let lifetime = i64::try_from(lifetime.as_millis()).unwrap();
    let response = kp::SaslAuthenticateResponse::default().with_session_lifetime_ms(lifetime);
    script.reply(&sent, Response::SaslAuthenticate(response));
}

fn refuse_password(script: &mut Script) {
    let sent = script.next();
    let response = kp::SaslAuthenticateResponse::default()
        .with_error_code(ErrorCode::SASL_AUTHENTICATION_FAILED.0)
        .with_error_message(Some(StrBytes::from_static_str("Invalid username or password")));
    script.reply(&sent, Response::SaslAuthenticate(response));
}

/// Accepts the oldest attempt up to the end of the authentication.
fn authenticated(script: &mut Script, lifetime: Duration) -> ConnectionId {
    let (connection, _) = script.accept();
    assert_eq!(give_login(script), connection);
    accept_handshake(script);
    accept_password(script, lifetime);
    connection
}

fn refusal() -> SaslError {
    let message = "Invalid username or password".to_owned();
    SaslError::Refused { mechanism: SaslMechanism::Plain, message }
}

fn is_refusal(result: &Result<Response, RequestError>) -> bool {
    let reason = DisconnectReason::AuthenticationFailed(refusal());
    matches!(result, Err(RequestError::Security { reason: other, .. }) if *other == reason)
}

#[test]
fn nothing_overtakes_the_authentication() {
    let mut script = script();
    script.send(1, Destination::AnyBroker, ask());
    let connection = authenticated(&mut script, Duration::ZERO);
    let sent = script.next();
    assert_eq!((sent.connection, sent.header.api_key), (connection, ApiKey::ListTransactions));
    assert!(script.sent.is_empty());
    script.reply(&sent, answer());
    assert!(script.result(1).is_ok());
}

#[test]
fn correlation_ids_go_on_through_the_authentication() {
    let mut script = script();
    script.send(1, Destination::AnyBroker, ask());
    script.accept();
    give_login(&mut script);
    let mut ids = Vec::new();
    ids.push(script.sent[0].header.correlation_id);
    accept_handshake(&mut script);
    ids.push(script.sent[0].header.correlation_id);
    accept_password(&mut script, Duration::ZERO);
    ids.push(script.sent[0].header.correlation_id);
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn a_wrong_password_is_told_at_once_to_all_who_wait() {
    let mut script = script();
    script.send(1, Destination::AnyBroker, ask());
    script.send(2, Destination::Controller, ask());
    script.send(3, Destination::GroupCoordinator("g".into()), ask());
    script.accept();
    give_login(&mut script);
    accept_handshake(&mut script);
    refuse_password(&mut script);
    for token in 1..=3 {
        assert!(is_refusal(script.result(token)), "{token}: {:?}", script.result(token));
    }
    assert_eq!(script.closed.len(), 1);
    // No broker was ever reached: who comes later is told as well.
    script.send(4, Destination::AnyBroker, ask());
    assert!(script.connects.is_empty());
    assert!(matches!(script.result(4), Err(RequestError::BootstrapFailed { .. })));
}

#[test]
fn a_login_that_can_not_be_had_is_told() {
    for (retriable, told) in [(true, false), (false, true)] {
        let mut script = script();
        script.send(1, Destination::AnyBroker, ask());
        script.accept();
        let connection = script.logins.pop_front().unwrap();
        let detail = "the token endpoint does not answer".to_owned();
        let reason = DisconnectReason::LoginFailed { detail, retriable };
        script.client.handle_login(script.now, connection, Err(reason));
        script.drain();
        assert_eq!(script.has_result(1), told);
    }
}

/// B123: requests that wait get an answer of their own, also if the handshake ends in the middle.
#[test]
fn a_broker_that_closes_during_authentication_is_tried_again() {
    let mut script = script();
    script.send(1, Destination::AnyBroker, ask());
    let (connection, _) = script.accept();
    give_login(&mut script);
    script.disconnect(connection, DisconnectReason::Closed);
    let failures = script.client.address_failures(script.now);
    assert_eq!(failures[0].reason, DisconnectReason::ClosedInAuthentication);
    script.pass(Duration::from_millis(100));
    authenticated(&mut script, Duration::ZERO);
}

#[test]
fn a_broker_that_is_silent_during_authentication_is_given_up() {
    let mut script = script();
    script.send(1, Destination::AnyBroker, ask());
    let (connection, _) = script.accept();
    give_login(&mut script);
    script.pass(Duration::from_millis(30_001));
    assert_eq!(script.closed, [connection]);
}

#[test]
fn a_login_that_never_comes_is_named() {
    let mut script = script();
    script.send(1, Destination::AnyBroker, ask());
    script.accept();
    script.pass(Duration::from_secs(7));
    let failures = script.client.address_failures(script.now);
    assert!(failures[0].to_string().contains("the token endpoint may not answer"), "{failures:?}");
}

#[test]
fn a_broker_without_kafkas_own_sasl_frames_is_named() {
    let mut script = script();
    script.send(1, Destination::AnyBroker, ask());
    script.connected();
    let sent = script.next();
    let api_keys = versions(1, 2).api_keys.into_iter().map(|version| match version.api_key {
        17 => ApiVersion { max_version: 0, ..version },
        _ => version,
    });
    let response = ApiVersionsResponse { api_keys: api_keys.collect(), ..versions(1, 2) };
    script.reply(&sent, Response::ApiVersions(response));
    give_login(&mut script);
    let Err(RequestError::Security { reason, .. }) = script.result(1) else {
        panic!("{:?}", script.results)
    };
    assert_eq!(*reason, DisconnectReason::AuthenticationFailed(SaslError::BrokerTooOld));
}

/// A machine with an authenticated connection to broker 1, whose session lasts 100 s.
fn with_session() -> (Script, ConnectionId) {
    let mut script = script();
    script.client.request_metadata_update(script.now);
    script.drain();
    authenticated(&mut script, Duration::ZERO);
    script.answer(Response::Metadata(cluster(1, vec![])));
    script.send(1, Destination::Node(NodeId(1)), ask());
    let connection = authenticated(&mut script, Duration::from_secs(100));
    script.answer(answer());
    (script, connection)
}

/// Case B117: what is in flight is answered first, what comes then waits, and nothing is mixed up.
#[test]
fn a_session_is_renewed_on_the_same_connection_before_it_ends() {
    let (mut script, connection) = with_session();
    script.pass(Duration::from_secs(84));
    script.send(2, Destination::Node(NodeId(1)), ask());
    let in_flight = script.next();
    assert_eq!(in_flight.header.api_key, ApiKey::ListTransactions, "not before 85 %");
    script.pass(Duration::from_secs(12));
    script.send(3, Destination::Node(NodeId(1)), ask());
    assert!(script.sent.is_empty() && script.logins.is_empty());
    script.reply(&in_flight, answer());
    assert!(script.result(2).is_ok());
    assert_eq!(give_login(&mut script), connection);
    accept_handshake(&mut script);
    accept_password(&mut script, Duration::from_secs(100));
    let sent = script.next();
    assert_eq!((sent.connection, sent.header.api_key), (connection, ApiKey::ListTransactions));
    script.reply(&sent, answer());
    assert!(script.result(3).is_ok());
}

#[test]
fn an_idle_connection_renews_its_session_only_when_it_is_needed() {
    let (mut script, connection) = with_session();
    script.pass(Duration::from_secs(150));
    assert!(script.logins.is_empty());
    script.send(2, Destination::Node(NodeId(1)), ask());
    assert_eq!(give_login(&mut script), connection);
    accept_handshake(&mut script);
    accept_password(&mut script, Duration::from_secs(100));
    script.answer(answer());
    assert!(script.result(2).is_ok());
}

#[test]
fn a_password_that_was_changed_is_told_when_the_session_is_renewed() {
    let (mut script, _) = with_session();
    script.pass(Duration::from_secs(96));
    script.send(2, Destination::Node(NodeId(1)), ask());
    give_login(&mut script);
    accept_handshake(&mut script);
    refuse_password(&mut script);
    assert!(is_refusal(script.result(2)));
    // It is not tried again and again: brokers lock accounts.
    script.send(3, Destination::Node(NodeId(1)), ask());
    script.pass(Duration::from_millis(700));
    let to_broker = |script: &Script| script.connects.iter().any(|(_, a)| a == "b1:9092");
    assert!(!to_broker(&script));
    script.pass(Duration::from_millis(600));
    assert!(to_broker(&script));
}

#[test]
fn a_sasl_listener_is_guessed_when_it_closes_on_the_first_request() {
    let mut script = Script::new(&["boot"]);
    script.send(1, Destination::AnyBroker, ask());
    let (connection, _) = script.accept();
    script.next();
    script.disconnect(connection, DisconnectReason::Closed);
    let failures = script.client.address_failures(script.now);
    assert_eq!(failures[0].reason, DisconnectReason::ClosedOnFirstRequest);
}

#[test]
fn a_certificate_that_is_not_trusted_is_told_at_once() {
    let mut script = Script::new(&["a", "b"]);
    script.send(1, Destination::AnyBroker, ask());
    script.refuse(DisconnectReason::TlsFailed(TlsProblem::UnknownCa));
    assert!(!script.has_result(1), "the other address may have another certificate");
    script.refuse(DisconnectReason::TlsFailed(TlsProblem::UnknownCa));
    assert!(matches!(script.result(1), Err(RequestError::BootstrapFailed { .. })));
}

#[test]
fn a_broker_whose_certificate_is_not_trusted_fails_its_requests_at_once() {
    let mut script = Script::with_brokers(1);
    script.send(1, Destination::Node(NodeId(1)), ask());
    script.refuse(DisconnectReason::TlsFailed(TlsProblem::Expired));
    let Err(error @ RequestError::Security { .. }) = script.result(1) else {
        panic!("{:?}", script.results)
    };
    assert!(!error.is_retriable());
    assert!(error.to_string().starts_with("b1:9092: the broker's certificate has expired"));
}
