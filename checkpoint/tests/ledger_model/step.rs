//! What each event does. What belongs to recovery is in `recover`.

use millstream_checkpoint::{Effect, OwnerRecordEnd, OwnershipPhase};

use crate::action::{Action, Loss, Pace, Repair, next_partition};
use crate::broker::{Answer, Msg, NOBODY, Rec};
use crate::configuration::{Config, Variant};
use crate::shipped;
use crate::state::{At, COPY_WHOLE, DeltaFile, Dir, MetaFile, MetaWrite, Place, Proc, State};

impl State {
    /// The state after `action`, `None` if it can not happen now.
    pub(crate) fn after(mut self, config: &Config, action: Action) -> Option<Self> {
        match action {
            Action::Start(i) => self.start(config, i),
            Action::Look(i) => self.look(config, i),
            Action::FirstMeta(i) => self.first_meta(config, i),
            Action::Fence { i, copy } => {
                if copy {
                    self.budget.late_init -= 1;
                    self.send(Msg::InitProducerId);
                }
                return self.fence(config, i).then_some(self);
            }
            Action::Resolve(i) => {
                self.resolve(config, i, Repair::Whole);
            }
            Action::CrashInRepair { i, done, loss } => {
                self.resolve(config, i, done);
                self.crash(config, i, loss);
            }
            Action::Send(i, pace) => return self.write(config, i, pace).then_some(self),
            Action::WriteDelta(i) => self.write_delta(config, i),
            Action::EndTxn(i) => self.end_txn(i),
            Action::Resend(i) => {
                self.budget.resend -= 1;
                self.end_txn(i);
            }
            Action::GiveUp(i) => {
                self.budget.give_up -= 1;
                self.roll_back(i, OwnerRecordEnd::Unknown);
            }
            Action::VoteNo(i) => self.vote_no(config, i),
            Action::Bump(i) => return self.bump(config, i).then_some(self),
            Action::Deliver { msg, answered } => {
                return self.deliver(config, msg, answered).then_some(self);
            }
            Action::Marker => self.marker(),
            Action::Timeout => {
                self.budget.timeout -= 1;
                self.coordinator.fence(&config.broker, self.tv2);
            }
            Action::Failover => {
                self.budget.failover -= 1;
                self.coordinator.previous_pid = None;
            }
            Action::Forget(at) => {
                self.budget.forget -= 1;
                self.leaders[at].producers.clear();
            }
            Action::Level => {
                self.budget.level -= 1;
                self.tv2 = !self.tv2;
            }
            Action::Compact => {
                self.budget.compact -= 1;
                self.compacted = self.ledger_len() - 1;
            }
            Action::Input => {
                self.budget.input -= 1;
                self.input += 1;
            }
            Action::Copy(part) => self.copy(part),
            Action::Crash(i, loss) => self.crash(config, i, loss),
            Action::WriteMeta(i) => self.write_meta(i),
            Action::SyncMeta(i) => self.procs[i].dir.meta_write = MetaWrite::Settled,
            Action::Apply(i, k) => {
                let proc = &mut self.procs[i];
                if let Some(change) = proc.next_change(config, k) {
                    proc.dir.store[k].push(change);
                }
            }
            Action::Persist(i) => {
                let proc = &mut self.procs[i];
                let through = proc.applied_through();
                let last = proc.chain.iter().find(|rec| rec.checkpoint == through);
                proc.dir.floor = last.map(|rec| At { checkpoint: through, nonce: rec.nonce });
            }
            Action::Delete(i) => {
                let proc = &mut self.procs[i];
                let gone = proc.deletable(config);
                for file in proc.dir.deltas.iter_mut() {
                    file.unlinked |= gone.contains(&file.at);
                }
            }
        }
        Some(self)
    }

    // ------------------------------------------------------------------------------- a transaction

