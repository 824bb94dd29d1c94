//! Bytes written by hand from Kafka's schemas, of messages whose structs are `kafka_protocol`'s.

use kafka_protocol::messages::{GroupId, TopicName};

use super::{Message, bytes};
use crate::messages::{ApiKey, Request, Response, kp, str_bytes};
use crate::wire::Direction;

/// Both ways: what is written for `message`, and what the bytes are read as.
fn assert_body(message: impl Into<Message>, version: i16, body: &str) {
    let message = message.into();
    assert_eq!(message.body(version), bytes(body));
    let (api, direction) = (message.api_key(), message.direction());
    assert_eq!(Message::decode(api, direction, version, bytes(body)), Ok(message));
}

impl From<Request> for Message {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Response> for Message {
    fn from(response: Response) -> Self {
        Self::Response(response)
    }
}

/// SaslHandshake never became flexible: header 1 in every version.
#[test]
fn sasl_handshake_1() {
    let request = kp::SaslHandshakeRequest::default().with_mechanism(str_bytes("PLAIN"));
    let frame = Request::from(request).encode(1, 3, "ms").expect("expressible").to_bytes();
    assert_eq!(frame, bytes("00000013 | 0011 0001 00000003 0002 'ms' | 0005 'PLAIN'"));
    let response = kp::SaslHandshakeResponse::default()
        .with_error_code(33)
        .with_mechanisms(vec![str_bytes("PLAIN"), str_bytes("SCRAM-SHA-256")]);
    assert_body(Response::from(response), 1, "0021 00000002 0005 'PLAIN' 000d 'SCRAM-SHA-256'");
}

#[test]
fn sasl_authenticate_0_and_2() {
    let token = bytes("00 'ann' 00 'secret'");
    let request = kp::SaslAuthenticateRequest::default().with_auth_bytes(token.clone());
    assert_body(Request::from(request.clone()), 0, "0000000b 00 'ann' 00 'secret'");
    assert_body(Request::from(request), 2, "0c 00 'ann' 00 'secret' 00");
    let response = kp::SaslAuthenticateResponse::default()
        .with_error_message(None)
        .with_session_lifetime_ms(3_600_000);
    assert_body(Response::from(response), 2, "0000 00 01 000000000036ee80 00");
}

#[test]
fn join_group_request_5_and_9() {
    let protocol = kp::join_group_request::JoinGroupRequestProtocol::default()
        .with_name(str_bytes("range"))
        .with_metadata(bytes("0001 ff"));
    let request = kp::JoinGroupRequest::default()
        .with_group_id(GroupId(str_bytes("job")))
        .with_session_timeout_ms(45_000)
        .with_rebalance_timeout_ms(300_000)
        .with_group_instance_id(Some(str_bytes("i")))
        .with_protocol_type(str_bytes("consumer"))
        .with_protocols(vec![protocol]);
    assert_body(
        Request::from(request.clone()),
        5,
        "0003 'job' 0000afc8 000493e0 0000 0001 'i' 0008 'consumer' \
         00000001 0005 'range' 00000003 0001ff",
    );
    assert_body(
        Request::from(request.with_reason(Some(str_bytes("why")))),
        9,
        "04 'job' 0000afc8 000493e0 01 02 'i' 09 'consumer' 02 06 'range' 04 0001ff 00 04 'why' 00",
    );
}

#[test]
fn heartbeat_response_of_the_consumer_protocol_with_and_without_assignment() {
    let response = kp::ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(str_bytes("m")))
        .with_member_epoch(3)
        .with_heartbeat_interval_ms(5000);
    let head = "00000000 0000 00 02 'm' 00000003 00001388";
    assert_body(Response::from(response.clone()), 0, &format!("{head} ff 00"));
    let owned = kp::consumer_group_heartbeat_response::TopicPartitions::default()
        .with_topic_id(uuid::Uuid::from_bytes([7; 16]))
        .with_partitions(vec![0, 2]);
    let assignment = kp::consumer_group_heartbeat_response::Assignment::default()
        .with_topic_partitions(vec![owned]);
    let body = format!("{head} 01 02 {} 03 00000000 00000002 00 00 00", "07".repeat(16));
    assert_body(Response::from(response.with_assignment(Some(assignment))), 1, &body);
}

#[test]
fn write_txn_markers_1() {
    let topic = kp::write_txn_markers_request::WritableTxnMarkerTopic::default()
        .with_name(TopicName(str_bytes("out")))
        .with_partition_indexes(vec![1]);
    let marker = kp::write_txn_markers_request::WritableTxnMarker::default()
        .with_producer_id(4000.into())
        .with_producer_epoch(2)
        .with_transaction_result(false)
        .with_topics(vec![topic])
        .with_coordinator_epoch(-1);
    let request = kp::WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    assert_body(
        Request::from(request),
        1,
        "02 0000000000000fa0 0002 00 02 04 'out' 02 00000001 00 ffffffff 00 00",
    );
}

/// Unknown versions of an API just learned are refused as those of any other.
#[test]
fn no_version_beyond_the_codec_is_read() {
    for api in ApiKey::ALL {
        let next = api.codec_versions().end() + 1;
        for direction in [Direction::Request, Direction::Response] {
            assert!(Message::decode(api, direction, next, bytes("00")).is_err(), "{api} {next}");
        }
    }
}
