//! The network machine, its time, and a broker that answers honestly but for one API.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use millstream_fuzz_targets::{Broker, Damage, Random, damage, sample_request, seal_as_one_batch};
use millstream_protocol::messages::{FetchResponse, FetchTopicResponse};
use millstream_protocol::network::{
    ConnectionClass, ConnectionId, Destination, DisconnectReason, NetworkClient, NetworkConfig,
    NetworkEvent, NetworkOutput, OutgoingRequest, RequestError, RequestToken,
};
use millstream_protocol::records::{BatchBuilder, Compression};
use millstream_protocol::sasl::scram::ScramHash;
use millstream_protocol::sasl::{SaslLogin, Secret};
use millstream_protocol::{ApiKey, NodeId, Request, Response, Timestamp};

/// See the module.
pub(crate) struct Lab {
    pub(crate) client: NetworkClient,
    pub(crate) now: Timestamp,
    pub(crate) random: Random,
    /// Hostile frames so far.
    pub(crate) frames: u64,
    /// Whose answers are spoiled.
    pub(crate) attacked: Option<ApiKey>,
    /// Spoil one answer in so many.
    pub(crate) one_in: usize,
    client_config: NetworkConfig,
    broker: Broker,
    /// Honest answers to sample requests, without size.
    golden: Arc<HashMap<(ApiKey, i16), Bytes>>,
    /// If set, requests are answered for themselves and not as samples.
    pub(crate) attentive: bool,
    connects: VecDeque<ConnectionId>,
    logins: VecDeque<ConnectionId>,
    sent: VecDeque<(ConnectionId, Bytes)>,
    pub(crate) connections: Vec<ConnectionId>,
    next_token: u64,
    outcomes: VecDeque<(RequestToken, i16, Result<Response, RequestError>)>,
}

/// Honest answers to a sample request of each API and version that the client uses.
pub(crate) fn golden_answers() -> Arc<HashMap<(ApiKey, i16), Bytes>> {
    let broker = Broker::new("b", 9092, 2);
    let mut golden = HashMap::new();
    for api in ApiKey::ALL {
        for version in api.client_versions() {
            let answer = broker.answer(&sample_request(api, version), version).expect("an answer");
            let frame = answer.encode(version, 0).expect("an answer of this version");
            golden.insert((api, version), frame.to_bytes().slice(4..));
        }
    }
    Arc::new(golden)
}

impl Lab {
    pub(crate) fn new(
        golden: &Arc<HashMap<(ApiKey, i16), Bytes>>,
        seed: u64,
        authenticate: bool,
    ) -> Self {
        let mut config = NetworkConfig::new(vec![(Arc::from("boot"), 9092)]);
        config.authenticate = authenticate;
        Self {
            client: NetworkClient::new(config.clone(), seed),
            client_config: config,
            now: Timestamp::from_micros(1),
            random: Random::new(seed),
            frames: 0,
            attacked: None,
            one_in: 1,
            broker: Broker::new("b", 9092, 2),
            golden: Arc::clone(golden),
            attentive: false,
            connects: VecDeque::new(),
            logins: VecDeque::new(),
            sent: VecDeque::new(),
            connections: Vec::new(),
            next_token: 0,
            outcomes: VecDeque::new(),
        }
    }

