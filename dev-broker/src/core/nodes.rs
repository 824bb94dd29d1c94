//! The nodes of the cluster: which are up, who leads which partition, who coordinates which group or transactional id.
//!
//! A cluster begins with the one node of its settings, which leads and coordinates everything. More nodes are added by
//! whoever plays a cluster with it; there is still one log per partition and one table of transactions, so what was
//! answered survives any failover, as with replicas that are all in sync.

use std::collections::{BTreeMap, BTreeSet};

use millstream_protocol::{ErrorCode, Timestamp, TopicPartition};

use super::cluster::Cluster;

/// Coordinators are given out by slots, as by the partitions of `__transaction_state` and `__consumer_offsets`.
pub const COORDINATOR_SLOTS: u32 = 4;

/// What is coordinated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoordinatorKind {
    /// Consumer groups.
    Group,
    /// Transactional ids.
    Transaction,
}

/// Who coordinates one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorSeat {
    /// Nobody, until the next election.
    Vacant,
    /// This node, which still reads the slot's log.
    Loading(i32),
    /// This node.
    Taken(i32),
}

/// Who leads one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leadership {
    /// `None` until the next election.
    pub(crate) node: Option<i32>,
    pub(crate) epoch: i32,
}

#[derive(Clone, Debug)]
struct Node {
    host: String,
    port: u16,
    up: bool,
}

/// The nodes beside the one of the settings, and the coordinators.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    others: BTreeMap<i32, Node>,
    /// The node of the settings is down.
    first_is_down: bool,
    /// Seats that are not the first node's.
    seats: BTreeMap<(CoordinatorKind, u32), CoordinatorSeat>,
    /// Decided transactions whose markers wait for a leader or a coordinator.
    stalled: BTreeSet<String>,
}

/// The slot of a group or transactional id (FNV-1a; Kafka's is Java's string hash, which clients need not know).
#[must_use]
pub fn coordinator_slot(id: &str) -> u32 {
    let hash = id
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % COORDINATOR_SLOTS
}

impl Cluster {
    /// Adds a broker with the address that Metadata answers. Topics that are created from now on use it too.
    pub fn add_node(&mut self, id: i32, host: impl Into<String>, port: u16) {
        self.nodes.others.insert(id, Node { host: host.into(), port, up: true });
    }

    /// Says that a broker is up, or down. It is listed in Metadata and counts as a replica in sync while it is up; who
    /// leads and coordinates is said apart ([`set_leader`](Self::set_leader), [`set_coordinator`](Self::set_coordinator)).
    pub fn set_node_up(&mut self, id: i32, up: bool) {
        if id == self.config.node_id {
            self.nodes.first_is_down = !up;
        } else if let Some(node) = self.nodes.others.get_mut(&id) {
            node.up = up;
        }
    }

