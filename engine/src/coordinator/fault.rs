//! Named crash points and wrong variants of the protocol, for tests. Without the feature `fault-injection` every call here is
//! empty, so the shipped binary has none of it.

/// A place at which a test may let the process die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// META of checkpoint 0 is durable, nothing else has happened.
    FirstMeta,
    /// R2 is done.
    Fenced,
    /// R5 is done.
    Repaired,
    /// R6 is done.
    Owned,
    /// All workers have sealed a checkpoint.
    Sealed,
    /// The delta file is durable.
    DeltaWritten,
    /// Everything is acknowledged, EndTxn is about to be sent.
    Voted,
    /// The commit is known.
    Committed,
    /// The changes are in the store.
    Applied,
    /// META names the checkpoint.
    MetaWritten,
}

/// A rule of the protocol that is left out, to show that a test notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The ledger is read before the fence: an EndTxn that is still under way lands after the decision.
    ReadBeforeFence,
    /// State is applied to the store before the commit is known.
    ApplyBeforeCommit,
    /// The ledger record is written in a transaction of its own, after the outputs'.
    LedgerOutsideTransaction,
}

#[cfg(feature = "fault-injection")]
mod injected {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Mutant, Step};

    /// `MILLSTREAM_CRASH_AT=Step` or `Step:n` ends the process at the n-th passage of that step, as SIGKILL would.
    pub(crate) fn crash_point(step: Step) {
        static PASSED: AtomicU64 = AtomicU64::new(0);
        let Ok(wanted) = std::env::var("MILLSTREAM_CRASH_AT") else { return };
        let (name, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        if name == format!("{step:?}")
            && Some(PASSED.fetch_add(1, Ordering::Relaxed) + 1) == count.parse().ok()
        {
            std::process::abort();
        }
    }

    /// Whether `MILLSTREAM_MUTANT` names this variant.
    pub(crate) fn mutant(mutant: Mutant) -> bool {
        std::env::var("MILLSTREAM_MUTANT").is_ok_and(|name| name == format!("{mutant:?}"))
    }
}

#[cfg(feature = "fault-injection")]
pub(crate) use injected::{crash_point, mutant};

/// Does nothing.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub(crate) fn crash_point(_step: Step) {}

/// Always the protocol as it should be.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub(crate) const fn mutant(_mutant: Mutant) -> bool {
    false
}
