//! The fetch machines and the queues of their readers.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_protocol::Timestamp;
use millstream_protocol::fetch::{FetchConfig, FetchPace, FetchStart, Fetcher};
use millstream_protocol::network::ConnectionClass;

use super::command::ConsumerAction;
use super::event_loop::Driver;
use crate::consumer::ConsumerShared;

/// One consumer's machine and the queue to its reader.
#[derive(Debug)]
pub(super) struct ConsumerSlot {
    pub(super) fetcher: Fetcher,
    pub(super) shared: Arc<ConsumerShared>,
    topics: BTreeSet<Arc<str>>,
}

impl Driver {
    pub(super) fn open_consumer(
        &mut self,
        now: Timestamp,
        consumer: u32,
        starts: Vec<FetchStart>,
        config: FetchConfig,
        shared: Arc<ConsumerShared>,
    ) {
        shared.hold_back_from(config.partition_prefetch_bytes.min(config.prefetch_bytes));
        let fetcher = Fetcher::new(config, u64::from(consumer));
        let slot = ConsumerSlot { fetcher, shared, topics: BTreeSet::new() };
        self.consumers.insert(consumer, slot);
        for start in starts {
            // The reader counted none of these as a change: one that it has made since has its own command coming.
            self.assign(now, consumer, start);
        }
    }

    fn assign(&mut self, now: Timestamp, consumer: u32, start: FetchStart) {
        let Some(slot) = self.consumers.get_mut(&consumer) else { return };
        let topic = Arc::clone(&start.topic_partition.topic);
        slot.fetcher.assign(start);
        if slot.topics.insert(Arc::clone(&topic)) {
            self.network.track_topic(now, &topic);
        }
    }

    pub(super) fn act(&mut self, now: Timestamp, consumer: u32, action: ConsumerAction) {
        let Some(slot) = self.consumers.get_mut(&consumer) else { return };
        match action {
            ConsumerAction::Assign(start) => {
                slot.shared.settle(&start.topic_partition);
                self.assign(now, consumer, start);
            }
            ConsumerAction::Unassign(partition) => {
                slot.shared.settle(&partition);
                slot.fetcher.unassign(&partition);
            }
            ConsumerAction::Pause(partition) => slot.fetcher.pause(&partition),
            ConsumerAction::Resume(partition) => slot.fetcher.resume(&partition),
            ConsumerAction::Close => {
                let Some(slot) = self.consumers.remove(&consumer) else { return };
                for topic in &slot.topics {
                    self.network.untrack_topic(topic);
                }
                // The broker forgets the fetch session with the connection.
                self.network.close_lane(now, ConnectionClass::Fetch, consumer);
                self.forget_consumer(consumer);
            }
        }
    }

    /// Learns what the readers have taken, and how they want to be served.
    pub(super) fn take_releases(&mut self) {
        let started = self.started;
        let mut released = std::mem::take(&mut self.released);
        for slot in self.consumers.values_mut() {
            if let Some(pace) = slot.shared.take_released(&mut released) {
                slot.fetcher.set_pace(FetchPace {
                    until: Timestamp::ZERO.after(pace.until.saturating_duration_since(started)),
                    min_bytes: pace.min_bytes,
                    max_wait: pace.max_wait,
                });
            }
            for (partition, bytes) in released.drain(..) {
                slot.fetcher.release(&partition, bytes);
            }
        }
        self.released = released;
    }

    /// Hands events to the readers, and wakes those that got some.
    pub(super) fn deliver_fetch_events(&mut self) {
        for slot in self.consumers.values_mut() {
            let mut delivered = false;
            while let Some(event) = slot.fetcher.poll_event() {
                slot.shared.push(event);
                delivered = true;
            }
            if delivered {
                slot.shared.wake();
            }
        }
    }
}
