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
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&request.encode(VERSION, 1, "raw").unwrap().to_bytes()).unwrap();
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).unwrap();
    let (_, body) = ResponseHeader::decode(ApiKey::Produce, VERSION, Bytes::from(frame)).unwrap();
    let Response::Produce(response) = Response::decode(ApiKey::Produce, VERSION, body).unwrap()
    else {
        panic!("an answer to another question")
    };
    assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::NONE);
}

const VERSION: i16 = 9;
