//! What the proxy's connections and its handles share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::fault_proxy::rule::{Direction, FaultAction, FaultRule};

/// A rule in force.
#[derive(Debug)]
pub(crate) struct ActiveRule {
    id: u64,
    rule: FaultRule,
    matched: u64,
    released: bool,
}

/// What connections look at before each frame.
#[derive(Debug, Default)]
pub(crate) struct State {
    rules: Vec<ActiveRule>,
    next_id: u64,
    /// Nothing goes either way.
    pub(crate) blackhole: bool,
    /// New connections are closed at once.
    pub(crate) rejecting: bool,
    /// Connections accepted under an earlier number are to be closed.
    pub(crate) cut_generation: u64,
    /// The proxy is being dropped.
    pub(crate) stopped: bool,
    /// Requests seen, by API key.
    pub(crate) requests: BTreeMap<i16, u64>,
    /// Their versions, by `client.id` and API key.
    pub(crate) versions: BTreeMap<(Arc<str>, i16), BTreeSet<i16>>,
    /// Connections accepted so far.
    pub(crate) connections: u64,
}

impl State {
    pub(crate) fn add_rule(&mut self, rule: FaultRule) -> u64 {
        self.next_id += 1;
        self.rules.push(ActiveRule { id: self.next_id, rule, matched: 0, released: false });
        self.next_id
    }

    pub(crate) fn remove_rule(&mut self, id: u64) {
        self.rules.retain(|rule| rule.id != id);
    }

    pub(crate) fn release(&mut self, id: u64) {
        if let Some(rule) = self.rules.iter_mut().find(|rule| rule.id == id) {
            rule.released = true;
        }
    }

    /// How many frames the rule acted on.
    pub(crate) fn matched(&self, id: u64) -> u64 {
        self.rules.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.matched)
    }

    /// Whether a frame held by the rule must wait on.
    pub(crate) fn holds(&self, id: u64) -> bool {
        self.rules.iter().any(|rule| rule.id == id && !rule.released)
    }

    /// What to do with a frame, and by which rule.
    pub(crate) fn judge(
        &mut self,
        direction: Direction,
        api: i16,
        client: &str,
    ) -> (FaultAction, u64) {
        for rule in &mut self.rules {
            let wanted = rule.rule.direction == direction
                && rule.rule.api.is_none_or(|wanted| wanted == api)
                && rule.rule.client.as_deref().is_none_or(|wanted| wanted == client)
                && !rule.released;
            if !wanted {
                continue;
            }
            if rule.rule.skip > 0 {
                rule.rule.skip -= 1;
                continue;
            }
            if rule.matched < rule.rule.times {
                rule.matched += 1;
                return (rule.rule.action.clone(), rule.id);
            }
        }
        (FaultAction::Pass, 0)
    }
}

/// The state, and a bell for everybody who waits on it.
#[derive(Debug)]
pub(crate) struct Shared {
    // Held for a look or a change, never across an await.
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::default()), changes: watch::Sender::new(0) }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|count| *count += 1);
        result
    }

    /// Returns once the condition holds.
    pub(crate) async fn wait_until(&self, mut condition: impl FnMut(&State) -> bool) {
        let mut changes = self.changes.subscribe();
        while !self.look(&mut condition) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
