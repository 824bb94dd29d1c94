//! Sending, answers, deadlines, throttling.

use std::time::Duration;

use super::script::{Script, answer, ask, cluster, versions};
use crate::messages::kp::{EndTxnRequest, ListTransactionsResponse, MetadataResponse};
use crate::messages::{ApiVersion, FetchRequest, StrBytes};
use crate::network::{
    ConnectionClass, Destination, DisconnectReason, OutgoingRequest, RequestError, RequestToken,
};
use crate::{ApiKey, NodeId, Request, Response};

const B1: Destination = Destination::Node(NodeId(1));

fn connected() -> Script {
    let mut script = Script::with_brokers(1);
    script.send(0, B1, ask());
    script.accept();
    script.answer(answer());
    script
}

#[test]
fn answers_go_to_their_requests_in_order() {
    let mut script = connected();
    script.send(1, B1, ask());
    script.send(2, B1, Request::Metadata(crate::network::metadata_request([])));
    let (first, second) = (script.next(), script.next());
    assert!(first.header.correlation_id < second.header.correlation_id);
    script.reply(&first, answer());
    script.reply(&second, Response::Metadata(cluster(1, vec![])));
    assert!(matches!(script.result(1), Ok(Response::ListTransactions(_))));
    assert!(matches!(script.result(2), Ok(Response::Metadata(_))));
}

#[test]
fn an_answer_out_of_turn_closes_the_connection_and_every_outcome_is_unknown() {
    let mut script = connected();
    script.send(1, B1, ask());
    script.send(2, B1, ask());
    let (_, second) = (script.next(), script.next());
    script.reply(&second, answer());
    assert_eq!(script.closed, [second.connection]);
    for token in [1, 2] {
        let Err(error) = script.result(token) else { panic!("an answer") };
        assert!(error.outcome_unknown(), "{error}");
    }
}

#[test]
fn a_late_answer_costs_the_connection_and_all_that_is_in_flight() {
    let mut script = connected();
    script.send(1, B1, ask());
    script.pass(Duration::from_secs(10));
    script.send(2, B1, ask());
    let connection = script.next().connection;
    script.pass(Duration::from_secs(21));
    assert_eq!(script.closed, [connection]);
    assert!(matches!(script.result(1), Err(RequestError::TimedOut { sent: true, .. })));
    assert!(matches!(
        script.result(2),
        Err(RequestError::Disconnected {
            sent: true,
            reason: DisconnectReason::RequestTimedOut { api: ApiKey::ListTransactions, .. },
            ..
        })
    ));
}

#[test]
fn a_fetch_may_take_its_waiting_time_longer() {
    let mut script = Script::with_brokers(1);
    let request = Request::Fetch(FetchRequest { max_wait_ms: 5000, ..FetchRequest::default() });
    script.client.send(
        script.now,
        OutgoingRequest {
            destination: B1,
            class: ConnectionClass::Fetch,
            request,
            token: RequestToken(1),
            max_version: None,
            timeout: Duration::from_secs(60),
        },
    );
    script.drain();
    script.accept();
    script.pass(Duration::from_secs(34));
    assert!(!script.has_result(1));
    script.pass(Duration::from_secs(2));
    assert!(matches!(script.result(1), Err(RequestError::TimedOut { sent: true, .. })));
}

#[test]
fn a_request_for_one_broker_fails_unsent_when_it_can_not_be_reached() {
    let mut script = Script::with_brokers(1);
    script.send(1, B1, ask());
    script.refuse(DisconnectReason::Refused);
    assert_eq!(
        *script.result(1),
        Err(RequestError::Disconnected {
            destination: B1,
            reason: DisconnectReason::Refused,
            sent: false
        })
    );
    script.send(2, Destination::Node(NodeId(9)), ask());
    assert!(matches!(script.result(2), Err(RequestError::UnknownNode { .. })));
}

#[test]
fn reconnecting_backs_off_and_recovers() {
    let mut script = Script::with_brokers(1);
    script.send(1, B1, ask());
    script.refuse(DisconnectReason::Refused);
    script.connects.clear();
    script.send(2, B1, ask());
    let of_b1 = |script: &Script| script.connects.iter().filter(|(_, a)| a == "b1:9092").count();
    assert_eq!(of_b1(&script), 0, "not before the backoff");
    script.pass(Duration::from_millis(65));
    assert!(of_b1(&script) > 0);
}