    /// C3 a and c, and the owner record.
    fn write(&mut self, config: &Config, i: usize, pace: Pace) -> bool {
        let proc = self.procs[i];
        let Some(partition) = next_partition(config, &proc) else { return false };
        let at = usize::from(partition);
        let id = (proc.pid, proc.epoch);
        let (tv2, sequence) = (proc.txn_tv2, proc.sequence[at]);
        let rec = match (partition, proc.own) {
            // These know another ledger than the shipped rule would look at.
            (0, true)
                if config.is(Variant::MetaAfterRecord)
                    || config.is(Variant::NumbersOnly)
                    || config.is(Variant::ReadBeforeFence) =>
            {
                Rec { owner: proc.owner, ..proc.base }
            }
            (0, true) => match self.owner_record(config, i) {
                Some(rec) => rec,
                None => panic!("no owner record"),
            },
            (0, false) => Rec {
                checkpoint: proc.checkpoint() + 1,
                offset: proc.base.offset + 1,
                nonce: proc.nonce,
                parent: proc.base.nonce,
                owner: proc.owner,
            },
            _ => proc.output(proc.checkpoint() + 1),
        };
        let mut answer = Answer::Ok;
        if !tv2 {
            answer = self.coordinator.add_partition(id.0, id.1, partition);
            if pace == Pace::LateAdd {
                self.budget.late_add -= 1;
                self.send(Msg::AddPartitions { pid: id.0, epoch: id.1, partition });
            }
        }
        if answer == Answer::Ok {
            if pace == Pace::Later {
                self.budget.delay -= 1;
                self.send(Msg::Produce { partition, pid: id.0, epoch: id.1, tv2, sequence, rec });
                return true;
            }
            answer = self.produce(&config.broker, tv2, id, sequence, partition, rec);
        }
        match answer {
            Answer::Wait => return false,
            Answer::Ok => {
                self.procs[i].acked |= 1 << partition;
                self.procs[i].sequence[at] += 1;
            }
            Answer::Refused => self.roll_back(i, OwnerRecordEnd::Lost),
        }
        true
    }

    /// C3 b.
    fn write_delta(&mut self, config: &Config, i: usize) {
        let proc = &mut self.procs[i];
        let out = proc.output(proc.checkpoint() + 1);
        let synced = !config.is(Variant::UnsyncedDelta);
        let producer = config.is(Variant::ResumeCommit).then_some((proc.pid, proc.epoch));
        proc.dir.deltas.push(DeltaFile {
            at: At { checkpoint: out.checkpoint, nonce: out.nonce },
            parent: proc.base.nonce,
            input: out.offset,
            synced,
            unlinked: false,
            producer,
        });
        if synced {
            proc.dir.sync_folder();
        }
        proc.delta = true;
    }

    /// C5.
    fn end_txn(&mut self, i: usize) {
        let proc = &mut self.procs[i];
        if proc.own {
            proc.recover(|recovery| recovery.owner_record_sent());
        }
        proc.place = Place::Ending;
        let (pid, epoch, tv2) = (proc.pid, proc.epoch, proc.txn_tv2);
        let from = u8::try_from(i).unwrap_or(NOBODY);
        self.send(Msg::EndTxn { pid, epoch, tv2, commit: true, from });
    }

    /// X by a local cause.
    fn vote_no(&mut self, config: &Config, i: usize) {
        self.budget.vote_no -= 1;
        let Proc { pid, epoch, txn_tv2: tv2, .. } = self.procs[i];
        if config.is(Variant::AbortFirst) {
            self.send(Msg::EndTxn { pid, epoch, tv2, commit: false, from: NOBODY });
        }
        if config.is(Variant::RollbackUnread) {
            let nonce = self.new_id();
            let proc = &mut self.procs[i];
            let confirmed = proc.checkpoint();
            proc.dir.deltas.retain(|file| file.at.checkpoint <= confirmed);
            (proc.place, proc.nonce, proc.acked, proc.delta) = (Place::Bump, nonce, 0, false);
            return;
        }
        self.roll_back(i, OwnerRecordEnd::Lost);
    }

    /// The commit is known; C6 follows at once, or after the next epoch is taken.
    fn commit_answered(&mut self, config: &Config, i: usize) {
        let coordinator = self.coordinator;
        let level = self.tv2;
        let proc = &mut self.procs[i];
        let tv2 = proc.txn_tv2 || (config.is(Variant::SwitchAtOnce) && level);
        if proc.txn_tv2 {
            (proc.pid, proc.epoch) =
                coordinator.next_pid.map_or((coordinator.pid, coordinator.epoch), |next| (next, 0));
            proc.identity_tv2 = true;
            proc.sequence = [0; 3];
        }
        let left_out = if proc.own { Variant::NoBumpAfterOwn } else { Variant::NoBump };
        if config.is_near_limit(proc.epoch) || (!tv2 && !config.is(left_out)) {
            proc.place = Place::Bump;
        } else {
            self.confirm(config, i);
        }
    }