    /// Lets the broker be honest until the machine knows it, and the topic's leaders if it is tracked.
    pub(crate) fn learn(&mut self) {
        let one_in = std::mem::replace(&mut self.one_in, usize::MAX);
        // The last lie may have been that the broker wants to be left alone, or which versions it speaks.
        self.now = self.now.after(LONGEST_THROTTLE);
        self.client.handle_timeout(self.now);
        self.disconnect_all();
        if self.client.bootstrap_is_hopeless() {
            // It knows no broker, and those it was told of spoke nonsense: it gives up for good, and its user starts anew.
            let config = self.client_config.clone();
            self.client = NetworkClient::new(config, self.random.number());
            if self.attentive {
                self.client.track_topic(self.now, &Arc::from("t"));
            }
        }
        self.client.request_metadata_update(self.now);
        self.settle();
        for _ in 0..500 {
            let metadata = self.client.metadata();
            let led = metadata.topic("t").is_none_or(|topic| {
                topic.partitions.len() == 2
                    && topic.partitions.values().all(|found| found.leader == Some(NodeId(1)))
            });
            if metadata.brokers().len() == 1 && metadata.brokers().contains_key(&NodeId(1)) && led {
                self.one_in = one_in;
                return;
            }
            self.client.request_metadata_update(self.now);
            if let Some(at) = self.client.poll_timeout() {
                self.now = self.now.max(at);
                self.client.handle_timeout(self.now);
            }
            self.settle();
        }
        panic!("an honest broker does not get through: {:?}", self.client.metadata());
    }

    /// Sends a sample request and gives its outcome.
    pub(crate) fn ask(
        &mut self,
        api: ApiKey,
        version: i16,
        destination: Destination,
    ) -> Result<Response, RequestError> {
        let request = OutgoingRequest {
            destination,
            class: ConnectionClass::Control,
            request: sample_request(api, version),
            token: RequestToken(0),
            max_version: Some(version),
            timeout: Duration::from_secs(30),
        };
        self.exchange(request).1
    }

    /// Sends a request and gives the version it went out in, and its outcome, which must come in time: the machine's time, and
    /// ours.
    pub(crate) fn exchange(
        &mut self,
        mut request: OutgoingRequest,
    ) -> (i16, Result<Response, RequestError>) {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        request.token = token;
        let (begun, deadline) = (Instant::now(), self.now.after(VIRTUAL_LIMIT));
        self.client.send(self.now, request);
        loop {
            self.settle();
            if let Some((found, version, result)) = self.outcomes.pop_front() {
                assert_eq!(found, token, "an outcome of another request");
                let took = begun.elapsed();
                assert!(took < REAL_LIMIT, "{took:?} for one answer");
                return (version, result);
            }
            let at = self.client.poll_timeout().expect("a request waits, and so does the machine");
            assert!(at <= deadline, "no outcome within {VIRTUAL_LIMIT:?}");
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
        }
    }

    /// The connections end, so that the next request negotiates anew.
    pub(crate) fn disconnect_all(&mut self) {
        for connection in std::mem::take(&mut self.connections) {
            self.client.handle_disconnected(self.now, connection, DisconnectReason::Closed);
        }
        self.settle();
    }

