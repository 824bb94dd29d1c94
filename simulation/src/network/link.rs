//! How well processes and brokers reach each other.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::ProcessName;
use super::connection::Direction;
use crate::runtime::Random;

/// How the network treats every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// One way takes from 0 to this many milliseconds.
    pub latency_max_ms: u64,
    /// One piece in so many is late by up to `spike_max_ms`, and all behind it on its connection; 0 for none.
    pub spike_one_in: u32,
    /// Longest such delay.
    pub spike_max_ms: u64,
    /// One piece in so many breaks its connection at one of its bytes; 0 for none.
    pub cut_one_in: u32,
    /// Of the connections that end with bytes under way to the broker, one in so many delivers them late; 0 for none.
    pub late_one_in: u32,
    /// Longest such delay.
    pub late_max_ms: u64,
}

impl NetworkSettings {
    /// A network that is quick and never fails.
    #[must_use]
    pub fn calm() -> Self {
        Self {
            latency_max_ms: 1,
            spike_one_in: 0,
            spike_max_ms: 0,
            cut_one_in: 0,
            late_one_in: 0,
            late_max_ms: 0,
        }
    }

    /// Microseconds that one piece takes.
    pub(super) fn latency(&self, random: &mut Random) -> u64 {
        let mut latency = random.within(0..=self.latency_max_ms * 1000);
        if random.chance(self.spike_one_in) {
            latency += random.within(0..=self.spike_max_ms * 1000);
        }
        latency
    }
}

/// Bytes, and connection attempts, that do not arrive before some time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// This process, or all.
    pub process: Option<ProcessName>,
    /// This broker, or all.
    pub node: Option<i32>,
    /// From the process to the broker.
    pub up: bool,
    /// From the broker to the process. Alone it makes half-open connections: requests are handled, no answer comes.
    pub down: bool,
    /// For how long.
    pub lasts: Duration,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match (self.up, self.down) {
            (true, true) => "nothing passes",
            (true, false) => "no request passes",
            (false, true) => "no answer passes",
            (false, false) => "all passes",
        };
        let process = self.process.as_deref().unwrap_or("every process");
        let node = self.node.map_or("every broker".to_owned(), |node| format!("broker {node}"));
        write!(f, "{way} between {process} and {node} for {} ms", self.lasts.as_millis())
    }
}

/// Who reaches whom.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) settings: NetworkSettings,
    blocks: Vec<(Blocked, u64)>,
    /// Processes that are far away, with the milliseconds that their requests take at most.
    slow: BTreeMap<ProcessName, u64>,
    /// How many connections each broker has had; part of their names in a history.
    pub(super) opened: BTreeMap<i32, u64>,
}

impl Links {
    pub(super) fn new(settings: NetworkSettings) -> Self {
        Self { settings, blocks: Vec::new(), slow: BTreeMap::new(), opened: BTreeMap::new() }
    }

    pub(super) fn slow_down(&mut self, process: ProcessName, by_ms: u64) {
        self.slow.insert(process, by_ms);
    }

    pub(super) fn slow_ms(&self, process: &ProcessName) -> u64 {
        self.slow.get(process).copied().unwrap_or(0)
    }

    pub(super) fn block(&mut self, blocked: Blocked, until: u64) {
        self.blocks.push((blocked, until));
    }

    /// All blocks end now, and nobody is far away any more; what they hold back has its time already, which comes.
    pub(super) fn unblock(&mut self, now: u64) {
        self.blocks.retain(|(_, until)| *until <= now);
        self.slow.clear();
    }

    /// Until when nothing passes there, if nothing does now.
    pub(super) fn blocked_until(
        &mut self,
        process: &ProcessName,
        node: i32,
        direction: Direction,
        now: u64,
    ) -> Option<u64> {
        self.blocks.retain(|(_, until)| *until > now);
        self.blocks
            .iter()
            .filter(|(blocked, _)| {
                blocked.process.as_ref().is_none_or(|blocked| blocked == process)
                    && blocked.node.is_none_or(|blocked| blocked == node)
                    && match direction {
                        Direction::Up => blocked.up,
                        Direction::Down => blocked.down,
                    }
            })
            .map(|(_, until)| *until)
            .max()
    }
}
