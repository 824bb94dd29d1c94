//! One name for states that differ only in names: ids are counted by first appearance, epochs by their order, and what can
//! have no effect any more is left out.

use millstream_checkpoint::OwnershipPhase;

use crate::broker::{Id, Msg, NOBODY, Rec};
use crate::configuration::Config;
use crate::state::{Place, Proc, State};

impl State {
    pub(crate) fn canonical(mut self, config: &Config) -> Self {
        self.drop_dead_requests(config);
        for proc in &mut self.procs {
            if proc.phase == OwnershipPhase::Owner {
                // An owner never gives up, and never becomes a starter again.
                proc.failed = 0;
            }
            if matches!(proc.place, Place::Look | Place::FirstMeta | Place::Fence) {
                (proc.pid, proc.epoch, proc.identity_tv2) = (0, 0, false);
            }
        }
        if config.has_epochs() {
            self.count_epochs();
        }
        self.count_ids();
        self.net.sort_unstable();
        self
    }

    /// Requests that every later state refuses, and for whose answer nobody waits.
    fn drop_dead_requests(&mut self, config: &Config) {
        if !config.has_epochs() {
            return;
        }
        let (now, before) = (self.coordinator.epoch, *self);
        self.net.retain(|msg| match *msg {
            // An older one can only be answered as a repeat.
            Msg::EndTxn { epoch, .. } => epoch >= now || before.is_awaited(msg),
            Msg::AddPartitions { epoch, .. } => epoch >= now,
            Msg::Produce { partition, pid, epoch, .. } => {
                let known = before.leaders[usize::from(partition)].producer(pid);
                known.is_none_or(|known| known.epoch <= epoch)
            }
            Msg::InitProducerId => true,
        });
        // The answer comes to nobody, whoever sent it.
        for msg in self.net.iter_mut().filter(|msg| !before.is_awaited(msg)) {
            if let Msg::EndTxn { from, .. } = msg {
                *from = NOBODY;
            }
        }
    }

    /// Equal, next, before: nothing else is asked of two epochs.
    fn count_epochs(&mut self) {
        let mut known = [false; 256];
        self.each_epoch(|epoch: &mut u8| known[usize::from(*epoch)] = true);
        let mut names = [0_u8; 256];
        let (mut name, mut before) = (0_u8, None::<usize>);
        for (epoch, _) in known.iter().enumerate().filter(|(_, known)| **known) {
            if let Some(before) = before {
                name += u8::try_from((epoch - before).min(2)).unwrap_or(2);
            }
            names[epoch] = name;
            before = Some(epoch);
        }
        self.each_epoch(|epoch: &mut u8| *epoch = names[usize::from(*epoch)]);
    }

    fn each_epoch(&mut self, mut visit: impl FnMut(&mut u8)) {
        visit(&mut self.coordinator.epoch);
        for leader in &mut self.leaders {
            leader.producers.iter_mut().for_each(|known| visit(&mut known.epoch));
        }
        for msg in self.net.iter_mut() {
            match msg {
                Msg::Produce { epoch, .. }
                | Msg::EndTxn { epoch, .. }
                | Msg::AddPartitions { epoch, .. } => visit(epoch),
                Msg::InitProducerId => {}
            }
        }
        for proc in &mut self.procs {
            if matches!(proc.place, Place::Read | Place::Txn | Place::Ending | Place::Bump) {
                visit(&mut proc.epoch);
            }
            for file in proc.dir.deltas.iter_mut() {
                if let Some((_, epoch)) = &mut file.producer {
                    visit(epoch);
                }
            }
        }
    }

    fn count_ids(&mut self) {
        let mut names = [0_u8; 256];
        let mut count = 0;
        self.each_id(|id| {
            let name = &mut names[usize::from(*id)];
            if *id != 0 && *name == 0 {
                count += 1;
                *name = count;
            }
            *id = *name;
        });
        self.ids = count;
        for proc in &mut self.procs {
            proc.dir.deltas.sort_unstable_by_key(|file| (file.at.checkpoint, file.at.nonce));
        }
    }

    fn each_id(&mut self, mut visit: impl FnMut(&mut Id)) {
        fn rec(rec: &mut Rec, visit: &mut impl FnMut(&mut Id)) {
            visit(&mut rec.nonce);
            visit(&mut rec.parent);
            visit(&mut rec.owner);
        }
        for leader in &mut self.leaders {
            leader.log.iter_mut().for_each(|known| rec(known, &mut visit));
            leader.open.iter_mut().for_each(|(_, known)| rec(known, &mut visit));
        }
        for proc in &mut self.procs {
            let Proc { owner, nonce, base, chain, dir, .. } = proc;
            visit(owner);
            visit(nonce);
            rec(base, &mut visit);
            chain.iter_mut().for_each(|known| rec(known, &mut visit));
            for meta in dir.meta.iter_mut().chain(match &mut dir.meta_write {
                crate::state::MetaWrite::Replacing(old) => old.as_mut(),
                _ => None,
            }) {
                visit(&mut meta.at.nonce);
            }
            for store in &mut dir.store {
                store.iter_mut().for_each(|known| rec(known, &mut visit));
            }
            if let Some(floor) = &mut dir.floor {
                visit(&mut floor.nonce);
            }
            for file in dir.deltas.iter_mut() {
                visit(&mut file.at.nonce);
                visit(&mut file.parent);
            }
        }
        for msg in self.net.iter_mut() {
            if let Msg::Produce { rec: sent, .. } = msg {
                rec(sent, &mut visit);
            }
        }
    }
}
