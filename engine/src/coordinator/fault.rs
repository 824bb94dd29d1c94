//! Named crash points, failing disks and wrong variants of the protocol, for tests. Without the feature `fault-injection` every
//! call here is empty, so the shipped binary has none of it.

/// A rule of the protocol that is left out, to show that a test notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The ledger is read before the fence: an EndTxn that is still under way lands after the decision.
    ReadBeforeFence,
    /// Every process writes under a transactional id of its own: taking one ends no transaction of the process before, and stops
    /// nobody from committing.
    NoFence,
    /// State is applied to the store before the commit is known.
    ApplyBeforeCommit,
    /// The ledger record is written in a transaction of its own, after the outputs'.
    LedgerOutsideTransaction,
    /// Confirmed delta files are not brought into the store before the job goes on.
    NoReplay,
    /// Neighbours of one key change places between two workers.
    ExchangeOutOfOrder,
    /// META is not written when the job ends.
    NoMetaAtEnd,
    /// A record is written behind the last checkpoint, in a transaction that nobody ends.
    WriteAfterLastCommit,
    /// A job that was rolled back does not go on.
    StuckAfterRollback,
    /// A savepoint has the state of one checkpoint and the positions of the one before.
    SavepointOfTwoCheckpoints,
    /// One state of a savepoint is not restored.
    RestoreLeavesOneOut,
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// A place at which a test may let the process die, in the order in which a process comes by. The letters are those of
        /// the commit protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Step {
            $($(#[$doc])* $name,)+
        }

        #[cfg(feature = "fault-injection")]
        impl Step {
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];
        }
    };
}

steps! {
    /// R0: the state directory is locked and read.
    Locked,
    /// The ledger topic is there.
    LedgerOpened,
    /// S: META of checkpoint 0 is durable, nothing else has happened.
    FirstMeta,
    /// R1: the look has not stopped us; InitProducerId is next.
    Looked,
    /// R2 is done.
    Fenced,
    /// R3: the ledger is read up to its high watermark.
    Resolved,
    /// R4 is done.
    Decided,
    /// R5: deltas of dead attempts are put aside.
    Quarantined,
    /// R5: the store stands where the ledger does.
    Replayed,
    /// R5 is done, META included.
    Repaired,
    /// R6: the owner record is acknowledged, EndTxn is about to be sent.
    OwnerVoted,
    /// R6: it is committed; below `transaction.version` 2 the epoch is still the old one.
    OwnerCommitted,
    /// R6 is done.
    Owned,
    /// C1: the barrier is about to be sent to all sources.
    Triggered,
    /// C2: all workers have sealed a checkpoint.
    Sealed,
    /// C3a and C3b: output acknowledged, delta file durable, no ledger record yet.
    DeltaWritten,
    /// C3c: the ledger record is on its way.
    LedgerAppended,
    /// C4: everything is acknowledged, EndTxn is about to be sent.
    Voted,
    /// C5: the commit is known; below `transaction.version` 2 the epoch is still the old one.
    Committed,
    /// C6: the epoch is a new one.
    Bumped,
    /// C6: the checkpoint is confirmed in memory.
    Confirmed,
    /// C7: the changes are in the store.
    Applied,
    /// C7: the store is durable.
    StorePersisted,
    /// C7: META names the checkpoint.
    MetaWritten,
    /// C7: deltas that nothing needs any more are gone.
    Deleted,
    /// X: an attempt has failed, its workers are gone.
    RollbackBegun,
    /// X: what it had queued is dropped, nothing is fenced yet.
    Discarded,
    /// X: the job has recovered in the same process and is about to run.
    RolledBack,
    /// Restore: RESTORED is durable, the store holds nothing of the savepoint.
    RestoreBegun,
    /// Restore: the states are in the store, there is no META.
    RestoreStored,
    /// Restore: META is durable, the ledger holds nothing of the new history.
    RestoreWritten,
    /// Savepoint: the state is cut, nothing is written.
    SavepointCut,
    /// Savepoint: it is durable under its name, nobody has been told.
    SavepointWritten,
}

#[cfg(feature = "fault-injection")]
mod injected;

#[cfg(feature = "fault-injection")]
pub(crate) use injected::{crash_point, decision, faulty, faulty_savepoints, mutant};
#[cfg(feature = "fault-injection")]
pub use injected::{crash_points, restore_crash_points, savepoint_crash_points};

/// Does nothing.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub(crate) fn crash_point(_step: Step) {}

/// Does nothing.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub(crate) fn decision(_row: impl FnOnce() -> String) {}

/// Always the protocol as it should be.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub(crate) const fn mutant(_mutant: Mutant) -> bool {
    false
}

/// The disk as it is.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn faulty(
    disk: std::sync::Arc<dyn millstream_checkpoint::Disk>,
) -> std::sync::Arc<dyn millstream_checkpoint::Disk> {
    disk
}

/// The disk as it is.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn faulty_savepoints(
    disk: std::sync::Arc<dyn millstream_checkpoint::Disk>,
) -> std::sync::Arc<dyn millstream_checkpoint::Disk> {
    disk
}
