//! What is checked: bounds, faults, and at most one rule that is left out.

use crate::broker::BrokerRules;
use crate::state::Budget;

/// A rule that is broken or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// R1 is left out.
    NoLook,
    /// R1 uses the whole table of R4 on the last stable offset.
    LookDecides,
    /// R3 reads before R2.
    ReadBeforeFence,
    /// InitProducerId is repeated without a look.
    NoRelook,
    /// Who meets a newer owner goes on.
    NoOwnerCheck,
    /// A starter that is fenced again and again goes on.
    NeverGivesUp,
    /// X takes a new epoch and goes on from memory.
    RollbackUnread,
    /// TV1: no InitProducerId after a checkpoint's commit.
    NoBump,
    /// TV1: none after the owner record's commit.
    NoBumpAfterOwn,
    /// TV1: InitProducerId(-1, -1) in C6.
    BumpUnnamed,
    /// A change to TV2 counts for a transaction that began under TV1.
    SwitchAtOnce,
    /// X sends EndTxn(abort) first.
    AbortFirst,
    /// A delta is deleted when store and any file that names it confirmed have passed it.
    DeleteEarly,
    /// A delta is deleted before META's folder is synced.
    DeleteUnsynced,
    /// DELTA is not synced before EndTxn.
    UnsyncedDelta,
    /// META is written in place.
    MetaInPlace,
    /// META of checkpoint 0 is written after record 0.
    MetaAfterRecord,
    /// Changes go into the store before their commit is known.
    ApplyEarly,
    /// Deltas are replayed by number, whatever their nonce and that of the store.
    ReplayByNumber,
    /// Attempts are told apart by number alone.
    NumbersOnly,
    /// The ledger is read from META's offset, and if compaction removed that record it counts as empty.
    ReadAtOffset,
    /// R1a: EndTxn(commit) with the saved id and epoch before the fence.
    ResumeCommit,
    /// No producer id is changed before its epochs run out.
    CrossLimit,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) broker: BrokerRules,
    pub(crate) tv2: bool,
    /// Checkpoints to commit.
    pub(crate) checkpoints: u8,
    /// Output partitions, 1 or 2; even checkpoints write to the first only.
    pub(crate) outputs: usize,
    pub(crate) two_processes: bool,
    /// META, deltas, store and folders are synced at moments of their own; a crash is a kill or a power loss.
    pub(crate) durability: bool,
    /// The delta is written while records are on their way (C3).
    pub(crate) parallel: bool,
    pub(crate) budget: Budget,
    /// Successful fences that are allowed; 0: they are not counted.
    pub(crate) fences_max: u8,
    /// Failed tries after which a starter gives up, at most the shipped number.
    pub(crate) tries: u8,
    /// Checks that a starter that stops has fenced no healthy owner.
    pub(crate) strict: bool,
    pub(crate) variant: Option<Variant>,
}

impl Config {
    pub(crate) fn is(&self, variant: Variant) -> bool {
        self.variant == Some(variant)
    }

    /// Near the last epoch InitProducerId is repeated until the producer id changes.
    pub(crate) fn is_near_limit(&self, epoch: u8) -> bool {
        !self.is(Variant::CrossLimit) && epoch + 1 >= self.broker.epoch_max
    }

    /// Epochs never run out, so only their order matters.
    pub(crate) fn has_epochs(&self) -> bool {
        self.broker.epoch_max == EPOCHS
    }

    pub(crate) fn partitions(&self, checkpoint: u8) -> u8 {
        if self.outputs == 2 && checkpoint % 2 == 1 { 0b110 } else { 0b010 }
    }
}

/// More than any configuration uses.
pub(crate) const EPOCHS: u8 = 200;

/// What is expected of a configuration.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) config: Config,
    /// The property that is violated, first of all; `None` for a clean one.
    pub(crate) violates: Option<&'static str>,
    /// Too large for every run of CI.
    pub(crate) long: bool,
}
