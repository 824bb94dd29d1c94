//! The state of the model: brokers, processes, their directories, and what may still go wrong.

use millstream_checkpoint::OwnershipPhase;

use crate::broker::{Answer, BrokerRules, Coordinator, Id, Leader, Msg, Rec};
use crate::few::Few;

/// Checkpoints reached, by number and nonce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct At {
    pub(crate) checkpoint: u8,
    pub(crate) nonce: Id,
}

/// META.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct MetaFile {
    pub(crate) at: At,
    /// Position of the only source.
    pub(crate) position: u8,
    pub(crate) ledger_offset: Option<u8>,
}

/// A delta file: checkpoint `at` was made from input `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct DeltaFile {
    pub(crate) at: At,
    pub(crate) parent: Id,
    pub(crate) input: u8,
    pub(crate) synced: bool,
    /// Unlinked, its folder not yet synced.
    pub(crate) unlinked: bool,
    /// Producer id and epoch, for R1a only.
    pub(crate) producer: Option<(u8, u8)>,
}

/// What power loss may leave of META while it is being replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum MetaWrite {
    /// Nothing is under way.
    #[default]
    Settled,
    /// Renamed, the folder is not synced: power loss leaves this one or the new one.
    Replacing(Option<MetaFile>),
    /// Half of each, by a crash of the variant that writes in place.
    Torn,
}

/// A state directory: on disk, if its process is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Dir {
    pub(crate) meta: Option<MetaFile>,
    pub(crate) meta_write: MetaWrite,
    pub(crate) deltas: Few<DeltaFile, 8>,
    /// Two states of the store: the changes that each has taken in. The second changes at odd checkpoints only.
    pub(crate) store: [Few<Rec, 4>; 2],
    /// The store has persisted all changes up to here; what is above may be lost with the power.
    pub(crate) floor: Option<At>,
}

/// Whether checkpoint `n` changes state `k` of the store.
pub(crate) fn touches(k: usize, n: u8) -> bool {
    k == 0 || n % 2 == 1
}

impl Dir {
    pub(crate) fn live(&self) -> impl Iterator<Item = &DeltaFile> {
        self.deltas.iter().filter(|delta| !delta.unlinked)
    }

    pub(crate) fn sync_folder(&mut self) {
        self.deltas.retain(|delta| !delta.unlinked);
    }

    pub(crate) fn floor_checkpoint(&self) -> u8 {
        self.floor.map_or(0, |floor| floor.checkpoint)
    }

    /// META as the running process knows it to be durable.
    pub(crate) fn durable_meta(&self) -> Option<MetaFile> {
        match self.meta_write {
            MetaWrite::Replacing(old) => old,
            MetaWrite::Settled | MetaWrite::Torn => self.meta,
        }
    }
}

/// Where a process is. All but the first three are busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    #[default]
    Down,
    /// Ended with a `StopReason`.
    Stopped,
    /// Ended with `FENCED`.
    Fenced,
    Look,
    FirstMeta,
    Fence,
    Read,
    /// Writing an owner record or a checkpoint.
    Txn,
    Ending,
    /// The commit is known, the next epoch has to be taken first (C6).
    Bump,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proc {
    pub(crate) place: Place,
    pub(crate) dir: Dir,
    // What `Recovery` holds. In the model an answer of the coordinator that counts lasts a whole spell, so there is none.
    pub(crate) owner: Id,
    pub(crate) phase: OwnershipPhase,
    pub(crate) newer_owner: bool,
    pub(crate) failed: u8,
    /// Nonce of the attempt.
    pub(crate) nonce: Id,
    pub(crate) pid: u8,
    pub(crate) epoch: u8,
    /// Rules under which the identity was given, and those of the open transaction.
    pub(crate) identity_tv2: bool,
    pub(crate) txn_tv2: bool,
    pub(crate) sequence: [u8; 3],
    /// Confirmed state.
    pub(crate) chain: Few<Rec, 4>,
    /// The ledger record of the confirmed checkpoint, or record 0 made from META.
    pub(crate) base: Rec,
    /// Offset of that record.
    pub(crate) ledger_offset: Option<u8>,
    /// Of the open transaction: partitions acknowledged, delta written, owner record or checkpoint.
    pub(crate) acked: u8,
    pub(crate) delta: bool,
    pub(crate) own: bool,
    /// Ledger records read or written so far.
    pub(crate) seen: u8,
    /// The two states of the store contradict each other.
    pub(crate) diverged: bool,
    /// It stopped in R5, after R4 had said to go on.
    pub(crate) unrepaired: bool,
    /// It fenced a healthy owner; kept only where a property asks.
    pub(crate) hurt: bool,
}

impl Default for Proc {
    fn default() -> Self {
        Self {
            place: Place::Down,
            dir: Dir::default(),
            owner: 0,
            phase: OwnershipPhase::Starter,
            newer_owner: false,
            failed: 0,
            nonce: 0,
            pid: 0,
            epoch: 0,
            identity_tv2: false,
            txn_tv2: false,
            sequence: [0; 3],
            chain: Few::default(),
            base: Rec::default(),
            ledger_offset: None,
            acked: 0,
            delta: false,
            own: false,
            seen: 0,
            diverged: false,
            unrepaired: false,
            hurt: false,
        }
    }
}

