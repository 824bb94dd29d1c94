//! R0 to R6 and X: the shipped recovery says what comes next, here it is done.

use millstream_checkpoint::{
    Effect, FenceAnswer, Halt, MAX_FAILED_TAKEOVERS, OwnerRecordEnd, Recovery, RecoveryPoint,
    TAKEOVER_SPELL,
};

use crate::action::Repair;
use crate::broker::{Answer, Msg, NOBODY, Rec};
use crate::configuration::{Config, Variant};
use crate::shipped;
use crate::state::{At, DeltaFile, MetaFile, MetaWrite, Place, Proc, State, touches};

impl State {
    /// R0, and the first look.
    pub(crate) fn start(&mut self, config: &Config, i: usize) {
        if i == 1 {
            self.budget.second -= 1;
        }
        let owner = self.new_id();
        let proc = &mut self.procs[i];
        if proc.dir.meta_write == MetaWrite::Torn {
            proc.end(Place::Stopped);
            return;
        }
        proc.owner = owner;
        // The shipped number of tries is counted to; a process that is given fewer begins with the rest spent.
        proc.failed = u8::try_from(MAX_FAILED_TAKEOVERS).unwrap() - config.tries;
        proc.seen = proc.dir.meta.and_then(|meta| meta.ledger_offset).unwrap_or(0);
        proc.place = Place::Look;
        self.look(config, i);
        if config.is(Variant::ResumeCommit) && self.procs[i].place == Place::Fence {
            let dir = self.procs[i].dir;
            let next = shipped::confirmed(config, &dir).map_or(0, |at| at.checkpoint) + 1;
            let file = dir.live().find(|file| file.at.checkpoint == next);
            if let Some((pid, epoch)) = file.and_then(|file| file.producer) {
                self.send(Msg::EndTxn { pid, epoch, tv2: true, commit: true, from: NOBODY });
            }
        }
    }

    /// R1.
    pub(crate) fn look(&mut self, config: &Config, i: usize) {
        self.forget_tries(config, i);
        let next = self.find(config, i, |recovery, findings| {
            let next = recovery.looked(findings);
            match next {
                Ok(Effect::Fence) if config.is(Variant::LookDecides) => {
                    recovery.clone().resolved(findings).map(|_| Effect::Fence)
                }
                next => next,
            }
        });
        let proc = &mut self.procs[i];
        let ignored = config.is(Variant::NoLook) && proc.dir.meta.is_some();
        proc.place = match next {
            Ok(Effect::Fence) => Place::Fence,
            Ok(Effect::WriteFirstMeta) => Place::FirstMeta,
            Ok(other) => panic!("not after a look: {other:?}"),
            Err(Halt::Stop(_)) if ignored => Place::Fence,
            Err(halt) => {
                proc.halt(config, &halt);
                return;
            }
        };
    }

    fn forget_tries(&mut self, config: &Config, i: usize) {
        let proc = &mut self.procs[i];
        if config.is(Variant::NeverGivesUp) {
            proc.failed = 0;
        }
        if config.is(Variant::NoOwnerCheck) {
            proc.newer_owner = false;
        }
    }

    pub(crate) fn first_meta(&mut self, config: &Config, i: usize) {
        let nonce = self.new_id();
        let position = self.input;
        let proc = &mut self.procs[i];
        if config.is(Variant::MetaAfterRecord) {
            proc.base = Rec { offset: position, nonce, ..Rec::default() };
            proc.place = Place::Fence;
            return;
        }
        proc.dir.meta =
            Some(MetaFile { at: At { checkpoint: 0, nonce }, position, ledger_offset: None });
        self.first.get_or_insert(position);
        let next = proc.recover(|recovery| recovery.first_meta_written());
        assert_eq!(next, Effect::Look);
        proc.place = Place::Look;
    }