    /// C6: InitProducerId with the current id and epoch. `false`: markers are still being written.
    fn bump(&mut self, config: &Config, i: usize) -> bool {
        let before = self.coordinator;
        let expected = (self.procs[i].pid, self.procs[i].epoch);
        let unnamed = config.is(Variant::BumpUnnamed) || config.is(Variant::RollbackUnread);
        let expected = (!unnamed).then_some(expected);
        let answer = self.coordinator.init_producer_id(&config.broker, self.tv2, expected);
        if answer == Answer::Wait && self.coordinator == before {
            return false;
        }
        self.note_hurt(config, i, (before.pid, before.epoch));
        match answer {
            Answer::Ok => {
                let (pid, epoch) = (self.coordinator.pid, self.coordinator.epoch);
                let proc = &mut self.procs[i];
                (proc.pid, proc.epoch, proc.sequence) = (pid, epoch, [0; 3]);
                proc.identity_tv2 = self.tv2;
                if !config.is_near_limit(epoch) {
                    self.confirm(config, i);
                }
            }
            // It met another's transaction, or a newer producer.
            Answer::Wait | Answer::Refused => self.roll_back(i, OwnerRecordEnd::Lost),
        }
        true
    }

    /// C6, and the end of R6.
    fn confirm(&mut self, config: &Config, i: usize) {
        let level = self.tv2;
        if config.is(Variant::RollbackUnread) && self.procs[i].acked == 0 {
            // It went on from memory: there was no commit.
            let proc = &mut self.procs[i];
            proc.place = Place::Txn;
            proc.open_txn(config, level);
            return;
        }
        let proc = &self.procs[i];
        let written = |rec: &Rec| {
            rec.owner == proc.owner && rec.checkpoint == proc.checkpoint() + u8::from(!proc.own)
        };
        let found = self.leaders[0].log.iter().rposition(written);
        let offset = found.and_then(|at| u8::try_from(at).ok()).unwrap_or(self.ledger_len());
        let proc = &mut self.procs[i];
        proc.seen = offset + 1;
        if proc.own {
            let point = shipped::some_point();
            let next = proc
                .recover(|recovery| recovery.owner_record_ended(OwnerRecordEnd::Committed, point));
            assert!(matches!(next, Effect::Run(_)), "not after an owner record: {next:?}");
            if proc.dir.meta.is_none() {
                let at = At { checkpoint: 0, nonce: proc.base.nonce };
                let position = proc.base.offset;
                proc.dir.meta = Some(MetaFile { at, position, ledger_offset: Some(offset) });
            }
        } else {
            let out = proc.output(proc.checkpoint() + 1);
            proc.chain.push(out);
            proc.base = Rec {
                checkpoint: out.checkpoint,
                offset: out.offset + 1,
                nonce: out.nonce,
                parent: proc.base.nonce,
                owner: proc.owner,
            };
            proc.ledger_offset = Some(offset);
        }
        (proc.own, proc.delta, proc.acked) = (false, false, 0);
        proc.open_txn(config, level);
    }

    // ------------------------------------------------------------------------------- brokers

    fn deliver(&mut self, config: &Config, msg: Msg, answered: bool) -> bool {
        let Some(at) = self.net.iter().position(|known| *known == msg) else { return false };
        self.net.remove(at);
        let rules = &config.broker;
        match msg {
            Msg::Produce { partition, pid, epoch, tv2, sequence, rec } => {
                self.produce(rules, tv2, (pid, epoch), sequence, partition, rec) != Answer::Wait
            }
            Msg::AddPartitions { pid, epoch, partition } => {
                self.coordinator.add_partition(pid, epoch, partition) != Answer::Wait
            }
            Msg::InitProducerId => {
                // Nobody waits for its answer.
                let tv2 = self.tv2;
                self.coordinator.init_producer_id(rules, tv2, None);
                true
            }
            Msg::EndTxn { pid, epoch, tv2, commit, from } => {
                let waits = self.is_awaited(&msg);
                let answer = self.coordinator.end_txn(rules, tv2, (pid, epoch), commit);
                if answer == Answer::Wait {
                    return false;
                }
                if !answered {
                    self.budget.lost -= 1;
                    return true;
                }
                let i = usize::from(from);
                match answer {
                    Answer::Ok if waits => self.commit_answered(config, i),
                    Answer::Refused if waits => self.roll_back(i, OwnerRecordEnd::Lost),
                    _ => {}
                }
                true
            }
        }
    }

