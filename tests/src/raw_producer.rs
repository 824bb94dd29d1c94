//! One Produce request by hand: what no well-behaved client sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_protocol::messages::{ProducePartition, ProduceRequest, ProduceTopic};
use millstream_protocol::records::{BatchBuilder, Compression};
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{
    ApiKey, ErrorCode, ProducerIdAndEpoch, Request, Response, TopicPartition,
};

use crate::wait::wait_until;

/// Puts a record of a transaction into a partition that was never registered with it, in a version of Produce from
/// before brokers registered partitions themselves: the transaction will hang. `address` is `host:port` of the leader, which
/// must not verify partitions (`transaction.partition.verification.enable=false`).
///
/// # Panics
///
/// If the broker does not take it.
pub fn produce_unregistered(
    address: &str,
    partition: &TopicPartition,
    transactional_id: &str,
    producer: ProducerIdAndEpoch,
) {
    let mut builder = BatchBuilder::new(Compression::None, 1024);
    builder.append(1000, None, Some(b"left behind"), &[]).unwrap();
    let mut batch = builder.build().unwrap().unwrap();
    batch.stamp(producer, 0, true);
    let request = Request::from(ProduceRequest {
        transactional_id: Some(transactional_id.to_owned()),
        acks: -1,
        timeout_ms: 30_000,
        topics: vec![ProduceTopic {
            topic: Arc::clone(&partition.topic),
            partitions: vec![ProducePartition {
                partition: partition.partition,
                records: batch.into_bytes(),
            }],
        }],
    });
    let frame = request.encode(VERSION, 1, "raw").unwrap().to_bytes();
    // A topic that was just created may still be on its way to its leader.
    wait_until("the broker takes the record", Duration::from_secs(60), || {
        let code = answer(address, &frame);
        let on_its_way = [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION];
        assert!(code == ErrorCode::NONE || on_its_way.contains(&code), "{code}");
        code == ErrorCode::NONE
    });
}

/// Sends the request; gives the code of its only partition.
fn answer(address: &str, request: &[u8]) -> ErrorCode {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request).unwrap();
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).unwrap();
    let (_, body) = ResponseHeader::decode(ApiKey::Produce, VERSION, Bytes::from(frame)).unwrap();
    let Response::Produce(response) = Response::decode(ApiKey::Produce, VERSION, body).unwrap()
    else {
        panic!("an answer to another question")
    };
    response.topics[0].partitions[0].error_code
}

const VERSION: i16 = 9;
