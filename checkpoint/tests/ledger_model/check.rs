//! Runs a configuration, and says what it found.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::LedgerModel;
use crate::action::Action;
use crate::configuration::{Case, Config};
use crate::state::State;

/// What came of a configuration.
pub(crate) struct Outcome {
    pub(crate) states: usize,
    pub(crate) depth: usize,
    pub(crate) spent: Duration,
    /// The time was up before every state was seen.
    pub(crate) cut_short: bool,
    /// Properties that do not hold, and states that were to be reached and were not.
    pub(crate) failed: BTreeSet<&'static str>,
}

impl Case {
    /// Every state of a clean configuration; of another, states by distance until one violates what is expected. `limit`: after
    /// this long the search is cut short.
    pub(crate) fn run(&self, threads: usize, limit: Option<Duration>) -> Outcome {
        let begun = Instant::now();
        let model = LedgerModel(self.config);
        let mut builder = model.checker().threads(threads);
        if let Some(limit) = limit {
            builder = builder.timeout(limit);
        }
        match self.violates {
            // Depth first: what is pending stays small, only fingerprints of states are kept.
            None => outcome(
                begun,
                builder.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join(),
                limit,
                true,
            ),
            Some(property) => {
                let found = HasDiscoveries::AnyOf(BTreeSet::from([property]));
                outcome(begun, builder.finish_when(found).spawn_bfs().join(), limit, false)
            }
        }
    }
}

fn outcome(
    begun: Instant,
    checker: impl Checker<LedgerModel>,
    limit: Option<Duration>,
    complete: bool,
) -> Outcome {
    let spent = begun.elapsed();
    let cut_short = limit.is_some_and(|limit| spent >= limit);
    let mut failed = BTreeSet::new();
    for property in checker.model().properties() {
        let found = checker.discoveries().contains_key(property.name);
        let fails = match property.expectation {
            Expectation::Always => found,
            Expectation::Sometimes => complete && !cut_short && !found,
            Expectation::Eventually => panic!("the model has none"),
        };
        if fails {
            failed.insert(property.name);
        }
    }
    Outcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        spent,
        cut_short,
        failed,
    }
}

/// The shortest sequence of events to a state that violates `property`, with what the process saw on the way.
pub(crate) fn shortest(config: Config, property: &str) -> Option<Vec<(Action, State)>> {
    let model = LedgerModel(config);
    let properties = model.properties();
    let property = properties.iter().find(|known| known.name == property)?;
    let mut from: HashMap<u64, Option<(u64, Action)>> = HashMap::new();
    let mut queue: VecDeque<State> = model.init_states().into();
    from.extend(queue.iter().map(|state| (fingerprint(state), None)));
    let mut actions = Vec::new();
    while let Some(state) = queue.pop_front() {
        let here = fingerprint(&state);
        if !(property.condition)(&model, &state) {
            let mut path = Vec::new();
            let mut at = here;
            while let Some(Some((before, action))) = from.get(&at) {
                path.push(*action);
                at = *before;
            }
            path.reverse();
            return Some(replay(&model, &path));
        }
        model.actions(&state, &mut actions);
        for action in actions.drain(..) {
            let Some(next) = model.next_state(&state, action) else { continue };
            if model.within_boundary(&next) && !from.contains_key(&fingerprint(&next)) {
                from.insert(fingerprint(&next), Some((here, action)));
                queue.push_back(next);
            }
        }
    }
    None
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// The canonical names of all states that are reached. `named`: each step gives the canonical name of what it reaches; else
/// ids and epochs count on, and requests that can do nothing stay.
pub(crate) fn reached(config: &Config, named: bool) -> HashSet<u64> {
    let mut seen = HashSet::new();
    let mut names = HashSet::new();
    let mut queue = LedgerModel(*config).init_states();
    let mut actions = Vec::new();
    while let Some(state) = queue.pop() {
        names.insert(fingerprint(&state.canonical(config)));
        crate::action::actions(config, &state, &mut actions);
        for action in actions.drain(..) {
            let Some(next) = state.after(config, action) else { continue };
            let next = if named { next.canonical(config) } else { next };
            if LedgerModel(*config).within_boundary(&next) && seen.insert(fingerprint(&next)) {
                queue.push(next);
            }
        }
    }
    names
}

fn replay(model: &LedgerModel, path: &[Action]) -> Vec<(Action, State)> {
    let mut states = model.init_states();
    let mut steps = Vec::new();
    let Some(mut state) = states.pop() else { return steps };
    for action in path {
        let Some(next) = model.next_state(&state, *action) else { break };
        steps.push((*action, next));
        state = next;
    }
    steps
}

/// One line an event: what happened, the transaction, the ledger, and where each process stands.
pub(crate) fn print(trace: &[(Action, State)]) {
    for (number, (action, state)) in trace.iter().enumerate() {
        let coordinator = &state.coordinator;
        let ledger: Vec<String> = state.leaders[0]
            .log
            .iter()
            .map(|rec| format!("{}.{}@{}", rec.checkpoint, rec.nonce, rec.owner))
            .collect();
        let procs: Vec<String> = state
            .procs
            .iter()
            .map(|proc| format!("{:?} {:?} c={}", proc.place, proc.phase, proc.checkpoint()))
            .collect();
        println!(
            "  {:>2} {action:?}\n       epoch {}.{} {:?}; ledger [{}]; {}",
            number + 1,
            coordinator.pid,
            coordinator.epoch,
            coordinator.txn,
            ledger.join(" "),
            procs.join("; ")
        );
    }
    if let Some((_, last)) = trace.last() {
        let outputs = last.leaders.iter().skip(1);
        for (partition, leader) in outputs.enumerate().filter(|(_, leader)| !leader.log.is_empty())
        {
            let records = leader.log.iter().map(|rec| format!("{}.{}", rec.offset, rec.nonce));
            println!("     output {partition}: {}", records.collect::<Vec<_>>().join(" "));
        }
    }
}
