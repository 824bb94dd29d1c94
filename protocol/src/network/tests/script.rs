//! The other side of the machine, and shorthands for what tests say to it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::messages::kp::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use crate::messages::kp::{
    ListTransactionsRequest, ListTransactionsResponse, MetadataResponse, TopicName,
};
use crate::messages::{ApiVersion, ApiVersionsResponse, FinalizedFeature, StrBytes};
use crate::network::{
    ConnectionClass, ConnectionId, Destination, DisconnectReason, NetworkClient, NetworkConfig,
    NetworkEvent, NetworkOutput, OutgoingRequest, RequestError, RequestToken,
};
use crate::wire::{EncodedFrame, RequestHeader};
use crate::{ApiKey, ErrorCode, Request, Response, Timestamp};

/// The machine, its time, and what it has asked for so far.
pub(super) struct Script {
    pub(super) client: NetworkClient,
    pub(super) now: Timestamp,
    /// Attempts that are neither accepted nor refused yet.
    pub(super) connects: VecDeque<(ConnectionId, String)>,
    /// Requests that are not answered yet.
    pub(super) sent: VecDeque<Sent>,
    pub(super) closed: Vec<ConnectionId>,
    /// Connections that ask for a login.
    pub(super) logins: VecDeque<ConnectionId>,
    pub(super) results: Vec<(u64, i16, Result<Response, RequestError>)>,
    pub(super) events: Vec<NetworkEvent>,
}

/// A request as the broker sees it.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) connection: ConnectionId,
    pub(super) header: RequestHeader,
    pub(super) request: Request,
}

impl Script {
    pub(super) fn new(addresses: &[&str]) -> Self {
        Self::with_config(addresses, |_| {})
    }

    pub(super) fn with_config(addresses: &[&str], change: impl Fn(&mut NetworkConfig)) -> Self {
        let servers = addresses.iter().map(|host| (Arc::from(*host), 9092)).collect();
        let mut config = NetworkConfig::new(servers);
        change(&mut config);
        Self {
            client: NetworkClient::new(config, 7),
            now: Timestamp::from_micros(1),
            connects: VecDeque::new(),
            sent: VecDeque::new(),
            closed: Vec::new(),
            logins: VecDeque::new(),
            results: Vec::new(),
            events: Vec::new(),
        }
    }

    /// A machine that knows brokers 1 to `brokers` (host `b1` …) and has no open connection request.
    pub(super) fn with_brokers(brokers: i32) -> Self {
        let mut script = Self::new(&["boot"]);
        script.client.request_metadata_update(script.now);
        script.drain();
        script.accept();
        script.answer(Response::Metadata(cluster(brokers, vec![])));
        script.events.clear();
        script.closed.clear();
        script
    }