    /// R2. `false`: still the markers of a transaction that has ended.
    pub(crate) fn fence(&mut self, config: &Config, i: usize) -> bool {
        let before = self.coordinator;
        let answer = self.coordinator.init_producer_id(&config.broker, self.tv2, None);
        if answer == Answer::Wait && self.coordinator == before {
            return false;
        }
        self.note_hurt(config, i, (before.pid, before.epoch));
        let (pid, epoch) = (self.coordinator.pid, self.coordinator.epoch);
        if answer == Answer::Ok {
            self.fences += u8::from(config.fences_max > 0);
            if config.is_near_limit(epoch) {
                return true;
            }
        }
        let proc = &mut self.procs[i];
        let answer = match answer {
            Answer::Ok => FenceAnswer::Done,
            // It met another's open transaction. That such answers last a spell is what makes tries countable.
            Answer::Wait => FenceAnswer::Concurrent { since_last: TAKEOVER_SPELL },
            Answer::Refused => FenceAnswer::Fenced,
        };
        match proc.recover(|recovery| recovery.fence_answered(answer)) {
            Effect::Read => {
                (proc.pid, proc.epoch) = (pid, epoch);
                proc.identity_tv2 = self.tv2;
                proc.place = Place::Read;
            }
            Effect::Look if config.is(Variant::NoRelook) => {}
            Effect::Look => proc.place = Place::Look,
            other => panic!("not after a fence: {other:?}"),
        }
        true
    }

    /// R3, R4, and R5 as far as `done`; `false` if there is nothing to repair.
    pub(crate) fn resolve(&mut self, config: &Config, i: usize, done: Repair) -> bool {
        self.forget_tries(config, i);
        let (pid, epoch, tv2) =
            (self.procs[i].pid, self.procs[i].epoch, self.procs[i].identity_tv2);
        let ledger = self.ledger_read(config, i);
        let next = self.find(config, i, Recovery::resolved);
        let proc = &mut self.procs[i];
        let point = match next {
            Ok(Effect::Repair(point)) => point,
            Ok(other) => panic!("not after a read: {other:?}"),
            Err(Halt::FirstMetaGone { .. }) if config.is(Variant::MetaAfterRecord) => {
                let base = proc.base;
                self.begin(config, i, (pid, epoch, tv2), base, None, true);
                return false;
            }
            Err(halt) => {
                proc.halt(config, &halt);
                return false;
            }
        };
        let (at, position, ledger_offset) = shipped::point_at(&point);
        shipped::cover(
            config,
            match ledger {
                None => "commit record 0",
                Some(_)
                    if shipped::confirmed(config, &proc.dir)
                        .is_some_and(|c| c.checkpoint < at.checkpoint) =>
                {
                    "confirm"
                }
                Some(_) => "resume",
            },
        );
        let base = ledger.map_or(Rec { nonce: at.nonce, ..Rec::default() }, |(rec, _)| rec);
        let base = Rec { offset: position, ..base };
        if let Err(halt) = proc.repair(config, &point, base, done) {
            proc.halt(config, &halt);
            proc.unrepaired = true;
            return false;
        }
        if done != Repair::Whole {
            return true;
        }
        let own = match proc.recover(|recovery| recovery.repaired(point)) {
            Effect::CommitOwnerRecord(_) => true,
            Effect::Run(_) => false,
            other => panic!("not after a repair: {other:?}"),
        };
        self.begin(config, i, (pid, epoch, tv2), base, ledger_offset, own);
        true
    }

    /// Whether one of the directories could go on if its process started now, alone.
    pub(crate) fn can_go_on(&self, config: &Config) -> bool {
        (0..self.procs.len()).any(|i| {
            let mut alone = *self;
            alone.procs[i] = Proc { place: Place::Read, dir: self.procs[i].dir, ..Proc::default() };
            let ledger = alone.ledger();
            let torn = alone.procs[i].dir.meta_write == MetaWrite::Torn;
            match alone.find(config, i, Recovery::resolved) {
                _ if torn => false,
                Ok(Effect::Repair(point)) => {
                    let (at, position, _) = shipped::point_at(&point);
                    let base =
                        ledger.map_or(Rec { nonce: at.nonce, ..Rec::default() }, |(rec, _)| rec);
                    let base = Rec { offset: position, ..base };
                    alone.procs[i].repair(config, &point, base, Repair::Whole).is_ok()
                }
                // Nothing exists anywhere yet.
                Err(Halt::FirstMetaGone { .. }) => true,
                _ => false,
            }
        })
    }

