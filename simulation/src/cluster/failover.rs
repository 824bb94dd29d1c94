//! Brokers that die, freeze and come back, and who takes their offices.

use millstream_dev_broker::core::{COORDINATOR_SLOTS, CoordinatorKind, CoordinatorSeat};
use millstream_protocol::TopicPartition;

use super::{BrokerEvent, BrokerState, Brokers};
use crate::network::{Event, Network, World};

const KINDS: [CoordinatorKind; 2] = [CoordinatorKind::Group, CoordinatorKind::Transaction];

impl Brokers {
    /// Spreads the coordinators over the brokers.
    pub(super) fn seat_first_coordinators(&mut self) {
        let nodes: Vec<i32> = self.states.keys().copied().collect();
        let (time, _) = self.clock(0);
        for kind in KINDS {
            for slot in 0..COORDINATOR_SLOTS {
                if let Some(node) = self.random.pick(&nodes) {
                    self.core.set_coordinator(kind, slot, CoordinatorSeat::Taken(*node), time);
                }
            }
        }
    }

    fn eligible(&self, not: Option<i32>) -> Vec<i32> {
        let up = self
            .states
            .iter()
            .filter(|(node, state)| **state == BrokerState::Up && Some(**node) != not);
        up.map(|(node, _)| *node).collect()
    }

    fn seats_of(&self, node: i32) -> Vec<(CoordinatorKind, u32)> {
        let all =
            KINDS.into_iter().flat_map(|kind| (0..COORDINATOR_SLOTS).map(move |slot| (kind, slot)));
        all.filter(|(kind, slot)| {
            let seat = self.core.coordinator(*kind, *slot);
            seat == CoordinatorSeat::Taken(node) || seat == CoordinatorSeat::Loading(node)
        })
        .collect()
    }
}