    /// Every partition and who leads it.
    pub fn leaders(&self) -> impl Iterator<Item = (TopicPartition, Option<i32>)> + '_ {
        self.topics.by_name.iter().flat_map(|(name, topic)| {
            (0..).zip(&topic.partitions).map(|(partition, log)| {
                (TopicPartition { topic: name.clone(), partition }, log.leadership.node)
            })
        })
    }

    /// Gives a partition a leader, which begins a new leader epoch, or takes its leader away.
    /// [`handle_timeout`](Self::handle_timeout) then answers the fetches that waited for it.
    pub fn set_leader(&mut self, place: &TopicPartition, node: Option<i32>, now: Timestamp) {
        let Some(target) = self.topics.partition_mut(place) else { return };
        target.log.leadership.node = node;
        if node.is_some() {
            target.log.leadership.epoch += 1;
            self.retry_stalled_markers(now);
        }
        self.note_moved(place.clone());
    }

    /// Loses what was written to a partition from `end` on, although it was acknowledged: an unclean election, or a cluster
    /// that was restored from an older copy.
    pub fn lose_from(&mut self, place: &TopicPartition, end: i64) {
        let segment_bytes = self.config.segment_bytes;
        if let Some(target) = self.topics.partition_mut(place) {
            let log = target.log.truncated(end, segment_bytes);
            // A transaction that was cut in half would hold back readers for ever: it is lost whole.
            let stable = log.last_stable_offset();
            *target.log = log.truncated(stable, segment_bytes);
        }
        self.note_moved(place.clone());
    }

    /// Where the next record of a partition goes.
    #[must_use]
    pub fn log_end_offset(&self, place: &TopicPartition) -> Option<i64> {
        self.topics.partition(&place.topic, place.partition).map(|(_, log)| log.log_end_offset())
    }

    /// Says who coordinates a slot.
    pub fn set_coordinator(
        &mut self,
        kind: CoordinatorKind,
        slot: u32,
        seat: CoordinatorSeat,
        now: Timestamp,
    ) {
        self.nodes.seats.insert((kind, slot), seat);
        if matches!(seat, CoordinatorSeat::Taken(_)) {
            self.retry_stalled_markers(now);
        }
    }

    /// Who coordinates a slot.
    #[must_use]
    pub fn coordinator(&self, kind: CoordinatorKind, slot: u32) -> CoordinatorSeat {
        let first = CoordinatorSeat::Taken(self.config.node_id);
        self.nodes.seats.get(&(kind, slot)).copied().unwrap_or(first)
    }

    /// Ids of all brokers, up or down.
    pub(crate) fn node_ids(&self) -> impl Iterator<Item = i32> + '_ {
        std::iter::once(self.config.node_id).chain(self.nodes.others.keys().copied())
    }

    /// Brokers that are up: id, host, port.
    pub(crate) fn nodes_up(&self) -> Vec<(i32, &str, u16)> {
        let config = &self.config;
        let first = (!self.nodes.first_is_down).then_some((
            config.node_id,
            config.advertised_host.as_str(),
            config.advertised_port,
        ));
        let others = self.nodes.others.iter().filter(|(_, node)| node.up);
        first
            .into_iter()
            .chain(others.map(|(id, node)| (*id, node.host.as_str(), node.port)))
            .collect()
    }

    /// Host and port of a broker.
    pub(crate) fn node_address(&self, id: i32) -> Option<(&str, u16)> {
        if id == self.config.node_id {
            return Some((&self.config.advertised_host, self.config.advertised_port));
        }
        self.nodes.others.get(&id).map(|node| (node.host.as_str(), node.port))
    }

    /// Replicas of every partition that are in sync: all brokers that are up.
    pub(crate) fn replicas_in_sync(&self) -> u64 {
        u64::try_from(self.nodes_up().len()).unwrap_or(u64::MAX)
    }

    /// The leader of a new topic's partition: the brokers that are up, in turn.
    pub(crate) fn first_leadership(&self, topic: &str, partition: i32) -> Leadership {
        let up = self.nodes_up();
        let start = coordinator_slot(topic).wrapping_add(partition.unsigned_abs());
        let index = usize::try_from(start).unwrap_or(0) % up.len().max(1);
        Leadership { node: up.get(index).map(|(id, ..)| *id), epoch: 0 }
    }

    /// Refuses what `node` can not do for this id, because it is not its coordinator.
    pub(crate) fn check_coordinator(
        &self,
        node: i32,
        kind: CoordinatorKind,
        id: &str,
    ) -> Result<(), ErrorCode> {
        match self.coordinator(kind, coordinator_slot(id)) {
            CoordinatorSeat::Taken(holder) if holder == node => Ok(()),
            CoordinatorSeat::Loading(holder) if holder == node => {
                Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)
            }
            _ => Err(ErrorCode::NOT_COORDINATOR),
        }
    }

    /// Whether a broker could reach the coordinator of a transactional id.
    pub(crate) fn has_transaction_coordinator(&self, id: &str) -> bool {
        let seat = self.coordinator(CoordinatorKind::Transaction, coordinator_slot(id));
        matches!(seat, CoordinatorSeat::Taken(_))
    }

    /// The markers of `id` wait until there is a leader or coordinator again.
    pub(crate) fn stall_markers(&mut self, id: &str) {
        self.nodes.stalled.insert(id.to_owned());
    }

    fn retry_stalled_markers(&mut self, now: Timestamp) {
        for id in std::mem::take(&mut self.nodes.stalled) {
            self.markers.insert((now, id));
        }
    }
}
