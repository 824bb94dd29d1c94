//! What can happen next in a state.

use crate::broker::{Msg, Txn};
use crate::configuration::{Config, Variant};
use crate::shipped;
use crate::state::{COPY_WHOLE, Dir, MetaWrite, Place, Proc, State, touches};

/// What a crash leaves of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The process alone: everything written is there.
    Kill,
    /// The machine. `back`: unlinked files that are there again, as bits; `old_meta`: META's rename is undone, or META is
    /// torn; `kept`: changes that each state of the store still has.
    Power { back: u8, old_meta: bool, kept: [u8; 2] },
}

/// How a record is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Now,
    /// Now, and a copy of its AddPartitionsToTxn comes later.
    LateAdd,
    /// Not yet; it is sent again meanwhile.
    Later,
}

/// How much of R5 was done when the process crashed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Repair {
    DeadPutAside,
    OneStateReplayed,
    Replayed,
    MetaRenamed,
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Start(usize),
    Look(usize),
    FirstMeta(usize),
    Fence {
        i: usize,
        copy: bool,
    },
    /// R3 to R5.
    Resolve(usize),
    CrashInRepair {
        i: usize,
        done: Repair,
        loss: Loss,
    },
    Send(usize, Pace),
    WriteDelta(usize),
    EndTxn(usize),
    Resend(usize),
    GiveUp(usize),
    VoteNo(usize),
    Bump(usize),
    Deliver {
        msg: Msg,
        answered: bool,
    },
    Marker,
    Timeout,
    Failover,
    Forget(usize),
    Level,
    Compact,
    Crash(usize, Loss),
    WriteMeta(usize),
    SyncMeta(usize),
    Apply(usize, usize),
    Persist(usize),
    Delete(usize),
    Copy(u8),
    Input,
}

pub(crate) fn actions(config: &Config, state: &State, to: &mut Vec<Action>) {
    let budget = &state.budget;
    let mut before = None;
    for msg in state.net.iter().copied() {
        if before != Some(msg) {
            to.push(Action::Deliver { msg, answered: true });
            // An answer for which nobody waits can not be missed.
            if budget.lost > 0 && state.is_awaited(&msg) {
                to.push(Action::Deliver { msg, answered: false });
            }
        }
        before = Some(msg);
    }
    if state.coordinator.is_preparing() {
        to.push(Action::Marker);
    }
    if state.coordinator.txn == Txn::Ongoing && budget.timeout > 0 {
        to.push(Action::Timeout);
    }
    if budget.failover > 0 && state.coordinator.previous_pid.is_some() {
        to.push(Action::Failover);
    }
    if budget.forget > 0 {
        let idle = state.leaders.iter().enumerate();
        let idle =
            idle.filter(|(_, leader)| leader.open.is_empty() && !leader.producers.is_empty());
        to.extend(idle.map(|(at, _)| Action::Forget(at)));
    }
    if budget.level > 0 {
        to.push(Action::Level);
    }
    if budget.compact > 0 && state.ledger_len() > state.compacted + 1 {
        to.push(Action::Compact);
    }
    if budget.input > 0 {
        to.push(Action::Input);
    }
    if budget.copy > 0 && state.procs[0].dir.meta.is_some() {
        let parts = [1, 2, 4, COPY_WHOLE].into_iter().filter(|part| budget.copy & part != 0);
        to.extend(parts.map(Action::Copy));
    }
    let count = if config.two_processes { 2 } else { 1 };
    for (i, proc) in state.procs.iter().enumerate().take(count) {
        process(config, state, i, proc, to);
    }
}

fn process(config: &Config, state: &State, i: usize, proc: &Proc, to: &mut Vec<Action>) {
    let budget = &state.budget;
    match proc.place {
        Place::Down if i == 0 || (budget.second > 0 && budget.copy == 0) => {
            to.push(Action::Start(i));
        }
        Place::Look => to.push(Action::Look(i)),
        Place::FirstMeta => to.push(Action::FirstMeta(i)),
        Place::Fence => {
            to.push(Action::Fence { i, copy: false });
            if budget.late_init > 0 {
                to.push(Action::Fence { i, copy: true });
            }
        }
        Place::Read => {
            to.push(Action::Resolve(i));
            if config.durability && budget.crash > 0 {
                crashes_in_repair(config, state, i, to);
            }
        }
        Place::Bump => to.push(Action::Bump(i)),
        Place::Txn if proc.own || wants_checkpoint(config, state, proc) => {
            let next = next_partition(config, proc);
            if next.is_some() {
                to.push(Action::Send(i, Pace::Now));
                if budget.delay > 0 {
                    to.push(Action::Send(i, Pace::Later));
                }
                if budget.late_add > 0 && !proc.txn_tv2 {
                    to.push(Action::Send(i, Pace::LateAdd));
                }
            }
            if !proc.own && !proc.delta && (config.parallel || next.is_none()) {
                to.push(Action::WriteDelta(i));
            }
            if next.is_none() && (proc.own || proc.delta) {
                to.push(Action::EndTxn(i));
            }
            if budget.vote_no > 0 && proc.acked != 0 {
                to.push(Action::VoteNo(i));
            }
        }
        Place::Ending => {
            if budget.resend > 0 {
                to.push(Action::Resend(i));
            }
            if budget.give_up > 0 {
                to.push(Action::GiveUp(i));
            }
        }
        _ => {}
    }
    if proc.is_busy() && budget.crash > 0 {
        to.extend(losses(config, &proc.dir).into_iter().map(|loss| Action::Crash(i, loss)));
    }
    if config.durability && matches!(proc.place, Place::Txn | Place::Ending | Place::Bump) {
        maintenance(config, i, proc, to);
    }
}

