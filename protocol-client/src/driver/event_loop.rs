//! The loop: wait for sockets, commands and time; feed the machines; carry out what they ask.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use millstream_protocol::network::{
    ConnectionClass, ConnectionId, DisconnectReason, MetadataNews, NetworkClient, NetworkEvent,
    NetworkOutput, OutgoingRequest, RequestError, RequestToken,
};
use millstream_protocol::sasl::SaslLogin;
use millstream_protocol::{Response, StaleMetadata, Timestamp, TopicPartition};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};

use super::command::{Command, RequestCommand};
use super::consumers::ConsumerSlot;
use super::producers::ProducerSlot;
use crate::net::{Socket, SocketEvent, SocketOptions, connect};
use crate::security::Security;

/// Owner of everything that moves. Ends when the last handle is gone or [`Command::Close`] comes.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(super) network: NetworkClient,
    pub(super) consumers: BTreeMap<u32, ConsumerSlot>,
    pub(super) producers: BTreeMap<u32, ProducerSlot>,
    sockets: BTreeMap<ConnectionId, Socket>,
    /// Connections whose login is being fetched.
    logins: BTreeMap<ConnectionId, PendingLogin>,
    /// Who waits for which answer. In order: those who are told together are told in the same order each time.
    askers: BTreeMap<RequestToken, Asker>,
    next_token: u64,
    commands: mpsc::UnboundedReceiver<Command>,
    view: Arc<ClusterView>,
    socket_options: SocketOptions,
    security: Arc<Security>,
    max_frame_bytes: usize,
    pub(super) started: Instant,
    closing: Option<Vec<oneshot::Sender<()>>>,
    // Kept between turns, so that a turn allocates nothing.
    inbox: Vec<Command>,
    socket_events: Vec<(ConnectionId, SocketEvent)>,
    scratch: Vec<SocketEvent>,
    ready_logins: Vec<(ConnectionId, Login)>,
    pub(super) released: Vec<(TopicPartition, usize)>,
}

type Login = Result<SaslLogin, DisconnectReason>;

/// A login on its way.
struct PendingLogin(Pin<Box<dyn Future<Output = Login> + Send>>);

impl fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingLogin")
    }
}

/// What handles read without asking the driver.
#[derive(Debug, Default)]
pub(crate) struct ClusterView {
    pub(crate) broker_count: AtomicUsize,
    pub(crate) transaction_version: AtomicI16,
}

/// Who made a request.
#[derive(Debug)]
enum Asker {
    Call(oneshot::Sender<Result<Response, RequestError>>),
    Consumer { consumer: u32, token: RequestToken },
    Producer { producer: u32, token: RequestToken },
}