impl World {
    /// A broker dies. Its connections break, what it had not answered is handled or lost.
    fn crash(&mut self, node: i32, down_ms: u64, now: u64) {
        if self.brokers.states.get(&node).is_none_or(|state| *state == BrokerState::Down) {
            return;
        }
        self.note_cluster(|| format!("broker {node} dies"));
        self.brokers.failovers += 1;
        let held: Vec<u64> = self
            .brokers
            .held
            .iter()
            .filter(|(_, held)| held.node == node)
            .map(|(hold, _)| *hold)
            .collect();
        let (time, wall_clock_ms) = self.brokers.clock(now);
        for hold in held {
            let Some(held) = self.brokers.held.remove(&hold) else { continue };
            let survives = self.brokers.random.chance(2);
            let id = held.connection;
            self.note_cluster(|| {
                let fate = if survives { "survives" } else { "is lost" };
                format!("the unanswered write of c{id} {fate}")
            });
            if survives {
                self.brokers.core.handle_request_at(node, time, wall_clock_ms, id, held.frame);
            }
        }
        for id in self.connections_of(None, Some(node)) {
            self.brokers.core.handle_disconnect(id);
            self.brokers.asked.remove(&id);
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.port = super::Port::closed();
            }
            self.broker_closes(id, false, now);
        }
        // Answers that nobody gets any more are dropped with their connections.
        self.drop_answers_of_lost_connections();
        self.brokers.states.insert(node, BrokerState::Down);
        self.brokers.core.set_node_up(node, false);
        self.vacate(node, now);
        self.schedule(now + down_ms * 1000, Event::Broker(BrokerEvent::Restarted(node)));
        self.core_timeout(now);
    }

    fn drop_answers_of_lost_connections(&mut self) {
        self.brokers.keep();
        let mut others = Vec::new();
        while let Some(outgoing) = self.brokers.core.poll_outgoing() {
            others.push(outgoing);
        }
        let now = self.now();
        for outgoing in others {
            use millstream_dev_broker::core::Outgoing;
            let (Outgoing::Response { connection, .. }
            | Outgoing::Done { connection }
            | Outgoing::Close { connection }) = &outgoing;
            let id = *connection;
            let lost = self.connections.get(&id).is_none_or(|connection| connection.port.lost);
            if lost {
                self.brokers.core.handle_disconnect(id);
                continue;
            }
            if let Outgoing::Response { frame, .. } = outgoing {
                self.broker_writes(id, frame.to_bytes(), now);
            }
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.port.busy = false;
            }
        }
    }

    /// Nobody leads and coordinates where `node` did, until the next election.
    fn vacate(&mut self, node: i32, now: u64) {
        let (time, _) = self.brokers.clock(now);
        let led: Vec<TopicPartition> = self
            .brokers
            .core
            .leaders()
            .filter(|(_, leader)| *leader == Some(node))
            .map(|(place, _)| place)
            .collect();
        for place in led {
            self.brokers.core.set_leader(&place, None, time);
        }
        for (kind, slot) in self.brokers.seats_of(node) {
            self.brokers.core.set_coordinator(kind, slot, CoordinatorSeat::Vacant, time);
        }
        self.call_election(now);
    }

    fn call_election(&mut self, now: u64) {
        if self.brokers.election_due {
            return;
        }
        self.brokers.election_due = true;
        let brokers = &mut self.brokers;
        let takes = brokers.random.within(1..=brokers.settings.election_max_ms.max(1)) * 1000;
        self.schedule(now + takes, Event::Broker(BrokerEvent::Elect));
    }

    /// Fills vacant offices with brokers that are up.
    pub(super) fn elect(&mut self, now: u64) {
        self.brokers.election_due = false;
        let nodes = self.brokers.eligible(None);
        if nodes.is_empty() {
            // Whoever comes back calls the next one.
            return;
        }
        let (time, _) = self.brokers.clock(now);
        let vacant: Vec<TopicPartition> = self
            .brokers
            .core
            .leaders()
            .filter(|(_, leader)| leader.is_none())
            .map(|(place, _)| place)
            .collect();
        for place in vacant {
            let Some(node) = self.brokers.random.pick(&nodes).copied() else { continue };
            self.note_cluster(|| format!("broker {node} leads {place}"));
            self.brokers.core.set_leader(&place, Some(node), time);
        }
        for kind in KINDS {
            for slot in 0..COORDINATOR_SLOTS {
                if self.brokers.core.coordinator(kind, slot) == CoordinatorSeat::Vacant
                    && let Some(node) = self.brokers.random.pick(&nodes).copied()
                {
                    self.seat(kind, slot, node, now);
                }
            }
        }
        self.core_timeout(now);
    }

    fn seat(&mut self, kind: CoordinatorKind, slot: u32, node: i32, now: u64) {
        let (time, _) = self.brokers.clock(now);
        self.brokers.core.set_coordinator(kind, slot, CoordinatorSeat::Loading(node), time);
        let takes = self.brokers.random.within(0..=self.brokers.settings.loading_max_ms) * 1000;
        self.schedule(now + takes, Event::Broker(BrokerEvent::Loaded(kind, slot)));
    }

    pub(super) fn loaded(&mut self, kind: CoordinatorKind, slot: u32, now: u64) {
        let (time, _) = self.brokers.clock(now);
        if let CoordinatorSeat::Loading(node) = self.brokers.core.coordinator(kind, slot) {
            self.note_cluster(|| format!("broker {node} coordinates {kind:?} slot {slot}"));
            self.brokers.core.set_coordinator(kind, slot, CoordinatorSeat::Taken(node), time);
            self.core_timeout(now);
        }
    }

    pub(super) fn restarted(&mut self, node: i32, now: u64) {
        if self.brokers.states.get(&node) != Some(&BrokerState::Down) {
            return;
        }
        self.note_cluster(|| format!("broker {node} is back"));
        self.brokers.states.insert(node, BrokerState::Up);
        self.brokers.core.set_node_up(node, true);
        self.call_election(now);
    }

    fn freeze(&mut self, node: i32, lasts_ms: u64, now: u64) {
        if self.brokers.states.get(&node) != Some(&BrokerState::Up) {
            return;
        }
        self.note_cluster(|| format!("broker {node} is frozen for {lasts_ms} ms"));
        self.brokers.freezes += 1;
        let freeze = self.brokers.freezes;
        self.brokers.states.insert(node, BrokerState::Frozen(freeze));
        let timeout = self.brokers.settings.session_timeout_ms;
        self.schedule(now + timeout * 1000, Event::Broker(BrokerEvent::Expired(node, freeze)));
        self.schedule(now + lasts_ms * 1000, Event::Broker(BrokerEvent::Thawed(node)));
    }

    pub(super) fn expired(&mut self, node: i32, freeze: u64, now: u64) {
        if self.brokers.states.get(&node) == Some(&BrokerState::Frozen(freeze)) {
            self.note_cluster(|| format!("broker {node} is out of office"));
            self.brokers.failovers += 1;
            self.brokers.core.set_node_up(node, false);
            self.vacate(node, now);
            self.core_timeout(now);
        }
    }

    pub(super) fn thawed(&mut self, node: i32, now: u64) {
        if !matches!(self.brokers.states.get(&node), Some(BrokerState::Frozen(_))) {
            return;
        }
        self.note_cluster(|| format!("broker {node} goes on"));
        self.brokers.states.insert(node, BrokerState::Up);
        self.brokers.core.set_node_up(node, true);
        self.call_election(now);
        let overdue: Vec<u64> = self
            .brokers
            .held
            .iter()
            .filter(|(_, held)| held.node == node && held.overdue)
            .map(|(hold, _)| *hold)
            .collect();
        for hold in overdue {
            self.schedule(now, Event::Broker(BrokerEvent::Replicated(hold)));
        }
        for id in self.connections_of(None, Some(node)) {
            self.serve(id, now);
        }
    }

    /// Leaders and coordinators change though nobody has died.
    fn reassign(&mut self, now: u64) {
        let nodes = self.brokers.eligible(None);
        let (time, _) = self.brokers.clock(now);
        let places: Vec<TopicPartition> =
            self.brokers.core.leaders().map(|(place, _)| place).collect();
        for place in places {
            if self.brokers.random.chance(2)
                && let Some(node) = self.brokers.random.pick(&nodes).copied()
            {
                self.note_cluster(|| format!("broker {node} leads {place}"));
                self.brokers.core.set_leader(&place, Some(node), time);
            }
        }
        for kind in KINDS {
            for slot in 0..COORDINATOR_SLOTS {
                if self.brokers.random.chance(2)
                    && let Some(node) = self.brokers.random.pick(&nodes).copied()
                {
                    self.seat(kind, slot, node, now);
                }
            }
        }
        self.core_timeout(now);
    }
}

