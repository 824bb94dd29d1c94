//! Finding coordinators, losing them, and not finding them.

use std::sync::Arc;
use std::time::Duration;

use super::script::{Script, ask, cluster, versions};
use crate::messages::StrBytes;
use crate::messages::kp::find_coordinator_response::Coordinator;
use crate::messages::kp::{EndTxnRequest, EndTxnResponse, FindCoordinatorResponse};
use crate::network::{Destination, DisconnectReason, RequestError};
use crate::{ApiKey, ErrorCode, Request, Response};

fn transaction() -> Destination {
    Destination::TransactionCoordinator(Arc::from("t"))
}

fn found(node: i32, code: ErrorCode) -> Response {
    let coordinator = Coordinator::default()
        .with_key(StrBytes::from_static_str("t"))
        .with_node_id(node.into())
        .with_host(StrBytes::from_string(format!("b{node}")))
        .with_port(9092)
        .with_error_code(code.0);
    Response::FindCoordinator(
        FindCoordinatorResponse::default().with_coordinators(vec![coordinator]),
    )
}

fn end_txn() -> Request {
    Request::EndTxn(EndTxnRequest::default())
}

/// A machine that has found broker 2 as coordinator and has one EndTxn on the wire.
fn asked() -> Script {
    let mut script = Script::with_brokers(2);
    script.send(1, transaction(), end_txn());
    let (_, address) = script.accept();
    script.answer(found(2, ErrorCode::NONE));
    if address == "b1:9092" {
        assert_eq!(script.accept().1, "b2:9092");
    }
    script
}

#[test]
fn the_coordinator_is_searched_once_for_all_that_wait() {
    let mut script = Script::with_brokers(2);
    script.send(1, transaction(), end_txn());
    script.send(2, transaction(), end_txn());
    script.accept();
    let sent = script.next();
    let Request::FindCoordinator(request) = &sent.request else { panic!("{sent:?}") };
    assert_eq!((request.key_type, request.coordinator_keys.len()), (1, 1));
    assert!(script.sent.is_empty());
    script.reply(&sent, found(2, ErrorCode::NONE));
    if !script.connects.is_empty() {
        script.accept();
    }
    let keys: Vec<_> = script.sent.iter().map(|sent| sent.header.api_key).collect();
    assert_eq!(keys, [ApiKey::EndTxn, ApiKey::EndTxn]);
}

#[test]
fn older_brokers_are_asked_for_a_single_key() {
    let mut script = Script::with_brokers(1);
    script.send(1, Destination::GroupCoordinator(Arc::from("g")), ask());
    script.connected();
    let sent = script.next();
    let mut old = versions(-1, 0);
    for version in old.api_keys.iter_mut().filter(|v| v.api_key == 10) {
        version.max_version = 2;
    }
    script.reply(&sent, Response::ApiVersions(old));
    let sent = script.next();
    let Request::FindCoordinator(request) = &sent.request else { panic!("{sent:?}") };
    assert_eq!((request.key.as_str(), request.key_type), ("g", 0));
    let response = FindCoordinatorResponse::default()
        .with_node_id(1.into())
        .with_host(StrBytes::from_static_str("b1"))
        .with_port(9092);
    script.reply(&sent, Response::FindCoordinator(response));
    assert_eq!(script.next().header.api_key, ApiKey::ListTransactions);
}

#[test]
fn a_coordinator_that_is_not_ready_is_searched_again_after_the_backoff() {
    let mut script = Script::with_brokers(1);
    script.send(1, transaction(), end_txn());
    script.accept();
    script.answer(found(-1, ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert!(script.sent.is_empty());
    script.pass(Duration::from_millis(125));
    script.answer(found(1, ErrorCode::NONE));
    assert_eq!(script.next().header.api_key, ApiKey::EndTxn);
}

#[test]
fn a_refused_search_is_told_to_those_who_wait() {
    let mut script = Script::with_brokers(1);
    script.send(1, transaction(), end_txn());
    script.accept();
    script.answer(found(-1, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED));
    let Err(RequestError::CoordinatorRefused { code, .. }) = script.result(1) else {
        panic!("{:?}", script.results);
    };
    assert_eq!(*code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
}

#[test]
fn not_coordinator_makes_the_next_request_search_again() {
    let mut script = asked();
    let moved = EndTxnResponse::default().with_error_code(ErrorCode::NOT_COORDINATOR.0);
    script.answer(Response::EndTxn(moved));
    assert!(script.result(1).is_ok(), "the sender reads the code itself");
    script.send(2, transaction(), end_txn());
    assert!(script.sent.is_empty());
    script.pass(Duration::from_millis(125));
    assert_eq!(script.next().header.api_key, ApiKey::FindCoordinator);
}

#[test]
fn losing_the_coordinator_leaves_the_outcome_unknown_and_searches_again() {
    let mut script = asked();
    let connection = script.next().connection;
    script.send(2, transaction(), end_txn());
    script.disconnect(connection, DisconnectReason::Closed);
    assert!(matches!(script.result(1), Err(RequestError::Disconnected { sent: true, .. })));
    script.send(3, transaction(), end_txn());
    script.pass(Duration::from_millis(125));
    let mut apis = Vec::new();
    for _ in 0..10 {
        while !script.connects.is_empty() {
            script.accept();
        }
        while let Some(sent) = script.sent.pop_front() {
            apis.push(sent.header.api_key);
            match sent.header.api_key {
                ApiKey::FindCoordinator => script.reply(&sent, found(1, ErrorCode::NONE)),
                ApiKey::Metadata => {
                    script.reply(&sent, Response::Metadata(cluster(2, vec![])));
                }
                _ => script.reply(&sent, Response::EndTxn(EndTxnResponse::default())),
            }
        }
        script.pass(Duration::from_millis(50));
    }
    assert!(apis.contains(&ApiKey::FindCoordinator), "{apis:?}");
    assert!(script.result(3).is_ok());
}