#[test]
fn at_most_five_requests_are_in_flight_and_the_others_keep_their_order() {
    let mut script = connected();
    for token in 1..=7 {
        script.send(token, B1, ask());
    }
    assert_eq!(script.sent.len(), 5);
    for _ in 0..7 {
        script.answer(answer());
    }
    let tokens: Vec<_> = script.results.iter().map(|(token, ..)| *token).collect();
    assert_eq!(tokens, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_throttled_broker_is_left_alone_for_that_time_which_does_not_count_against_requests() {
    let mut script = connected();
    script.send(1, B1, ask());
    let throttled = ListTransactionsResponse::default().with_throttle_time_ms(29_900);
    script.answer(Response::ListTransactions(throttled));
    script.send(2, B1, ask());
    assert!(script.sent.is_empty());
    script.pass(Duration::from_millis(29_800));
    assert!(script.sent.is_empty());
    script.pass(Duration::from_millis(200));
    assert_eq!(script.sent.len(), 1);
    script.answer(answer());
    assert!(script.result(2).is_ok());
}

#[test]
fn versions_are_capped_by_the_request_and_refused_if_none_is_left() {
    let mut script = connected();
    let end = Request::EndTxn(EndTxnRequest::default().with_transactional_id(
        crate::messages::kp::TransactionalId(StrBytes::from_static_str("t")),
    ));
    let mut request = OutgoingRequest {
        destination: B1,
        class: ConnectionClass::Control,
        request: end,
        token: RequestToken(1),
        max_version: Some(4),
        timeout: Duration::from_secs(1),
    };
    script.client.send(script.now, request.clone());
    request.token = RequestToken(2);
    request.max_version = Some(-1);
    script.client.send(script.now, request);
    script.drain();
    assert_eq!(script.next().header.api_version, 4);
    assert!(matches!(
        script.result(2),
        Err(RequestError::UnsupportedByBroker {
            api: ApiKey::EndTxn,
            ours_min: 0,
            ours_max: -1,
            ..
        })
    ));
}

#[test]
fn an_api_that_the_broker_lacks_is_an_error_of_that_request_alone() {
    let mut script = Script::with_brokers(1);
    script.send(1, B1, ask());
    script.send(2, B1, Request::Metadata(crate::network::metadata_request([])));
    script.connected();
    let sent = script.next();
    let mut old = versions(-1, 0);
    old.api_keys.retain(|v| v.api_key != ApiKey::ListTransactions.code());
    old.api_keys.push(ApiVersion { api_key: 999, min_version: 0, max_version: 1 });
    script.reply(&sent, Response::ApiVersions(old));
    assert!(matches!(
        script.result(1),
        Err(RequestError::UnsupportedByBroker { theirs_max: -1, .. })
    ));
    script.answer(Response::Metadata(MetadataResponse::default()));
    assert!(script.result(2).is_ok());
}

#[test]
fn a_body_that_can_not_be_read_is_an_error_of_its_request() {
    let mut script = connected();
    script.send(1, B1, ask());
    let sent = script.next();
    let mut frame = sent.header.correlation_id.to_be_bytes().to_vec();
    frame.extend([0, 0xff, 0xff]);
    script.client.handle_frame(script.now, sent.connection, frame.into());
    script.drain();
    let Err(error) = script.result(1) else { panic!("an answer") };
    assert!(matches!(error, RequestError::Decode(_)) && error.outcome_unknown());
}

#[test]
fn an_idle_connection_is_closed_before_the_broker_does() {
    let mut script = Script::with_brokers(1);
    let mut request = OutgoingRequest {
        destination: B1,
        class: ConnectionClass::Produce,
        request: ask(),
        token: RequestToken(1),
        max_version: None,
        timeout: Duration::from_secs(30),
    };
    script.client.send(script.now, request.clone());
    script.drain();
    let (connection, _) = script.accept();
    script.answer(answer());
    script.pass(Duration::from_secs(539));
    assert!(!script.closed.contains(&connection));
    script.pass(Duration::from_secs(2));
    assert!(script.closed.contains(&connection));
    script.connects.clear();
    request.token = RequestToken(2);
    script.client.send(script.now, request);
    script.drain();
    assert_eq!(script.connects.len(), 1, "reconnects without backoff");
}

#[test]
fn lanes_and_classes_have_connections_of_their_own_and_close_quietly() {
    let mut script = Script::with_brokers(1);
    for lane in [0, 7] {
        let request = OutgoingRequest {
            destination: B1,
            class: ConnectionClass::Fetch,
            request: ask(),
            token: RequestToken(u64::from(lane)),
            max_version: None,
            timeout: Duration::from_secs(30),
        };
        script.client.send_on_lane(script.now, request, lane);
    }
    script.drain();
    assert_eq!(script.connects.len(), 2);
    script.client.close_lane(script.now, ConnectionClass::Fetch, 7);
    script.drain();
    assert_eq!(script.closed.len(), 1);
    assert!(!script.has_result(7), "nobody waits for it");
    script.accept();
    assert_eq!(script.next().header.api_key, ApiKey::ListTransactions);
}

#[test]
fn closing_ends_everything_with_an_outcome() {
    let mut script = connected();
    script.send(1, B1, ask());
    script.send(2, Destination::GroupCoordinator("g".into()), ask());
    script.client.close(script.now);
    script.drain();
    assert!(script.result(1).is_err());
    assert_eq!(*script.result(2), Err(RequestError::Closed));
    assert!(script.connects.is_empty());
}