impl Network {
    /// Kills a broker, which comes back after `down_ms`.
    pub fn crash_broker(&self, node: i32, down_ms: u64) {
        self.with(|world, now| world.crash(node, down_ms, now));
    }

    /// Stops a broker for a while (SIGSTOP); if it is long, others take its offices.
    pub fn freeze_broker(&self, node: i32, lasts_ms: u64) {
        self.with(|world, now| world.freeze(node, lasts_ms, now));
    }

    /// Gives about half of all partitions and coordinators to other brokers, in order.
    pub fn reassign_leaders(&self) {
        self.with(World::reassign);
    }

    /// Brokers that are down or frozen are back at once.
    pub fn mend_brokers(&self) {
        self.with(|world, now| {
            let nodes: Vec<(i32, BrokerState)> =
                world.brokers.states.iter().map(|(node, state)| (*node, *state)).collect();
            for (node, state) in nodes {
                match state {
                    BrokerState::Up => {}
                    BrokerState::Down => world.restarted(node, now),
                    BrokerState::Frozen(_) => world.thawed(node, now),
                }
            }
        });
    }

    /// Compacts all compacted topics as far as Kafka would.
    pub fn compact(&self) {
        self.with(|world, now| {
            let (_, wall_clock_ms) = world.brokers.clock(now);
            world.brokers.core.compact_now(wall_clock_ms);
        });
    }
}
