//! One connection: bytes under way in both directions, and how it ends.

use std::collections::VecDeque;
use std::io;
use std::task::Waker;

use bytes::{Bytes, BytesMut};

use super::{Event, ProcessName, World};
use crate::cluster::Port;
use crate::runtime::Random;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the broker.
    Up,
    /// To the process.
    Down,
}

/// How far a connection has come, as the process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connecting,
    Open,
    /// The peer has closed it in order.
    Ended,
    /// It broke.
    Broken(io::ErrorKind),
}

/// Pieces under way, each with the time at which it arrives.
#[derive(Debug, Default)]
struct Pieces {
    queue: VecDeque<(u64, Piece)>,
    last_due: u64,
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    /// The sender has closed its end.
    End,
    /// The connection broke here.
    Reset,
}

impl Pieces {
    /// Adds a piece behind all others; returns when it arrives.
    fn push(&mut self, due: u64, piece: Piece) -> u64 {
        self.last_due = self.last_due.max(due);
        self.queue.push_back((self.last_due, piece));
        self.last_due
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) process: ProcessName,
    pub(crate) node: i32,
    pub(crate) phase: Phase,
    /// The process has closed its end, or is gone.
    gone: bool,
    up: Pieces,
    down: Pieces,
    /// What has arrived and was not read.
    received: BytesMut,
    waker: Option<Waker>,
    /// The broker's end.
    pub(crate) port: Port,
}

impl Connection {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl World {
    pub(super) fn begin_connection(
        &mut self,
        process: &ProcessName,
        host: &str,
        now: u64,
    ) -> io::Result<u64> {
        let Some(node) = self.brokers.node_of_host(host) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no such host: {host}")));
        };
        self.next_connection += 1;
        let id = self.next_connection;
        self.connections.insert(
            id,
            Connection {
                process: process.clone(),
                node,
                phase: Phase::Connecting,
                gone: false,
                up: Pieces::default(),
                down: Pieces::default(),
                received: BytesMut::new(),
                waker: None,
                port: Port::default(),
            },
        );
        let latency = self.links.settings.latency(&mut self.random);
        self.schedule(now + latency, Event::Arrived(id));
        Ok(id)
    }