    /// Does what the machine asks for until it asks for nothing.
    pub(crate) fn settle(&mut self) {
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < 10_000, "work without end at {:?}", self.now);
            self.drain();
            if let Some(connection) = self.connects.pop_front() {
                self.connections.push(connection);
                self.client.handle_connected(self.now, connection);
            } else if let Some(connection) = self.logins.pop_front() {
                let login = self.login();
                self.client.handle_login(self.now, connection, Ok(login));
            } else if let Some((connection, request)) = self.sent.pop_front() {
                if let Some(frame) = self.answer(&request) {
                    self.client.handle_frame(self.now, connection, frame);
                }
            } else {
                return;
            }
        }
    }

    /// One that the broker accepts, or one in which it would have to prove itself, which it can not.
    fn login(&mut self) -> SaslLogin {
        let (username, password) = ("user".to_owned(), Secret::new("pencil"));
        if self.one_in == usize::MAX || self.random.one_in(2) {
            return SaslLogin::Plain { username, password };
        }
        SaslLogin::Scram {
            hash: ScramHash::Sha256,
            username,
            password,
            token_auth: false,
            nonce: "nonce".to_owned(),
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll_output() {
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
                    self.connections.retain(|other| *other != connection);
                }
            }
        }
        while let Some(event) = self.client.poll_event() {
            if let NetworkEvent::Response { token, api_version, result } = event {
                self.outcomes.push_back((token, api_version, result));
            }
        }
    }

    fn answer(&mut self, request: &Bytes) -> Option<Bytes> {
        let number = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
        let (api, version) = (ApiKey::from_code(number(4)).expect("our own request"), number(6));
        let correlation = &request[8..12];
        let honest = match self.golden.get(&(api, version)) {
            Some(golden) if !self.attentive => [correlation, &golden[4..]].concat(),
            _ => {
                let (header, request) =
                    Request::decode(request.slice(4..)).expect("our own request");
                let answer = self.broker.answer(&request, version)?;
                let frame = answer.encode(version, header.correlation_id).expect("our own answer");
                frame.to_bytes().slice(4..).to_vec()
            }
        };
        let attacked = self.attacked.is_none_or(|attacked| attacked == api);
        if !attacked || !self.random.one_in(self.one_in) {
            return Some(honest.into());
        }
        self.frames += 1;
        Some(self.spoil(api, version, honest).into())
    }

    fn spoil(&mut self, api: ApiKey, version: i16, honest: Vec<u8>) -> Vec<u8> {
        let random = &mut self.random;
        let how = Damage::ALL[random.below(Damage::ALL.len())];
        if api == ApiKey::Fetch && random.one_in(2) {
            // Behind a right checksum, where chance alone would never get.
            let answer = fetch_answer(random, how).encode(version, 0).expect("our own answer");
            return [&honest[..4], &answer.to_bytes()[8..]].concat();
        }
        if api == ApiKey::SaslAuthenticate && random.one_in(2) {
            let token = damage(random, SCRAM_FIRST, 0, how);
            let answer = millstream_protocol::messages::kp::SaslAuthenticateResponse::default()
                .with_auth_bytes(token.into());
            let answer = Response::from(answer).encode(version, 0).expect("our own answer");
            return [&honest[..4], &answer.to_bytes()[8..]].concat();
        }
        // Mostly behind the correlation id: answers to nobody are thrown away at once.
        let spared = if random.one_in(16) { 0 } else { 4 };
        damage(random, &honest, spared, how)
    }
}

/// An answer whose batch is spoiled and sealed again.
fn fetch_answer(random: &mut Random, how: Damage) -> Response {
    let codec = Compression::ALL[random.below(Compression::ALL.len())];
    let mut builder = BatchBuilder::new(codec, 1 << 16);
    let header: (&[u8], Option<&[u8]>) = (b"h", Some(b"v"));
    builder.append(1, Some(b"key"), Some(b"value value value"), &[header]).expect("small");
    builder.append(2, None, None, &[]).expect("small");
    let batch = builder.build().expect("a batch").expect("of two records").into_bytes();
    let spared = if random.one_in(2) { 61 } else { 21 };
    let mut batch = damage(random, &batch, spared, how);
    seal_as_one_batch(&mut batch);
    let partition = millstream_protocol::messages::FetchPartitionResponse {
        high_watermark: 1000,
        records: batch.into(),
        ..Default::default()
    };
    let topics = vec![FetchTopicResponse::by_name("t", vec![partition])];
    Response::Fetch(FetchResponse { topics, ..FetchResponse::default() })
}

/// Broker 1, of whom the metadata tell.
pub(crate) const NODE: Destination = Destination::Node(NodeId(1));

const SCRAM_FIRST: &[u8] = b"r=nonce3rfcNHYJY1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
/// A request may wait to be sent and for its answer, half a minute or, to join a group, five each; and behind a broker that wants to
/// be left alone, which it may say several times.
const VIRTUAL_LIMIT: Duration = Duration::from_secs(3600);
/// What the client believes of a throttle time.
const LONGEST_THROTTLE: Duration = Duration::from_secs(301);
/// An answer takes microseconds; this is for a machine with much else to do.
const REAL_LIMIT: Duration = Duration::from_secs(10);
