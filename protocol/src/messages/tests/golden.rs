//! Bytes written by hand from Kafka's schemas.

use std::sync::Arc;

use bytes::Bytes;

use super::{Message, bytes};
use crate::error_code::ErrorCode;
use crate::ids::IsolationLevel;
use crate::messages::{
    AbortedTransaction, ApiKey, ApiVersion, ApiVersionsRequest, ApiVersionsResponse,
    EpochEndOffset, FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse,
    FetchTopic, FetchTopicResponse, FinalizedFeature, LeaderIdAndEpoch, ProducePartition,
    ProduceRequest, ProduceTopic, Request, Response, SupportedFeature, kp, str_bytes,
};
use crate::wire::{Direction, ResponseHeader, WireError};

fn response(api: ApiKey, version: i16, body: &str) -> Response {
    Response::decode(api, version, bytes(body)).expect("golden bytes")
}

#[test]
fn api_versions_request_3() {
    let request = Request::from(ApiVersionsRequest {
        client_software_name: "millstream".into(),
        client_software_version: "0.1".into(),
    });
    let frame = bytes("0000001e | 0012 0003 00000007 0003 'app' 00 | 0b 'millstream' 04 '0.1' 00");
    assert_eq!(request.encode(3, 7, "app").expect("expressible").to_bytes(), frame);
    let (header, decoded) = Request::decode(frame.slice(4..)).expect("golden bytes");
    assert_eq!((header.api_key, header.api_version), (ApiKey::ApiVersions, 3));
    assert_eq!((header.correlation_id, header.client_id.as_deref()), (7, Some("app")));
    assert_eq!(decoded, request);
}

#[test]
fn api_versions_request_0_has_no_body() {
    let request = Request::from(ApiVersionsRequest::default());
    let frame = bytes("0000000d | 0012 0000 00000001 0003 'app'");
    assert_eq!(request.encode(0, 1, "app").expect("expressible").to_bytes(), frame);
}

/// Cases B007 and B009: tagged fields whose values are structs, and one we do not know.
#[test]
fn api_versions_response_3_with_features() {
    let body = "0000 | 02 0000 0003 000c 00 | 00000000 | 04 \
                00 1a 02 14 'transaction.version' 0000 0002 00 01 08 0000000000000009 \
                02 1a 02 14 'transaction.version' 0002 0002 00 64 03 ffffff";
    let expected = Response::from(ApiVersionsResponse {
        api_keys: vec![ApiVersion { api_key: 0, min_version: 3, max_version: 12 }],
        supported_features: vec![SupportedFeature {
            name: "transaction.version".into(),
            min_version: 0,
            max_version: 2,
        }],
        finalized_features_epoch: 9,
        finalized_features: vec![FinalizedFeature {
            name: "transaction.version".into(),
            max_version_level: 2,
            min_version_level: 2,
        }],
        ..ApiVersionsResponse::default()
    });
    assert_eq!(response(ApiKey::ApiVersions, 3, body), expected);
    let without_unknown = body.replace("| 04", "| 03").replace(" 64 03 ffffff", "");
    assert_eq!(Message::Response(expected).body(3), bytes(&without_unknown));
}

/// KIP-511: the answer to a version the broker does not know is in version 0, whatever was asked for.
#[test]
fn unsupported_version_is_answered_in_version_0() {
    let answer = Response::from(ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        api_keys: vec![ApiVersion { api_key: 18, min_version: 0, max_version: 3 }],
        ..ApiVersionsResponse::default()
    });
    let body = "0023 | 00000001 0012 0000 0003";
    for version in 0..=4 {
        assert_eq!(response(ApiKey::ApiVersions, version, body), answer);
        let frame = answer.encode(version, 5).expect("expressible").to_bytes();
        assert_eq!(frame, bytes(&format!("00000010 | 00000005 | {body}")));
    }
    // Brokers before 2.4 name no API at all.
    let silent = response(ApiKey::ApiVersions, 4, "0023 00000000");
    let Response::ApiVersions(silent) = silent else { panic!("{silent:?}") };
    assert_eq!(silent.api_keys, []);
}

