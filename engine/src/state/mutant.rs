//! Wrong variants of the tables, for the test that has to notice them. None exists outside of tests.

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A value that changes before it is encoded is encoded as it is afterwards.
    NoCopyOnWrite,
    /// Elements that wait for the confirmation of their checkpoint are forgotten by the next change of their key.
    NoFrozenElements,
    /// Timers that wait for the confirmation of their checkpoint are not seen.
    NoFrozenTimers,
    /// Values are dropped though the store does not show them yet.
    EvictUnconfirmed,
    /// A delete of a value that the store holds is not written.
    NoDelete,
}

#[cfg(test)]
std::thread_local! {
    pub(crate) static MUTANT: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether the tables are to be wrong in this way.
#[cfg(test)]
pub(crate) fn mutant(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

/// Never.
#[cfg(not(test))]
pub(crate) const fn mutant(_mutant: Mutant) -> bool {
    false
}
