//! Our codecs against those of `kafka_protocol`: same bytes, both ways.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::prelude::*;

use super::Message;
use super::strategies::{forgotten_topics, messages};
use crate::NO_TOPIC_ID;
use crate::messages::{ApiKey, Request, kp};
use crate::wire::Direction;

/// What `kafka_protocol` writes after it has read `body`.
fn through_kafka_protocol(message: &Message, version: i16, body: Bytes) -> Bytes {
    fn through<M: Decodable + Encodable>(mut body: Bytes, version: i16) -> Bytes {
        let message = M::decode(&mut body, version).expect("their decoder reads our bytes");
        assert!(body.is_empty(), "their decoder reads all of our bytes");
        let mut written = BytesMut::new();
        message.encode(&mut written, version).expect("they write what they read");
        written.freeze()
    }
    match (message.api_key(), message.direction()) {
        (ApiKey::Produce, Direction::Request) => through::<kp::ProduceRequest>(body, version),
        (ApiKey::Produce, Direction::Response) => through::<kp::ProduceResponse>(body, version),
        (ApiKey::Fetch, Direction::Request) => through::<kp::FetchRequest>(body, version),
        (ApiKey::Fetch, Direction::Response) => through::<kp::FetchResponse>(body, version),
        (ApiKey::ApiVersions, Direction::Request) => {
            through::<kp::ApiVersionsRequest>(body, version)
        }
        (ApiKey::ApiVersions, Direction::Response) => {
            through::<kp::ApiVersionsResponse>(body, version)
        }
        other => panic!("{other:?} has no codec of our own"),
    }
}

proptest! {
    #[test]
    fn bodies_are_the_same_as_kafka_protocols(message in messages()) {
        let (api, direction) = (message.api_key(), message.direction());
        for version in api.codec_versions() {
            let body = message.body(version);
            let theirs = through_kafka_protocol(&message, version, body.clone());
            prop_assert_eq!(&theirs, &body, "{} {} {}", api, direction, version);
            let decoded = Message::decode(api, direction, version, theirs);
            prop_assert_eq!(decoded.expect("their bytes").body(version), body);
        }
    }

    #[test]
    fn newest_version_carries_every_field(message in messages()) {
        let (api, direction) = (message.api_key(), message.direction());
        let newest = *api.codec_versions().end();
        let decoded = Message::decode(api, direction, newest, message.body(newest));
        prop_assert_eq!(decoded.expect("our own bytes"), with_topics_by(Topics::Ids, message.clone()));
        if api == ApiKey::Fetch {
            let decoded = Message::decode(api, direction, 12, message.body(12));
            prop_assert_eq!(decoded.expect("our own bytes"), with_topics_by(Topics::Names, message));
        }
    }

    #[test]
    fn forgotten_topics_come_through_from_version_7(
        message in messages(),
        forgotten in forgotten_topics(),
    ) {
        let Message::Request(Request::Fetch(mut request)) = message else { return Ok(()) };
        request.forgotten_topics = forgotten;
        for version in 7..=13 {
            let message = Message::Request(Request::Fetch(request.clone()));
            let body = message.body(version);
            prop_assert_eq!(through_kafka_protocol(&message, version, body.clone()), body.clone());
            let decoded = Message::decode(ApiKey::Fetch, Direction::Request, version, body);
            let Ok(Message::Request(Request::Fetch(decoded))) = decoded else { panic!() };
            let by = if version == 13 { Topics::Ids } else { Topics::Names };
            let expected = with_topics_by(by, Message::Request(Request::Fetch(request.clone())));
            let Message::Request(Request::Fetch(expected)) = expected else { panic!() };
            prop_assert_eq!(&decoded.forgotten_topics, &expected.forgotten_topics);
        }
        let refused = Request::Fetch(request.clone()).encode(6, 1, "test").is_err();
        prop_assert_eq!(refused, !request.forgotten_topics.is_empty());
    }

    #[test]
    fn record_bytes_are_never_copied(message in messages(), version in 4..=12_i16) {
        let frame = match &message {
            Message::Request(request @ Request::Produce(_)) => request.encode(version, 7, "test"),
            Message::Response(response @ crate::messages::Response::Fetch(_)) => {
                response.encode(version, 7)
            }
            _ => return Ok(()),
        };
        let frame = frame.expect("expressible");
        let mut records = record_bytes(&message);
        records.retain(|bytes| !bytes.is_empty());
        for chunk in &frame.chunks {
            prop_assert!(!chunk.is_empty());
            if records.first().is_some_and(|bytes| bytes.as_ptr() == chunk.as_ptr()) {
                let bytes = records.remove(0);
                prop_assert_eq!(&bytes, chunk);
            }
        }
        prop_assert!(records.is_empty(), "every record buffer is a chunk of the frame");
        let size = frame.chunks[0].first_chunk::<4>().map(|size| u32::from_be_bytes(*size));
        prop_assert_eq!(size, u32::try_from(frame.byte_len() - 4).ok());

        let body = message.body(version);
        let range = body.as_ptr_range();
        let decoded = Message::decode(message.api_key(), Direction::Response, version, body.clone());
        if let (Message::Response(_), Ok(decoded)) = (&message, decoded) {
            for bytes in record_bytes(&decoded).iter().filter(|bytes| !bytes.is_empty()) {
                prop_assert!(range.contains(&bytes.as_ptr()), "a slice of the frame");
            }
        }
    }
}

/// How topics of Fetch are told apart: until version 12, and from then on.
#[derive(Clone, Copy, PartialEq)]
enum Topics {
    Names,
    Ids,
}

/// What is left of a Fetch message where its topics go by one of them.
fn with_topics_by(by: Topics, mut message: Message) -> Message {
    let set = |topic: &mut Arc<str>, topic_id: &mut [u8; 16]| match by {
        Topics::Names => *topic_id = NO_TOPIC_ID,
        Topics::Ids => *topic = Arc::from(""),
    };
    match &mut message {
        Message::Request(Request::Fetch(request)) => {
            request.topics.iter_mut().for_each(|at| set(&mut at.topic, &mut at.topic_id));
            request.forgotten_topics.iter_mut().for_each(|at| set(&mut at.topic, &mut at.topic_id));
        }
        Message::Response(crate::messages::Response::Fetch(response)) => {
            response.topics.iter_mut().for_each(|at| set(&mut at.topic, &mut at.topic_id));
        }
        _ => {}
    }
    message
}

fn record_bytes(message: &Message) -> Vec<Bytes> {
    match message {
        Message::Request(Request::Produce(request)) => {
            let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| partition.records.clone()).collect()
        }
        Message::Response(crate::messages::Response::Fetch(response)) => {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| partition.records.clone()).collect()
        }
        _ => Vec::new(),
    }
}
