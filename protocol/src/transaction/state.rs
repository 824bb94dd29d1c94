//! States of a transaction manager and the only legal transitions.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_protocol::messages::EndTxnRequest;

use super::ProduceError;
use crate::{Timestamp, TopicPartition};

/// Which rules a transaction follows. Latched when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionMode {
    /// Partitions are added before they are written; the epoch is bumped by InitProducerId.
    Tv1,
    /// Partitions join with their first batch; EndTxn bumps the epoch (KIP-890, part 2).
    Tv2,
}

/// Where the manager stands, with the data valid there.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Uninitialized,
    Initializing(Initializing),
    Ready,
    InTransaction(Transaction),
    Ending(Ending),
    AbortRequired(Transaction, ProduceError),
    InDoubt(ProduceError),
    Fenced(ProduceError),
    Failed(ProduceError),
}

/// An identity is being asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Initializing {
    /// With the current id and epoch (KIP-360), rather than as whoever comes next.
    pub(super) bump: bool,
    pub(super) started: Timestamp,
    pub(super) last: Option<std::sync::Arc<str>>,
}

/// An open transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Transaction {
    pub(super) mode: TransactionMode,
    /// Partitions that the coordinator knows (TV1).
    pub(super) added: BTreeSet<TopicPartition>,
    /// Partitions that it must be told of (TV1).
    pub(super) to_add: BTreeSet<TopicPartition>,
    /// The coordinator may know of the transaction: AddPartitionsToTxn or a Produce was sent.
    pub(super) attempted: bool,
}

/// EndTxn is being repeated until a definite answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ending {
    pub(super) transaction: Transaction,
    pub(super) request: EndTxnRequest,
    pub(super) started: Timestamp,
    pub(super) limit: Duration,
    /// A try before had no definite answer, so it may have been carried out.
    pub(super) uncertain: bool,
    pub(super) last: Option<std::sync::Arc<str>>,
}

/// A state without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Uninitialized,
    Initializing,
    Ready,
    InTransaction,
    Ending,
    AbortRequired,
    InDoubt,
    Fenced,
    Failed,
}

impl Kind {
    /// The table of transitions.
    pub(super) const fn may_become(self, next: Self) -> bool {
        use Kind::{
            AbortRequired, Ending, Failed, Fenced, InDoubt, InTransaction, Initializing, Ready,
            Uninitialized,
        };
        match next {
            // `init` clears everything.
            Initializing => true,
            Uninitialized => matches!(self, Initializing),
            Ready => matches!(self, Initializing | InTransaction | Ending | AbortRequired),
            InTransaction => matches!(self, Ready),
            Ending => matches!(self, InTransaction | AbortRequired),
            AbortRequired => matches!(self, InTransaction | Ending),
            InDoubt => matches!(self, Ending),
            Fenced | Failed => {
                matches!(self, Initializing | InTransaction | Ending | AbortRequired | Ready)
            }
        }
    }
}

impl State {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Uninitialized => Kind::Uninitialized,
            Self::Initializing(_) => Kind::Initializing,
            Self::Ready => Kind::Ready,
            Self::InTransaction(_) => Kind::InTransaction,
            Self::Ending(_) => Kind::Ending,
            Self::AbortRequired(..) => Kind::AbortRequired,
            Self::InDoubt(_) => Kind::InDoubt,
            Self::Fenced(_) => Kind::Fenced,
            Self::Failed(_) => Kind::Failed,
        }
    }

    /// For "while the producer is …".
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Uninitialized => "not initialized",
            Self::Initializing(_) => "asking for its identity",
            Self::Ready => "outside a transaction",
            Self::InTransaction(_) => "in a transaction",
            Self::Ending(_) => "ending its transaction",
            Self::AbortRequired(..) => "in a transaction that can only be aborted",
            Self::InDoubt(_) => "in doubt about its last transaction",
            Self::Fenced(_) => "fenced",
            Self::Failed(_) => "failed",
        }
    }

    /// The error that explains the state, if it is a bad one.
    pub(super) const fn error(&self) -> Option<&ProduceError> {
        match self {
            Self::AbortRequired(_, error)
            | Self::InDoubt(error)
            | Self::Fenced(error)
            | Self::Failed(error) => Some(error),
            Self::Uninitialized
            | Self::Initializing(_)
            | Self::Ready
            | Self::InTransaction(_)
            | Self::Ending(_) => None,
        }
    }
}