    /// The first transaction after a recovery.
    fn begin(
        &mut self,
        config: &Config,
        i: usize,
        (pid, epoch, identity_tv2): (u8, u8, bool),
        base: Rec,
        ledger_offset: Option<u8>,
        own: bool,
    ) {
        let nonce = self.new_id();
        let tv2 = self.tv2;
        let proc = &mut self.procs[i];
        proc.forget_attempt();
        proc.chain = proc.dir.store[0]
            .iter()
            .copied()
            .filter(|rec| rec.checkpoint <= base.checkpoint)
            .collect();
        proc.diverged = proc.is_diverged() || proc.checkpoint() != base.checkpoint;
        (proc.pid, proc.epoch, proc.identity_tv2) = (pid, epoch, identity_tv2);
        (proc.base, proc.ledger_offset, proc.own, proc.nonce) = (base, ledger_offset, own, nonce);
        proc.open_txn(config, tv2);
    }

    /// X, and the end of an owner record that was not committed: the ledger has to be asked.
    pub(crate) fn roll_back(&mut self, i: usize, end: OwnerRecordEnd) {
        let proc = &mut self.procs[i];
        let own = proc.own;
        // Background work is waited for.
        if let MetaWrite::Replacing(_) = proc.dir.meta_write {
            proc.dir.meta_write = MetaWrite::Settled;
        }
        let next = proc.recover(|recovery| {
            if own {
                recovery.owner_record_ended(end, shipped::some_point())
            } else {
                recovery.begin()
            }
        });
        assert_eq!(next, Effect::Look);
        proc.place = Place::Look;
        proc.forget_attempt();
    }
}

impl Proc {
    fn halt(&mut self, config: &Config, halt: &Halt) {
        shipped::cover_halt(config, halt);
        self.end(if matches!(halt, Halt::Fenced(_)) { Place::Fenced } else { Place::Stopped });
    }

    /// Whether the second state of the store is another history than the first.
    fn is_diverged(&self) -> bool {
        let expected = self.chain.iter().filter(|rec| touches(1, rec.checkpoint));
        !self.dir.store[1].iter().filter(|rec| rec.checkpoint <= self.checkpoint()).eq(expected)
    }

    /// R5 as far as `done`.
    fn repair(
        &mut self,
        config: &Config,
        point: &RecoveryPoint,
        base: Rec,
        done: Repair,
    ) -> Result<(), Halt> {
        let dir = &mut self.dir;
        dir.deltas.retain(|file| !shipped::is_dead(config, point, file));
        dir.sync_folder();
        let plan: Vec<DeltaFile> = if config.is(Variant::ReplayByNumber) {
            let from = dir.floor_checkpoint();
            let wanted = from + 1..=base.checkpoint;
            let find = |n| dir.live().find(|file| file.at.checkpoint == n).copied();
            wanted.filter_map(find).collect()
        } else {
            let plan = shipped::replay_plan(config, dir, point)?;
            plan.iter().filter_map(|at| shipped::file(config, dir, *at).copied()).collect()
        };
        if done == Repair::DeadPutAside {
            return Ok(());
        }
        let states = if done == Repair::OneStateReplayed { 1 } else { 2 };
        for k in 0..states {
            for file in &plan {
                let wanted = touches(k, file.at.checkpoint);
                if wanted && shipped::needs(config, dir, k, file) {
                    dir.store[k].push(Rec {
                        checkpoint: file.at.checkpoint,
                        offset: file.input,
                        nonce: file.at.nonce,
                        ..Rec::default()
                    });
                }
            }
        }
        if done == Repair::OneStateReplayed {
            return Ok(());
        }
        let at = At { checkpoint: base.checkpoint, nonce: base.nonce };
        if base.checkpoint > 0 {
            dir.floor = Some(at);
        }
        if done == Repair::Replayed {
            return Ok(());
        }
        if let Some(now) = dir.meta
            && let Some(written) = shipped::meta_after_repair(config, point, now)
        {
            if done == Repair::MetaRenamed {
                dir.meta_write = MetaWrite::Replacing(dir.meta);
            }
            dir.meta = Some(MetaFile { at, ..written });
        }
        Ok(())
    }
}
