//! The transaction coordinator: one table of transactional ids, and what each request may do to an entry.
//!
//! A real coordinator writes each step to `__transaction_state` and so has steps in flight; here a step is done at
//! once, and what stays visible of that is the time between a decision and its markers.

mod end_txn;
mod init_producer_id;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use millstream_protocol::{ErrorCode, Timestamp, TopicPartition};

pub(crate) use end_txn::EndTxnOutcome;
pub(crate) use init_producer_id::InitOutcome;

/// No producer id.
pub(crate) const NO_PRODUCER_ID: i64 = -1;

/// No epoch.
pub(crate) const NO_EPOCH: i16 = -1;

/// The last epoch a client may hold; `i16::MAX` is kept so that it can still be fenced.
const LAST_CLIENT_EPOCH: i16 = i16::MAX - 1;

/// Kafka's states of a transactional id. The numbers are those of `__transaction_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum TransactionState {
    Empty = 0,
    Ongoing = 1,
    PrepareCommit = 2,
    PrepareAbort = 3,
    CompleteCommit = 4,
    CompleteAbort = 5,
}

impl TransactionState {
    pub(crate) const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == code)
    }

    /// Kafka's name, as ListTransactions shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// What the coordinator knows of one transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransactionMetadata {
    pub(crate) transactional_id: String,
    pub(crate) producer_id: i64,
    /// The producer id before the last step; differs only just after ids ran out.
    pub(crate) previous_producer_id: i64,
    /// The id that replaces `producer_id` once the markers are written; -1 unless epochs ran out.
    pub(crate) next_producer_id: i64,
    pub(crate) producer_epoch: i16,
    /// The epoch a retry of the last bump would still carry; -1 for none.
    pub(crate) last_producer_epoch: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) state: TransactionState,
    pub(crate) partitions: BTreeSet<TopicPartition>,
    /// Wall clock at the first partition; -1 before.
    pub(crate) start_ms: i64,
    /// Whether the step into the present state bumped the epoch (transaction version 2).
    pub(crate) epoch_bumped: bool,
    /// When the open transaction is aborted; not kept across restarts, which start it anew.
    pub(crate) deadline: Option<Timestamp>,
}

impl TransactionMetadata {
    /// An entry nobody has been told of yet.
    pub(crate) fn new(transactional_id: &str, producer_id: i64, timeout_ms: i32) -> Self {
        Self {
            transactional_id: transactional_id.to_owned(),
            producer_id,
            previous_producer_id: NO_PRODUCER_ID,
            next_producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_EPOCH,
            last_producer_epoch: NO_EPOCH,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            start_ms: -1,
            epoch_bumped: false,
            deadline: None,
        }
    }

    /// Adds partitions to the transaction; begins one if none is open. `Ok(false)` if nothing changed.
    ///
    /// # Errors
    ///
    /// The code to answer.
    pub(crate) fn add_partitions(
        &mut self,
        now: Timestamp,
        wall_clock_ms: i64,
        producer_id: i64,
        producer_epoch: i16,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<bool, ErrorCode> {
        self.check_owner(producer_id, producer_epoch)?;
        if self.state.is_prepared() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if self.state == TransactionState::Ongoing && partitions.is_subset(&self.partitions) {
            return Ok(false);
        }
        if self.state != TransactionState::Ongoing {
            self.start_ms = wall_clock_ms;
            self.deadline = Some(now.after(self.timeout()));
        }
        self.step(TransactionState::Ongoing);
        self.epoch_bumped = false;
        self.partitions.extend(partitions.iter().cloned());
        Ok(true)
    }

    /// Whether `partition` may be written by this producer now (KIP-890, part 1).
    pub(crate) fn verify_partition(
        &self,
        producer_id: i64,
        producer_epoch: i16,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        self.check_owner(producer_id, producer_epoch)?;
        if self.state.is_prepared() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if !self.partitions.contains(partition) {
            return Err(ErrorCode::TRANSACTION_ABORTABLE);
        }
        Ok(())
    }

    fn check_owner(&self, producer_id: i64, producer_epoch: i16) -> Result<(), ErrorCode> {
        if self.producer_id != producer_id {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if self.producer_epoch != producer_epoch {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        Ok(())
    }

    pub(crate) fn timeout(&self) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.timeout_ms).unwrap_or(0))
    }

    fn step(&mut self, state: TransactionState) {
        self.previous_producer_id = self.producer_id;
        self.state = state;
    }

    fn epoch_is_exhausted(&self) -> bool {
        self.producer_epoch >= LAST_CLIENT_EPOCH
    }
}
