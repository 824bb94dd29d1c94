//! Single requests over a socket, in a version of the caller's choice: what a well-behaved client would not send, or not then.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millstream_protocol::messages::kp::{
    FindCoordinatorRequest, MetadataRequest, MetadataResponse, TopicName, metadata_request,
};
use millstream_protocol::messages::str_bytes;
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{Request, Response};

const LIMIT: Duration = Duration::from_secs(60);

/// A connection to one broker. Requests are answered one by one.
#[derive(Debug)]
pub struct WireClient {
    stream: TcpStream,
    correlation_id: i32,
}

impl WireClient {
    /// Connects to `host:port`.
    ///
    /// # Panics
    ///
    /// If nobody listens there.
    #[must_use]
    pub fn connect(address: &str) -> Self {
        Self::try_connect(address).unwrap()
    }

    fn try_connect(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, correlation_id: 0 })
    }

    /// Connects to the coordinator of a group (`is_transaction` false) or of a transactional id, once there is one.
    ///
    /// # Panics
    ///
    /// If none is found within a minute.
    #[must_use]
    pub fn of_coordinator(bootstrap_servers: &str, key: &str, is_transaction: bool) -> Self {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(address) = find_coordinator(bootstrap_servers, key, is_transaction)
                && let Ok(found) = Self::try_connect(&address)
            {
                return found;
            }
            assert!(Instant::now() < deadline, "no coordinator for {key}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends a request and reads its answer.
    ///
    /// # Panics
    ///
    /// If there is none within a minute, or it can not be read.
    pub fn ask(&mut self, request: impl Into<Request>, version: i16) -> Response {
        self.try_ask(&request.into(), version).unwrap()
    }

    /// As [`ask`](Self::ask) of a broker that may be gone.
    ///
    /// # Errors
    ///
    /// What the socket meets.
    ///
    /// # Panics
    ///
    /// If the answer can not be read.
    pub fn try_ask(&mut self, request: &Request, version: i16) -> std::io::Result<Response> {
        self.correlation_id += 1;
        let frame = request.encode(version, self.correlation_id, "wire").unwrap();
        self.stream.write_all(&frame.to_bytes())?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame)?;
        let api = request.api_key();
        let (header, body) = ResponseHeader::decode(api, version, Bytes::from(frame)).unwrap();
        assert_eq!(header.correlation_id, self.correlation_id);
        Ok(Response::decode(api, version, body).unwrap())
    }
}

fn find_coordinator(servers: &str, key: &str, is_transaction: bool) -> Option<String> {
    let request = Request::FindCoordinator(
        FindCoordinatorRequest::default()
            .with_key(str_bytes(key))
            .with_key_type(i8::from(is_transaction)),
    );
    servers.split(',').find_map(|address| {
        let answer = WireClient::try_connect(address).and_then(|mut c| c.try_ask(&request, 3));
        let Ok(Response::FindCoordinator(answer)) = answer else { return None };
        let found = answer.error_code == 0;
        found.then(|| format!("{}:{}", answer.host, answer.port))
    })
}

/// What the first broker that answers says of the cluster and a topic.
///
/// # Panics
///
/// If none answers.
#[must_use]
pub fn metadata(bootstrap_servers: &str, topic: &str) -> MetadataResponse {
    try_metadata(bootstrap_servers, topic).expect("a broker that answers")
}

/// As [`metadata`]; `None` if no broker answers.
#[must_use]
pub fn try_metadata(bootstrap_servers: &str, topic: &str) -> Option<MetadataResponse> {
    let topic = metadata_request::MetadataRequestTopic::default()
        .with_name(Some(TopicName(str_bytes(topic))));
    let request = Request::Metadata(MetadataRequest::default().with_topics(Some(vec![topic])));
    bootstrap_servers.split(',').find_map(|address| {
        let answer = WireClient::try_connect(address).and_then(|mut c| c.try_ask(&request, 9));
        match answer {
            Ok(Response::Metadata(answer)) => Some(answer),
            _ => None,
        }
    })
}
