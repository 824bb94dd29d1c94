//! Random messages of our own structs.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::Message;
use crate::error_code::ErrorCode;
use crate::ids::IsolationLevel;
use crate::messages::{
    AbortedTransaction, ApiVersion, ApiVersionsRequest, ApiVersionsResponse, EpochEndOffset,
    FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic,
    FetchTopicResponse, FinalizedFeature, ForgottenTopic, LeaderIdAndEpoch, NodeEndpoint,
    ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopic,
    ProduceTopicResponse, RecordError, Request, Response, SupportedFeature,
};

/// Any message whose codec is our own.
pub(super) fn messages() -> impl Strategy<Value = Message> {
    prop_oneof![
        api_versions_request().prop_map(|m| Message::Request(Request::ApiVersions(m))),
        api_versions_response().prop_map(|m| Message::Response(Response::ApiVersions(m))),
        produce_request().prop_map(|m| Message::Request(Request::Produce(m))),
        produce_response().prop_map(|m| Message::Response(Response::Produce(m))),
        fetch_request().prop_map(|m| Message::Request(Request::Fetch(m))),
        fetch_response().prop_map(|m| Message::Response(Response::Fetch(m))),
    ]
}

fn text() -> impl Strategy<Value = String> {
    "[a-z0-9.é]{0,12}"
}

fn topic() -> impl Strategy<Value = Arc<str>> {
    text().prop_map(Arc::from)
}

fn records() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn error_code() -> impl Strategy<Value = ErrorCode> {
    // UNSUPPORTED_VERSION changes the format of an ApiVersions response and has its own tests.
    any::<i16>().prop_filter("has its own format", |code| *code != 35).prop_map(ErrorCode)
}

fn list<T: std::fmt::Debug>(element: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(element, 0..4)
}

fn leader() -> impl Strategy<Value = LeaderIdAndEpoch> {
    // -1 and -1 is the default, which `kafka_protocol` leaves out.
    (0..i32::MAX, any::<i32>())
        .prop_map(|(leader_id, leader_epoch)| LeaderIdAndEpoch { leader_id, leader_epoch })
}

fn api_versions_request() -> impl Strategy<Value = ApiVersionsRequest> {
    (text(), text()).prop_map(|(client_software_name, client_software_version)| {
        ApiVersionsRequest { client_software_name, client_software_version }
    })
}

fn api_versions_response() -> impl Strategy<Value = ApiVersionsResponse> {
    let api = any::<(i16, i16, i16)>().prop_map(|(api_key, min_version, max_version)| ApiVersion {
        api_key,
        min_version,
        max_version,
    });
    let supported =
        (text(), any::<i16>(), any::<i16>()).prop_map(|(name, min_version, max_version)| {
            SupportedFeature { name, min_version, max_version }
        });
    let finalized = (text(), any::<i16>(), any::<i16>()).prop_map(|(name, max, min)| {
        FinalizedFeature { name, max_version_level: max, min_version_level: min }
    });
    (error_code(), list(api), any::<i32>(), list(supported), -1..i64::MAX, list(finalized))
        .prop_map(
            |(
                error_code,
                api_keys,
                throttle_time_ms,
                supported_features,
                epoch,
                finalized_features,
            )| {
                ApiVersionsResponse {
                    error_code,
                    api_keys,
                    throttle_time_ms,
                    supported_features,
                    finalized_features_epoch: epoch,
                    finalized_features,
                }
            },
        )
}

fn produce_request() -> impl Strategy<Value = ProduceRequest> {
    let partition = (any::<i32>(), records())
        .prop_map(|(partition, records)| ProducePartition { partition, records });
    let topics = (topic(), list(partition))
        .prop_map(|(topic, partitions)| ProduceTopic { topic, partitions });
    (prop::option::of(text()), any::<i16>(), any::<i32>(), list(topics)).prop_map(
        |(transactional_id, acks, timeout_ms, topics)| ProduceRequest {
            transactional_id,
            acks,
            timeout_ms,
            topics,
        },
    )
}

