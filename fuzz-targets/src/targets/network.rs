//! The network machine against a broker that says anything at any time: no panic, no endless work, and exactly one outcome
//! for each request.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_protocol::network::{
    ConnectionClass, ConnectionId, Destination, DisconnectReason, NetworkClient, NetworkConfig,
    NetworkEvent, NetworkOutput, OutgoingRequest, RequestToken,
};
use millstream_protocol::sasl::{SaslLogin, Secret};
use millstream_protocol::{ApiKey, NodeId, Request, Timestamp};

use crate::{Broker, sample_request};

/// The first byte sets up; then steps of one byte and what they take.
pub(super) fn network(input: &[u8]) {
    let Some((&setup, steps)) = input.split_first() else { return };
    let mut play = Play::new(setup & 1 == 1);
    play.send(ApiKey::Metadata, Destination::AnyBroker);
    play.send(ApiKey::EndTxn, Destination::TransactionCoordinator(Arc::from("tx")));
    play.send(ApiKey::Produce, Destination::Node(NodeId(1)));
    play.client.track_topic(play.now, &Arc::from("t"));
    play.drain();
    let mut rest = steps;
    let mut done = 0;
    while let [step, length, after @ ..] = rest {
        let (bytes, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        play.step(*step, *length, bytes);
        done += 1;
        if done > MAX_STEPS {
            break;
        }
    }
    play.client.close(play.now);
    play.drain();
    assert!(play.waiting.is_empty(), "requests without an outcome");
}

struct Play {
    client: NetworkClient,
    now: Timestamp,
    broker: Broker,
    connects: VecDeque<ConnectionId>,
    /// Requests on the wire, with their frames.
    sent: VecDeque<(ConnectionId, Bytes)>,
    logins: VecDeque<ConnectionId>,
    waiting: BTreeSet<u64>,
    next_token: u64,
}

impl Play {
    fn new(authenticate: bool) -> Self {
        let mut config = NetworkConfig::new(vec![(Arc::from("boot"), 9092)]);
        config.authenticate = authenticate;
        Self {
            client: NetworkClient::new(config, 7),
            now: Timestamp::from_micros(1),
            broker: Broker::new("b", 9092, 2),
            connects: VecDeque::new(),
            sent: VecDeque::new(),
            logins: VecDeque::new(),
            waiting: BTreeSet::new(),
            next_token: 0,
        }
    }

    fn send(&mut self, api: ApiKey, destination: Destination) {
        let token = self.next_token;
        self.next_token += 1;
        self.waiting.insert(token);
        let request = OutgoingRequest {
            destination,
            class: ConnectionClass::Control,
            request: sample_request(api, *api.client_versions().end()),
            token: RequestToken(token),
            max_version: None,
            timeout: Duration::from_secs(30),
        };
        self.client.send(self.now, request);
    }

    fn step(&mut self, step: u8, length: u8, bytes: &[u8]) {
        match step % 8 {
            0 | 1 => self.answer(|frame| {
                let correlation = frame.get(8..12).unwrap_or_default();
                Some([correlation, bytes].concat().into())
            }),
            2 => self.answer(|_| Some(Bytes::copy_from_slice(bytes))),
            3 | 4 => self.answer_honestly(),
            5 => {
                if let Some(connection) = self.connects.pop_front() {
                    self.client.handle_connected(self.now, connection);
                } else if let Some(connection) = self.logins.pop_front() {
                    let login =
                        SaslLogin::Plain { username: "u".to_owned(), password: Secret::new("p") };
                    self.client.handle_login(self.now, connection, Ok(login));
                }
            }
            6 => {
                let connection = self.sent.pop_front().map(|(connection, _)| connection);
                if let Some(connection) = connection.or_else(|| self.connects.pop_front()) {
                    self.sent.retain(|(other, _)| *other != connection);
                    self.client.handle_disconnected(self.now, connection, DisconnectReason::Closed);
                }
            }
            _ => self.pass(Duration::from_millis(1 << (length % 18))),
        }
        self.drain();
    }

    fn answer(&mut self, frame: impl FnOnce(&Bytes) -> Option<Bytes>) {
        let Some((connection, request)) = self.sent.pop_front() else { return };
        if let Some(frame) = frame(&request) {
            self.client.handle_frame(self.now, connection, frame);
        }
    }

    fn answer_honestly(&mut self) {
        let broker = std::mem::replace(&mut self.broker, Broker::new("b", 9092, 2));
        self.answer(|frame| {
            let (header, request) = Request::decode(frame.slice(4..)).expect("our own request");
            let answer = broker.answer(&request, header.api_version)?;
            let frame = answer.encode(header.api_version, header.correlation_id).expect("ours");
            Some(frame.to_bytes().slice(4..))
        });
        self.broker = broker;
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        let mut calls = 0;
        while let Some(at) = self.client.poll_timeout().filter(|at| *at <= end) {
            calls += 1;
            assert!(calls < 20_000, "called again and again");
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    fn drain(&mut self) {
        let mut outputs = 0;
        while let Some(output) = self.client.poll_output() {
            outputs += 1;
            assert!(outputs < 1000, "outputs without end");
            match output {
                NetworkOutput::Connect { connection, .. } => self.connects.push_back(connection),
                NetworkOutput::Transmit { connection, frame } => {
                    self.sent.push_back((connection, frame.to_bytes()));
                }
                NetworkOutput::Login { connection, .. } => self.logins.push_back(connection),
                NetworkOutput::Close { connection } => {
                    self.connects.retain(|other| *other != connection);
                    self.logins.retain(|other| *other != connection);
                    self.sent.retain(|(other, _)| *other != connection);
                }
            }
        }
        while let Some(event) = self.client.poll_event() {
            if let NetworkEvent::Response { token, .. } = event {
                assert!(self.waiting.remove(&token.0), "a second outcome of one request");
            }
        }
    }
}

const MAX_STEPS: usize = 200;