    /// A connection attempt is at the broker, unless something is in its way.
    pub(super) fn arrived(&mut self, id: u64, now: u64) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (process, node) = (connection.process.clone(), connection.node);
        if connection.gone {
            self.connections.remove(&id);
            return;
        }
        let blocked = self.links.blocked_until(&process, node, Direction::Up, now);
        if let Some(until) = blocked {
            return self.schedule(until, Event::Arrived(id));
        }
        let latency = self.links.settings.latency(&mut self.random);
        self.schedule(now + latency, Event::Answered(id));
    }

    /// The process learns what became of its attempt.
    pub(super) fn answered(&mut self, id: u64) {
        let now = self.now();
        let Some(connection) = self.connections.get(&id) else { return };
        let (process, node) = (connection.process.clone(), connection.node);
        if connection.gone {
            self.connections.remove(&id);
            return;
        }
        if let Some(until) = self.links.blocked_until(&process, node, Direction::Down, now) {
            return self.schedule(until, Event::Answered(id));
        }
        let listening = self.brokers.is_listening(node);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.phase =
            if listening { Phase::Open } else { Phase::Broken(io::ErrorKind::ConnectionRefused) };
        connection.wake();
        *self.links.opened.entry(node).or_default() += 1;
        self.history.note(&process, || {
            let outcome = if listening { "connected" } else { "refused" };
            format!("c{id} {outcome} by broker {node}")
        });
    }

    /// What became of an attempt; `None` if that is open.
    pub(super) fn poll_opened(&mut self, id: u64, waker: &Waker) -> Option<io::Result<()>> {
        let connection = self.connections.get_mut(&id)?;
        match connection.phase {
            Phase::Connecting => {
                connection.waker = Some(waker.clone());
                None
            }
            Phase::Broken(kind) => Some(Err(kind.into())),
            Phase::Open | Phase::Ended => Some(Ok(())),
        }
    }

    /// The process writes.
    pub(super) fn write(&mut self, id: u64, bytes: Bytes, now: u64) -> io::Result<()> {
        let settings = &self.links.settings;
        let Some(connection) = self.connections.get_mut(&id) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        match connection.phase {
            Phase::Broken(kind) => return Err(kind.into()),
            Phase::Connecting => return Err(io::ErrorKind::NotConnected.into()),
            Phase::Open | Phase::Ended => {}
        }
        let cut = self.random.chance(settings.cut_one_in);
        let kept = if cut { bytes.slice(..cut_at(&mut self.random, bytes.len())) } else { bytes };
        let slow = self.links.slow_ms(&connection.process);
        let far = if slow == 0 { 0 } else { self.random.within(slow / 2..=slow) * 1000 };
        let arrives = now + settings.latency(&mut self.random) + far;
        let due = connection.up.push(arrives, Piece::Bytes(kept));
        self.schedule(due, Event::Due(id, Direction::Up));
        if cut {
            self.break_connection(id, now);
        }
        Ok(())
    }

    /// The process reads into `room`; `None` if nothing is there.
    pub(super) fn read(
        &mut self,
        id: u64,
        room: usize,
        waker: &Waker,
    ) -> Option<io::Result<Bytes>> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Some(Ok(Bytes::new()));
        };
        if !connection.received.is_empty() {
            let length = connection.received.len().min(room);
            return Some(Ok(connection.received.split_to(length).freeze()));
        }
        match connection.phase {
            Phase::Connecting | Phase::Open => {
                connection.waker = Some(waker.clone());
                None
            }
            Phase::Ended => Some(Ok(Bytes::new())),
            Phase::Broken(kind) => Some(Err(kind.into())),
        }
    }

    /// The process lets go of a connection. What it has written is still under way.
    pub(super) fn close(&mut self, id: u64, now: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.gone {
            return;
        }
        connection.gone = true;
        connection.waker = None;
        connection.received = BytesMut::new();
        match connection.phase {
            Phase::Connecting => {}
            Phase::Broken(io::ErrorKind::ConnectionRefused) => {
                self.connections.remove(&id);
            }
            _ => self.end_up(id, Piece::End, now),
        }
    }

    pub(super) fn cut_all(&mut self, process: Option<&ProcessName>, node: Option<i32>, now: u64) {
        for id in self.connections_of(process, node) {
            self.break_connection(id, now);
        }
    }

    pub(crate) fn connections_of(
        &self,
        process: Option<&ProcessName>,
        node: Option<i32>,
    ) -> Vec<u64> {
        self.connections
            .iter()
            .filter(|(_, connection)| {
                process.is_none_or(|process| connection.process == *process)
                    && node.is_none_or(|node| connection.node == node)
            })
            .map(|(id, _)| *id)
            .collect()
    }

    /// The connection breaks in the middle: the process sees a reset at once, the broker after what still arrives.
    fn break_connection(&mut self, id: u64, now: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.phase == Phase::Open {
            connection.phase = Phase::Broken(io::ErrorKind::ConnectionReset);
            connection.wake();
            let process = connection.process.clone();
            self.history.note(&process, || format!("c{id} is cut"));
            self.end_up(id, Piece::Reset, now);
        }
    }

    /// Ends the way to the broker. What is under way there may come late.
    fn end_up(&mut self, id: u64, end: Piece, now: u64) {
        let settings = &self.links.settings;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let late = self.random.chance(settings.late_one_in);
        if late && !connection.up.queue.is_empty() {
            let delay = self.random.within(0..=settings.late_max_ms * 1000);
            for (due, _) in &mut connection.up.queue {
                *due += delay;
            }
            connection.up.last_due += delay;
            let (process, due) = (connection.process.clone(), connection.up.last_due);
            self.history.note(&process, || {
                format!("c{id} has bytes under way that arrive at {:.3}", due as f64 / 1e6)
            });
        }
        let arrives = now + settings.latency(&mut self.random);
        let due = connection.up.push(arrives, end);
        self.schedule(due, Event::Due(id, Direction::Up));
    }

    /// Bytes are due at the broker.
    pub(super) fn due_up(&mut self, id: u64, now: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (process, node) = (connection.process.clone(), connection.node);
        if let Some(until) = self.links.blocked_until(&process, node, Direction::Up, now) {
            return self.schedule(until, Event::Due(id, Direction::Up));
        }
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let Some((due, _)) = connection.up.queue.front() else { return };
            if *due > now {
                // Postponed since this event was made.
                let due = *due;
                return self.schedule(due, Event::Due(id, Direction::Up));
            }
            match connection.up.queue.pop_front() {
                Some((_, Piece::Bytes(bytes))) => self.broker_receives(id, &bytes, now),
                Some((_, Piece::End | Piece::Reset)) => return self.broker_loses(id),
                None => return,
            }
        }
    }

    /// The broker writes.
    pub(crate) fn broker_writes(&mut self, id: u64, bytes: Bytes, now: u64) {
        let settings = &self.links.settings;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.gone || connection.phase != Phase::Open {
            return;
        }
        let cut = self.random.chance(settings.cut_one_in);
        let kept = if cut { bytes.slice(..cut_at(&mut self.random, bytes.len())) } else { bytes };
        let arrives = now + settings.latency(&mut self.random);
        let mut due = connection.down.push(arrives, Piece::Bytes(kept));
        if cut {
            due = connection.down.push(arrives, Piece::Reset);
        }
        self.schedule(due, Event::Due(id, Direction::Down));
    }

    /// The broker's end is gone, in order or not.
    pub(crate) fn broker_closes(&mut self, id: u64, in_order: bool, now: u64) {
        let latency = self.links.settings.latency(&mut self.random);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.up.queue.clear();
        if connection.gone {
            self.connections.remove(&id);
            return;
        }
        let end = if in_order { Piece::End } else { Piece::Reset };
        let due = connection.down.push(now + latency, end);
        self.schedule(due, Event::Due(id, Direction::Down));
    }

    /// Bytes are due at the process.
    pub(super) fn due_down(&mut self, id: u64, now: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (process, node) = (connection.process.clone(), connection.node);
        if let Some(until) = self.links.blocked_until(&process, node, Direction::Down, now) {
            return self.schedule(until, Event::Due(id, Direction::Down));
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        while let Some((due, _)) = connection.down.queue.front() {
            if *due > now {
                break;
            }
            let Some((_, piece)) = connection.down.queue.pop_front() else { break };
            if connection.phase != Phase::Open {
                continue;
            }
            match piece {
                Piece::Bytes(bytes) => connection.received.extend_from_slice(&bytes),
                Piece::End => connection.phase = Phase::Ended,
                Piece::Reset => {
                    connection.phase = Phase::Broken(io::ErrorKind::ConnectionReset);
                    self.history.note(&process, || format!("c{id} is reset"));
                }
            }
        }
        connection.wake();
        if matches!(connection.phase, Phase::Broken(_)) && !connection.gone {
            // The broker's end learns of it as well.
            self.end_up(id, Piece::Reset, now);
        }
    }

    /// The broker has seen the end of what the process wrote.
    fn broker_loses(&mut self, id: u64) {
        self.broker_disconnected(id);
        self.forget_if_gone(id);
    }

    /// Drops a connection that has neither end any more.
    pub(crate) fn forget_if_gone(&mut self, id: u64) {
        let done = self.connections.get(&id).is_some_and(|connection| {
            connection.gone && connection.port.is_done() && connection.up.queue.is_empty()
        });
        if done {
            self.connections.remove(&id);
        }
    }
}

/// How much of a piece passes before its connection breaks.
fn cut_at(random: &mut Random, length: usize) -> usize {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    usize::try_from(random.within(0..=length)).unwrap_or(0)
}