impl Proc {
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.place, Place::Down | Place::Stopped | Place::Fenced)
    }

    pub(crate) fn checkpoint(&self) -> u8 {
        u8::try_from(self.chain.len()).unwrap_or(u8::MAX)
    }

    /// Forgets what only a running attempt knows.
    pub(crate) fn forget_attempt(&mut self) {
        *self = Self {
            place: self.place,
            dir: self.dir,
            owner: self.owner,
            phase: self.phase,
            newer_owner: self.newer_owner,
            failed: self.failed,
            seen: self.seen,
            hurt: self.hurt,
            // The record of a first start that has no META yet (a wrong variant).
            base: if self.dir.meta.is_none() { self.base } else { Rec::default() },
            ..Self::default()
        };
    }

    /// The process is gone; its directory stays. `last_words`: who it was still matters.
    pub(crate) fn end(&mut self, place: Place) {
        let owner = if place == Place::Fenced { self.owner } else { 0 };
        *self = Self { place, owner, dir: self.dir, hurt: self.hurt, ..Self::default() };
    }
}

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Process kill or power loss.
    pub(crate) crash: u8,
    /// transaction.timeout.ms passes in the middle of a transaction.
    pub(crate) timeout: u8,
    /// A Produce is delayed and repeated.
    pub(crate) delay: u8,
    /// An AddPartitionsToTxn is delayed and repeated.
    pub(crate) late_add: u8,
    /// An answer to EndTxn is lost.
    pub(crate) lost: u8,
    /// EndTxn is sent again.
    pub(crate) resend: u8,
    /// No answer to EndTxn within the limit.
    pub(crate) give_up: u8,
    /// A vote that fails: disk full, a batch not acknowledged.
    pub(crate) vote_no: u8,
    /// New input; without it there is always more.
    pub(crate) input: u8,
    /// A copy of InitProducerId is delayed.
    pub(crate) late_init: u8,
    /// The coordinator fails over and forgets the producer id before the current one.
    pub(crate) failover: u8,
    /// A leader forgets its producers (producer.id.expiration.ms).
    pub(crate) forget: u8,
    /// transaction.version changes.
    pub(crate) level: u8,
    /// The ledger is compacted.
    pub(crate) compact: u8,
    /// Parts of the directory that are still to be copied, as bits: META, deltas, store; or 8 for all at one moment.
    pub(crate) copy: u8,
    /// Starts of the second process.
    pub(crate) second: u8,
}

/// All three parts of a directory, each copied at a moment of its own.
pub(crate) const COPY_PARTS: u8 = 0b111;
/// The directory is copied at one moment.
pub(crate) const COPY_WHOLE: u8 = 0b1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) coordinator: Coordinator,
    /// The finalized transaction.version is 2.
    pub(crate) tv2: bool,
    pub(crate) leaders: [Leader; 3],
    pub(crate) net: Few<Msg, 10>,
    pub(crate) procs: [Proc; 2],
    pub(crate) budget: Budget,
    /// Ids given so far.
    pub(crate) ids: u8,
    /// Successful InitProducerIds of R2, counted only where they are bounded.
    pub(crate) fences: u8,
    pub(crate) input: u8,
    /// Position of the first META that became durable.
    pub(crate) first: Option<u8>,
    /// Records at the beginning of the ledger that compaction removed.
    pub(crate) compacted: u8,
}

impl State {
    pub(crate) fn new_id(&mut self) -> Id {
        self.ids += 1;
        self.ids
    }

    /// The ledger's last committed record, and its offset.
    pub(crate) fn ledger(&self) -> Option<(Rec, u8)> {
        let log = &self.leaders[0].log;
        Some((*log.last()?, u8::try_from(log.len() - 1).ok()?))
    }

    pub(crate) fn ledger_len(&self) -> u8 {
        u8::try_from(self.leaders[0].log.len()).unwrap_or(u8::MAX)
    }

    /// Whether a process waits for the answer.
    pub(crate) fn is_awaited(&self, msg: &Msg) -> bool {
        let Msg::EndTxn { pid, epoch, from, .. } = *msg else { return false };
        self.procs.get(usize::from(from)).is_some_and(|proc| {
            proc.place == Place::Ending && (proc.pid, proc.epoch) == (pid, epoch)
        })
    }

    pub(crate) fn send(&mut self, msg: Msg) {
        self.net.push(msg);
    }

    /// Produce at the leader of a partition, verified where the brokers do.
    pub(crate) fn produce(
        &mut self,
        rules: &BrokerRules,
        tv2: bool,
        (pid, epoch): (u8, u8),
        sequence: u8,
        partition: u8,
        rec: Rec,
    ) -> Answer {
        let at = usize::from(partition);
        if !self.leaders[at].is_open(pid, epoch) && (tv2 || rules.verify) {
            let coordinator = &mut self.coordinator;
            if (pid, epoch) != (coordinator.pid, coordinator.epoch) || coordinator.stuck {
                return Answer::Refused;
            }
            if coordinator.is_preparing() {
                return Answer::Wait;
            }
            let is_part = coordinator.txn == crate::broker::Txn::Ongoing
                && coordinator.partitions & (1 << partition) != 0;
            if tv2 {
                coordinator.add_partition(pid, epoch, partition);
            } else if !is_part {
                return Answer::Refused;
            }
        }
        self.leaders[at].append(pid, epoch, sequence, rec)
    }

    /// The checkpoints on the ledger as output records, `None` if they are no chain.
    pub(crate) fn committed(&self) -> Option<Few<Rec, 4>> {
        let mut outputs = Few::default();
        let mut current: Option<Rec> = None;
        for rec in self.leaders[0].log.iter() {
            match current {
                None if rec.checkpoint == 0 => {}
                Some(now) if Rec { owner: rec.owner, ..now } == *rec => {}
                Some(now)
                    if now.checkpoint + 1 == rec.checkpoint
                        && now.offset + 1 == rec.offset
                        && now.nonce == rec.parent =>
                {
                    outputs.push(Rec { parent: 0, owner: 0, offset: now.offset, ..*rec });
                }
                _ => return None,
            }
            current = Some(*rec);
        }
        Some(outputs)
    }
}
