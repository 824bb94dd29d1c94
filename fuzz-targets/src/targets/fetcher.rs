//! Answers to fetches, whatever they hold: the position never goes back, and what is handed out continues it.

use bytes::Bytes;
use millstream_protocol::fetch::{FetchConfig, FetchEvent, FetchStart, Fetcher};
use millstream_protocol::messages::{
    FetchPartitionResponse, FetchResponse, FetchTopicResponse, kp,
};
use millstream_protocol::network::Metadata;
use millstream_protocol::{ErrorCode, Request, Response, Timestamp, TopicPartition};

use crate::{Broker, sample_request, seal_as_one_batch};

/// Answers one after the other: flags, error code, length, records.
pub(super) fn fetcher(input: &[u8]) {
    let key = TopicPartition::new("t", 0);
    let mut fetcher = Fetcher::new(FetchConfig::default(), 1);
    fetcher.assign(FetchStart { topic_partition: key.clone(), offset: 10, leader_epoch: 4 });
    let metadata = metadata();
    let mut now = Timestamp::from_micros(1);
    let mut rest = input;
    let mut position = 10;
    while let [flags, error, length, after @ ..] = rest {
        let (records, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        for _ in 0..4 {
            match fetcher.poll_timeout() {
                Some(at) => {
                    now = now.max(at);
                    fetcher.handle_timeout(now);
                }
                None => break,
            }
        }
        let Some(request) = fetcher.poll_request(now, &metadata) else { break };
        let answer = match &request.request {
            Request::Fetch(_) => Response::Fetch(answer(*flags, *error, records)),
            other => Broker::new("b", 1, 2).answer(other, 7).expect("an answer"),
        };
        fetcher.handle_response(now, request.token, Ok(answer));
        while let Some(event) = fetcher.poll_event() {
            match event {
                FetchEvent::Records(fetched) => {
                    assert_eq!(fetched.fetch_offset, position);
                    assert!(fetched.next_offset > position && !fetched.records.is_empty());
                    position = fetched.next_offset;
                    fetcher.release(&key, fetched.records.len());
                }
                FetchEvent::Progress { position: told, .. } => assert_eq!(told, position),
                FetchEvent::Failed { .. } => return,
            }
        }
        while fetcher.poll_stale_metadata().is_some() {}
        assert_eq!(fetcher.position(&key), Some(position));
    }
}

fn answer(flags: u8, error: u8, records: &[u8]) -> FetchResponse {
    let mut records = records.to_vec();
    if flags & 1 == 1 {
        seal_as_one_batch(&mut records);
    }
    let error = ErrorCode(i16::from(error).wrapping_sub(1));
    let of_all = flags & 2 == 2;
    let partition = FetchPartitionResponse {
        partition: i32::from(flags & 4 == 4),
        error_code: if of_all { ErrorCode::NONE } else { error },
        high_watermark: 100,
        records: Bytes::from(records),
        ..FetchPartitionResponse::default()
    };
    FetchResponse {
        error_code: if of_all { error } else { ErrorCode::NONE },
        session_id: i32::from(flags >> 4),
        topics: vec![FetchTopicResponse::by_name("t", vec![partition])],
        ..FetchResponse::default()
    }
}

fn metadata() -> Metadata {
    let request = sample_request(millstream_protocol::ApiKey::Metadata, 9);
    let Some(Response::Metadata(answer)) = Broker::new("b", 1, 2).answer(&request, 9) else {
        panic!("metadata");
    };
    let answer: kp::MetadataResponse = answer;
    let mut metadata = Metadata::default();
    metadata.update(&answer, 9, |_| true);
    metadata
}