#[test]
fn unknown_apis_and_versions_can_be_answered() {
    let unknown = Request::decode(bytes("004b 0000 0000002a ffff 00"));
    let api = WireError::UnknownApiKey { api_key: 75, api_version: 0, correlation_id: 42 };
    assert_eq!(unknown, Err(api));
    let newer = Request::decode(bytes("0012 0005 0000002b ffff 00 01 01 00"));
    let version = WireError::UnsupportedVersion {
        api_key: ApiKey::ApiVersions,
        version: 5,
        correlation_id: 43,
    };
    assert_eq!(newer, Err(version));
}

fn produce_request() -> ProduceRequest {
    ProduceRequest {
        transactional_id: Some("job".into()),
        acks: -1,
        timeout_ms: 30_000,
        topics: vec![ProduceTopic {
            topic: Arc::from("out"),
            partitions: vec![ProducePartition {
                partition: 2,
                records: Bytes::from_static(b"batch"),
            }],
        }],
    }
}

#[test]
fn produce_request_3() {
    let frame = produce_request();
    let frame = Request::from(frame).encode(3, 9, "ms").expect("expressible");
    let expected = "00000031 | 0000 0003 00000009 0002 'ms' | 0003 'job' ffff 00007530 | \
                    00000001 0003 'out' 00000001 00000002 00000005 'batch'";
    assert_eq!(frame.to_bytes(), bytes(expected));
    assert_eq!(frame.chunks.len(), 2);
}

#[test]
fn produce_request_9_is_flexible() {
    let frame = Request::from(produce_request()).encode(9, 9, "ms").expect("expressible");
    let expected = "0000002a | 0000 0009 00000009 0002 'ms' 00 | 04 'job' ffff 00007530 | \
                    02 04 'out' 02 00000002 06 'batch' 00 00 00";
    assert_eq!(frame.to_bytes(), bytes(expected));
    assert_eq!(frame.chunks.len(), 3, "head, records, tail");
}

#[test]
fn produce_response_10_names_the_new_leader() {
    let body = "02 04 'out' 02 00000002 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff 01 00 \
                01 00 09 00000005 00000011 00 00 | 00000000 | \
                01 00 0e 02 00000005 03 'b5' 00002384 00 00";
    let Response::Produce(decoded) = response(ApiKey::Produce, 10, body) else { panic!() };
    let partition = &decoded.topics[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(partition.current_leader, Some(LeaderIdAndEpoch { leader_id: 5, leader_epoch: 17 }));
    assert_eq!(decoded.node_endpoints[0].host, "b5");
    assert_eq!(decoded.node_endpoints[0].port, 9092);
    assert_eq!(Message::Response(decoded.into()).body(10), bytes(body));
}

#[test]
fn fetch_request_11() {
    let request = FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 0x0320_0000,
        isolation_level: IsolationLevel::ReadCommitted,
        session_id: 3,
        session_epoch: 4,
        topics: vec![FetchTopic::by_name(
            "in",
            vec![FetchPartition {
                partition: 1,
                current_leader_epoch: 7,
                fetch_offset: 57,
                partition_max_bytes: 0x10_0000,
                ..FetchPartition::default()
            }],
        )],
        forgotten_topics: Vec::new(),
        rack_id: "r1".into(),
    };
    let body = "ffffffff 000001f4 00000001 03200000 01 00000003 00000004 | 00000001 0002 'in' 00000001 \
                00000001 00000007 0000000000000039 ffffffffffffffff 00100000 | 00000000 | 0002 'r1'";
    let message = Message::Request(request.into());
    assert_eq!(message.body(11), bytes(body));
    assert_eq!(Message::decode(ApiKey::Fetch, Direction::Request, 11, bytes(body)), Ok(message));
}