    fn marker(&mut self) {
        let coordinator = self.coordinator;
        let partition = coordinator.partitions.trailing_zeros();
        if partition < 8 {
            self.coordinator.partitions &= !(1 << partition);
            let commit = coordinator.txn == crate::broker::Txn::PrepareCommit;
            let at = usize::try_from(partition).unwrap_or(0);
            self.leaders[at].marker(coordinator.pid, coordinator.epoch, commit);
        }
        if self.coordinator.partitions == 0 {
            self.coordinator.complete();
        }
    }

    pub(crate) fn note_hurt(&mut self, config: &Config, i: usize, before: (u8, u8)) {
        let now = (self.coordinator.pid, self.coordinator.epoch);
        if !config.strict || before == now {
            return;
        }
        let healthy = |proc: &Proc| {
            proc.phase == OwnershipPhase::Owner
                && matches!(proc.place, Place::Txn | Place::Ending | Place::Bump)
                && (proc.pid, proc.epoch) == before
        };
        if self.procs.iter().enumerate().any(|(j, proc)| j != i && healthy(proc)) {
            self.procs[i].hurt = true;
        }
    }

    // ------------------------------------------------------------------------------- disk

    fn write_meta(&mut self, i: usize) {
        let proc = &mut self.procs[i];
        let at = At { checkpoint: proc.base.checkpoint, nonce: proc.base.nonce };
        let new = MetaFile { at, position: proc.base.offset, ledger_offset: proc.ledger_offset };
        proc.dir.meta_write = MetaWrite::Replacing(proc.dir.meta.replace(new));
    }

    fn crash(&mut self, config: &Config, i: usize, loss: Loss) {
        self.budget.crash -= 1;
        let proc = &mut self.procs[i];
        proc.dir.lose(config, loss);
        proc.end(Place::Down);
    }

    /// The second directory gets a part of the first.
    fn copy(&mut self, part: u8) {
        self.budget.copy &= !part;
        let from = self.procs[0].dir;
        let to = &mut self.procs[1].dir;
        if part == COPY_WHOLE || part == 1 {
            to.meta = from.meta;
        }
        if part == COPY_WHOLE || part == 2 {
            to.deltas = from.live().copied().collect();
        }
        if part == COPY_WHOLE || part == 4 {
            (to.store, to.floor) = (from.store, from.floor);
        }
    }
}

impl Proc {
    /// Takes the rules of the next transaction.
    pub(crate) fn open_txn(&mut self, config: &Config, level: bool) {
        self.place = Place::Txn;
        let switched = config.is(Variant::SwitchAtOnce) && level;
        self.txn_tv2 = (self.identity_tv2 && level) || switched;
    }
}

impl Dir {
    fn lose(&mut self, config: &Config, loss: Loss) {
        match loss {
            Loss::Kill => {
                self.sync_folder();
                self.meta_write = MetaWrite::Settled;
            }
            Loss::Power { back, old_meta, kept } => {
                self.deltas.retain(|file| file.synced);
                let mut unlinked = 0;
                self.deltas.retain(|file| {
                    let stays = !file.unlinked || back & (1 << unlinked) != 0;
                    unlinked += u8::from(file.unlinked);
                    stays
                });
                self.deltas.iter_mut().for_each(|file| file.unlinked = false);
                for (store, kept) in self.store.iter_mut().zip(kept) {
                    store.truncate(kept.into());
                }
                let writing = self.meta_write;
                self.meta_write = MetaWrite::Settled;
                if let (MetaWrite::Replacing(old), true) = (writing, old_meta) {
                    self.meta = old;
                    if config.is(Variant::MetaInPlace) {
                        self.meta_write = MetaWrite::Torn;
                    }
                }
            }
        }
    }
}
