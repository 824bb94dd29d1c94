//! The broker over real sockets: pipelining, faults, bad bytes, a folder that survives.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millstream_dev_broker::{DevBroker, DevBrokerConfig, FaultAction, FaultRule, Occurrence};
use millstream_protocol::messages::{ApiVersionsRequest, StrBytes, kp};
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{ApiKey, ErrorCode, Request, Response};

/// A blocking client of one connection.
struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    fn connect(broker: &DevBroker) -> Self {
        let stream = TcpStream::connect(broker.address()).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        Self { stream, correlation_id: 0 }
    }

    fn send(&mut self, version: i16, request: &Request) {
        self.correlation_id += 1;
        let frame = request.encode(version, self.correlation_id, "test").expect("encodable");
        self.stream.write_all(&frame.to_bytes()).expect("sent");
    }

    fn receive(&mut self, api_key: ApiKey, version: i16) -> Option<(i32, Response)> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).ok()?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(size)).expect("a size")];
        self.stream.read_exact(&mut frame).ok()?;
        let (header, body) =
            ResponseHeader::decode(api_key, version, Bytes::from(frame)).expect("a header");
        let response = Response::decode(api_key, version, body).expect("a body");
        Some((header.correlation_id, response))
    }

    fn call(&mut self, version: i16, request: impl Into<Request>) -> Option<Response> {
        let request = request.into();
        self.send(version, &request);
        self.receive(request.api_key(), version).map(|(_, response)| response)
    }
}

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1.0".to_owned(),
    }
}

fn create(topic: &str) -> kp::CreateTopicsRequest {
    let topic = kp::create_topics_request::CreatableTopic::default()
        .with_name(kp::TopicName(StrBytes::from_string(topic.to_owned())))
        .with_num_partitions(3)
        .with_replication_factor(1);
    kp::CreateTopicsRequest::default().with_topics(vec![topic])
}

fn partitions_of(client: &mut Client, topic: &str) -> usize {
    let request = kp::MetadataRequest::default().with_topics(None);
    let Some(Response::Metadata(response)) = client.call(12, request) else { panic!("no answer") };
    response
        .topics
        .iter()
        .find(|found| found.name.as_ref().is_some_and(|name| name.as_str() == topic))
        .map_or(0, |topic| topic.partitions.len())
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let broker = DevBroker::start(DevBrokerConfig::default()).expect("a broker");
    let mut client = Client::connect(&broker);
    for _ in 0..100 {
        client.send(4, &api_versions().into());
    }
    for expected in 1..=100 {
        let (correlation_id, response) = client.receive(ApiKey::ApiVersions, 4).expect("an answer");
        let Response::ApiVersions(response) = response else { panic!("wrong answer") };
        assert_eq!((correlation_id, response.error_code), (expected, ErrorCode::NONE));
    }
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let broker = DevBroker::start(DevBrokerConfig::default()).expect("a broker");
    let mut client = Client::connect(&broker);
    // Key 18, version 99, correlation id 7, no client id.
    client.stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff]).expect("sent");
    let (correlation_id, response) = client.receive(ApiKey::ApiVersions, 0).expect("an answer");
    let Response::ApiVersions(response) = response else { panic!("wrong answer") };
    assert_eq!((correlation_id, response.error_code), (7, ErrorCode::UNSUPPORTED_VERSION));
    assert!(response.api_keys.iter().any(|api| api.api_key == 18));
}

#[test]
fn bytes_that_are_no_request_close_the_connection() {
    let broker = DevBroker::start(DevBrokerConfig::default()).expect("a broker");
    let cases: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 0, 200, 1, 0, 0],
        &[0, 0, 0, 4, 0x7f, 0xff, 0, 0],
        // A Metadata request that claims more topics than it has bytes.
        &[0, 0, 0, 14, 0, 3, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
    ];
    for bytes in cases {
        let mut client = Client::connect(&broker);
        client.stream.write_all(bytes).expect("sent");
        let mut rest = Vec::new();
        // Closed, or reset because it did not read everything.
        let _ = client.stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
    assert!(Client::connect(&broker).call(4, api_versions()).is_some());
}

#[test]
fn fault_rules_delay_drop_and_fail() {
    let broker = DevBroker::start(DevBrokerConfig::default()).expect("a broker");
    let rule = |occurrence, action| FaultRule::new(ApiKey::CreateTopics, occurrence, action);
    broker.add_fault(rule(Occurrence::Nth(1), FaultAction::Error(ErrorCode::NOT_CONTROLLER)));
    broker.add_fault(rule(Occurrence::Nth(2), FaultAction::DropBefore));
    broker.add_fault(rule(Occurrence::Nth(3), FaultAction::DropAfter));
    broker.add_fault(rule(Occurrence::Nth(4), FaultAction::Delay(Duration::from_millis(50))));
    let code = |client: &mut Client, topic| {
        client.call(7, create(topic)).map(|response| match response {
            Response::CreateTopics(response) => ErrorCode(response.topics[0].error_code),
            other => panic!("{other:?}"),
        })
    };
    let mut client = Client::connect(&broker);
    assert_eq!(code(&mut client, "one"), Some(ErrorCode::NOT_CONTROLLER));
    assert_eq!(code(&mut client, "two"), None);
    assert_eq!(code(&mut Client::connect(&broker), "three"), None);
    let mut client = Client::connect(&broker);
    let begun = Instant::now();
    assert_eq!(code(&mut client, "four"), Some(ErrorCode::NONE));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    let counts = ["one", "two", "three", "four"].map(|topic| partitions_of(&mut client, topic));
    assert_eq!(counts, [0, 0, 3, 3]);
}

#[tokio::test]
async fn a_folder_brings_topics_back_and_serves_one_broker_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = DevBrokerConfig {
        data_dir: Some(folder.path().to_owned()),
        fsync: true,
        ..DevBrokerConfig::default()
    };
    let broker = DevBroker::start(config.clone()).expect("a broker");
    Client::connect(&broker).call(7, create("kept")).expect("an answer");
    let second = DevBroker::start(config.clone()).expect_err("in use");
    assert!(format!("{:?}", second).contains("InUse"), "{second:?}");
    broker.stop().await;
    // A torn write at the end of the state log is cut off.
    let state = folder.path().join("state.log");
    let mut content = std::fs::read(&state).expect("readable");
    content.extend_from_slice(&[0, 0, 0, 9, 1, 2]);
    std::fs::write(&state, &content).expect("writable");
    let broker = DevBroker::start(config.clone()).expect("a broker");
    assert_eq!(partitions_of(&mut Client::connect(&broker), "kept"), 3);
    broker.stop().await;
    std::fs::write(&state, b"something else").expect("writable");
    let refused = DevBroker::start(config).expect_err("not ours");
    assert!(format!("{refused:?}").contains("NotOurs"), "{refused:?}");
}

#[test]
fn addresses_that_cannot_be_are_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let config = DevBrokerConfig { listen: address.clone(), ..DevBrokerConfig::default() };
    let error = DevBroker::start(config).expect_err("in use");
    assert_eq!(error.to_string(), format!("cannot listen on {address:?}"));
    let config =
        DevBrokerConfig { advertised: Some("nowhere".to_owned()), ..DevBrokerConfig::default() };
    let error = DevBroker::start(config).expect_err("no port");
    assert_eq!(error.to_string(), "advertised address \"nowhere\" is not host:port");
}
