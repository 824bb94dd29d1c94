//! One client connection: its requests in order, one at work at a time.

use std::collections::VecDeque;

use bytes::Bytes;
use millstream_protocol::messages::kp;
use millstream_protocol::wire::RequestHeader;
use millstream_protocol::{ApiKey, ErrorCode, Request, Response, Timestamp, WireError};

use super::cluster::{Clock, Cluster, Outgoing};
use super::faults::FaultAction;
use super::fetch::WaitingFetch;
use super::metadata::is_served;

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) queue: VecDeque<Bytes>,
    pub(crate) state: ConnectionState,
    /// The node it is to; the first one until it has asked something.
    pub(crate) node: Option<i32>,
}

/// What the request at the head of a connection does.
#[derive(Debug, Default)]
pub(crate) enum ConnectionState {
    #[default]
    Idle,
    /// A Fetch waits for data.
    Waiting(Box<WaitingFetch>),
    /// A fault rule holds a finished answer back.
    Delayed { until: Timestamp, outgoing: Option<Outgoing> },
}

impl Connection {
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        match &self.state {
            ConnectionState::Idle => None,
            ConnectionState::Waiting(fetch) => Some(fetch.deadline),
            ConnectionState::Delayed { until, .. } => Some(*until),
        }
    }
}

/// How the handling of a request went.
#[derive(Debug)]
pub(crate) enum Handled {
    Answer(Response),
    /// Produce with acks 0 has no answer.
    Silent,
    /// The client cannot be told what is wrong any other way.
    Close,
    Wait(Box<WaitingFetch>),
}

impl Cluster {
    /// Works on the requests of `connection`, and on those that this lets go on.
    pub(crate) fn run(&mut self, clock: Clock, connection: u64) {
        self.drain(clock, connection);
        self.wake(clock);
    }

    fn drain(&mut self, clock: Clock, id: u64) {
        while let Some(connection) = self.connections.get_mut(&id) {
            if !matches!(connection.state, ConnectionState::Idle) {
                return;
            }
            let Some(frame) = connection.queue.pop_front() else { return };
            self.serving = connection.node.unwrap_or(self.config.node_id);
            self.execute(clock, id, frame);
        }
    }

    /// Finishes waits that are over, until nothing more moves.
    pub(crate) fn wake(&mut self, clock: Clock) {
        loop {
            let moved = std::mem::take(&mut self.moved);
            let ready: Vec<u64> = self
                .connections
                .iter()
                .filter(|(_, connection)| match &connection.state {
                    ConnectionState::Idle => false,
                    ConnectionState::Delayed { until, .. } => *until <= clock.now,
                    ConnectionState::Waiting(fetch) => {
                        fetch.deadline <= clock.now
                            || (fetch.touches(&moved) && self.fetch_is_ready(fetch))
                    }
                })
                .map(|(id, _)| *id)
                .collect();
            if ready.is_empty() {
                return;
            }
            for id in ready {
                let Some(connection) = self.connections.get_mut(&id) else { continue };
                match std::mem::take(&mut connection.state) {
                    ConnectionState::Idle => {}
                    ConnectionState::Delayed { outgoing, .. } => self.outgoing.extend(outgoing),
                    ConnectionState::Waiting(fetch) => {
                        let header = fetch.header.clone();
                        let fault = fetch.fault.clone();
                        let response = self.finish_fetch(clock, *fetch);
                        self.answer(clock, id, &header, Response::Fetch(response), fault);
                    }
                }
                self.drain(clock, id);
            }
        }
    }

