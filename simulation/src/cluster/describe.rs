//! Requests and answers in a few words, for histories.

use std::fmt::Write as _;

use bytes::Bytes;
use millstream_protocol::{ApiKey, ErrorCode, Request, Response};

use super::setup::decode;

/// What a request asks.
pub(super) fn describe_request(frame: &Bytes) -> String {
    let Ok((header, request)) = Request::decode(frame.clone()) else {
        return "something unreadable".to_owned();
    };
    let mut text = format!("{:?} v{}", header.api_key, header.api_version);
    match &request {
        Request::Produce(request) => {
            for topic in &request.topics {
                for partition in &topic.partitions {
                    let bytes = partition.records.len();
                    let _ = write!(text, " {}-{} ({bytes} B)", topic.topic, partition.partition);
                }
            }
        }
        Request::Fetch(request) => {
            for topic in &request.topics {
                for partition in &topic.partitions {
                    let at = partition.fetch_offset;
                    let _ = write!(text, " {}-{}@{at}", topic.topic, partition.partition);
                }
            }
        }
        Request::InitProducerId(request) => {
            let _ = write!(text, " as {}/{}", request.producer_id.0, request.producer_epoch);
        }
        Request::AddPartitionsToTxn(request) => {
            let _ = write!(
                text,
                " as {}/{}",
                request.v3_and_below_producer_id.0, request.v3_and_below_producer_epoch
            );
        }
        Request::EndTxn(request) => {
            let verb = if request.committed { "commit" } else { "abort" };
            let _ = write!(text, " {verb} as {}/{}", request.producer_id.0, request.producer_epoch);
        }
        _ => {}
    }
    text
}

/// What an answer says.
pub(super) fn describe_answer(api: ApiKey, version: i16, frame: &Bytes) -> String {
    let mut text = format!("{api:?}");
    let Some(response) = decode(api, version, frame) else { return text };
    let mut errors: Vec<ErrorCode> = Vec::new();
    match &response {
        Response::Produce(response) => {
            for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                errors.push(partition.error_code);
                let _ = write!(text, " @{}", partition.base_offset);
            }
        }
        Response::Fetch(response) => {
            errors.push(response.error_code);
            for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                errors.push(partition.error_code);
                let bytes = partition.records.len();
                if bytes > 0 {
                    let _ = write!(text, " {bytes} B");
                }
            }
        }
        Response::InitProducerId(response) => {
            errors.push(ErrorCode(response.error_code));
            let _ = write!(text, " {}/{}", response.producer_id.0, response.producer_epoch);
        }
        Response::EndTxn(response) => errors.push(ErrorCode(response.error_code)),
        Response::AddPartitionsToTxn(response) => {
            for topic in &response.results_by_topic_v3_and_below {
                let codes = topic.results_by_partition.iter();
                errors.extend(codes.map(|result| ErrorCode(result.partition_error_code)));
            }
        }
        Response::FindCoordinator(response) => {
            errors.push(ErrorCode(response.error_code));
            errors.extend(response.coordinators.iter().map(|found| ErrorCode(found.error_code)));
        }
        Response::ListOffsets(response) => {
            for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                errors.push(ErrorCode(partition.error_code));
                let _ = write!(text, " {}", partition.offset);
            }
        }
        _ => {}
    }
    errors.retain(|error| *error != ErrorCode::NONE);
    errors.dedup();
    for error in errors {
        let _ = write!(text, " {error}");
    }
    text
}
