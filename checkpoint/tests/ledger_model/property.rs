//! What must hold in every state, and what must be reached.

use stateright::Property;

use crate::LedgerModel;
use crate::broker::Txn;
use crate::state::{COPY_PARTS, Place, Proc, State};

pub(crate) const EXACTLY_ONCE: &str = "every committed checkpoint is in each output once";
pub(crate) const STATE_IS_OUTPUT: &str = "the state of a job that runs is what it committed";
pub(crate) const NO_FALSE_STOP: &str = "no question is asked that could be answered";
pub(crate) const START_KEPT: &str = "the job begins where its first META says";
pub(crate) const NOTHING_HANGS: &str = "no transaction is left open";
pub(crate) const NOT_STUCK: &str = "the transactional id can be used";
pub(crate) const OWNERS: &str = "owners on the ledger never return";
pub(crate) const BOUNDED: &str = "fences are bounded";
pub(crate) const NOBODY_HURT: &str = "a starter that stops has fenced no healthy owner";
pub(crate) const LAST_OWNER: &str = "the last owner does not give up";
pub(crate) const CAN_GO_ON: &str = "a start on one of the directories could go on";
pub(crate) const REPAIRED: &str = "what the table lets pass can be repaired";
pub(crate) const PUT_ASIDE: &str = "dead attempts are put aside before the next one";
pub(crate) const DONE: &str = "all checkpoints are committed";
pub(crate) const TAKEN_OVER: &str = "the second process takes over and the first is fenced";

pub(crate) fn properties() -> Vec<Property<LedgerModel>> {
    vec![
        Property::always(EXACTLY_ONCE, |model: &LedgerModel, state: &State| {
            if state.coordinator.is_preparing() {
                return true;
            }
            let Some(committed) = state.committed() else { return false };
            (1..=model.0.outputs).all(|partition| {
                let written = |n: u8| model.0.partitions(n) & (1 << partition) != 0;
                let expected = committed.iter().filter(|rec| written(rec.checkpoint));
                state.leaders[partition].log.iter().eq(expected)
            })
        }),
        Property::always(STATE_IS_OUTPUT, |_: &LedgerModel, state: &State| {
            let coordinator = &state.coordinator;
            coordinator.is_preparing()
                || state.procs.iter().all(|proc| {
                    proc.place != Place::Txn
                        || (proc.pid, proc.epoch) != (coordinator.pid, coordinator.epoch)
                        || (!proc.diverged && state.committed().as_ref() == Some(&proc.chain))
                })
        }),
        Property::always(NO_FALSE_STOP, |model: &LedgerModel, state: &State| {
            model.0.two_processes || state.procs[0].place != Place::Stopped
        }),
        Property::always(START_KEPT, |model: &LedgerModel, state: &State| {
            let (Some(first), false) = (state.first, model.0.two_processes) else { return true };
            state.leaders[0].log.first().is_none_or(|rec| rec.offset == first)
        }),
        Property::always(NOTHING_HANGS, |_: &LedgerModel, state: &State| {
            let coordinator = &state.coordinator;
            let is_open = coordinator.txn == Txn::Ongoing || coordinator.is_preparing();
            state.leaders.iter().enumerate().all(|(partition, leader)| {
                let is_part = coordinator.partitions & (1 << partition) != 0;
                leader.open.iter().all(|(pid, _)| *pid == coordinator.pid && is_open && is_part)
            })
        }),
        Property::always(NOT_STUCK, |_: &LedgerModel, state: &State| !state.coordinator.stuck),
        Property::always(OWNERS, |_: &LedgerModel, state: &State| {
            let log = &state.leaders[0].log;
            (1..log.len()).all(|at| {
                let (owner, before) = (log[at].owner, &log[..at]);
                before.last().is_some_and(|rec| rec.owner == owner)
                    || before.iter().all(|rec| rec.owner != owner)
            })
        }),
        Property::always(BOUNDED, |model: &LedgerModel, state: &State| {
            state.fences <= model.0.fences_max
        }),
        Property::always(NOBODY_HURT, |model: &LedgerModel, state: &State| {
            let hurt = |proc: &Proc| proc.place == Place::Stopped && proc.hurt;
            !model.0.strict || !state.procs.iter().any(hurt)
        }),
        Property::always(LAST_OWNER, |_: &LedgerModel, state: &State| {
            let last = state.ledger().map(|(rec, _)| rec.owner);
            state.coordinator.is_preparing()
                || state
                    .procs
                    .iter()
                    .all(|proc| proc.place != Place::Fenced || Some(proc.owner) != last)
        }),
        Property::always(CAN_GO_ON, |model: &LedgerModel, state: &State| {
            state.coordinator.is_preparing() || state.can_go_on(&model.0)
        }),
        Property::always(REPAIRED, |model: &LedgerModel, state: &State| {
            // A directory that was copied in parts may hold any part of any time.
            model.0.budget.copy == COPY_PARTS || !state.procs.iter().any(|proc| proc.unrepaired)
        }),
        Property::always(PUT_ASIDE, |_: &LedgerModel, state: &State| {
            let clean =
                |proc: &Proc| proc.dir.live().all(|delta| delta.at.checkpoint <= proc.checkpoint());
            state.procs.iter().all(|proc| proc.place != Place::Txn || proc.delta || clean(proc))
        }),
        Property::sometimes(DONE, |model: &LedgerModel, state: &State| {
            let done = |proc: &Proc| {
                proc.place == Place::Txn && !proc.own && proc.checkpoint() == model.0.checkpoints
            };
            state.procs.iter().any(done)
        }),
        Property::sometimes(TAKEN_OVER, |model: &LedgerModel, state: &State| {
            let [first, second] = &state.procs;
            !model.0.two_processes
                || model.0.budget.copy == 0
                || (first.place == Place::Fenced && second.checkpoint() == model.0.checkpoints)
        }),
    ]
}