fn produce_response() -> impl Strategy<Value = ProduceResponse> {
    let record_error = (any::<i32>(), prop::option::of(text()))
        .prop_map(|(batch_index, message)| RecordError { batch_index, message });
    let partition = (
        any::<(i32, i64, i64, i64)>(),
        error_code(),
        list(record_error),
        prop::option::of(text()),
        prop::option::of(leader()),
    )
        .prop_map(|(numbers, error_code, record_errors, error_message, current_leader)| {
            ProducePartitionResponse {
                partition: numbers.0,
                error_code,
                base_offset: numbers.1,
                log_append_time_ms: numbers.2,
                log_start_offset: numbers.3,
                record_errors,
                error_message,
                current_leader,
            }
        });
    let topics = (topic(), list(partition))
        .prop_map(|(topic, partitions)| ProduceTopicResponse { topic, partitions });
    let node = (any::<i32>(), text(), any::<i32>(), prop::option::of(text()))
        .prop_map(|(node_id, host, port, rack)| NodeEndpoint { node_id, host, port, rack });
    (list(topics), any::<i32>(), list(node)).prop_map(
        |(topics, throttle_time_ms, node_endpoints)| ProduceResponse {
            topics,
            throttle_time_ms,
            node_endpoints,
        },
    )
}

/// Without forgotten topics, which versions below 7 refuse.
fn fetch_request() -> impl Strategy<Value = FetchRequest> {
    let partition = any::<(i32, i32, i64, i32, i64, i32)>().prop_map(|numbers| FetchPartition {
        partition: numbers.0,
        current_leader_epoch: numbers.1,
        fetch_offset: numbers.2,
        last_fetched_epoch: numbers.3,
        log_start_offset: numbers.4,
        partition_max_bytes: numbers.5,
    });
    let topics = (topic(), any::<[u8; 16]>(), list(partition))
        .prop_map(|(topic, topic_id, partitions)| FetchTopic { topic, topic_id, partitions });
    (any::<(i32, i32, i32, bool, i32, i32)>(), list(topics), text()).prop_map(
        |(numbers, topics, rack_id)| FetchRequest {
            max_wait_ms: numbers.0,
            min_bytes: numbers.1,
            max_bytes: numbers.2,
            isolation_level: if numbers.3 {
                IsolationLevel::ReadCommitted
            } else {
                IsolationLevel::ReadUncommitted
            },
            session_id: numbers.4,
            session_epoch: numbers.5,
            topics,
            forgotten_topics: Vec::new(),
            rack_id,
        },
    )
}

/// Topics to forget, for versions from 7 on.
pub(super) fn forgotten_topics() -> impl Strategy<Value = Vec<ForgottenTopic>> {
    list(
        (topic(), any::<[u8; 16]>(), list(any::<i32>())).prop_map(
            |(topic, topic_id, partitions)| ForgottenTopic { topic, topic_id, partitions },
        ),
    )
}

fn fetch_response() -> impl Strategy<Value = FetchResponse> {
    let aborted = any::<(i64, i64)>()
        .prop_map(|(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset });
    let diverging = (0..i32::MAX, any::<i64>())
        .prop_map(|(epoch, end_offset)| EpochEndOffset { epoch, end_offset });
    let partition = (
        any::<(i32, i64, i64, i64, i32)>(),
        error_code(),
        prop::option::of(diverging),
        prop::option::of(leader()),
        prop::option::of(list(aborted)),
        records(),
    )
        .prop_map(
            |(numbers, error_code, diverging_epoch, current_leader, aborted, records)| {
                FetchPartitionResponse {
                    partition: numbers.0,
                    error_code,
                    high_watermark: numbers.1,
                    last_stable_offset: numbers.2,
                    log_start_offset: numbers.3,
                    diverging_epoch,
                    current_leader,
                    aborted_transactions: aborted,
                    preferred_read_replica: numbers.4,
                    records,
                }
            },
        );
    let topics =
        (topic(), any::<[u8; 16]>(), list(partition)).prop_map(|(topic, topic_id, partitions)| {
            FetchTopicResponse { topic, topic_id, partitions }
        });
    (any::<i32>(), error_code(), any::<i32>(), list(topics)).prop_map(
        |(throttle_time_ms, error_code, session_id, topics)| FetchResponse {
            throttle_time_ms,
            error_code,
            session_id,
            topics,
        },
    )
}