    pub(super) fn drain(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                NetworkOutput::Connect { connection, host, port } => {
                    self.connects.push_back((connection, format!("{host}:{port}")));
                }
                NetworkOutput::Transmit { connection, frame } => {
                    let (header, request) = Request::decode(without_size(&frame)).unwrap();
                    self.sent.push_back(Sent { connection, header, request });
                }
                NetworkOutput::Login { connection, .. } => self.logins.push_back(connection),
                NetworkOutput::Close { connection } => {
                    self.closed.push(connection);
                    self.connects.retain(|(other, _)| *other != connection);
                    self.sent.retain(|sent| sent.connection != connection);
                }
            }
        }
        while let Some(event) = self.client.poll_event() {
            match event {
                NetworkEvent::Response { token, api_version, result } => {
                    self.results.push((token.0, api_version, result));
                }
                event => self.events.push(event),
            }
        }
    }

    /// Lets time pass, doing all that falls due on the way. Fails if the machine asks to be called without end.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        let mut calls = 0;
        while let Some(at) = self.client.poll_timeout().filter(|at| *at <= end) {
            calls += 1;
            assert!(calls < 2000, "called again and again at {:?}", self.now);
            self.now = at.max(self.now);
            self.client.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// Accepts the oldest connection attempt and negotiates as a current broker; gives its address.
    pub(super) fn accept(&mut self) -> (ConnectionId, String) {
        let (connection, address) = self.connected();
        let Some(sent) = self.sent.pop_back() else { panic!("no ApiVersions") };
        assert_eq!(sent.header.api_key, ApiKey::ApiVersions);
        self.reply(&sent, Response::ApiVersions(versions(1, 2)));
        (connection, address)
    }

    /// Accepts the oldest connection attempt and answers nothing yet.
    pub(super) fn connected(&mut self) -> (ConnectionId, String) {
        let (connection, address) = self.connects.pop_front().expect("a connection attempt");
        self.client.handle_connected(self.now, connection);
        self.drain();
        (connection, address)
    }

    pub(super) fn refuse(&mut self, reason: DisconnectReason) -> String {
        let (connection, address) = self.connects.pop_front().expect("a connection attempt");
        self.client.handle_disconnected(self.now, connection, reason);
        self.drain();
        address
    }

    pub(super) fn disconnect(&mut self, connection: ConnectionId, reason: DisconnectReason) {
        self.sent.retain(|sent| sent.connection != connection);
        self.client.handle_disconnected(self.now, connection, reason);
        self.drain();
    }

    pub(super) fn send(&mut self, token: u64, destination: Destination, request: Request) {
        let request = OutgoingRequest {
            destination,
            class: ConnectionClass::Control,
            request,
            token: RequestToken(token),
            max_version: None,
            timeout: Duration::from_secs(30),
        };
        self.client.send(self.now, request);
        self.drain();
    }

    /// Takes the oldest request off the wire.
    pub(super) fn next(&mut self) -> Sent {
        self.sent.pop_front().expect("a request")
    }

    /// Answers the oldest request.
    pub(super) fn answer(&mut self, response: Response) {
        let sent = self.next();
        self.reply(&sent, response);
    }

    pub(super) fn reply(&mut self, sent: &Sent, response: Response) {
        let frame = response.encode(sent.header.api_version, sent.header.correlation_id).unwrap();
        self.client.handle_frame(self.now, sent.connection, without_size(&frame));
        self.drain();
    }

    /// The outcome of a request, which must be there.
    pub(super) fn result(&self, token: u64) -> &Result<Response, RequestError> {
        let mut found = self.results.iter().filter(|(t, ..)| *t == token);
        let (_, _, result) = found.next().expect("an outcome");
        assert!(found.next().is_none(), "two outcomes of one request");
        result
    }

    pub(super) fn has_result(&self, token: u64) -> bool {
        self.results.iter().any(|(t, ..)| *t == token)
    }
}

fn without_size(frame: &EncodedFrame) -> bytes::Bytes {
    frame.to_bytes().slice(4..)
}

/// ApiVersions of a current broker.
pub(super) fn versions(epoch: i64, transaction_version: i16) -> ApiVersionsResponse {
    ApiVersionsResponse {
        api_keys: ApiKey::ALL
            .iter()
            .map(|api| ApiVersion { api_key: api.code(), min_version: 0, max_version: 20 })
            .collect(),
        finalized_features_epoch: epoch,
        finalized_features: vec![FinalizedFeature {
            name: "transaction.version".to_owned(),
            max_version_level: transaction_version,
            min_version_level: 0,
        }],
        ..ApiVersionsResponse::default()
    }
}

pub(super) fn cluster(brokers: i32, topics: Vec<MetadataResponseTopic>) -> MetadataResponse {
    let brokers = (1..=brokers).map(|n| {
        MetadataResponseBroker::default()
            .with_node_id(n.into())
            .with_host(StrBytes::from_string(format!("b{n}")))
            .with_port(9092)
    });
    MetadataResponse::default()
        .with_brokers(brokers.collect())
        .with_controller_id(1.into())
        .with_cluster_id(Some(StrBytes::from_static_str("cluster")))
        .with_topics(topics)
}

/// A topic whose partitions have these leaders and epochs.
pub(super) fn topic(name: &'static str, id: u8, leaders: &[(i32, i32)]) -> MetadataResponseTopic {
    let partitions = leaders.iter().zip(0..).map(|((leader, epoch), index)| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id((*leader).into())
            .with_leader_epoch(*epoch)
            .with_error_code(if *leader < 0 { ErrorCode::LEADER_NOT_AVAILABLE.0 } else { 0 })
    });
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_static_str(name))))
        .with_topic_id(uuid::Uuid::from_bytes([id; 16]))
        .with_partitions(partitions.collect())
}

/// A small request to tell by its answer.
pub(super) fn ask() -> Request {
    Request::ListTransactions(ListTransactionsRequest::default())
}

/// Its answer.
pub(super) fn answer() -> Response {
    Response::ListTransactions(ListTransactionsResponse::default())
}
