//! The broker's end of a connection: bytes to frames, one request at work at a time.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use crate::network::World;

/// A request larger than this is nonsense.
const FRAME_BYTES_MAX: usize = 100 << 20;

/// The broker's end.
#[derive(Debug, Default)]
pub(crate) struct Port {
    received: BytesMut,
    pub(super) inbox: VecDeque<Bytes>,
    /// A request is at work.
    pub(super) busy: bool,
    /// The process's end is gone; what has come is handled all the same.
    pub(super) lost: bool,
}

impl Port {
    /// The end of a connection that is over.
    pub(super) fn closed() -> Self {
        Self { lost: true, ..Self::default() }
    }

    /// The end was seen and nothing is left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.lost && !self.busy && self.inbox.is_empty()
    }

    /// Takes bytes; false if they can not be a request.
    fn receive(&mut self, bytes: &[u8]) -> bool {
        self.received.extend_from_slice(bytes);
        while let Some(size) = self.received.get(..4) {
            let size = u32::from_be_bytes(size.try_into().unwrap_or_default());
            let Ok(size) = usize::try_from(size) else { return false };
            if size > FRAME_BYTES_MAX {
                return false;
            }
            if self.received.len() < size + 4 {
                break;
            }
            self.received.advance(4);
            self.inbox.push_back(self.received.split_to(size).freeze());
        }
        true
    }
}

impl World {
    /// Bytes have reached the system of a connection's broker.
    pub(crate) fn broker_receives(&mut self, id: u64, bytes: &[u8], now: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !self.brokers.is_listening(connection.node) {
            return;
        }
        if connection.port.receive(bytes) {
            self.serve(id, now);
        } else {
            self.broker_closes(id, true, now);
        }
    }

    /// The end of a connection has reached its broker. Whole requests that came before are handled; a Fetch that waits is not.
    pub(crate) fn broker_disconnected(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.port.lost = true;
        let held = self.brokers.held.values().any(|held| held.connection == id);
        let idle = !connection.port.busy && connection.port.inbox.is_empty();
        if idle || (connection.port.busy && !held) {
            self.finish_port(id);
        }
    }

    /// The broker is done with a connection.
    pub(super) fn finish_port(&mut self, id: u64) {
        self.brokers.core.handle_disconnect(id);
        self.brokers.asked.remove(&id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.port = Port::closed();
        }
        self.forget_if_gone(id);
    }
}
