//! Finding a first broker, and agreeing on versions with it.

use std::time::Duration;

use super::script::{Script, answer, ask, cluster, versions};
use crate::messages::{ApiVersion, ApiVersionsResponse};
use crate::network::{Destination, DisconnectReason, RequestError};
use crate::{ApiKey, ErrorCode, NodeId, Response};

#[test]
fn negotiation_comes_first_and_begins_with_version_4() {
    let mut script = Script::new(&["boot"]);
    script.send(1, Destination::AnyBroker, ask());
    let (_, address) = script.connected();
    assert_eq!(address, "boot:9092");
    let sent = script.next();
    assert_eq!((sent.header.api_key, sent.header.api_version), (ApiKey::ApiVersions, 4));
    assert!(script.sent.is_empty(), "nothing overtakes the negotiation");
    script.reply(&sent, Response::ApiVersions(versions(1, 2)));
    assert_eq!(script.next().header.api_key, ApiKey::ListTransactions);
    assert_eq!(script.client.transaction_version(), 2);
}

#[test]
fn a_broker_that_does_not_know_the_version_names_its_own() {
    for (offered, expected) in [(Some(2), 2), (None, 0)] {
        let mut script = Script::new(&["boot"]);
        script.send(1, Destination::AnyBroker, ask());
        script.connected();
        // The body is in version 0, whatever was asked (KIP-511).
        script.answer(Response::ApiVersions(ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION,
            api_keys: offered
                .map(|max_version| ApiVersion { api_key: 18, min_version: 0, max_version })
                .into_iter()
                .collect(),
            ..ApiVersionsResponse::default()
        }));
        let sent = script.next();
        assert_eq!((sent.header.api_key, sent.header.api_version), (ApiKey::ApiVersions, expected));
        script.reply(&sent, Response::ApiVersions(versions(1, 0)));
        assert_eq!(script.next().header.api_key, ApiKey::ListTransactions);
    }
}

#[test]
fn a_connection_closed_in_the_negotiation_is_tried_once_with_version_0() {
    let mut script = Script::new(&["boot"]);
    script.send(1, Destination::AnyBroker, ask());
    let (first, _) = script.connected();
    script.disconnect(first, DisconnectReason::Closed);
    let (second, _) = script.connected();
    assert_eq!(script.next().header.api_version, 0);
    script.disconnect(second, DisconnectReason::Closed);
    assert!(script.connects.is_empty(), "the next attempt waits for the backoff");
    let failures = script.client.address_failures(script.now);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].reason, DisconnectReason::ClosedInHandshake);
    script.pass(Duration::from_millis(61));
    script.connected();
    assert_eq!(script.next().header.api_version, 4);
}

#[test]
fn every_address_is_tried_and_named_with_its_reason() {
    let mut script = Script::new(&["a", "b", "c"]);
    script.send(1, Destination::AnyBroker, ask());
    let mut tried = vec![script.refuse(DisconnectReason::Refused)];
    let detail = "no such name".to_owned();
    tried.push(script.refuse(DisconnectReason::Unresolved { detail }));
    // The third never answers; the refused ones are tried again meanwhile, and refuse again.
    let silent = script.connects[0].1.clone();
    tried.push(silent.clone());
    tried.sort();
    assert_eq!(tried, ["a:9092", "b:9092", "c:9092"]);
    for _ in 0..29 {
        script.pass(Duration::from_secs(1));
        let other = |script: &Script| script.connects.iter().position(|(_, a)| *a != silent);
        while let Some(index) = other(&script) {
            script.connects.swap(0, index);
            script.refuse(DisconnectReason::Refused);
        }
        assert!(script.connects.len() <= 1, "one attempt per address at a time");
    }
    script.pass(Duration::from_secs(2));
    let Err(RequestError::BootstrapFailed { failures, after }) = script.result(1) else {
        panic!("{:?}", script.results);
    };
    assert_eq!(*after, Duration::from_secs(30));
    let addresses: Vec<_> = failures.iter().map(|failure| failure.address.to_string()).collect();
    assert_eq!(addresses, ["a:9092", "b:9092", "c:9092"]);
    assert!(
        failures.iter().any(|f| matches!(f.reason, DisconnectReason::ConnectTimedOut { .. })),
        "{failures:?}"
    );
}

