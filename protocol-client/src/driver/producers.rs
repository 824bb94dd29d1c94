//! The produce machines: their requests, their time, the topics they write to.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_protocol::network::{OutgoingRequest, RequestToken};
use millstream_protocol::{StaleMetadata, Timestamp};

use super::event_loop::Driver;
use crate::producer::ProducerShared;

/// One producer, and what the driver keeps for it.
#[derive(Debug)]
pub(super) struct ProducerSlot {
    pub(super) shared: Arc<ProducerShared>,
    topics: BTreeSet<Arc<str>>,
}

impl Driver {
    pub(super) fn open_producer(&mut self, producer: u32, shared: Arc<ProducerShared>) {
        shared.lock().machine.set_transaction_version(self.network.transaction_version());
        self.producers.insert(producer, ProducerSlot { shared, topics: BTreeSet::new() });
    }

    /// The last handle is gone: nothing more of it is sent, what is in flight is not waited for.
    pub(super) fn close_producer(&mut self, producer: u32) {
        if let Some(slot) = self.producers.remove(&producer) {
            slot.shared.close();
            for topic in &slot.topics {
                self.network.untrack_topic(topic);
            }
        }
    }

    pub(super) fn set_transaction_version(&mut self) {
        let version = self.network.transaction_version();
        for slot in self.producers.values() {
            slot.shared.lock().machine.set_transaction_version(version);
        }
    }

    /// Collects what the machines want sent and renewed.
    pub(super) fn poll_producers(
        &mut self,
        now: Timestamp,
        requests: &mut Vec<(u32, OutgoingRequest)>,
        stale: &mut Vec<StaleMetadata>,
    ) {
        for (producer, slot) in &mut self.producers {
            let mut state = slot.shared.lock();
            for topic in std::mem::take(&mut state.new_topics) {
                self.network.track_topic(now, &topic);
                slot.topics.insert(topic);
            }
            while let Some(request) = state.machine.poll_request(now, self.network.metadata()) {
                requests.push((*producer, request));
            }
            while let Some(news) = state.machine.poll_stale_metadata() {
                stale.push(news);
            }
        }
    }

    pub(super) fn producers_timeout(&self) -> Option<Timestamp> {
        self.producers.values().filter_map(|slot| slot.shared.lock().machine.poll_timeout()).min()
    }

    pub(super) fn handle_producer_timeouts(&mut self, now: Timestamp) {
        for slot in self.producers.values() {
            let mut state = slot.shared.lock();
            if state.machine.poll_timeout().is_some_and(|at| at <= now) {
                state.machine.handle_timeout(now);
            }
        }
    }

    pub(super) fn handle_produce_response(
        &mut self,
        now: Timestamp,
        producer: u32,
        token: RequestToken,
        api_version: i16,
        result: Result<millstream_protocol::Response, millstream_protocol::network::RequestError>,
    ) {
        if let Some(slot) = self.producers.get(&producer) {
            slot.shared.lock().machine.handle_response(now, token, api_version, result);
        }
    }
}