/// C7, in any order: the background thread has an order of its own, which is one of them.
fn maintenance(config: &Config, i: usize, proc: &Proc, to: &mut Vec<Action>) {
    let dir = &proc.dir;
    match dir.meta_write {
        MetaWrite::Replacing(_) => to.push(Action::SyncMeta(i)),
        MetaWrite::Settled => {
            if dir.meta.is_some_and(|meta| meta.at.checkpoint < proc.checkpoint()) {
                to.push(Action::WriteMeta(i));
            }
        }
        MetaWrite::Torn => {}
    }
    to.extend(
        (0..2).filter(|k| proc.next_change(config, *k).is_some()).map(|k| Action::Apply(i, k)),
    );
    if proc.applied_through() > dir.floor_checkpoint() {
        to.push(Action::Persist(i));
    }
    if !proc.deletable(config).is_empty() {
        to.push(Action::Delete(i));
    }
}

/// A run that has not come to its last checkpoint, and has input for the next.
fn wants_checkpoint(config: &Config, state: &State, proc: &Proc) -> bool {
    proc.checkpoint() < config.checkpoints
        && (config.budget.input == 0 || proc.base.offset < state.input)
}

/// Where the open transaction has still to write to. The ledger comes last.
pub(crate) fn next_partition(config: &Config, proc: &Proc) -> Option<u8> {
    let targets = if proc.own { 1 } else { 1 | config.partitions(proc.checkpoint() + 1) };
    [1, 2, 0].into_iter().find(|partition| targets & !proc.acked & (1 << partition) != 0)
}

/// All ways in which a crash may leave this directory.
pub(crate) fn losses(config: &Config, dir: &Dir) -> Vec<Loss> {
    if !config.durability {
        // Nothing is ever half done in these.
        return vec![Loss::Power { back: 0, old_meta: false, kept: stored(dir) }];
    }
    let unlinked = dir.deltas.iter().filter(|delta| delta.unlinked).count();
    let metas: &[bool] = match dir.meta_write {
        MetaWrite::Replacing(_) => &[false, true],
        MetaWrite::Settled | MetaWrite::Torn => &[false],
    };
    let floor = dir.floor_checkpoint();
    let persisted =
        [0, 1].map(|k| dir.store[k].iter().filter(|rec| rec.checkpoint <= floor).count());
    let mut losses = Vec::new();
    for back in 0..1_u8 << unlinked {
        for old_meta in metas {
            for one in persisted[0]..=dir.store[0].len() {
                for other in persisted[1]..=dir.store[1].len() {
                    let kept = [one, other].map(|kept| u8::try_from(kept).unwrap());
                    losses.push(Loss::Power { back, old_meta: *old_meta, kept });
                }
            }
        }
    }
    losses.push(Loss::Kill);
    losses
}

fn stored(dir: &Dir) -> [u8; 2] {
    [0, 1].map(|k: usize| u8::try_from(dir.store[k].len()).unwrap())
}

fn crashes_in_repair(config: &Config, state: &State, i: usize, to: &mut Vec<Action>) {
    let stages =
        [Repair::DeadPutAside, Repair::OneStateReplayed, Repair::Replayed, Repair::MetaRenamed];
    for done in stages {
        let mut after = *state;
        if !after.resolve(config, i, done) {
            return;
        }
        let all = losses(config, &after.procs[i].dir);
        to.extend(all.into_iter().map(|loss| Action::CrashInRepair { i, done, loss }));
    }
}

impl Proc {
    /// The next change that state `k` of the store has not taken in.
    pub(crate) fn next_change(&self, config: &Config, k: usize) -> Option<crate::broker::Rec> {
        let has = self.dir.store[k].last().map_or(0, |rec| rec.checkpoint);
        let next = self
            .chain
            .iter()
            .copied()
            .find(|rec| rec.checkpoint > has && touches(k, rec.checkpoint));
        let early = config.is(Variant::ApplyEarly) && self.delta && has <= self.checkpoint();
        next.or_else(|| {
            let made = self.output(self.checkpoint() + 1);
            (early && touches(k, made.checkpoint)).then_some(made)
        })
    }

    /// The last checkpoint that every state has taken in.
    pub(crate) fn applied_through(&self) -> u8 {
        let lacks = |rec: &&crate::broker::Rec| {
            let n = rec.checkpoint;
            (0..2).any(|k| {
                touches(k, n) && self.dir.store[k].last().is_none_or(|last| last.checkpoint < n)
            })
        };
        self.chain.iter().find(lacks).map_or(self.checkpoint(), |rec| rec.checkpoint - 1)
    }

    /// C7: what the shipped rule, or a wrong one, lets go.
    pub(crate) fn deletable(&self, config: &Config) -> Vec<crate::state::At> {
        let dir = &self.dir;
        match config.variant {
            Some(Variant::DeleteEarly) => {
                let confirmed = shipped::confirmed(config, dir).map_or(0, |at| at.checkpoint);
                let passed = confirmed.min(dir.floor_checkpoint());
                dir.live().map(|file| file.at).filter(|at| at.checkpoint <= passed).collect()
            }
            Some(Variant::DeleteUnsynced) => shipped::deletable(config, dir, dir.meta),
            _ => shipped::deletable(config, dir, dir.durable_meta()),
        }
    }

    /// The output record of checkpoint `n`, the next one.
    pub(crate) fn output(&self, n: u8) -> crate::broker::Rec {
        crate::broker::Rec {
            checkpoint: n,
            offset: self.base.offset,
            nonce: self.nonce,
            ..crate::broker::Rec::default()
        }
    }
}