    fn execute(&mut self, clock: Clock, id: u64, frame: Bytes) {
        let (header, request) = match Request::decode(frame) {
            Ok(decoded) => decoded,
            Err(WireError::UnsupportedVersion {
                api_key: ApiKey::ApiVersions,
                correlation_id,
                ..
            }) => {
                // KIP-511: the answer names what we speak, in the version that everybody can read.
                let response =
                    Response::ApiVersions(self.api_versions(ErrorCode::UNSUPPORTED_VERSION));
                match response.encode(0, correlation_id) {
                    Ok(frame) => {
                        self.outgoing.push_back(Outgoing::Response { connection: id, frame })
                    }
                    Err(_) => self.close(id),
                }
                return;
            }
            // A real broker cannot answer these either: it closes.
            Err(_) => return self.close(id),
        };
        if !is_served(header.api_key, header.api_version) {
            return self.close(id);
        }
        let fault = self.faults.next(&request);
        match &fault {
            Some(FaultAction::DropBefore) => return self.close(id),
            Some(FaultAction::Error(code)) => {
                if let Some(response) = super::faults::error_response(&request, &header, *code) {
                    return self.answer(clock, id, &header, response, None);
                }
            }
            _ => {}
        }
        match self.handle(clock, &header, request, fault.clone()) {
            Handled::Answer(response) => self.answer(clock, id, &header, response, fault),
            Handled::Silent => self.outgoing.push_back(Outgoing::Done { connection: id }),
            Handled::Close => self.close(id),
            Handled::Wait(fetch) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.state = ConnectionState::Waiting(fetch);
                }
            }
        }
    }

    pub(crate) fn refuse(&mut self, id: u64, frame: Bytes, code: ErrorCode) {
        let Ok((header, request)) = Request::decode(frame) else { return self.close(id) };
        let encoded = super::faults::error_response(&request, &header, code)
            .and_then(|response| response.encode(header.api_version, header.correlation_id).ok());
        match encoded {
            Some(frame) => self.outgoing.push_back(Outgoing::Response { connection: id, frame }),
            None => self.close(id),
        }
    }

    fn answer(
        &mut self,
        clock: Clock,
        id: u64,
        header: &RequestHeader,
        response: Response,
        fault: Option<FaultAction>,
    ) {
        if matches!(fault, Some(FaultAction::DropAfter)) {
            return self.close(id);
        }
        let Ok(frame) = response.encode(header.api_version, header.correlation_id) else {
            return self.close(id);
        };
        let outgoing = Outgoing::Response { connection: id, frame };
        match fault {
            Some(FaultAction::Delay(delay)) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.state = ConnectionState::Delayed {
                        until: clock.now.after(delay),
                        outgoing: Some(outgoing),
                    };
                }
            }
            _ => self.outgoing.push_back(outgoing),
        }
    }

    fn close(&mut self, id: u64) {
        self.connections.remove(&id);
        self.outgoing.push_back(Outgoing::Close { connection: id });
    }

    fn handle(
        &mut self,
        clock: Clock,
        header: &RequestHeader,
        request: Request,
        fault: Option<FaultAction>,
    ) -> Handled {
        let version = header.api_version;
        Handled::Answer(match request {
            Request::Produce(request) => return self.produce(clock, version, &request),
            Request::Fetch(request) => return self.fetch(clock, header, request, fault),
            Request::ApiVersions(request) => self.handle_api_versions(version, &request).into(),
            Request::ListOffsets(request) => self.list_offsets(version, &request).into(),
            Request::Metadata(request) => self.metadata(version, &request).into(),
            Request::CreateTopics(request) => self.create_topics(version, &request).into(),
            Request::DeleteTopics(request) => self.delete_topics(version, &request).into(),
            Request::DescribeConfigs(request) => self.describe_configs(&request).into(),
            Request::FindCoordinator(request) => self.find_coordinator(version, &request).into(),
            Request::InitProducerId(request) => {
                self.init_producer_id(clock, version, &request).into()
            }
            Request::AddPartitionsToTxn(request) => {
                self.add_partitions_to_txn(clock, version, &request).into()
            }
            Request::EndTxn(request) => self.end_txn(clock, version, &request).into(),
            Request::OffsetCommit(request) => self.offset_commit(version, &request).into(),
            Request::OffsetFetch(request) => self.offset_fetch(version, &request).into(),
            Request::ListTransactions(request) => {
                self.list_transactions(clock.wall_clock_ms, &request).into()
            }
            Request::DescribeTransactions(request) => self.describe_transactions(&request).into(),
            _ => return Handled::Close,
        })
    }
}

/// A topic name as the message structs hold it.
pub(crate) fn topic_name(name: &str) -> kp::TopicName {
    kp::TopicName(text(name))
}

/// A string as the message structs hold it.
pub(crate) fn text(text: &str) -> millstream_protocol::messages::StrBytes {
    millstream_protocol::messages::StrBytes::from_string(text.to_owned())
}