#[test]
fn fetch_13_has_ids_in_place_of_names() {
    let request = FetchRequest {
        max_wait_ms: 500,
        topics: vec![FetchTopic { topic_id: [0xab; 16], ..FetchTopic::by_name("", vec![]) }],
        ..FetchRequest::default()
    };
    let body = "ffffffff 000001f4 00000000 7fffffff 00 00000000 ffffffff \
                02 abababababababababababababababab 01 00 | 01 | 01 | 00";
    let message = Message::Request(request.into());
    assert_eq!(message.body(13), bytes(body));
    assert_eq!(Message::decode(ApiKey::Fetch, Direction::Request, 13, bytes(body)), Ok(message));
    let body = "00000000 0000 0000002a | 02 abababababababababababababababab 01 00 | 00";
    let Response::Fetch(decoded) = response(ApiKey::Fetch, 13, body) else { panic!() };
    assert_eq!((&*decoded.topics[0].topic, decoded.topics[0].topic_id), ("", [0xab; 16]));
}

#[test]
fn fetch_response_12_with_tags() {
    let body = "00000000 0000 0000002a | 02 03 'in' 02 \
                00000001 0000 0000000000000064 0000000000000063 0000000000000000 \
                02 0000000000000bb8 0000000000000032 00 ffffffff 06 'batch' \
                03 00 0d 00000003 0000000000000061 00 01 09 00000002 00000008 00 02 03 ffffff | 00 | 00";
    let decoded = response(ApiKey::Fetch, 12, body);
    let partition = FetchPartitionResponse {
        partition: 1,
        error_code: ErrorCode::NONE,
        high_watermark: 100,
        last_stable_offset: 99,
        log_start_offset: 0,
        diverging_epoch: Some(EpochEndOffset { epoch: 3, end_offset: 97 }),
        current_leader: Some(LeaderIdAndEpoch { leader_id: 2, leader_epoch: 8 }),
        aborted_transactions: Some(vec![AbortedTransaction {
            producer_id: 3000,
            first_offset: 50,
        }]),
        preferred_read_replica: -1,
        records: Bytes::from_static(b"batch"),
    };
    let topic = FetchTopicResponse::by_name("in", vec![partition]);
    let expected =
        FetchResponse { session_id: 42, topics: vec![topic], ..FetchResponse::default() };
    assert_eq!(decoded, expected.into());
}

#[test]
fn null_records_and_null_aborted_list_are_read() {
    let body = "00000000 | 00000001 0002 'in' 00000001 \
                00000001 0003 ffffffffffffffff ffffffffffffffff ffffffff ffffffff";
    let Response::Fetch(decoded) = response(ApiKey::Fetch, 4, body) else { panic!() };
    let expected = FetchPartitionResponse {
        partition: 1,
        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ..FetchPartitionResponse::default()
    };
    assert_eq!(decoded.topics[0].partitions, [expected]);
}

#[test]
fn metadata_request_9_of_kafka_protocol_goes_into_our_frame() {
    let topic = kp::metadata_request::MetadataRequestTopic::default()
        .with_name(Some(kp::TopicName(str_bytes("in"))));
    let request = kp::MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(false);
    let frame = Request::from(request).encode(9, 1, "ms").expect("expressible");
    let expected = "00000016 | 0003 0009 00000001 0002 'ms' 00 | 02 03 'in' 00 00 00 00 00";
    assert_eq!(frame.to_bytes(), bytes(expected));
}

#[test]
fn response_header_is_found_before_the_api_is_known() {
    let frame = bytes("0000002a 00 00000000 0000");
    assert_eq!(ResponseHeader::peek_correlation_id(&frame), Ok(42));
    let (header, body) = ResponseHeader::decode(ApiKey::EndTxn, 3, frame).expect("whole header");
    assert_eq!(header.correlation_id, 42);
    assert_eq!(body, bytes("00000000 0000"));
    assert!(ResponseHeader::peek_correlation_id(&bytes("0000")).is_err());
}