impl Driver {
    pub(crate) fn new(
        network: NetworkClient,
        commands: mpsc::UnboundedReceiver<Command>,
        view: Arc<ClusterView>,
        socket_options: SocketOptions,
        security: Arc<Security>,
        max_frame_bytes: usize,
        started: Instant,
    ) -> Self {
        Self {
            network,
            consumers: BTreeMap::new(),
            producers: BTreeMap::new(),
            sockets: BTreeMap::new(),
            logins: BTreeMap::new(),
            askers: BTreeMap::new(),
            next_token: 0,
            commands,
            view,
            socket_options,
            security,
            max_frame_bytes,
            started,
            closing: None,
            inbox: Vec::new(),
            socket_events: Vec::new(),
            scratch: Vec::new(),
            ready_logins: Vec::new(),
            released: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        while self.closing.is_none() {
            self.wait(sleep.as_mut()).await;
            let now = self.now();
            self.take_socket_events(now);
            self.take_logins(now);
            // Before the commands: what a reader took came before it moved a partition.
            self.take_releases();
            self.take_commands(now);
            self.handle_timeouts(now);
            self.pump(now);
        }
        self.end();
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO.after(self.started.elapsed())
    }

    /// Waits until a socket, a command or a timer has something, and collects it.
    async fn wait(&mut self, mut sleep: std::pin::Pin<&mut Sleep>) {
        let deadline = self.poll_timeout();
        if let Some(deadline) = deadline {
            sleep.as_mut().reset(self.started + deadline.since(Timestamp::ZERO));
        }
        poll_fn(|cx| {
            let mut ready = false;
            for (id, socket) in &mut self.sockets {
                if socket.poll(cx, &mut self.scratch) {
                    ready = true;
                    self.socket_events.extend(self.scratch.drain(..).map(|event| (*id, event)));
                }
            }
            for (id, login) in &mut self.logins {
                if let Poll::Ready(login) = login.0.as_mut().poll(cx) {
                    ready = true;
                    self.ready_logins.push((*id, login));
                }
            }
            match self.commands.poll_recv_many(cx, &mut self.inbox, COMMANDS_PER_TURN) {
                Poll::Ready(0) => {
                    // The last handle is gone.
                    self.closing.get_or_insert_default();
                    ready = true;
                }
                Poll::Ready(_) => ready = true,
                Poll::Pending => {}
            }
            if deadline.is_some() && sleep.as_mut().poll(cx).is_ready() {
                ready = true;
            }
            if ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let consumers = self.consumers.values().filter_map(|slot| slot.fetcher.poll_timeout());
        consumers.chain(self.network.poll_timeout()).chain(self.producers_timeout()).min()
    }

    fn handle_timeouts(&mut self, now: Timestamp) {
        if self.network.poll_timeout().is_some_and(|at| at <= now) {
            self.network.handle_timeout(now);
        }
        for slot in self.consumers.values_mut() {
            if slot.fetcher.poll_timeout().is_some_and(|at| at <= now) {
                slot.fetcher.handle_timeout(now);
            }
        }
        self.handle_producer_timeouts(now);
    }

    fn take_socket_events(&mut self, now: Timestamp) {
        for (connection, event) in self.socket_events.drain(..) {
            match event {
                SocketEvent::Connected => {
                    tracing::debug!(?connection, "connected");
                    self.network.handle_connected(now, connection);
                }
                SocketEvent::Frame(frame) => self.network.handle_frame(now, connection, frame),
                SocketEvent::Ended(reason) => {
                    tracing::debug!(?connection, %reason, "the connection has ended");
                    self.sockets.remove(&connection);
                    self.logins.remove(&connection);
                    self.network.handle_disconnected(now, connection, reason);
                }
            }
        }
    }

    fn take_logins(&mut self, now: Timestamp) {
        for (connection, login) in self.ready_logins.drain(..) {
            self.logins.remove(&connection);
            self.network.handle_login(now, connection, login);
        }
    }

    fn take_commands(&mut self, now: Timestamp) {
        let mut inbox = std::mem::take(&mut self.inbox);
        for command in inbox.drain(..) {
            match command {
                Command::Request(request) => self.start_request(now, request),
                Command::OpenConsumer { consumer, starts, config, shared } => {
                    self.open_consumer(now, consumer, starts, config, shared);
                }
                Command::Consumer { consumer, action } => self.act(now, consumer, action),
                Command::OpenProducer { producer, shared } => self.open_producer(producer, shared),
                Command::CloseProducer { producer } => self.close_producer(producer),
                // The machines are polled in any case.
                Command::Wake => {}
                Command::RefreshMetadata => self.network.request_metadata_update(now),
                Command::CloseLane { lane } => {
                    self.network.close_lane(now, ConnectionClass::Control, lane);
                    // Its requests end without an answer; those who asked are gone.
                    self.askers.retain(
                        |_, asker| !matches!(asker, Asker::Call(reply) if reply.is_closed()),
                    );
                }
                Command::AddressFailures { reply } => {
                    // A caller that gave up is not there any more.
                    let _ = reply.send(self.network.address_failures(now));
                }
                Command::Close { done } => self.closing.get_or_insert_default().push(done),
            }
        }
        self.inbox = inbox;
    }

    fn start_request(&mut self, now: Timestamp, command: RequestCommand) {
        let token = self.token(Asker::Call(command.reply));
        let request = OutgoingRequest {
            destination: command.destination,
            class: command.class,
            request: command.request,
            token,
            max_version: command.max_version,
            timeout: command.timeout,
        };
        self.network.send_on_lane(now, request, command.lane);
    }

    fn token(&mut self, asker: Asker) -> RequestToken {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        self.askers.insert(token, asker);
        token
    }

    /// Carries requests, answers and events between machines, sockets and handles until nothing moves.
    fn pump(&mut self, now: Timestamp) {
        loop {
            let mut moved = self.send_machine_requests(now);
            while let Some(output) = self.network.poll_output() {
                self.carry_out(output);
                moved = true;
            }
            while let Some(event) = self.network.poll_event() {
                self.handle_network_event(now, event);
                moved = true;
            }
            for slot in self.producers.values() {
                moved |= slot.shared.deliver_events();
            }
            if !moved {
                break;
            }
        }
        self.deliver_fetch_events();
    }

    fn send_machine_requests(&mut self, now: Timestamp) -> bool {
        let mut requests = Vec::new();
        let mut stale = Vec::new();
        for (consumer, slot) in &mut self.consumers {
            while let Some(request) = slot.fetcher.poll_request(now, self.network.metadata()) {
                requests.push((*consumer, request));
            }
            while let Some(news) = slot.fetcher.poll_stale_metadata() {
                stale.push(news);
            }
        }
        let mut produce_requests = Vec::new();
        self.poll_producers(now, &mut produce_requests, &mut stale);
        let moved = !(requests.is_empty() && produce_requests.is_empty() && stale.is_empty());
        for (producer, mut request) in produce_requests {
            request.token = self.token(Asker::Producer { producer, token: request.token });
            self.network.send(now, request);
        }
        for (consumer, mut request) in requests {
            request.token = self.token(Asker::Consumer { consumer, token: request.token });
            let lane = if request.class == ConnectionClass::Fetch { consumer } else { 0 };
            self.network.send_on_lane(now, request, lane);
        }
        for news in stale {
            self.renew(now, news);
        }
        moved
    }

    fn renew(&mut self, now: Timestamp, stale: StaleMetadata) {
        match stale {
            StaleMetadata::Leader { topic_partition, hint: Some(hint) } => {
                let leader = millstream_protocol::NodeId(hint.leader_id);
                self.network.apply_leader_hint(now, &topic_partition, leader, hint.leader_epoch);
            }
            StaleMetadata::Leader { hint: None, .. } => self.network.request_metadata_update(now),
            StaleMetadata::Coordinator(destination) => {
                self.network.invalidate_coordinator(now, &destination);
            }
        }
    }

    /// Its requests end without an answer.
    pub(super) fn forget_consumer(&mut self, consumer: u32) {
        self.askers.retain(
            |_, asker| !matches!(asker, Asker::Consumer { consumer: of, .. } if *of == consumer),
        );
    }

    fn carry_out(&mut self, output: NetworkOutput) {
        match output {
            NetworkOutput::Connect { connection, host, port } => {
                tracing::debug!(%host, port, "connecting");
                let security = Arc::clone(&self.security);
                let connecting = connect(host, port, self.socket_options, security);
                self.sockets.insert(connection, Socket::new(connecting, self.max_frame_bytes));
            }
            NetworkOutput::Transmit { connection, frame } => {
                if let Some(socket) = self.sockets.get_mut(&connection) {
                    socket.send(frame);
                }
            }
            NetworkOutput::Login { connection, host } => {
                let security = Arc::clone(&self.security);
                let login = Box::pin(async move { security.login(&host).await });
                self.logins.insert(connection, PendingLogin(login));
            }
            NetworkOutput::Close { connection } => {
                self.sockets.remove(&connection);
                self.logins.remove(&connection);
            }
        }
    }

    fn handle_network_event(&mut self, now: Timestamp, event: NetworkEvent) {
        match event {
            NetworkEvent::Response { token, api_version, result } => {
                self.handle_response(now, token, api_version, result);
            }
            NetworkEvent::MetadataChanged => {
                let brokers = self.network.metadata().brokers().len();
                tracing::debug!(brokers, "metadata have changed");
                self.view.broker_count.store(brokers, Ordering::Relaxed);
                let version = self.network.transaction_version();
                self.view.transaction_version.store(version, Ordering::Relaxed);
                self.set_transaction_version();
            }
            NetworkEvent::MetadataNews(MetadataNews::TopicRecreated { topic, old_id, new_id }) => {
                for slot in self.consumers.values_mut() {
                    slot.fetcher.handle_topic_recreated(&topic, old_id, new_id);
                }
            }
            NetworkEvent::MetadataNews(news @ MetadataNews::ClusterIdChanged { .. }) => {
                tracing::error!(?news, "another cluster answers under the configured addresses");
            }
        }
    }

    fn handle_response(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        api_version: i16,
        result: Result<Response, RequestError>,
    ) {
        match self.askers.remove(&token) {
            Some(Asker::Call(reply)) => {
                // A caller that gave up is not there any more.
                let _ = reply.send(result);
            }
            Some(Asker::Consumer { consumer, token }) => {
                if let Some(slot) = self.consumers.get_mut(&consumer) {
                    slot.fetcher.handle_response(now, token, result);
                }
            }
            Some(Asker::Producer { producer, token }) => {
                self.handle_produce_response(now, producer, token, api_version, result);
            }
            None => {}
        }
    }

    fn end(mut self) {
        let now = self.now();
        self.network.close(now);
        while let Some(event) = self.network.poll_event() {
            self.handle_network_event(now, event);
        }
        for slot in self.consumers.values() {
            slot.shared.close();
        }
        for slot in self.producers.values() {
            slot.shared.close();
        }
        for done in self.closing.take().unwrap_or_default() {
            let _ = done.send(());
        }
    }
}

const COMMANDS_PER_TURN: usize = 1024;
