//! What a decision is made from.

use std::fmt;
use std::sync::Arc;

use crate::directory::LocalState;
use crate::ids::{Fingerprint, JobName, OwnerId, TopicId};
use crate::ledger_record::LedgerRecord;

/// How far a process has come in owning the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnershipPhase {
    /// It has not sent the EndTxn of an owner record (record 0 or R6) since its start or, if it has,
    /// a read after R2 showed that none is there.
    Starter,
    /// It has sent one and does not know the outcome.
    MayOwn,
    /// Its owner record is on the ledger.
    Owner,
}

impl OwnershipPhase {
    /// The phase after a read of the ledger. `definite`: the read was R3, after a successful R2, so an
    /// owner record that is not there never will be. `own_record`: the last record is by this process.
    #[must_use]
    pub fn after_read(self, definite: bool, own_record: bool) -> Self {
        match self {
            _ if own_record => Self::Owner,
            Self::MayOwn if definite => Self::Starter,
            same => same,
        }
    }
}

/// Tries to take over after which a starter gives up (fenced itself, or InitProducerId met another's
/// open transaction).
pub const MAX_FAILED_TAKEOVERS: u32 = 5;

/// The last record for this job's key on the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerFact {
    /// The record.
    pub record: LedgerRecord,
    /// Its offset.
    pub offset: i64,
}

/// Topic and partition of the ledger, for texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPlace {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
}

impl fmt::Display for LedgerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Everything [`decide`](super::decide) and [`look_before_fence`](super::look_before_fence) look at.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The job being started.
    pub job: &'a JobName,
    /// What its operators and states look like now.
    pub fingerprint: Fingerprint,
    /// The state directory.
    pub local: &'a LocalState,
    /// The ledger's last record, `None` if it holds none for this job.
    pub ledger: Option<&'a LedgerFact>,
    /// Where the ledger is.
    pub ledger_place: &'a LedgerPlace,
    /// Id of the ledger topic as the brokers give it now.
    pub ledger_topic_id: TopicId,
    /// How far this process has come.
    pub phase: OwnershipPhase,
    /// A record of another owner stands behind the last one this process read or wrote
    /// ([`Facts::is_newer_owner`]).
    pub newer_owner: bool,
    /// Tries to take over that failed since the start.
    pub failed_takeovers: u32,
}

impl Facts<'_> {
    /// The same, whatever topic the records are of: one that was made anew may hold a restored copy of the old one.
    pub(super) fn of_any_topic(&self) -> Self {
        Self { ledger_topic_id: TopicId::UNKNOWN, ..self.clone() }
    }

    /// Whether any of the records behind the last one that `own` read or wrote is another owner's.
    pub fn is_newer_owner<'r>(
        own: OwnerId,
        records_behind: impl IntoIterator<Item = &'r LedgerRecord>,
    ) -> bool {
        records_behind.into_iter().any(|record| record.owner != own)
    }
}