#[test]
fn a_slow_address_gets_competition_after_a_second() {
    let mut script = Script::new(&["a", "b"]);
    script.send(1, Destination::AnyBroker, ask());
    assert_eq!(script.connects.len(), 1);
    script.pass(Duration::from_millis(900));
    assert_eq!(script.connects.len(), 1);
    script.pass(Duration::from_millis(200));
    assert_eq!(script.connects.len(), 2);
}

#[test]
fn waiting_ends_at_once_when_every_address_speaks_something_else() {
    let mut script = Script::new(&["a", "b"]);
    script.send(1, Destination::AnyBroker, ask());
    script.refuse(DisconnectReason::Http);
    assert!(!script.has_result(1));
    script.refuse(DisconnectReason::Tls);
    assert!(matches!(script.result(1), Err(RequestError::BootstrapFailed { .. })));
}

#[test]
fn a_silent_peer_is_given_up_within_the_setup_timeout() {
    let mut script = Script::new(&["a"]);
    script.send(1, Destination::AnyBroker, ask());
    let (connection, _) = script.connected();
    script.pass(Duration::from_millis(10_001));
    assert_eq!(script.closed, [connection]);
    let failures = script.client.address_failures(script.now);
    assert_eq!(failures[0].reason, DisconnectReason::Silent { after: Duration::from_secs(10) });
}

#[test]
fn the_bootstrap_connection_gives_way_to_the_advertised_brokers_and_comes_back_when_they_fail() {
    let mut script = Script::with_brokers(2);
    script.send(1, Destination::AnyBroker, ask());
    let mut tried =
        vec![script.refuse(DisconnectReason::Refused), script.refuse(DisconnectReason::Refused)];
    tried.sort();
    assert_eq!(tried, ["b1:9092", "b2:9092"]);
    assert_eq!(script.connects.pop_front().expect("the last resort").1, "boot:9092");
}

#[test]
fn the_last_finalized_features_count() {
    let mut script = Script::with_brokers(2);
    assert_eq!(script.client.transaction_version(), 2);
    for (token, node, epoch, version, expected) in [(1, 1, 9, 1, 1), (2, 2, 5, 2, 1)] {
        script.send(token, Destination::Node(NodeId(node)), ask());
        script.connected();
        let sent = script.sent.pop_back().expect("ApiVersions");
        script.reply(&sent, Response::ApiVersions(versions(epoch, version)));
        assert_eq!(script.client.transaction_version(), expected, "epoch {epoch}");
    }
}

#[test]
fn metadata_are_learnt_from_the_first_broker_that_answers() {
    let mut script = Script::new(&["boot"]);
    script.client.request_metadata_update(script.now);
    script.drain();
    script.accept();
    script.answer(Response::Metadata(cluster(3, vec![])));
    assert_eq!(script.client.broker_ids().len(), 3);
    assert_eq!(script.client.metadata().controller(), Some(NodeId(1)));
    assert_eq!(script.closed.len(), 1, "the bootstrap connection is not needed any more");
}

/// B104: while every broker is down, each is tried with backoff; when they come back, those that were learnt serve, and the
/// bootstrap address is not needed.
#[test]
fn learnt_brokers_are_reached_again_after_all_were_down() {
    let mut script = Script::with_brokers(2);
    script.send(1, Destination::Node(NodeId(2)), ask());
    let mut attempts = 0;
    for _ in 0..20 {
        script.pass(Duration::from_secs(1));
        while !script.connects.is_empty() {
            attempts += 1;
            script.refuse(DisconnectReason::Refused);
        }
    }
    assert!((10..100).contains(&attempts), "{attempts} attempts in 20 s");
    assert!(script.result(1).is_err(), "who asks one broker is told that it can not be reached");
    script.pass(Duration::from_secs(1));
    while script.connects.front().is_some_and(|(_, address)| address != "b2:9092") {
        script.refuse(DisconnectReason::Refused);
    }
    let (_, address) = script.accept();
    assert_eq!(address, "b2:9092");
    script.send(2, Destination::Node(NodeId(2)), ask());
    // Answers come in order, and others had been waiting for a broker too.
    while let Some(sent) = script.sent.pop_front() {
        let metadata = sent.header.api_key == ApiKey::Metadata;
        script
            .reply(&sent, if metadata { Response::Metadata(cluster(2, vec![])) } else { answer() });
    }
    assert!(script.result(2).is_ok(), "{:?}", script.result(2));
}
