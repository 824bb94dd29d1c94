//! What must hold of every history, judged from the brokers' logs and the machine's disk, not by what the product says of itself.
//!
//! | oracle | says |
//! | --- | --- |
//! | [`output`] | the committed output is that of a slow reference, each record once; behind an older savepoint again ([`rewinds`]) |
//! | [`order`] | the records of a key are in the order of the input |
//! | [`atomic`] | what one transaction wrote is committed everywhere or nowhere, and with one ledger record |
//! | [`ledger`] | the ledger goes on by one checkpoint at a time, and ends where the machine's disk does |
//! | [`transactions`] | no transaction is left open |
//! | [`endings`] | the job ends with a named error only where a fault explains it, and gets on once faults are mended |
//! | `run/savepoints.rs` | a savepoint is whole or not there, and one that was answered is there |
//!
//! Each of them fails for a wrong variant of the product; `tests/mutants.rs` shows it.

pub mod atomic;
mod committed;
pub mod endings;
pub mod ledger;
pub mod order;
pub mod output;
pub mod rewinds;
pub mod transactions;

use std::fmt;

pub use committed::{CommittedLog, CommittedRecord, Transaction};

/// An oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Oracle {
    /// See [`output`].
    Output,
    /// See [`order`].
    Order,
    /// See [`atomic`].
    Atomic,
    /// See [`ledger`].
    Ledger,
    /// See [`transactions`].
    Transactions,
    /// See [`endings`].
    Endings,
    /// See [`endings`].
    Progress,
    /// A savepoint is whole or not there, and one that was answered is there.
    Savepoints,
}

impl Oracle {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Output,
        Self::Order,
        Self::Atomic,
        Self::Ledger,
        Self::Transactions,
        Self::Endings,
        Self::Progress,
        Self::Savepoints,
    ];
}

/// What an oracle found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who found it.
    pub oracle: Oracle,
    /// What is wrong.
    pub text: String,
}

impl Violation {
    /// A finding.
    pub fn new(oracle: Oracle, text: impl Into<String>) -> Self {
        Self { oracle, text: text.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.oracle, self.text)
    }
}
